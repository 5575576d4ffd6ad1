"""Attention with Gaussian weights, and the Nadaraya-Watson twin of softmax attention."""

from __future__ import annotations

import math
import warnings

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_real
from nwsim.attention.softmax import _batch, _largest, _matrix
from nwsim.attention.weights import _inputs, gaussian_weights, key_norm_log_prior
from nwsim.exceptions import ParameterError, PrecisionWarning

# Relative errors of weights, by rounding, from which the twin of softmax warns, and refuses.
_FEW_DIGITS, _NO_DIGITS = 1e-8, 1e-3


def gaussian_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    bandwidth: ArrayLike,
    mask: ArrayLike | None = None,
    log_prior: ArrayLike | None = None,
    key_scale: ArrayLike | None = None,
    unit_norm: bool = False,
) -> FloatArray:
    """Average values with Gaussian kernel weights of queries and keys.

    Parameters
    ----------
    q, k, bandwidth, mask, log_prior, key_scale, unit_norm
        As in :func:`~nwsim.attention.gaussian_weights`.
    v : (..., n, p) array_like
        Values, finite. Leading (batch) shapes broadcast.

    Returns
    -------
    (..., m, p) ndarray of float64
        The Nadaraya-Watson estimate at the queries from the sample (k, v).

    Raises
    ------
    ParameterError
        If an argument is not as described in :func:`~nwsim.attention.gaussian_weights`, or if
        sums of values could exceed the range of float64.
    """
    weights = gaussian_weights(q, k, bandwidth, mask, log_prior, key_scale, unit_norm)
    values = _matrix("v", v).astype(np.float64, copy=False)
    n = weights.shape[-1]
    if values.shape[-2] != n:
        raise ParameterError(f"v must have as many rows as k, {n}; got shape {values.shape}")
    _batch(v=values, **{"q and k": weights})
    if not math.isfinite(n * _largest("v", values)):
        raise ParameterError("v must keep sums of values within the range of float64")
    average: FloatArray = weights @ values
    return average


def nadaraya_watson_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    temperature: float | None = None,
    mask: ArrayLike | None = None,
) -> FloatArray:
    """Return softmax attention by way of its Nadaraya-Watson twin.

    Parameters
    ----------
    q, k, v, temperature, mask
        As in :func:`~nwsim.softmax_attention`.

    Returns
    -------
    (..., m, p) ndarray of float64
        Gaussian kernel regression with bandwidth sqrt(t) and prior weights
        exp(|k_j|^2 / (2 t)): equal to ``softmax_attention(q, k, v, t, mask)`` but for rounding.

    Raises
    ------
    ParameterError
        As in :func:`~nwsim.attention.gaussian_attention`, or if the error of weights by rounding,
        described below, exceeds 1e-3.

    Warns
    -----
    PrecisionWarning
        If that error exceeds 1e-8.

    Notes
    -----
    For study and tests; :func:`~nwsim.softmax_attention` is faster, and has no such bound: it
    takes whatever scores float64 holds. Here exponents are as large as
    E = (max |q| + max |k|)^2 / (2 t), over keys that some query attends to, and weights have a
    relative error of some E times the rounding of float64, 2^-53.
    """
    queries, keys, seen = _inputs(q, k, mask)
    t = (
        math.sqrt(keys.shape[-1])
        if temperature is None
        else check_real("temperature", temperature, above=0.0)
    )
    _largest("q", queries), _largest("k", keys)
    if seen is not None:
        # A key that no query attends to has no influence: it may as well be 0.
        used = seen.any(axis=-2, keepdims=True)
        keys = np.where(np.swapaxes(used, -1, -2), keys, 0.0)
    _check_rounding(queries, keys, t)
    return gaussian_attention(queries, keys, v, math.sqrt(t), mask, key_norm_log_prior(keys, t))


def _check_rounding(queries: FloatArray, keys: FloatArray, t: float) -> None:
    """Warn, or refuse, where exponents are so large that rounding eats the weights' digits."""
    root = math.sqrt(t)
    reach = _longest(queries) / root + _longest(keys) / root
    rounding = float(np.finfo(np.float64).eps) / 2.0 * min(reach, 1e150) ** 2 / 2.0
    if rounding > _NO_DIGITS:
        raise ParameterError(
            "q, k and temperature must keep (|q| + |k|)^2 / (2 t) below "
            f"{_NO_DIGITS * 2.0**53:.2g}, where rounding leaves the weights no digits; "
            "softmax_attention has no such bound"
        )
    if rounding > _FEW_DIGITS:
        warnings.warn(
            f"exponents of (|q| + |k|)^2 / (2 t) leave weights a relative error of {rounding:.1g}",
            PrecisionWarning,
            stacklevel=3,
        )


def _longest(rows: FloatArray) -> float:
    """Return the largest Euclidean length of rows, infinite only if it is beyond float64."""
    power = math.frexp(_largest("rows", rows))[1]  # which changes no digit
    squares = (np.ldexp(rows, -power) ** 2).sum(axis=-1)
    with np.errstate(over="ignore"):
        return float(np.ldexp(math.sqrt(squares.max(initial=0.0)), power))
