"""Weights of attention as arrays of queries by keys: softmax, and Gaussian kernels.

Sums of values need no such array: see :func:`~nwsim.attention.softmax_attention`. These
functions are for where the weights themselves are wanted, and compute in float64.
"""

from __future__ import annotations

import math

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_real
from nwsim.attention.softmax import _batch, _largest, _mask, _matrix
from nwsim.exceptions import ParameterError


def attention_weights(
    q: ArrayLike,
    k: ArrayLike,
    temperature: float | None = None,
    mask: ArrayLike | None = None,
) -> FloatArray:
    """Return the softmax weights of scaled dot-product attention.

    Parameters
    ----------
    q : (..., m, d_k) array_like
        Queries, finite; m may be 0.
    k : (..., n, d_k) array_like
        Keys, finite; n at least 1. Leading (batch) shapes broadcast.
    temperature : float or None
        Scores are divided by it; > 0 and finite. None is sqrt(d_k).
    mask : (..., m, n) array_like of bool, or None
        True where a query attends to a key; every query must attend to at least one.

    Returns
    -------
    (..., m, n) ndarray of float64
        w_ij = exp(<q_i, k_j> / temperature) over its sum along j (Vaswani et al. 2017,
        equation 1); 0 where masked. Rows sum to 1.

    Raises
    ------
    ParameterError
        If an argument is not as described; if a query attends to no key; if scores could
        exceed the range of float64.
    """
    queries, keys, seen = _inputs(q, k, mask)
    d = keys.shape[-1]
    t = math.sqrt(d) if temperature is None else check_real("temperature", temperature, above=0.0)
    largest = d * _largest("q", queries) * _largest("k", keys)
    if not (math.isfinite(largest) and math.isfinite(largest / t)):
        raise ParameterError(
            "q, k and temperature must keep scores within the range of float64; "
            f"they may reach {largest:g} / {t:g}"
        )
    return _normalised((queries @ np.swapaxes(keys, -1, -2)) / t, seen)


