"""Slopes and crossings along levels that share replicates.

A row of `values` is a replicate, its columns are the levels, paired by common random numbers.
`fit_rate` takes levels as independent and would have a wrong standard error here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_integer
from nwsim.exceptions import ParameterError
from nwsim.inference.jackknife import jackknife_se, mean_mcse
from nwsim.inference.records import Estimate


@dataclass(frozen=True)
class Crossing:
    """Where means along a factor first fall to 0, with a bootstrap interval.

    Attributes
    ----------
    level, mcse : float
        The place between the levels, and the standard deviation of its resamples.
    ci_low, ci_high : float
        Percentile 95% interval. Infinite here, or in `level`, means beyond the last level,
        and then `mcse` is NaN. All three are NaN for one replicate.
    """

    level: float
    mcse: float
    ci_low: float
    ci_high: float


def paired_slope(levels: ArrayLike, values: ArrayLike) -> Estimate:
    """Return the mean slope of values on the log of the level.

    Parameters
    ----------
    levels : array_like, shape (k,)
        Positive, distinct, k >= 2.
    values : array_like, shape (R, k)
        One replicate a row.

    Returns
    -------
    Estimate
        Mean over replicates of each one's least-squares slope, with its ``sd / sqrt(R)``,
        which is NaN for one replicate.

    Raises
    ------
    ParameterError
        For levels that are not positive and distinct, NaN, or shapes that do not match.
    """
    contrast, rows = _slope_contrast(levels, values)
    slopes = rows @ contrast
    return Estimate(float(slopes.mean()), mean_mcse(slopes), len(rows))


def log_log_slope(levels: ArrayLike, values: ArrayLike) -> Estimate:
    """Return the slope of the log of the means on the log of the level.

    Parameters
    ----------
    levels : array_like, shape (k,)
        Positive, distinct, k >= 2.
    values : array_like, shape (R, k)
        One replicate a row; the means must be positive, also without any one replicate.

    Returns
    -------
    Estimate
        Ordinary least squares; the standard error is the jackknife over replicates, NaN for
        one of them.

    Raises
    ------
    ParameterError
        As `paired_slope`, and where a mean is not positive.
    """
    contrast, rows = _slope_contrast(levels, values)
    n_sim, total = len(rows), rows.sum(axis=0)
    if (total <= 0.0).any():
        raise ParameterError("values must have positive means: their logarithm is taken")
    slope = float(np.log(total / n_sim) @ contrast)
    if n_sim == 1:
        return Estimate(slope, math.nan, n_sim)
    others = (total - rows) / (n_sim - 1)
    if (others <= 0.0).any():
        raise ParameterError("values must have positive means without any one replicate")
    return Estimate(slope, jackknife_se(np.log(others) @ contrast), n_sim)


def crossing(
    levels: ArrayLike, values: ArrayLike, rng: np.random.Generator, n_resamples: int = 2000
) -> Crossing:
    """Return where the means along a factor first fall to 0.

    Parameters
    ----------
    levels : array_like, shape (k,)
        Increasing, k >= 2.
    values : array_like, shape (R, k)
        One replicate a row.
    rng : numpy.random.Generator
        Source of the resamples.
    n_resamples : int, default 2000

    Returns
    -------
    Crossing
        Interpolated in a straight line between levels. Means that start at 0 or below cross at
        the first level; those that never fall to 0 cross at infinity.

    Raises
    ------
    ParameterError
        For levels that do not increase, NaN, or shapes that do not match.

    Notes
    -----
    Whole replicates are resampled, so the pairing of levels is kept. The quantiles are order
    statistics: an infinite resample cannot be averaged with a finite one.

    References
    ----------
    Efron, B. and Tibshirani, R. J. (1993). An Introduction to the Bootstrap, chapter 13.
    Chapman & Hall.
    """
    at, rows = _check(levels, values)
    if (np.diff(at) <= 0.0).any():
        raise ParameterError("levels must increase")
    check_integer("n_resamples", n_resamples, minimum=1)
    counts = rng.multinomial(len(rows), np.full(len(rows), 1.0 / len(rows)), size=n_resamples)
    resampled = _first_zero(at, counts @ rows / len(rows))
    low, high = np.quantile(resampled, [0.025, 0.975], method="inverted_cdf")
    known = len(rows) > 1 and np.isfinite(resampled).all()
    return Crossing(
        level=float(_first_zero(at, rows.mean(axis=0)[None])[0]),
        mcse=float(resampled.std()) if known else math.nan,
        ci_low=float(low) if len(rows) > 1 else math.nan,
        ci_high=float(high) if len(rows) > 1 else math.nan,
    )


def _first_zero(levels: FloatArray, means: FloatArray) -> FloatArray:
    """Return where each row of means (B, k) first falls to 0 along the levels, else inf."""
    at = np.full(len(means), np.inf)
    for low in reversed(range(len(levels) - 1)):
        before, after = means[:, low], means[:, low + 1]
        falls = (before > 0.0) & (after <= 0.0)
        share = before[falls] / (before[falls] - after[falls])
        at[falls] = levels[low] + (levels[low + 1] - levels[low]) * share
    return np.where(means[:, 0] <= 0.0, levels[0], at)


def _slope_contrast(levels: ArrayLike, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the contrast (k,) that makes slopes of rows, and the rows."""
    at, rows = _check(levels, values)
    if at.min() <= 0.0 or np.unique(at).size < at.size:
        raise ParameterError("levels must be positive and distinct: slopes are on their logarithm")
    x = np.log(at)
    x -= x.mean()
    return x / (x @ x), rows


def _check(levels: ArrayLike, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
    at = check_array("levels", levels, ndim=1, minimum_rows=2)
    rows = check_array("values", values, ndim=2)
    if rows.shape[1] != at.size or rows.shape[0] == 0:
        raise ParameterError(
            f"values must have one column a level, {at.size}, and a row; got {rows.shape}"
        )
    return at, rows
