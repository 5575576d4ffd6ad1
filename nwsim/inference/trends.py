"""Trends along a factor whose levels share replicates: never rising, straight, ends.

A row of `values` is a replicate, the independent unit; its columns are the levels, paired by
common random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, stdtrit

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_real
from nwsim.exceptions import ParameterError
from nwsim.inference.jackknife import jackknife_se, mean_mcse
from nwsim.inference.records import Estimate
from nwsim.inference.verdicts import INCONCLUSIVE, REFUTED, SUPPORTED, Verdict, undecided

LEVEL = 0.05
"""One-sided size of every test here."""


@dataclass(frozen=True)
class Trend:
    """Whether a quantity never rises along its levels, and the steps it was judged by.

    Attributes
    ----------
    verdict : Verdict
        Of the step that decides: if refuted the one whose simultaneous lower bound is
        highest, else the one whose upper bound is highest. Its theory is 0; ci_low and
        ci_high are that step's own two-sided 95% t interval, not corrected for its having
        been picked.
    steps : ndarray, shape (k - 1,) or (k (k - 1) / 2,)
        Differences of level means, as parts of the mean at the first level: from each level
        to the next, or to each later one (first all from level 0, then from level 1, ...).
    mcse : ndarray, of the same shape
        Their standard errors.
    n_refuting : int
        Steps that rise by more than the margin, family-wise at 5%.
    position : int
        Index in `steps` of the one that decides; -1 if none.
    """

    verdict: Verdict
    steps: FloatArray
    mcse: FloatArray
    n_refuting: int
    position: int


@dataclass(frozen=True)
class LineFit:
    """A straight line through level means, and what it leaves.

    Attributes
    ----------
    verdict : Verdict
        Its estimate is the share of the variation along x that the line leaves (0 for a
        line; noise-corrected, so it may be negative), its theory 0. The two ends of its 95%
        interval are bounds of their own kind, see `straight_line`.
    slope, slope_se : float
        Slope of the least-squares line and its standard error, in units of value per x.
    intercept : float
        The line at x = 0.
    p_value : float
        Lack of fit: Hotelling's test that the line leaves nothing; NaN unless R > k - 2.
    p_variation : float
        Of Hotelling's test that all levels are equal; NaN unless R > k - 1.
    departures, departures_mcse : ndarray, shape (k,)
        Level means minus the line, with standard errors.
    """

    verdict: Verdict
    slope: float
    slope_se: float
    intercept: float
    p_value: float
    p_variation: float
    departures: FloatArray
    departures_mcse: FloatArray


def never_rises(values: ArrayLike, margin: float, *, between: str = "neighbours") -> Trend:
    r"""Decide whether level means never rise from one level to another.

    Parameters
    ----------
    values : array_like, shape (R, k)
        A row a replicate, a column a level, in the order in which the quantity should not
        rise.
    margin : float
        >= 0: a rise of one step that does not count, as part of the mean at the first level.
    between : {"neighbours", "all"}
        Which steps are judged: those between neighbouring levels, or those from any level to
        any later one, so that a slow rise over many levels counts in full.

    Returns
    -------
    Trend
        "supported" iff the one-sided 95% upper bound of every step is at most the margin;
        "refuted" iff the lower bound of some step exceeds it, at 5% family-wise (Bonferroni
        over the steps); else "inconclusive". That is also the word where the scale is
        in doubt, the mean at the first level not being above 0 with 95% confidence. NaN where
        it is not above 0 at all, for k < 2 or R < 2.

    Raises
    ------
    ParameterError
        On NaN or infinity, or a negative margin.

    Notes
    -----
    Step j is :math:`s_j = (\bar v_{j+1} - \bar v_j)/\bar v_1`, a ratio of means of pairs, with
    the standard error of the delta method, the sd of
    :math:`(v_{r,j+1} - v_{r,j} - s_j v_{r,1})/\bar v_1` over :math:`\sqrt R`, and quantiles of
    t with R - 1 degrees of freedom. Every step must pass a test of size 5%, so if any true
    step is at or above the margin, "supported" comes out at most 5% of the time
    (intersection-union; Berger 1982). If none is above it, so does "refuted".

    A significant downward trend is no support: a curve that falls far and then rises a little
    has one.

    References
    ----------
    Berger, R. L. (1982). Multiparameter hypothesis testing and acceptance sampling.
    Technometrics 24, 295-300.
    Cochran, W. G. (1977). Sampling Techniques, 3rd ed., section 2.11. Wiley.
    """
    rows = check_array("values", values, ndim=2, minimum_rows=0)
    margin = check_real("margin", margin, minimum=0.0)
    check_choice("between", between, ("neighbours", "all"))
    n_sim, k = rows.shape
    if between == "all":
        low, high = np.triu_indices(k, 1)
    else:
        low, high = np.arange(k - 1), np.arange(1, k)
    unknown = np.full(low.size, math.nan)
    if n_sim < 2 or k < 2 or not rows[:, 0].mean() > 0:
        return Trend(undecided(0.0, margin), unknown, unknown.copy(), 0, -1)
    first = float(rows[:, 0].mean())
    changes = rows[:, high] - rows[:, low]
    steps = changes.mean(axis=0) / first
    mcse = _column_mcse((changes - steps * rows[:, :1]) / first)
    upper = steps + t_quantile(n_sim, LEVEL) * mcse
    lower = steps - t_quantile(n_sim, LEVEL / steps.size) * mcse
    n_refuting = int((lower > margin).sum())
    position = int(np.argmax(lower if n_refuting else upper))
    if first <= t_quantile(n_sim, LEVEL) * mean_mcse(rows[:, 0]):
        word, n_refuting = INCONCLUSIVE, 0
    elif n_refuting:
        word = REFUTED
    else:
        word = SUPPORTED if (upper <= margin).all() else INCONCLUSIVE
    verdict = t_verdict(steps[position], mcse[position], margin, n_sim, word)
    return Trend(verdict, steps, mcse, n_refuting, position)


def straight_line(x: ArrayLike, values: ArrayLike, margin: float) -> LineFit:
    r"""Decide whether level means fall along x in a straight line.

    Parameters
    ----------
    x : array_like, shape (k,)
        Level of each column, at least two distinct.
    values : array_like, shape (R, k)
        A row a replicate, a column a level.
    margin : float
        > 0: the share of the variation along x that a line may leave and still count as
        straight.

    Returns
    -------
    LineFit
        "inconclusive" where the levels hardly vary (they do not differ at 5%). Else
        "supported" iff the one-sided 95% upper bound of the share is at most the margin and
        that of the slope is below 0; "refuted" iff the lower bound of the share exceeds the
        margin and lack of fit is significant at 5%, or the lower bound of the slope is above
        0; else "inconclusive". NaN for k < 3 or R < 3.

    Raises
    ------
    ParameterError
        On NaN, infinity, lengths that do not match, fewer than two distinct x, or a margin
        that is not > 0.

    Notes
    -----
    Let D be the squared departures of the level means from their least-squares line, summed
    over levels, and T those from their common mean. Plugged in, both are too large by the
    Monte Carlo variance of the means, and with few replicates noise would pass for curvature;
    with A the projection off the line (or off the mean),
    :math:`|A\bar v|^2 - \mathrm{tr}(A \hat C A)/R` is unbiased. The share is the ratio of the
    two, its standard error the jackknife over replicates, its lower bound a t bound.

    The upper bound is the square of a t bound for the root, the plain ratio of lengths: where
    the share is small, its own standard error shrinks with it, and a bound from that would be
    too low (8% of false support instead of 5% in trials with 30 replicates). A length is
    nearly normal and, plugged in, never too short on average.

    Lack of fit is Hotelling's T^2 of the k - 2 contrasts orthogonal to 1 and x, which under
    normality has the law of :math:`q (R-1)/(R-q) F_{q,\,R-q}` with q = k - 2.

    References
    ----------
    Anderson, T. W. (2003). An Introduction to Multivariate Statistical Analysis, 3rd ed.,
    section 5.3. Wiley.
    Efron, B. and Stein, C. (1981). The jackknife estimate of variance. Annals of
    Statistics 9, 586-596.
    """
    levels = check_array("x", x, ndim=1)
    rows = check_array("values", values, ndim=2, minimum_rows=0)
    margin = check_real("margin", margin, above=0.0)
    n_sim, k = rows.shape
    if levels.size != k:
        raise ParameterError(f"x must have one level a column of values, {k}; got {levels.size}")
    if np.unique(levels).size < 2:
        raise ParameterError("x must hold at least two distinct levels")
    if n_sim < 3 or k < 3:
        nan = math.nan
        unknown = np.full(k, nan)
        return LineFit(undecided(0.0, margin), nan, nan, nan, nan, nan, unknown, unknown.copy())

    spread = levels - levels.mean()
    centred = rows - rows.mean(axis=1, keepdims=True)
    slopes = np.einsum("rk,k->r", centred, spread) / float(np.square(spread).sum())
    residuals = centred - slopes[:, np.newaxis] * spread
    slope, slope_se = float(slopes.mean()), mean_mcse(slopes)
    # An orthonormal basis: off the mean first, then off the line.
    basis = np.linalg.qr(np.column_stack([np.ones(k), spread, np.eye(k)]))[0][:, :k]
    p_variation = _hotelling(np.einsum("rk,kq->rq", rows, basis[:, 1:]))
    p_value = _hotelling(np.einsum("rk,kq->rq", rows, basis[:, 2:]))

    left, left_without = _corrected_square(residuals)
    total, total_without = _corrected_square(centred)
    share = se = math.nan
    if total > 0 and (total_without > 0).all():
        share = left / total
        se = jackknife_se(left_without / total_without)
    low = share - t_quantile(n_sim, LEVEL) * se
    root, root_se = _root_share(residuals, centred)
    high = (root + t_quantile(n_sim, LEVEL) * root_se) ** 2
    slope_reach = t_quantile(n_sim, LEVEL) * slope_se
    word = INCONCLUSIVE
    if p_variation < LEVEL and math.isfinite(se):
        if (low > margin and p_value < LEVEL) or slope - slope_reach > 0:
            word = REFUTED
        elif high <= margin and slope + slope_reach < 0:
            word = SUPPORTED
    reach = t_quantile(n_sim, LEVEL / 2)
    verdict = Verdict(
        share, se, 0.0, margin, share - reach * se, (root + reach * root_se) ** 2, word
    )
    return LineFit(
        verdict=verdict,
        slope=slope,
        slope_se=slope_se,
        intercept=float(rows.mean()) - slope * float(levels.mean()),
        p_value=p_value,
        p_variation=p_variation,
        departures=residuals.mean(axis=0),
        departures_mcse=_column_mcse(residuals),
    )


def ends(values: ArrayLike) -> Estimate:
    """Log ratio of the mean at the first level to that at the last, paired by replicate.

    Parameters
    ----------
    values : array_like, shape (R, k)
        A row a replicate, a column a level.

    Returns
    -------
    Estimate
        ``log(mean first / mean last)``, below 0 if the quantity grows. NaN unless both means
        are > 0 and k >= 2; its `mcse` also for R < 2.

    Raises
    ------
    ParameterError
        On NaN or infinity.

    Notes
    -----
    Delta method for pairs: sd of ``first / mean first - last / mean last`` over sqrt(R).
    """
    rows = check_array("values", values, ndim=2, minimum_rows=0)
    if rows.size == 0 or rows.shape[1] < 2:
        return Estimate(math.nan, math.nan, rows.shape[0])
    return log_ratio(rows[:, 0], rows[:, -1])


def log_ratio(values: FloatArray, baseline: FloatArray) -> Estimate:
    """Log of a ratio of means (R,) of pairs; NaN unless both means are > 0."""
    above, below = float(values.mean()), float(baseline.mean())
    if not (above > 0 and below > 0):
        return Estimate(math.nan, math.nan, values.size)
    mcse = mean_mcse(values / above - baseline / below)
    return Estimate(math.log(above / below), mcse, values.size)


def t_quantile(n_sim: int, tail: float) -> float:
    """Upper quantile of t with ``n_sim - 1`` degrees of freedom, at this upper tail."""
    return float(-stdtrit(n_sim - 1, tail))


def t_verdict(estimate: float, mcse: float, margin: float, n_sim: int, word: str) -> Verdict:
    """Return the record of a decision against 0, with a two-sided 95% t interval."""
    reach = t_quantile(n_sim, LEVEL / 2) * mcse
    low, high = float(estimate - reach), float(estimate + reach)
    return Verdict(float(estimate), float(mcse), 0.0, margin, low, high, word)


def _column_mcse(rows: FloatArray) -> FloatArray:
    """Return sd / sqrt(R) of every column."""
    return np.asarray(rows.std(axis=0, ddof=1) / math.sqrt(rows.shape[0]))


def _corrected_square(rows: FloatArray) -> tuple[float, FloatArray]:
    """Unbiased squared length of the mean row, and the same without each of R >= 3 rows."""
    n_sim = rows.shape[0]
    centre = rows.mean(axis=0)
    deviations = rows - centre
    own = np.square(deviations).sum(axis=1)
    whole = float(np.square(centre).sum()) - float(own.sum()) / (n_sim * (n_sim - 1))
    others = own.sum() - own * n_sim / (n_sim - 1)
    shifted = np.square(centre - deviations / (n_sim - 1)).sum(axis=1)
    return whole, shifted - others / ((n_sim - 1) * (n_sim - 2))


def _root_share(residuals: FloatArray, centred: FloatArray) -> tuple[float, float]:
    """Ratio of the lengths of two mean rows (R, k), and its delta-method standard error."""
    left, total = residuals.mean(axis=0), centred.mean(axis=0)
    length, whole = (math.sqrt(float(np.square(row).sum())) for row in (left, total))
    if whole == 0:
        return math.nan, math.nan
    # Per replicate the change along either mean; without direction there is nothing to change.
    along = np.einsum("rk,k->r", residuals, left / length if length else left)
    across = np.einsum("rk,k->r", centred, total / whole)
    root = length / whole
    return root, mean_mcse((along - root * across) / whole)


def _hotelling(contrasts: FloatArray) -> float:
    """P-value of Hotelling's test that q mean contrasts are 0; NaN if it does not exist."""
    n_sim, q = contrasts.shape
    centre = contrasts.mean(axis=0)
    deviations = contrasts - centre
    if n_sim <= q or np.linalg.matrix_rank(deviations) < q:
        return math.nan
    # T^2 = R (R-1) |c|^2 in the metric of the deviations, by least squares on them.
    factor = np.linalg.qr(deviations).R
    scaled = np.linalg.solve(factor.T, centre)
    statistic = float(np.square(scaled).sum()) * n_sim * (n_sim - 1)
    return float(fdtrc(q, n_sim - q, statistic * (n_sim - q) / (q * (n_sim - 1))))
