"""Performance measures of one estimator from its Monte Carlo errors, each with its MCSE."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_same_length
from nwsim.exceptions import ParameterError
from nwsim.inference.decomposition import Decomposition, decompose
from nwsim.inference.jackknife import jackknife_se, mean_mcse, warn_single_replicate
from nwsim.inference.records import Estimate


def performance(
    errors: ArrayLike,
    measures: Sequence[str] | None = None,
    *,
    covered: ArrayLike | None = None,
) -> dict[str, Estimate]:
    """Summarise the errors of an estimator, each measure with its Monte Carlo standard error.

    Parameters
    ----------
    errors : array_like, shape (R,)
        Estimate minus truth in every replicate.
    measures : sequence of str, optional
        Any of `performance_measures`; default all that the given inputs allow.
    covered : array_like of bool, shape (R,), optional
        Whether the replicate's interval covers the truth; needed for "coverage".

    Returns
    -------
    dict of str to Estimate
        In the order asked for. For R = 1 a :class:`~nwsim.exceptions.PrecisionWarning` is
        given and MCSEs are NaN, as are "bias2", "variance" and "empirical_se" themselves.

    Raises
    ------
    ParameterError
        On NaN, infinity, no errors, an unknown measure, or one whose inputs are lacking.

    Notes
    -----
    =============  ======================================  ===================================
    measure        estimate                                MCSE
    =============  ======================================  ===================================
    bias           mean(e), signed                         sd(e) / sqrt(R)
    bias2          mean(e)^2 - var(e)/R, may be negative   jackknife
    variance       var(e), ddof 1                          jackknife
    mse            mean(e^2)                               sd(e^2) / sqrt(R)
    rmse           sqrt(mse)                               delta method, mcse(mse) / (2 rmse)
    empirical_se   sd(e), ddof 1                           fourth moment, see `empirical_se`
    coverage       mean(covered)                           sqrt(p (1 - p) / R)
    =============  ======================================  ===================================

    Here mse = bias2 + variance exactly.

    References
    ----------
    Morris, T. P., White, I. R. and Crowther, M. J. (2019). Using simulation studies to
    evaluate statistical methods. Statistics in Medicine 38, 2074-2102.
    """
    sample = check_array("errors", errors, ndim=1)
    names = tuple(_MEASURES) if measures is None else tuple(measures)
    if measures is None and covered is not None:
        names += ("coverage",)
    for name in names:
        check_choice("measures", name, performance_measures())
    if "coverage" in names and covered is None:
        raise ParameterError("measures asks for 'coverage', which needs covered; got None")
    if sample.size == 1:
        warn_single_replicate()
    record: dict[str, Estimate] = {}
    for name in names:
        if name == "coverage":
            assert covered is not None  # checked above; tells the type checker
            record[name] = _proportion("covered", covered, like=sample)
        else:
            record[name] = _MEASURES[name](sample)
    return record


def performance_measures() -> tuple[str, ...]:
    """Names that `performance` knows."""
    return (*_MEASURES, "coverage")


def rmse(errors: ArrayLike, method: str = "delta") -> Estimate:
    """Root mean squared error.

    Parameters
    ----------
    errors : array_like, shape (R,)
        Estimate minus truth in every replicate.
    method : {"delta", "jackknife"}
        How its MCSE is found: ``mcse(mse) / (2 rmse)``, or the jackknife of the root itself.

    Raises
    ------
    ParameterError
        On NaN, infinity, no errors or an unknown method.
    """
    sample = check_array("errors", errors, ndim=1)
    check_choice("method", method, ("delta", "jackknife"))
    if sample.size == 1:
        warn_single_replicate()
    return _rmse(sample, method)


def empirical_se(errors: ArrayLike, method: str = "kurtosis") -> Estimate:
    """Empirical standard error: the standard deviation over replicates (ddof 1).

    Parameters
    ----------
    errors : array_like, shape (R,)
        Errors, or estimates, in every replicate.
    method : {"kurtosis", "jackknife"}
        How its MCSE is found; "jackknife" needs R >= 3 (or R = 1, which gives NaN).

    Raises
    ------
    ParameterError
        On NaN, infinity, no errors, an unknown method, or the jackknife of two replicates.

    Notes
    -----
    With s^2 the variance and m4 the fourth central moment over replicates,
    ``mcse = sqrt((m4 - s^4 (R - 3)/(R - 1)) / R) / (2 s)``. The usual
    ``s / sqrt(2 (R - 1))`` holds for normal errors alone and is too small under heavy tails.

    References
    ----------
    Kendall, M. and Stuart, A. (1977). The Advanced Theory of Statistics, vol. 1, 4th ed.,
    section 10.15. Griffin.
    """
    sample = check_array("errors", errors, ndim=1)
    check_choice("method", method, ("kurtosis", "jackknife"))
    if sample.size == 1:
        warn_single_replicate()
    if sample.size == 2 and method == "jackknife":
        raise ParameterError(
            "errors must have at least 3 replicates for the jackknife of a standard deviation; "
            "got 2"
        )
    return _empirical_se(sample, method)


def mean(values: ArrayLike) -> Estimate:
    """Mean over replicates with MCSE sd / sqrt(R); the bias, if `values` are errors.

    Parameters
    ----------
    values : array_like, shape (R,)

    Raises
    ------
    ParameterError
        On NaN, infinity or no values.
    """
    sample = check_array("values", values, ndim=1)
    if sample.size == 1:
        warn_single_replicate()
    return _mean(sample)


def proportion(indicator: ArrayLike) -> Estimate:
    """Proportion of replicates in which something holds, such as coverage or rejection.

    Parameters
    ----------
    indicator : array_like of bool (or 0 and 1), shape (R,)

    Raises
    ------
    ParameterError
        If it is empty or holds anything but true and false.

    Notes
    -----
    ``mcse = sqrt(p (1 - p) / R)``; it is 0 at p = 0 and 1, where only the count says how
    little that means (3/R bounds the other proportion with 95% confidence).
    """
    result = _proportion("indicator", indicator)
    if result.n_sim == 1:
        warn_single_replicate()
    return result


def difference(values: ArrayLike, baseline: ArrayLike) -> Estimate:
    """Mean difference of two quantities paired by replicate.

    Parameters
    ----------
    values, baseline : array_like, shape (R,)
        The two quantities from the same replicates, in the same order.

    Returns
    -------
    Estimate
        ``mean(values - baseline)``, its MCSE that of the differences.

    Raises
    ------
    ParameterError
        On NaN, infinity, no values or unequal lengths.
    """
    first, second = _check_pair(values, baseline)
    return _mean(first - second)


def ratio(values: ArrayLike, baseline: ArrayLike, method: str = "delta") -> Estimate:
    """Ratio of the means of two quantities paired by replicate.

    Parameters
    ----------
    values, baseline : array_like, shape (R,)
        The two quantities from the same replicates, in the same order.
    method : {"delta", "jackknife"}
        How its MCSE is found.

    Returns
    -------
    Estimate
        ``mean(values) / mean(baseline)``, never a mean of ratios.

    Raises
    ------
    ParameterError
        On NaN, infinity, no values, unequal lengths, an unknown method, or if the mean of
        `baseline` (with the jackknife also without any one replicate) is 0.

    Notes
    -----
    Delta method: sd of ``(values - ratio * baseline) / mean(baseline)`` over sqrt(R).

    References
    ----------
    Cochran, W. G. (1977). Sampling Techniques, 3rd ed., section 2.11. Wiley.
    """
    check_choice("method", method, ("delta", "jackknife"))
    first, second = _check_pair(values, baseline)
    n_sim, below = first.size, float(second.mean())
    if below == 0:
        raise ParameterError("baseline must have a mean other than 0")
    estimate = float(first.mean()) / below
    if method == "delta" or n_sim == 1:
        return Estimate(estimate, mean_mcse((first - estimate * second) / below), n_sim)
    remaining = second.sum() - second
    if not remaining.all():
        raise ParameterError("baseline must have a mean other than 0 without any one replicate")
    return Estimate(estimate, jackknife_se((first.sum() - first) / remaining), n_sim)


def precision_gain(values: ArrayLike, baseline: ArrayLike) -> Estimate:
    r"""Return how many replicates of a baseline are worth one of another estimator.

    Parameters
    ----------
    values, baseline : array_like, shape (R,)
        What the two estimators of one quantity say in the same replicates, in the same order.

    Returns
    -------
    Estimate
        ``var(baseline) / var(values)`` with ddof 1; its MCSE is that of the jackknife. NaN for
        R < 3, where a variance without one replicate does not exist.

    Raises
    ------
    ParameterError
        On NaN, infinity, no values, unequal lengths, or if `values` do not vary (with the
        jackknife also without any one replicate).

    Notes
    -----
    The variance of a mean over R replicates is that of one over R, so a ratio of variances is
    one of replicates for the same Monte Carlo standard error. Without replicate r the sum of
    squares about the mean falls by :math:`\frac{R}{R-1} d_r^2`, d_r its deviation.

    References
    ----------
    Glasserman, P. (2003). Monte Carlo Methods in Financial Engineering, section 1.1.3
    (efficiency). Springer.
    """
    first, second = _check_pair(values, baseline)
    n_sim = first.size
    if n_sim < 3:
        return Estimate(math.nan, math.nan, n_sim)
    squares = [np.square(own - own.mean()) for own in (first, second)]
    below, above = (own.sum() - own * (n_sim / (n_sim - 1)) for own in squares)
    if squares[0].sum() == 0 or (below <= 0).any():
        raise ParameterError("values must vary, also without any one replicate")
    estimate = float(squares[1].sum() / squares[0].sum())
    return Estimate(estimate, jackknife_se(above / below), n_sim)


def _check_pair(values: ArrayLike, baseline: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first = check_array("values", values, ndim=1)
    second = check_array("baseline", baseline, ndim=1)
    check_same_length(values=first, baseline=second)
    if first.size == 1:
        warn_single_replicate()
    return first, second


def _mean(sample: FloatArray) -> Estimate:
    return Estimate(float(sample.mean()), mean_mcse(sample), sample.size)


def _mse(sample: FloatArray) -> Estimate:
    return _mean(np.square(sample))


def _rmse(sample: FloatArray, method: str = "delta") -> Estimate:
    mse = _mse(sample)
    root = math.sqrt(mse.estimate)
    if sample.size == 1:
        mcse = math.nan
    elif method == "jackknife":
        squares = np.square(sample)
        # A sum less its largest term can round below 0.
        others = np.maximum(squares.sum() - squares, 0.0)
        mcse = jackknife_se(np.sqrt(others / (sample.size - 1)))
    else:
        mcse = mse.mcse / (2.0 * root) if root > 0 else 0.0
    return Estimate(root, mcse, sample.size)


def _parts(sample: FloatArray) -> Decomposition:
    """One head at one point: the single route by which second-order parts are computed."""
    return decompose(sample[:, np.newaxis], np.zeros(1))


def _bias2(sample: FloatArray) -> Estimate:
    if sample.size == 1:
        return Estimate(math.nan, math.nan, 1)
    parts = _parts(sample)
    return Estimate(parts.bias2, parts.bias2_mcse, sample.size)


def _variance(sample: FloatArray) -> Estimate:
    if sample.size == 1:
        return Estimate(math.nan, math.nan, 1)
    parts = _parts(sample)
    return Estimate(parts.variance, parts.variance_mcse, sample.size)


def _empirical_se(sample: FloatArray, method: str = "kurtosis") -> Estimate:
    n_sim = sample.size
    if n_sim == 1:
        return Estimate(math.nan, math.nan, 1)
    deviations = sample - sample.mean()
    squares = np.square(deviations)
    spread = float(squares.sum())
    variance = spread / (n_sim - 1)
    sd = math.sqrt(variance)
    if sd == 0:
        return Estimate(0.0, 0.0, n_sim)
    if method == "jackknife":
        others = np.maximum(spread - squares * n_sim / (n_sim - 1), 0.0) / (n_sim - 2)
        return Estimate(sd, jackknife_se(np.sqrt(others)), n_sim)
    # Standardised first, so that fourth powers stay in range.
    kurtosis = float(np.square(squares / variance).mean())
    relative = math.sqrt((kurtosis - (n_sim - 3) / (n_sim - 1)) / n_sim)
    return Estimate(sd, sd * relative / 2.0, n_sim)


def _proportion(name: str, indicator: ArrayLike, like: FloatArray | None = None) -> Estimate:
    flags = check_array(name, indicator, ndim=1)
    if like is not None:
        check_same_length(errors=like, **{name: flags})
    if not np.isin(flags, (0.0, 1.0)).all():
        raise ParameterError(f"{name} must hold only true and false (1 and 0)")
    share, n_sim = float(flags.mean()), flags.size
    mcse = math.sqrt(share * (1.0 - share) / n_sim) if n_sim > 1 else math.nan
    return Estimate(share, mcse, n_sim)


_MEASURES: dict[str, Callable[[FloatArray], Estimate]] = {
    "bias": _mean,
    "bias2": _bias2,
    "variance": _variance,
    "mse": _mse,
    "rmse": _rmse,
    "empirical_se": _empirical_se,
}
