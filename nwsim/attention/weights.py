"""Weights of attention as arrays of queries by keys: softmax, and Gaussian kernels.

Sums of values need no such array: see :func:`~nwsim.attention.softmax_attention`. These
functions are for where the weights themselves are wanted, and compute in float64.
"""

from __future__ import annotations

import math

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import as_float64, as_real, check_real, shown
from nwsim.attention.softmax import _batch, _largest, _mask, _matrix
from nwsim.exceptions import ParameterError

# Within these, and one over them, weights are computed without regard to underflow, which
# changes no digit then. Bandwidths are in units of the largest entry of queries and keys.
_MOST_BANDWIDTH = 2.0**400
_MOST_SCALE = 2.0**100
_MOST_PRIOR = 1e300
_LEAST_TEMPERATURE = 1e-290
# Squared distances in bandwidths from which their rounding would show in a weight.
_FAR = 1e4
_NOWHERE = -(2**20)  # exponent of a gap of 0


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
    sizes = _largest("q", queries), _largest("k", keys)
    if t < _LEAST_TEMPERATURE or not math.isfinite(d * sizes[0] * sizes[1]):
        # Powers of two change no digit: products of entries of size 1 stay in range.
        powers = [math.frexp(size)[1] for size in sizes]
        queries, keys = np.ldexp(queries, -powers[0]), np.ldexp(keys, -powers[1])
        sizes = math.ldexp(sizes[0], -powers[0]), math.ldexp(sizes[1], -powers[1])
        with np.errstate(over="ignore"):
            t = float(np.ldexp(t, -sum(powers)))
    largest = d * sizes[0] * sizes[1]
    if not (t > 0.0 and math.isfinite(largest / t)):
        raise ParameterError("q, k and temperature must keep scores within the range of float64")
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
        If an argument is not as described, or a query attends to no key.

    Notes
    -----
    Distances are sums of squared differences, which lose nothing where queries and keys are
    close together and far from 0. Exponents are shifted by the row's maximum, so a query far
    from all keys, or a tiny bandwidth, gives the nearest key and never 0/0. Of a query more than
    100 bandwidths from all keys, differences of squared distances are computed as such; only
    beyond 10^120 bandwidths, and with key scales, are keys ties that lie closer to each
    other than the rounding of its distance.
    """
    queries, keys, seen = _inputs(q, k, mask)
    m, n = queries.shape[-2], keys.shape[-2]
    if not isinstance(unit_norm, (bool, np.bool_)):
        raise ParameterError(f"unit_norm must be True or False; got {shown(unit_norm)}")
    if unit_norm:
        queries, keys = _unit("q", queries), _unit("k", keys)
    h = _by_row("bandwidth", bandwidth, m, positive=True)
    if h.ndim:
        h = h[..., :, np.newaxis]

    scale = prior = None
    if key_scale is not None:
        scale = _by_row("key_scale", key_scale, n, positive=True)
        scale = scale[..., np.newaxis, :] if scale.ndim else scale
    if log_prior is not None:
        prior = _by_row("log_prior", log_prior, n)
        prior = prior[..., np.newaxis, :] if prior.ndim else prior
    given = {"mask": seen, "bandwidth": h, "key_scale": scale, "log_prior": prior}
    _batch(q=queries, k=keys, **{name: a for name, a in given.items() if a is not None and a.ndim})

    # A power of two changes no digit, and keeps squares within the range of float64.
    size = 2.0 ** (math.frexp(max(_largest("q", queries), _largest("k", keys)))[1] - 1)
    with np.errstate(over="ignore", under="ignore"):
        relative = h / size
    if not _is_ordinary(relative, scale, prior):
        return _weights_at_any_size(queries, keys, seen, h, scale, prior)
    distance = np.zeros((*np.broadcast_shapes(queries.shape[:-2], keys.shape[:-2]), m, n))
    for axis in range(keys.shape[-1]):
        gap = queries[..., :, axis, np.newaxis] / size - keys[..., np.newaxis, :, axis] / size
        distance += gap**2
    if scale is not None:
        distance = distance / scale / scale
    if seen is not None:
        distance = np.where(seen, distance, math.inf)
    nearest = distance.min(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        far = nearest / relative / relative > _FAR
    if scale is None and far.any():
        further = _further(queries / size, keys / size, distance)
        if seen is not None:
            further = np.where(seen, further, math.inf)
        distance = np.where(far, further - further.min(axis=-1, keepdims=True), distance)
        nearest = distance.min(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        exponent = -(distance - nearest) / relative / relative / 2.0
    if prior is not None:
        exponent = exponent + prior
    return _normalised(exponent, None)


def _further(queries: FloatArray, keys: FloatArray, distance: FloatArray) -> FloatArray:
    """Return squared distances less that of the key which comes out nearest, (..., m, n).

    With k_0 that key, |q - k|^2 - |q - k_0|^2 = <k - k_0, (k - k_0) - 2 (q - k_0)>: rounding is a
    part of the difference, however far the query, and not of the distance.
    """
    anchor = distance.argmin(axis=-1)[..., np.newaxis]
    further = np.zeros_like(distance)
    for axis in range(keys.shape[-1]):
        k = np.broadcast_to(keys[..., np.newaxis, :, axis], distance.shape)
        first = np.take_along_axis(k, anchor, axis=-1)
        gap = k - first
        further += gap * (gap - 2.0 * (queries[..., :, axis, np.newaxis] - first))
    return further


def _is_ordinary(h: FloatArray, scale: FloatArray | None, prior: FloatArray | None) -> bool:
    """Whether squares of gaps of at most 2 lose nothing that bandwidths this wide would show."""
    if h.min(initial=1.0) < 1.0 / _MOST_BANDWIDTH or h.max(initial=1.0) > _MOST_BANDWIDTH:
        return False
    if prior is not None and np.abs(prior).max(initial=0.0) > _MOST_PRIOR:
        return False
    low, high = 1.0 / _MOST_SCALE, _MOST_SCALE
    return scale is None or bool(((scale >= low) & (scale <= high)).all())


def _weights_at_any_size(
    queries: FloatArray,
    keys: FloatArray,
    seen: np.ndarray | None,
    h: FloatArray,
    scale: FloatArray | None,
    prior: FloatArray | None,
) -> FloatArray:
    """Return Gaussian weights where gaps and bandwidths differ by any power of ten.

    A gap in bandwidths is kept as u 2^e. Each row is taken in units of its nearest key, unless
    this is nearer than 1, and in 2^-8 of what is wanted: then whatever overflows is farther off
    than any two priors differ, and whatever underflows changes no digit of an exponent.
    """
    factor, power = np.frexp(h)
    if scale is not None:
        more, powers = np.frexp(scale)
        factor, power = factor * more, power + powers

    def gaps(axis: int) -> tuple[FloatArray, np.ndarray]:
        q, k = queries[..., :, axis, np.newaxis], keys[..., np.newaxis, :, axis]
        with np.errstate(over="ignore"):
            gap = q - k
        far = np.isinf(gap)
        u, e = np.frexp(np.where(far, q / 2.0 - k / 2.0, gap))
        return u / factor, np.where(gap == 0.0, _NOWHERE, e + far - power)

    axes = range(keys.shape[-1])
    reach = gaps(0)[1]
    for axis in axes[1:]:
        reach = np.maximum(reach, gaps(axis)[1])
    if seen is not None:
        reach = np.where(seen, reach, -_NOWHERE)
    unit = np.maximum(reach.min(axis=-1, keepdims=True), 0)
    distance = np.zeros(reach.shape)
    with np.errstate(over="ignore", under="ignore"):
        for axis in axes:
            u, e = gaps(axis)
            distance = distance + np.ldexp(u, e - unit - 4) ** 2
        if seen is not None:
            distance = np.where(seen, distance, math.inf)
        exponent = -np.ldexp(distance - distance.min(axis=-1, keepdims=True), 2 * unit - 1)
        if prior is not None:
            exponent = exponent + prior / 2.0**8
        exponent = 2.0**8 * (exponent - exponent.max(axis=-1, keepdims=True))
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
    power = math.frexp(_largest("k", keys))[1]
    part, power_of_t = math.frexp(check_real("temperature", temperature, above=0.0))
    # In units of powers of two, which change no digit: squares alone may leave the range.
    squares = (np.ldexp(keys, -power) ** 2).sum(axis=-1)
    with np.errstate(over="ignore"):
        prior: FloatArray = np.ldexp(squares / part, 2 * power - power_of_t - 1)
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
    given = as_real(name, value)
    if given.dtype == np.bool_:
        raise ParameterError(f"{name} must be an array of real numbers; got dtype bool")
    array = as_float64(given)
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
