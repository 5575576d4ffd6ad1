"""Softmax attention of several heads, each with its own maps of queries, keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from nwsim._typing import ArrayLike
from nwsim.attention.softmax import _average, _batch, _largest, _mask, _matrix
from nwsim.exceptions import ParameterError


def multi_head_attention(
    x_query: ArrayLike,
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike | None = None,
    temperature: float | None = None,
    mask: ArrayLike | None = None,
) -> np.ndarray[Any, Any]:
    """Attend with H heads, and join what they return.

    Parameters
    ----------
    x_query : (..., m, D) array_like
        What queries are made of.
    x : (..., n, D) array_like
        What keys and values are made of. Leading (batch) shapes broadcast.
    w_q, w_k : (H, D, d_k) array_like
        Maps to queries and keys.
    w_v : (H, D, d_v) array_like
        Map to values.
    w_o : (H * d_v, D_out) array_like or None
        Map of the joined heads, head by head; None returns them joined.
    temperature : float or None
        Of every head; None is sqrt(d_k).
    mask : (..., m, n) array_like of bool, or None
        Of every head: True where a query attends to a key.

    Returns
    -------
    (..., m, D_out) or (..., m, H * d_v) ndarray
        float32 if all arrays are, float64 otherwise.

    Raises
    ------
    ParameterError
        If shapes do not agree, a product with a map exceeds the range of its type, or as
        :func:`~nwsim.softmax_attention` says.

    Notes
    -----
    Concat(head_1, ..., head_H) W_O with head_h = softmax((X_q W_Q,h)(X W_K,h)' / t) X W_V,h
    (Vaswani et al. 2017, section 3.2.2). There are no offsets.
    """
    x_query, x = _matrix("x_query", x_query), _matrix("x", x)
    maps = {
        name: _matrix(name, value) for name, value in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v))
    }
    for name, value in maps.items():
        _check_map(name, value, x.shape[-1], maps["w_q"])
    if x_query.shape[-1] != x.shape[-1]:
        raise ParameterError(
            f"x_query must have as many columns as x, {x.shape[-1]}; got shape {x_query.shape}"
        )
    if maps["w_k"].shape != maps["w_q"].shape:
        raise ParameterError(
            f"w_k must have the shape of w_q, {maps['w_q'].shape}; got {maps['w_k'].shape}"
        )
    for name, value in (("x_query", x_query), ("x", x), *maps.items()):
        _largest(name, value)
    n_heads, _, d_v = maps["w_v"].shape
    if maps["w_q"].shape[-1] == 0:
        raise ParameterError(f"w_q must have at least one column; got {maps['w_q'].shape}")
    if x.shape[-2] == 0:
        raise ParameterError(f"x must have at least one row; got shape {x.shape}")
    output = None
    if w_o is not None:
        output = _matrix("w_o", w_o)
        _largest("w_o", output)
        if output.ndim != 2 or output.shape[0] != n_heads * d_v:
            raise ParameterError(
                f"w_o must have shape ({n_heads * d_v}, D_out); got shape {output.shape}"
            )
    seen = None if mask is None else _mask(mask, x_query.shape[-2], x.shape[-2])
    _batch(x_query=x_query, x=x, **({} if seen is None else {"mask": seen}))
    # Heads are one more batch axis, the last.
    queries, keys, values = (
        _product(names, own[..., np.newaxis, :, :], maps[names[1]])
        for names, own in ((("x_query", "w_q"), x_query), (("x", "w_k"), x), (("x", "w_v"), x))
    )
    heads = _average(
        queries,
        keys,
        values,
        temperature,
        None if seen is None else seen[..., np.newaxis, :, :],
        "x_query, x, w_q, w_k, w_v and temperature",
    )
    joined = np.moveaxis(heads, -3, -2)
    joined = joined.reshape(*joined.shape[:-2], n_heads * d_v)
    return joined if output is None else _product(("x, w_v", "w_o"), joined, output)


def _product(
    names: tuple[str, str], left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return left @ right if all of it is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        product: np.ndarray[Any, Any] = left @ right
    if not np.isfinite(product).all():
        raise ParameterError(
            f"{' and '.join(names)} must keep their product within the range of {product.dtype}"
        )
    return product


def _check_map(name: str, value: np.ndarray[Any, Any], rows: int, first: Any) -> None:
    """Raise unless a map has three axes, the rows of ``x`` and as many heads as ``w_q``."""
    if value.ndim != 3 or value.shape[0] == 0 or value.shape[1] != rows:
        raise ParameterError(
            f"{name} must have shape (H, {rows}, columns) with H at least 1; "
            f"got shape {value.shape}"
        )
    if value.shape[0] != first.shape[0]:
        raise ParameterError(
            f"{name} must have as many heads as w_q, {first.shape[0]}; got shape {value.shape}"
        )
