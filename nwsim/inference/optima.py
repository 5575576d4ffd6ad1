"""Where along a factor a quantity is least, how that moves, and which law says so.

A row of `values` is a replicate, the independent unit; its columns are the levels, paired by
common random numbers. Intervals come from the bootstrap over whole replicates. The bootstrap
finds the optimum anew in every draw, on the replicates that it is scored by: that is how the
spread of a choice is seen. To *claim* that a chosen level is better, choose and score on
different replicates, as `interior_optimum` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nwsim._typing import ArrayLike, FloatArray, IntArray
from nwsim._validation import check_array, check_integer, check_real
from nwsim.exceptions import ParameterError
from nwsim.inference.records import Estimate
from nwsim.inference.trends import LEVEL, log_ratio, t_quantile, t_verdict
from nwsim.inference.verdicts import INCONCLUSIVE, REFUTED, SUPPORTED, Verdict, undecided

N_BOOT = 1000
"""Bootstrap draws unless told otherwise: an end of a 95% interval rests on some 25 of them."""


@dataclass(frozen=True)
class BestLevel:
    """The level of the least mean.

    Attributes
    ----------
    level : float
        The level whose mean over replicates is least, the smaller one in a tie; NaN without
        replicates.
    shares : ndarray, shape (k,)
        Share of bootstrap draws in which a level is best, in the order given.
    ci_low, ci_high : float
        Levels between which the central 95% of the bootstrap's best levels lie.
    mcse : float
        Standard deviation of the bootstrap's best levels. It is 0 where one level always
        wins, which says that more replicates would not change the choice, not that a level
        between two of the grid would not be better still.
    """

    level: float
    shares: FloatArray
    ci_low: float
    ci_high: float
    mcse: float


class Draws:
    """Means by level of one group of replicates, and of bootstrap draws from it.

    Row 0 of every array belongs to the data, rows 1 to n_boot to the draws; levels
    increase. With one replicate the draws are NaN: it has no spread.
    """

    def __init__(
        self, levels: ArrayLike, values: ArrayLike, rng: np.random.Generator, n_boot: int
    ) -> None:
        """Sort by level, draw counts, average."""
        self.levels, rows, self.order = check_group(levels, values)
        n_sim = rows.shape[0]
        self.means = np.full((n_boot + 1, self.levels.size), math.nan)
        if n_sim > 0:
            self.means[0] = rows.mean(axis=0)
        if n_sim > 1:
            counts = rng.multinomial(n_sim, np.full(n_sim, 1.0 / n_sim), size=n_boot)
            # No BLAS, so that ties and near-ties fall the same way on every machine.
            self.means[1:] = np.einsum("br,rk->bk", counts.astype(np.float64), rows) / n_sim
        self.known = np.isfinite(self.means[:, 0])
        self.position: IntArray = np.argmin(self.means, axis=1)
        """Index of the best level; argmin takes the first, which is the smaller level."""
        self.best: FloatArray = np.where(self.known, self.levels[self.position], math.nan)
        self.at_edge = bool(self.position[0] in (0, self.levels.size - 1))


def best_level(
    levels: ArrayLike, values: ArrayLike, rng: np.random.Generator, n_boot: int = N_BOOT
) -> BestLevel:
    """Find the level at which the mean over replicates is least.

    Parameters
    ----------
    levels : array_like, shape (k,)
        Distinct levels.
    values : array_like, shape (R, k)
        A row a replicate, a column a level.
    rng : Generator
        Draws the bootstrap.
    n_boot : int
        Bootstrap draws.

    Returns
    -------
    BestLevel
        All but `level` NaN for R < 2.

    Raises
    ------
    ParameterError
        On NaN, infinity, repeated levels, or lengths that do not match.

    Notes
    -----
    Percentile interval over whole replicates (Efron and Tibshirani 1993, section 13.3). The
    best of a few levels is a discrete statistic: its interval moves in jumps, and covers more
    often than it says where one level is far better, less often in a near-tie.

    References
    ----------
    Efron, B. and Tibshirani, R. J. (1993). An Introduction to the Bootstrap. Chapman & Hall.
    """
    draws = Draws(levels, values, rng, check_integer("n_boot", n_boot, minimum=1))
    boot = draws.best[1:]
    shares = np.full(draws.levels.size, math.nan)
    if draws.known[1:].all():
        counts = np.bincount(draws.position[1:], minlength=shares.size)
        shares[draws.order] = counts / boot.size
    # The ends of the interval are levels, never points between two.
    low, high = np.quantile(boot, (0.025, 0.975), method="inverted_cdf")
    return BestLevel(float(draws.best[0]), shares, float(low), float(high), float(boot.std()))


def interior_optimum(levels: ArrayLike, values: ArrayLike, margin: float = 0.0) -> Verdict:
    """Decide whether some level between the ends beats both of them.

    Parameters
    ----------
    levels : array_like, shape (k,)
        Distinct levels; the ends are the least and the greatest.
    values : array_like, shape (R, k)
        A row a replicate, a column a level; means > 0.
    margin : float
        >= 0: by how much, in log, an end must be beaten.

    Returns
    -------
    Verdict
        Its estimate is the log of the ratio of means, chosen interior level over an end, for
        the end whose upper bound is higher; if refuted, on all rows, that of the interior level
        which comes nearest to beating the end that none beats. Theory 0, two-sided 95% t
        interval. "supported"
        iff for both ends the one-sided 95% upper bound is below ``-margin``. "refuted" iff
        one end is not beaten by any interior level: the lower bounds of all the log ratios
        exceed ``-margin``. Else "inconclusive". NaN for k < 3, R < 4, or a mean that is not
        > 0.

    Raises
    ------
    ParameterError
        On NaN, infinity, repeated levels, a negative margin, or lengths that do not match.

    Notes
    -----
    The interior level is chosen on the even rows and scored on the odd ones; on its own rows
    the least of many means would flatter itself. Both ends must be beaten, so "supported"
    comes out at most 5% of the time where one of them is not (intersection-union). Refuting
    chooses nothing and uses all rows; since either end may do it, each is tested at 2.5%.
    """
    _, rows, _ = check_group(levels, values)
    margin = check_real("margin", margin, minimum=0.0)
    n_sim, k = rows.shape
    if n_sim < 4 or k < 3 or not (rows.mean(axis=0) > 0).all():
        return undecided(0.0, margin)
    chosen = 1 + int(np.argmin(rows[::2, 1:-1].mean(axis=0)))
    scored = rows[1::2]
    pairs = [log_ratio(scored[:, chosen], scored[:, end]) for end in (0, -1)]
    upper = [_bound(pair, LEVEL) for pair in pairs]
    if not np.isfinite(upper).all():
        return undecided(0.0, margin)
    decisive, word = pairs[int(np.argmax(upper))], INCONCLUSIVE
    if max(upper) < -margin:
        word = SUPPORTED
    else:
        for end in (0, -1):
            ratios = [log_ratio(rows[:, j], rows[:, end]) for j in range(1, k - 1)]
            lower = [_bound(ratio, -LEVEL / 2) for ratio in ratios]
            if min(lower) > -margin:
                decisive, word = ratios[int(np.argmin(lower))], REFUTED
    return t_verdict(decisive.estimate, decisive.mcse, margin, decisive.n_sim, word)


def half_gaps(levels: FloatArray) -> FloatArray:
    """Half the log distance of increasing levels (k,) to their neighbours, below and above.

    Shape (2, k); 0 beyond the ends.
    """
    half = np.diff(np.log(levels)) / 2.0
    return np.stack([np.append(0.0, half), np.append(half, 0.0)])


def check_group(levels: ArrayLike, values: ArrayLike) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return levels (k,) and values (R, k) by increasing level, and the order that sorts."""
    grid = check_array("levels", levels, ndim=1)
    rows = check_array("values", values, ndim=2, minimum_rows=0)
    if grid.size != rows.shape[1]:
        raise ParameterError(
            f"levels must have one a column of values, {rows.shape[1]}; got {grid.size}"
        )
    if np.unique(grid).size < grid.size:
        raise ParameterError(f"levels must be distinct; got {grid.tolist()}")
    order = np.argsort(grid)
    return grid[order], rows[:, order], order


def check_groups(
    x: ArrayLike,
    levels: Sequence[ArrayLike],
    values: Sequence[ArrayLike],
    rng: np.random.Generator,
    n_boot: int,
) -> tuple[FloatArray, list[Draws]]:
    """Return x (g,) and the draws of each group; logarithms of both must exist."""
    at = check_array("x", x, ndim=1)
    if not len(levels) == len(values) == at.size:
        raise ParameterError(
            f"levels and values must have one entry an x, {at.size}; "
            f"got {len(levels)} and {len(values)}"
        )
    n_boot = check_integer("n_boot", n_boot, minimum=1)
    groups = [Draws(*group, rng, n_boot) for group in zip(levels, values, strict=True)]
    if at.min() <= 0 or min(group.levels[0] for group in groups) <= 0:
        raise ParameterError("x and levels must be > 0 to have a logarithm")
    return at, groups


def _bound(ratio: Estimate, tail: float) -> float:
    """One-sided t bound: the upper one at this tail, or the lower one at its negative."""
    return ratio.estimate + math.copysign(t_quantile(ratio.n_sim, abs(tail)), tail) * ratio.mcse
