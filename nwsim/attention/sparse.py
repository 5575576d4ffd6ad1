"""Attention that keeps the largest weights of each query, with a bound on what that changes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nwsim._typing import ArrayLike, BoolArray, FloatArray
from nwsim._validation import check_choice, check_integer, check_real
from nwsim.attention.softmax import _batch, _largest, _mask, _matrix
from nwsim.attention.weights import attention_weights, gaussian_weights
from nwsim.exceptions import ParameterError

SCORES = ("dot", "gaussian")
"""What weights may be made of: dot products, or distances through a Gaussian kernel."""


class TopKAttention(NamedTuple):
    """Attention over the kept keys.

    Attributes
    ----------
    output : (..., m, p) ndarray
        Averages of the values with the weights below.
    weights : (..., m, n) ndarray
        Weights of the kept keys, which sum to 1; 0 elsewhere.
    tail_mass : (..., m) ndarray
        Sum of the dense weights of the keys that were dropped.
    bound : (..., m) ndarray
        tail_mass times the diameter of the values: no output is farther than this from that
        of dense attention, in Euclidean distance, but for rounding of n eps max|v|.
    """

    output: FloatArray
    weights: FloatArray
    tail_mass: FloatArray
    bound: FloatArray


def top_k_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    n_keep: int,
    temperature: float | None = None,
    mask: ArrayLike | None = None,
    scores: str = "dot",
    bandwidth: float | None = None,
) -> TopKAttention:
    """Average values over the keys of largest weight, with weights renormalised.

    Parameters
    ----------
    q : (..., m, d_k) array_like
        Queries, finite.
    k : (..., n, d_k) array_like
        Keys, finite; n at least 1.
    v : (..., n, p) array_like
        Values, finite. The leading (batch) shapes of all arrays broadcast.
    n_keep : int
        Keys that each query keeps, from 1 to n. A query that attends to fewer keeps them all.
    temperature : float or None
        Of dot products; > 0. None is sqrt(d_k).
    mask : (..., m, n) array_like of bool, or None
        True where a query attends to a key. A masked key is never kept.
    scores : {"dot", "gaussian"}
        Weights are those of :func:`~nwsim.attention.weights.attention_weights`, or of
        :func:`~nwsim.attention.weights.gaussian_weights` with `bandwidth`. The two rank keys
        differently unless all keys have one length.
    bandwidth : float or None
        Standard deviation of the Gaussian kernel, > 0; only with it.

    Returns
    -------
    TopKAttention
        Of float64.

    Raises
    ------
    ParameterError
        If an argument is not as described, `n_keep` is larger than n, a query attends to no
        key, or sums of values or their distances could exceed the range of float64.

    Notes
    -----
    Of weights that are equal at the edge, those of keys with lower index are kept: see
    :func:`top_k_mask`.

    With T the dropped mass of a query, out = (1 - T) out_kept + T out_dropped, so that
    ``out_kept - out = T (out_kept - out_dropped)``. Both averages lie in the convex hull of
    the values, hence ``|out_kept - out| <= T diameter``. It is attained where all kept keys
    have one value and all dropped ones another, a diameter apart.

    The diameter is that of the values which some query attends to: exact for p = 1, and for
    p > 1 the diagonal of their bounding box, at most sqrt(p) times too long.

    All weights are computed before any is dropped: nothing is saved here, the function is
    for what dropping changes.
    """
    check_choice("scores", scores, SCORES)
    values = _matrix("v", v).astype(np.float64, copy=False)
    largest = _largest("v", values)
    if scores == "gaussian":
        if temperature is not None:
            raise ParameterError("temperature must be None with scores='gaussian': give bandwidth")
        if bandwidth is None:
            raise ParameterError("bandwidth must be given with scores='gaussian'")
        dense = gaussian_weights(q, k, check_real("bandwidth", bandwidth, above=0.0), mask)
    else:
        if bandwidth is not None:
            raise ParameterError("bandwidth must be None with scores='dot': give temperature")
        dense = attention_weights(q, k, temperature, mask)
    m, n = dense.shape[-2:]
    if values.shape[-2] != n:
        raise ParameterError(f"v must have as many rows as k, {n}; got shape {values.shape}")
    _batch(**{"q and k": dense, "v": values})
    if not math.isfinite(n * largest):
        raise ParameterError("v must keep sums of values within the range of float64")

    seen = None if mask is None or m == 0 else np.broadcast_to(_mask(mask, m, n), dense.shape)
    kept = top_k_mask(dense, n_keep, seen)
    weights = np.where(kept, dense, 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    # Summed by itself: 1 less the kept mass has no digits left where little is dropped.
    tail_mass = np.where(kept, 0.0, dense).sum(axis=-1)
    diameter = _diameter(values, seen)
    return TopKAttention(weights @ values, weights, tail_mass, tail_mass * diameter[..., None])


def top_k_mask(scores: ArrayLike, n_keep: int, mask: ArrayLike | None = None) -> BoolArray:
    """Return True at the `n_keep` largest scores of each row.

    Parameters
    ----------
    scores : (..., m, n) array_like
        Finite; any increasing function of the weights ranks alike.
    n_keep : int
        From 1 to n.
    mask : (..., m, n) array_like of bool, or None
        Entries that may be kept; every row must have one. A row with fewer than `n_keep`
        keeps them all.

    Returns
    -------
    (..., m, n) ndarray of bool
        It is a mask for the functions of attention: their weights are then renormalised over
        the kept keys, in the log domain.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Notes
    -----
    Ties: among scores equal to the smallest one kept, lower indices come first, so that the
    same scores always give the same mask with exactly `n_keep` entries a row.
    """
    table = _matrix("scores", scores)
    _largest("scores", table)
    m, n = table.shape[-2:]
    if n == 0:
        raise ParameterError(f"scores must have at least one column; got shape {table.shape}")
    n_keep = check_integer("n_keep", n_keep, minimum=1, maximum=n)
    if mask is not None:
        seen = _mask(mask, m, n)
        _batch(scores=table, mask=seen)
        table = np.where(seen, table, -np.inf)
    edge = np.partition(table, n - n_keep, axis=-1)[..., n - n_keep, np.newaxis]
    kept = table > edge
    room = n_keep - kept.sum(axis=-1, keepdims=True)
    tied = table == edge
    if mask is not None:
        tied &= seen
    kept |= tied & (tied.cumsum(axis=-1) <= room)
    return kept


def _diameter(values: FloatArray, seen: BoolArray | None) -> FloatArray:
    """Return the diagonal (...) of the bounding box of the values that some query sees."""
    if seen is None:
        low, high = values.min(axis=-2), values.max(axis=-2)
    else:
        used = np.any(seen, axis=-2, keepdims=True).swapaxes(-1, -2)
        low = np.where(used, values, np.inf).min(axis=-2)
        high = np.where(used, values, -np.inf).max(axis=-2)
    with np.errstate(over="ignore"):
        diagonal = np.asarray(np.hypot.reduce(high - low, axis=-1))
    if not np.isfinite(diagonal).all():
        raise ParameterError("v must keep the distances of values within the range of float64")
    return diagonal
