"""The delete-one jackknife over replicates, and its closed forms.

A replicate is the independent unit: query points within one are not, so nothing here ever
divides by a number of query points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.inference.records import Estimate


def jackknife_se(leave_one_out: ArrayLike) -> float:
    r"""Jackknife standard error from the R leave-one-out values of a statistic.

    Parameters
    ----------
    leave_one_out : array_like, shape (R,)
        The statistic without replicate 1, ..., R; R >= 2. An additive constant common to
        all of them does not matter.

    Returns
    -------
    float
        In the unit of the statistic.

    Raises
    ------
    ParameterError
        If the values are not finite or fewer than two.

    Notes
    -----
    :math:`\{\frac{R-1}{R} \sum_j (g_{(j)} - \bar g_{(\cdot)})^2\}^{1/2}`.

    References
    ----------
    Efron, B. and Stein, C. (1981). The jackknife estimate of variance. Annals of
    Statistics 9, 586-596.
    """
    values = check_array("leave_one_out", leave_one_out, ndim=1, minimum_rows=2)
    return scaled_root_sum((values.size - 1) / values.size, values)


def jackknife(statistic: Callable[[FloatArray], float], sample: ArrayLike) -> Estimate:
    """Apply a statistic to a sample of replicates, with its jackknife standard error.

    Parameters
    ----------
    statistic : callable
        Takes an array shaped like ``sample`` with any number of rows >= 1 and returns a
        number. The same function serves the full sample and every leave-one-out sample.
    sample : array_like, shape (R,) or (R, ...)
        One row a replicate.

    Returns
    -------
    Estimate
        Its ``mcse`` is NaN, with a :class:`~nwsim.exceptions.PrecisionWarning`, if R = 1.

    Raises
    ------
    ParameterError
        If the sample is empty or not finite, or if the statistic is not a finite number on
        the sample or, for R >= 2, on some leave-one-out sample.

    Notes
    -----
    See :func:`jackknife_se`. It costs R + 1 evaluations; `decompose` uses closed forms.
    """
    if np.ndim(sample) == 0:
        raise ParameterError("sample must have one row a replicate; got a scalar")
    rows = check_array("sample", sample, ndim=np.ndim(sample))
    n_sim = rows.shape[0]
    estimate = _finite(statistic(rows), "the sample")
    if n_sim == 1:
        warn_single_replicate()
        return Estimate(estimate, math.nan, n_sim)
    keep = np.ones(n_sim, dtype=np.bool_)
    values = np.empty(n_sim)
    for rep in range(n_sim):
        keep[rep] = False
        values[rep] = _finite(statistic(rows[keep]), f"the sample without replicate {rep}")
        keep[rep] = True
    return Estimate(estimate, jackknife_se(values), n_sim)


def _finite(value: float, where: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ParameterError(f"statistic must return a finite number; got {number!r} on {where}")
    return number


def scaled_root_sum(factor: float, values: FloatArray) -> float:
    """Return ``sqrt(factor * sum (values - mean)^2)``, the core of every MCSE here."""
    deviations = values - values.mean()
    return math.sqrt(factor * float(np.square(deviations).sum()))


def mean_mcse(values: FloatArray) -> float:
    """Return the MCSE of a mean, ``sd / sqrt(R)`` (the jackknife gives the same)."""
    n_sim = values.size
    return scaled_root_sum(1.0 / (n_sim * (n_sim - 1)), values) if n_sim > 1 else math.nan


def second_moment_mcse(products: FloatArray, plus: FloatArray) -> float:
    r"""MCSE of a (co)variance functional plus a mean.

    Parameters
    ----------
    products : ndarray, shape (R,)
        Per replicate the functional's products of deviations from the mean over replicates:
        the functional is ``products.sum() / (R - 1)``.
    plus : ndarray, shape (R,)
        A quantity whose plain mean is added to it.

    Notes
    -----
    R >= 3: the jackknife. Without replicate r a sum of products of deviations falls by
    :math:`\frac{R}{R-1} t_r`, so the leave-one-out value is affine in the replicate's own
    terms and no second pass over the data is needed. R = 2, where a leave-one-out variance
    does not exist: the normal-theory
    :math:`sd(t) = \sqrt{2/(R-1)}\,|t|` of a quadratic form under its rank-one plug-in
    covariance; `products` must then hold absolute values, averaged over query points, which
    bounds the standard deviation of the average (Minkowski).
    """
    n_sim = products.size
    if n_sim == 2:
        return math.sqrt(2.0) * float(products.sum()) + mean_mcse(plus)
    scale = n_sim / (n_sim - 2)
    return scaled_root_sum(1.0 / (n_sim * (n_sim - 1)), scale * products + plus)


def squared_bias_mcse(squares: FloatArray, cross: FloatArray) -> float:
    r"""Jackknife MCSE of the corrected squared bias, R >= 3.

    Parameters
    ----------
    squares : ndarray, shape (R,)
        Per replicate the integral of :math:`d_r^2`, d the deviation from the mean error.
    cross : ndarray, shape (R,)
        Per replicate the integral of :math:`\bar e\, d_r`.

    Notes
    -----
    The corrected squared bias is the U-statistic :math:`(S^2 - Q)/\{R(R-1)\}` with S and Q
    the sums of e and e^2, so without replicate r it is
    :math:`\{(S - e_r)^2 - (Q - e_r^2)\}/\{(R-1)(R-2)\}`; with :math:`e_r = \bar e + d_r` the
    part that depends on r is :math:`2\{d_r^2 - (R-2)\bar e d_r\}/\{(R-1)(R-2)\}`, free of
    cancellation when the bias is large.
    """
    n_sim = squares.size
    moving = 2.0 * (squares / (n_sim - 2) - cross) / (n_sim - 1)
    return scaled_root_sum((n_sim - 1) / n_sim, moving)


def warn_single_replicate() -> None:
    """Say that one replicate has no Monte Carlo standard error."""
    warnings.warn(
        "one replicate has no Monte Carlo standard error: mcse is NaN",
        PrecisionWarning,
        stacklevel=3,
    )
