"""Scaled dot-product attention, without an array of queries by keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nwsim._typing import ArrayLike
from nwsim._validation import as_float64, as_real, check_real
from nwsim.exceptions import ParameterError
from nwsim.numerics.attention import attend

_LOG2_E = 1.4426950408889634

_Array = np.ndarray[Any, Any]


def softmax_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    temperature: float | None = None,
    mask: ArrayLike | None = None,
) -> np.ndarray[Any, Any]:
    """Average values with softmax weights of queries and keys.

    Parameters
    ----------
    q : (..., m, d_k) array_like
        Queries, finite; m may be 0.
    k : (..., n, d_k) array_like
        Keys, finite; n at least 1.
    v : (..., n, p) array_like
        Values, finite. The leading (batch) shapes of all arrays broadcast.
    temperature : float or None
        Scores are divided by it; > 0 and finite. None is sqrt(d_k).
    mask : (..., m, n) array_like of bool, or None
        True where a query attends to a key; broadcasts to the shape of the scores. Every
        query must attend to at least one key.

    Returns
    -------
    (..., m, p) ndarray
        float32 if q, k and v all are, float64 otherwise.

    Raises
    ------
    ParameterError
        If an argument is not as described (a ``ValueError``); if a query attends to no key;
        if scores, or sums of values, could exceed the range of float64.

    Notes
    -----
    For each query, out = sum_j w_j v_j with w_j = exp(s_j) / sum_l exp(s_l) over the keys it
    attends to, and s_j = <q, k_j> / temperature [1]_. With keys of equal length and
    temperature h^2 it is Nadaraya-Watson regression with a Gaussian kernel of bandwidth h.

    Keys are taken in tiles, with sums rescaled whenever a later tile raises the maximum
    [2]_, so scores of any size are safe and memory beside the copies of one batch entry is
    constant in m and n. float32 is computed in float32, unless its range is too small for
    the scores or the sums; then it is computed in float64 and rounded. Weights below 2^-100
    of the largest count as zero. The computation runs on one thread.

    References
    ----------
    .. [1] Vaswani, A. et al. (2017). Attention is all you need. NeurIPS 30.
    .. [2] Milakov, M. and Gimelshein, N. (2018). Online normalizer calculation for softmax.
       arXiv:1805.02867.

    Examples
    --------
    >>> import numpy as np
    >>> from nwsim import softmax_attention
    >>> softmax_attention(np.zeros((1, 2)), np.eye(2), [[1.0], [3.0]])
    array([[2.]])
    """
    return _average(_matrix("q", q), _matrix("k", k), _matrix("v", v), temperature, mask)


def _average(
    queries: _Array,
    keys: _Array,
    values: _Array,
    temperature: float | None,
    mask: ArrayLike | None,
    factors: str = "q, k, v and temperature",
) -> _Array:
    """Attend with arrays of float32 or float64; ``factors`` are what scores and sums are from."""
    m, d = queries.shape[-2:]
    n, p = values.shape[-2:]
    if d == 0:
        raise ParameterError(f"q must have at least one column; got shape {queries.shape}")
    if keys.shape[-1] != d:
        raise ParameterError(f"k must have as many columns as q, {d}; got shape {keys.shape}")
    if keys.shape[-2] == 0:
        raise ParameterError(f"k must have at least one row; got shape {keys.shape}")
    if n != keys.shape[-2]:
        raise ParameterError(
            f"v must have as many rows as k, {keys.shape[-2]}; got shape {values.shape}"
        )
    seen = None if mask is None else _mask(mask, m, n)
    h = math.sqrt(d) if temperature is None else check_real("temperature", temperature, above=0.0)
    batch = _batch(q=queries, k=keys, v=values, **({} if seen is None else {"mask": seen}))

    single = all(array.dtype == np.float32 for array in (queries, keys, values))
    out = np.empty((*batch, m, p), dtype=np.float32 if single else np.float64)
    sizes = _largest("q", queries), _largest("k", keys), _largest("v", values)
    scale, score, least = _bounds(sizes[0], sizes[1], h, d)
    total = n * sizes[2]
    real: type[np.floating[Any]] = np.float64
    if single and _fits(np.float32, score, total) and _precise(least):
        real = np.float32
    elif not _fits(np.float64, score, total):
        # Powers of two change no digit: factors of size 1 leave the range with the scores alone.
        powers = [math.frexp(size)[1] for size in sizes[:2]]
        queries, keys = (
            np.ldexp(array.astype(np.float64), -power)
            for array, power in zip((queries, keys), powers, strict=True)
        )
        with np.errstate(over="ignore", under="ignore"):
            # Where all scores are 0, any temperature serves.
            h = float(np.ldexp(h, -sum(powers))) if sizes[0] and sizes[1] else 1.0
        scale, score, _ = _bounds(math.frexp(sizes[0])[0], math.frexp(sizes[1])[0], h, d)
        if not _fits(np.float64, score, total):
            raise ParameterError(f"{factors} must keep scores and sums within the range of float64")
    if out.size == 0:
        return out
    queries, keys, values = (
        np.broadcast_to(array, (*batch, *array.shape[-2:])) for array in (queries, keys, values)
    )
    masked = seen is not None and seen.shape[-1] == n
    if seen is None or not masked:
        seen = np.ones((1, 1), dtype=np.bool_)
    seen = np.broadcast_to(seen, (*batch, *seen.shape[-2:]))
    hidden = real(-float(np.finfo(real).max) / 4)
    for entry in np.ndindex(*batch):
        tables = (np.ascontiguousarray(a[entry], dtype=real) for a in (queries, keys, values))
        own = np.ascontiguousarray(seen[entry])
        average = out[entry] if out.dtype == real else np.empty((m, p), dtype=real)
        attend(*tables, own, masked, real(scale), hidden, average)
        out[entry] = average
    return out


def _matrix(name: str, value: ArrayLike) -> _Array:
    """Return a real array with at least two axes, of float32 or float64."""
    array = as_real(name, value)
    if array.ndim < 2:
        raise ParameterError(f"{name} must have at least 2 axes; got shape {array.shape}")
    return array if array.dtype == np.float32 else as_float64(array)


def _mask(value: ArrayLike, m: int, n: int) -> _Array:
    """Return the mask with at least two axes if it can be broadcast and hides no query."""
    mask = as_real("mask", value)
    if mask.dtype != np.bool_:
        raise ParameterError(f"mask must be an array of bool; got dtype {mask.dtype}")
    shape = mask.shape
    mask = np.atleast_2d(mask)
    if any(own not in (1, full) for own, full in zip(mask.shape[-2:], (m, n), strict=True)):
        raise ParameterError(f"mask must broadcast to {m} queries and {n} keys; got shape {shape}")
    if not mask.any(axis=-1).all():
        raise ParameterError("mask must leave every query at least one key; a row is all False")
    return mask


def _batch(**arrays: _Array) -> tuple[int, ...]:
    """Return the common batch shape."""
    try:
        return np.broadcast_shapes(*(array.shape[:-2] for array in arrays.values()))
    except ValueError:
        listed = ", ".join(f"{name} has {array.shape}" for name, array in arrays.items())
        raise ParameterError(f"batch shapes must broadcast: {listed}") from None


def _largest(name: str, array: _Array) -> float:
    """Return the largest absolute value if all are finite."""
    # np.maximum hands a NaN on, as the reductions do.
    largest = float(np.maximum(array.max(), -array.min())) if array.size else 0.0
    if not math.isfinite(largest):
        raise ParameterError(f"{name} must be finite; it holds NaN or infinity")
    return largest


def _bounds(query: float, key: float, h: float, d: int) -> tuple[float, float, float]:
    """Return the factor of <q, k>, a bound on all that scores are made of, and the least of it."""
    scale = _LOG2_E / h if h > 0.0 else math.inf
    scaled = query * scale
    return scale, max(scale, scaled, d * scaled * key), min(scale, scaled or scale)


def _fits(real: type[np.floating[Any]], score: float, total: float) -> bool:
    """Whether bounds on scores and on sums leave room in the range of ``real``."""
    highest = float(np.finfo(real).max)
    return score <= highest / 64 and total <= highest / 2


def _precise(size: float) -> bool:
    """Whether float32 has all its digits at this size, and at a fair part of it."""
    limits = np.finfo(np.float32)
    return size >= float(limits.tiny) / float(limits.eps)
