"""Attention with Gaussian weights, and the Nadaraya-Watson twin of softmax attention."""

from __future__ import annotations

import math

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_real
from nwsim.attention.softmax import _batch, _largest, _matrix
from nwsim.attention.weights import gaussian_weights, key_norm_log_prior
from nwsim.exceptions import ParameterError


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
        As in :func:`~nwsim.attention.gaussian_attention` and
        :func:`~nwsim.attention.key_norm_log_prior`.

    Notes
    -----
    For study and tests; :func:`~nwsim.softmax_attention` is faster. Exponents are of the size
    |q - k|^2 / (2 t), and the rounding of weights is that of float64 times this.
    """
    columns = _matrix("k", k).shape[-1]
    t = (
        math.sqrt(max(columns, 1))
        if temperature is None
        else check_real("temperature", temperature, above=0.0)
    )
    return gaussian_attention(q, k, v, math.sqrt(t), mask, key_norm_log_prior(k, t))