def gaussian_weights(
    q: ArrayLike,
    k: ArrayLike,
    bandwidth: ArrayLike,
    mask: ArrayLike | None = None,
    log_prior: ArrayLike | None = None,
    key_scale: ArrayLike | None = None,
    unit_norm: bool = False,
) -> FloatArray:
    """Return Nadaraya-Watson weights of a Gaussian kernel, queries by keys.

    Parameters
    ----------
    q : (..., m, d_k) array_like
        Queries, finite; m may be 0.
    k : (..., n, d_k) array_like
        Keys, finite; n at least 1. Leading (batch) shapes broadcast.
    bandwidth : float, or (m,) array_like
        Standard deviation h of the kernel, one for all queries or one a query; > 0.
    mask : (..., m, n) array_like of bool, or None
        True where a query attends to a key; every query must attend to at least one.
    log_prior : (n,) array_like or None
        Logarithm of the keys' prior weights, finite; a key of no weight is masked instead.
    key_scale : (n,) array_like or None
        Factor s_j > 0 of the bandwidth at key j (Abramson 1982). The factor (h s_j)^(-d) that
        a density estimate carries is not included: it is ``log_prior = -d log s_j``.
    unit_norm : bool
        Whether queries and keys are first scaled to length 1; none may be zero then.

    Returns
    -------
    (..., m, n) ndarray of float64
        w_ij proportional to exp(-|q_i - k_j|^2 / (2 (h_i s_j)^2) + log_prior_j) over the keys
        that query i attends to (Nadaraya 1964; Watson 1964). Rows sum to 1. Bandwidth, prior
        and scale may have leading batch axes too.

    Raises
    ------
    ParameterError
        If an argument is not as described; if a query attends to no key; if bandwidths or
        scales are too small against q and k for float64.

    Notes
    -----
    Distances are sums of squared differences, which lose nothing where queries and keys are
    close together and far from 0. Exponents are shifted by the row's maximum, so a query far
    from all keys, or a tiny bandwidth, gives the nearest key and never 0/0.
    """
    queries, keys, seen = _inputs(q, k, mask)
    m, n = queries.shape[-2], keys.shape[-2]
    if not isinstance(unit_norm, (bool, np.bool_)):
        raise ParameterError(f"unit_norm must be True or False; got {unit_norm!r}")
    if unit_norm:
        queries, keys = _unit("q", queries), _unit("k", keys)
    h = _by_row("bandwidth", bandwidth, m, positive=True)
    if h.ndim:
        h = h[..., :, np.newaxis]

    # A power of two changes no digit, and keeps squares within the range of float64.
    size = 2.0 ** (math.frexp(max(_largest("q", queries), _largest("k", keys)))[1] - 1)
    distance = np.zeros((*np.broadcast_shapes(queries.shape[:-2], keys.shape[:-2]), m, n))
    for axis in range(keys.shape[-1]):
        gap = queries[..., :, axis, np.newaxis] / size - keys[..., np.newaxis, :, axis] / size
        distance += gap**2
    with np.errstate(over="ignore", under="ignore"):
        h = h / size
    if key_scale is not None:
        scale = _by_row("key_scale", key_scale, n, positive=True)
        scale = scale[..., np.newaxis, :] if scale.ndim else scale
        with np.errstate(over="ignore"):
            distance = distance / scale / scale
    if not ((h > 0).all() and np.isfinite(distance).all()):
        raise ParameterError(
            "bandwidth and key_scale must not be smaller than q and k by more than float64 holds"
        )
    if seen is not None:
        distance = np.where(seen, distance, math.inf)
    nearest = distance.min(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        exponent = -(distance - nearest) / h / h / 2.0
        if log_prior is not None:
            prior = _by_row("log_prior", log_prior, n)
            exponent = exponent + (prior[..., np.newaxis, :] if prior.ndim else prior)
    return _normalised(exponent, None)


def key_norm_log_prior(k: ArrayLike, temperature: float) -> FloatArray:
    """Return the log prior weights with which Gaussian weights are softmax weights.

    Parameters
    ----------
    k : (..., n, d_k) array_like
        Keys, finite.
    temperature : float
        Of the softmax, t; > 0 and finite.

    Returns
    -------
    (..., n) ndarray of float64
        |k_j|^2 / (2 t), finite.

    Raises
    ------
    ParameterError
        If an argument is not as described, or the result exceeds the range of float64.

    Notes
    -----
    exp(<q, k> / t) = exp(-|q - k|^2 / (2 t)) exp(|q|^2 / (2 t)) exp(|k|^2 / (2 t)), since
    |q - k|^2 = |q|^2 + |k|^2 - 2 <q, k>. The factor of the query cancels in a row; that of the
    key does not, unless all keys have one length.
    """
    keys = _matrix("k", k).astype(np.float64, copy=False)
    _largest("k", keys)
    t = check_real("temperature", temperature, above=0.0)
    with np.errstate(over="ignore"):
        prior: FloatArray = (keys**2).sum(axis=-1) / t / 2.0
    if not np.isfinite(prior).all():
        raise ParameterError("k and temperature must keep |k|^2 / (2 t) within range of float64")
    return prior


def _inputs(
    q: ArrayLike, k: ArrayLike, mask: ArrayLike | None
) -> tuple[FloatArray, FloatArray, np.ndarray | None]:
    """Return queries and keys in float64, and the mask, if their shapes agree."""
    queries = _matrix("q", q).astype(np.float64, copy=False)
    keys = _matrix("k", k).astype(np.float64, copy=False)
    d = queries.shape[-1]
    if d == 0:
        raise ParameterError(f"q must have at least one column; got shape {queries.shape}")
    if keys.shape[-1] != d:
        raise ParameterError(f"k must have as many columns as q, {d}; got shape {keys.shape}")
    if keys.shape[-2] == 0:
        raise ParameterError(f"k must have at least one row; got shape {keys.shape}")
    seen = None if mask is None else _mask(mask, queries.shape[-2], keys.shape[-2])
    _batch(q=queries, k=keys, **({} if seen is None else {"mask": seen}))
    return queries, keys, seen


def _by_row(name: str, value: ArrayLike, length: int, *, positive: bool = False) -> FloatArray:
    """Return a finite scalar, or an array whose last axis has the length."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must be a number or an array of numbers: {error}") from None
    if array.ndim and array.shape[-1] != length:
        raise ParameterError(f"{name} must have {length} entries; got shape {array.shape}")
    if not np.isfinite(array).all() or (positive and not (array > 0).all()):
        accepted = "finite and > 0" if positive else "finite"
        raise ParameterError(f"{name} must be {accepted}; got {array}")
    return array


def _unit(name: str, rows: FloatArray) -> FloatArray:
    """Return rows of length 1."""
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    if not (largest > 0).all():
        raise ParameterError(f"{name} must hold no zero vector where unit_norm is True")
    scaled = rows / largest
    unit: FloatArray = scaled / np.linalg.norm(scaled, axis=-1, keepdims=True)
    return unit


def _normalised(exponent: FloatArray, seen: np.ndarray | None) -> FloatArray:
    """Return exp of the exponents over their sum in each row, 0 where not seen."""
    if seen is not None:
        exponent = np.where(seen, exponent, -math.inf)
    with np.errstate(over="ignore"):
        weights: FloatArray = np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
