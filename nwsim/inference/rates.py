"""Rates of convergence: slopes of log error against log sample size."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_same_length
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.inference.verdicts import Z95, Verdict, equivalence


@dataclass(frozen=True)
class RateFit:
    """A straight line through log error against log n.

    Attributes
    ----------
    slope, slope_se : float
        Estimated exponent of n and its standard error (NaN where it cannot be known).
    intercept : float
        Natural logarithm of the fitted error at n = 1.
    ci_low, ci_high : float
        Two-sided 95% normal interval of the slope.
    n_points : int
        Number of sample sizes fitted.
    """

    slope: float
    slope_se: float
    intercept: float
    ci_low: float
    ci_high: float
    n_points: int

    def compare(self, theory: float, margin: float) -> Verdict:
        """Test the slope for equivalence with ``theory`` up to ``margin`` (> 0).

        See :func:`~nwsim.inference.equivalence`: "supported" iff the 90% interval lies inside
        ``theory ± margin``, "refuted" iff outside it, else "inconclusive".
        """
        return equivalence(self.slope, self.slope_se, theory, margin)


@dataclass(frozen=True)
class LocalSlope:
    """Slope between two neighbouring sample sizes.

    Attributes
    ----------
    n_mid : float
        Geometric mean of the two sample sizes.
    slope, slope_se : float
        Slope of log error against log n, and its standard error.
    ci_low, ci_high : float
        Two-sided 95% normal interval.
    """

    n_mid: float
    slope: float
    slope_se: float
    ci_low: float
    ci_high: float


def fit_rate(n_obs: ArrayLike, mse: ArrayLike, mcse: ArrayLike) -> RateFit:
    """Fit the exponent of n in an error by inverse-variance least squares on the log scale.

    Parameters
    ----------
    n_obs : array_like, shape (k,)
        Sample sizes > 0, at least two distinct; any order.
    mse : array_like, shape (k,)
        Errors > 0 (a mean squared error or one of its parts), independent between points.
    mcse : array_like, shape (k,)
        Their Monte Carlo standard errors, in the unit of `mse`: all > 0, or all 0 (errors
        known exactly), or all NaN (one replicate: a slope without a standard error).

    Returns
    -------
    RateFit

    Raises
    ------
    ParameterError
        On fewer than two distinct ``n_obs``, an error that is not > 0 (a corrected squared
        bias may be negative: no logarithm, so no slope), NaN, infinity or unequal lengths.

    Warns
    -----
    PrecisionWarning
        If the slope has no standard error: all `mcse` NaN, or all 0 with two points.

    Notes
    -----
    By the delta method ``se(log mse) = mcse / mse``; with these as *known* standard errors s
    the slope is the weighted least-squares one with weights 1/s^2 and variance
    ``1 / sum_i (x_i - xbar_w)^2 / s_i^2``, not rescaled by the residuals: its interval is
    about Monte Carlo error alone, and curvature is the margin's business. With all
    ``mcse = 0`` it is ordinary least squares with the residual standard error (ddof 2).

    References
    ----------
    Seber, G. A. F. and Lee, A. J. (2003). Linear Regression Analysis, 2nd ed., section 3.10.
    Wiley.
    """
    x, y, relative = _check_points(n_obs, mse, mcse)
    exact, unknown = not relative.any(), bool(np.isnan(relative).all())
    # Weights relative to the smallest standard error: their absolute size may overflow.
    scale = 1.0 if exact or unknown else float(relative.min())
    weights = np.ones_like(x) if exact or unknown else np.square(scale / relative)
    total = weights.sum()
    x_mean, y_mean = (weights * x).sum() / total, (weights * y).sum() / total
    spread = float((weights * np.square(x - x_mean)).sum())
    slope = float((weights * (x - x_mean) * (y - y_mean)).sum()) / spread
    if unknown or (exact and x.size == 2):
        warnings.warn(
            "the slope has no standard error: mcse is NaN, or two exact points leave no residual",
            PrecisionWarning,
            stacklevel=2,
        )
        slope_se = math.nan
    elif exact:
        residuals = y - y_mean - slope * (x - x_mean)
        slope_se = math.sqrt(float(np.square(residuals).sum()) / (x.size - 2) / spread)
    else:
        slope_se = scale / math.sqrt(spread)
    return RateFit(
        slope=slope,
        slope_se=slope_se,
        intercept=float(y_mean - slope * x_mean),
        ci_low=slope - Z95 * slope_se,
        ci_high=slope + Z95 * slope_se,
        n_points=int(x.size),
    )


def local_slopes(n_obs: ArrayLike, mse: ArrayLike, mcse: ArrayLike) -> tuple[LocalSlope, ...]:
    """Slopes of log error between neighbouring sample sizes, in increasing n.

    Parameters
    ----------
    n_obs, mse, mcse : array_like, shape (k,)
        As for `fit_rate`, but with all ``n_obs`` distinct. An ``mcse`` may be 0 at some
        points only; NaN gives NaN.

    Returns
    -------
    tuple of LocalSlope, length k - 1

    Raises
    ------
    ParameterError
        As for `fit_rate`, and on repeated ``n_obs``.

    Notes
    -----
    ``slope = log(mse_2/mse_1) / log(n_2/n_1)``, its standard error by the delta method for
    independent points. Neighbouring slopes share a point and are negatively correlated.
    """
    x, y, relative = _check_points(n_obs, mse, mcse, mixed=True)
    if np.unique(x).size < x.size:
        raise ParameterError("n_obs must be distinct for local slopes")
    order = np.argsort(x)
    x, y, relative = x[order], y[order], relative[order]
    steps = np.diff(x)
    slopes = np.diff(y) / steps
    errors = np.hypot(relative[1:], relative[:-1]) / steps
    middles = np.exp((x[1:] + x[:-1]) / 2.0)
    return tuple(
        LocalSlope(
            float(mid), float(slope), float(se), float(slope - Z95 * se), float(slope + Z95 * se)
        )
        for mid, slope, se in zip(middles, slopes, errors, strict=True)
    )


def _check_points(
    n_obs: ArrayLike, mse: ArrayLike, mcse: ArrayLike, *, mixed: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log n, log error and the standard error of log error."""
    sizes = check_array("n_obs", n_obs, ndim=1)
    errors = check_array("mse", mse, ndim=1)
    precision = check_array("mcse", mcse, ndim=1, allow_nan=True)
    check_same_length(n_obs=sizes, mse=errors, mcse=precision)
    if sizes.min() <= 0:
        raise ParameterError(f"n_obs must be > 0; got {sizes.min()!r}")
    if np.unique(sizes).size < 2:
        raise ParameterError("n_obs must hold at least two distinct sample sizes")
    if errors.min() <= 0:
        raise ParameterError(f"mse must be > 0 to have a logarithm; got {errors.min()!r}")
    if np.isinf(precision).any() or (precision < 0).any():
        raise ParameterError("mcse must be >= 0 and finite (or NaN if unknown)")
    unknown = np.isnan(precision)
    if not mixed and unknown.any() != unknown.all():
        raise ParameterError("mcse must be known at all points or at none; some are NaN")
    zero = precision == 0
    if not mixed and zero.any() != zero.all():
        raise ParameterError(
            "mcse must be > 0 at all points or 0 at all: an exact point among inexact ones "
            "would have infinite weight"
        )
    relative = precision / errors
    positive = relative[relative > 0]
    # Squared weights of a wider spread would overflow, and mean nothing.
    if positive.size and positive.max() > 1e100 * positive.min():
        raise ParameterError("mcse / mse must lie within a factor of 1e100 over the points")
    return np.log(sizes), np.log(errors), relative
