"""Checks of what estimators are given: one clear error by name, arrays in one form."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array
from nwsim.exceptions import ParameterError
from nwsim.smoothing.bandwidths import SELECTORS

LARGEST = 1e300
# Products of prior weights within these with a kernel's, and their squares, stay in the range
# of float64; beyond, a variance would silently come out as zero.
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-50, 1e50
_FORGOTTEN = _LEAST_WEIGHT / _MOST_WEIGHT


def refuse_masked(**arrays: Any) -> None:
    """Raise for masked arrays: as plain ones they would lose what is masked."""
    for name, value in arrays.items():
        if isinstance(value, np.ma.MaskedArray):
            raise ParameterError(f"{name} must not be a masked array: fill or drop what is masked")


def as_columns(X: ArrayLike) -> Any:
    """Return 1-d input as one column and everything else untouched."""
    if isinstance(X, (list, tuple)) or hasattr(X, "ndim"):
        array = np.asarray(X) if isinstance(X, (list, tuple)) else X
        if getattr(array, "ndim", 0) == 1:
            return np.asarray(array).reshape(-1, 1)
    return X


def given_bandwidth(bandwidth: Any, dim: int) -> FloatArray | None:
    """Return a given bandwidth as a () or (d,) array, or None for a selector's name."""
    accepted = f"a positive number, {dim} positive numbers, or one of {', '.join(SELECTORS)}"
    if isinstance(bandwidth, str):
        if bandwidth in SELECTORS:
            return None
        raise ParameterError(f"bandwidth must be {accepted}; got {bandwidth!r}")
    try:
        h = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        h = np.array(np.nan)
    right_shape = h.ndim == 0 or h.shape == (dim,)
    if (
        isinstance(bandwidth, (bool, np.bool_))
        or not right_shape
        or not np.all(np.isfinite(h) & (h > 0))
    ):
        raise ParameterError(f"bandwidth must be {accepted}; got {bandwidth!r}")
    return h.copy()


def prior_weights(sample_weight: ArrayLike | None, X: FloatArray) -> FloatArray:
    """Return the prior weights (n,) of a sample, ones if None.

    Only their ratios matter. Where some are not within 1e-50 to 1e50, all are divided by the power
    of two next below the largest, and those below 1e-100 of it count as zero.
    """
    if sample_weight is None:
        return np.ones(X.shape[0])
    refuse_masked(sample_weight=sample_weight)
    try:
        prior: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(
            f"sample_weight must be {X.shape[0]} finite numbers, nonnegative and not all zero: "
            f"{error}"
        ) from None
    if np.any(prior < 0.0) or not np.any(prior > 0.0):
        raise ParameterError("sample_weight must be nonnegative and not all zero")
    if prior.max() <= _MOST_WEIGHT and prior[prior > 0.0].min() >= _LEAST_WEIGHT:
        return np.array(prior)
    # A power of two, so that the weights that stay lose no digit.
    scaled = np.ldexp(prior, 1 - np.frexp(prior.max())[1])
    return np.where(scaled < _FORGOTTEN, 0.0, scaled)


def as_values(values: ArrayLike, n: int) -> FloatArray:
    """Return values at the sample as (n, p)."""
    v = check_array("values", values, ndim=(1, 2))
    if v.shape[0] != n:
        raise ParameterError(f"values must have {n} rows, one a sample; got {v.shape[0]}")
    return check_size("values", v).reshape(n, -1)


def check_size(name: str, array: FloatArray) -> FloatArray:
    """Return the array if sums of its entries cannot overflow."""
    if array.size and max(array.max(), -array.min()) > LARGEST:
        raise ParameterError(f"{name} must be at most {LARGEST:g} in absolute value")
    return array


def as_noise(noise_variance: float | ArrayLike, n: int) -> FloatArray:
    """Return the noise variance at the sample as (n,)."""
    s2 = check_array("noise_variance", noise_variance, ndim=(0, 1))
    if np.ndim(noise_variance) == 1 and s2.shape[0] != n:
        raise ParameterError(
            f"noise_variance must be a number or have {n} entries; got {s2.shape[0]}"
        )
    if np.any(s2 < 0.0):
        raise ParameterError("noise_variance must be nonnegative")
    return np.array(np.broadcast_to(s2.ravel(), n))
