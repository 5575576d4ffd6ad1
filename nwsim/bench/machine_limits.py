"""The C programs as cases of the workloads: what a machine's core can reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nwsim.bench.cases import cases, columns
from nwsim.bench.native import call, library
from nwsim.bench.workloads import Attention, Heads, Sample

MULTIPLY_ADDS_F32 = 96
"""Multiply-adds in a round of ``multiply_adds_f32``; half as many in double."""

_TILE = 256
_BINS = 4096
_BLOCK = 2048


def _padded(array: Any, multiple: int, fill: float) -> Any:
    """Return rows filled up to a multiple of a length."""
    missing = -array.shape[-1] % multiple
    widths = [(0, 0)] * (array.ndim - 1) + [(0, missing)]
    return np.pad(array, widths, constant_values=fill) if missing else array


def gaussian(data: Sample) -> Callable[[], Any]:
    """Prepare the smoother over all pairs."""
    library()

    def run() -> Any:
        # Far away, the points that fill the last block weigh nothing.
        x = _padded(np.ascontiguousarray(columns(data.x).T), 16, 1e6)
        y = _padded(data.y, 16, 0.0)
        q = np.ascontiguousarray(columns(data.q))
        out = np.empty(len(q))
        call(f"gaussian_{len(x)}d", x, y, x.shape[1], q, len(q), data.h, out)
        return out

    return run


def binning(data: Sample) -> Callable[[], Any]:
    """Prepare one pass over the sample that fills the bins of a grid; no answer."""
    library()

    def run() -> None:
        call("bin_linearly", data.x, data.y, len(data.x), float(_BINS), np.zeros(4 * _BINS + 4))

    return run


def epanechnikov(data: Sample) -> Callable[[], Any]:
    """Prepare a bucket sort and one sweep with moving sums."""
    library()

    def run() -> Any:
        out = np.empty(len(data.q))
        call("epanechnikov_1d", data.x, data.y, len(data.x), data.q, len(data.q), data.h, out)
        return out

    return run


def arithmetic(data: Attention) -> Callable[[], Any]:
    """Prepare the multiply-adds and exponentials of attention, from registers; no answer."""
    library()
    n_heads, n_obs, dim = data.k.shape
    pairs = n_heads * data.q.shape[1] * n_obs
    x = -np.linspace(0.0, 20.0, _BLOCK, dtype=np.float32)

    def run() -> None:
        products = pairs * (dim + data.v.shape[2])
        call("multiply_adds_f32", products // MULTIPLY_ADDS_F32)
        call("exponentials_f32", x, np.empty_like(x), _BLOCK, pairs // _BLOCK)

    return run


def heads(data: Heads) -> Callable[[], Any]:
    """Prepare bias and covariance of eight heads in four dimensions."""
    library()
    if data.projections.shape[0::2] != (8, 4) or len(data.x) % _TILE:
        raise ValueError("the program is for 8 heads of 4 dimensions and whole tiles")

    def run() -> Any:
        frames = np.concatenate(list(data.projections), axis=1)
        keys, queries = np.ascontiguousarray((data.x @ frames).T), data.q @ frames
        out = np.empty((len(queries), 9, 8))
        shape = (keys.shape[1], len(queries))
        call("head_parts", keys, queries, data.f_train, data.f_query, *shape, data.h, out)
        return out

    return run


CASES = (
    *cases("W1 W3", "C, AVX2", gaussian, needs="", kind="limit"),
    *cases("W2", "C: one pass that bins", binning, needs="", kind="limit", accuracy="none"),
    *cases("W4", "C: sort and one sweep", epanechnikov, needs="", kind="limit", accuracy="1e-6"),
    *cases("W6", "C: arithmetic alone", arithmetic, needs="", kind="limit", accuracy="none"),
    *cases("W7", "C, AVX2", heads, needs="", kind="limit"),
)
