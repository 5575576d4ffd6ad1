"""What a careful user writes with numpy, scipy and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nwsim.bench.cases import Prepare, cases, columns, module
from nwsim.bench.workloads import Attention, Heads, Sample, leave_one_out

_GRID = 16_384
"""Nodes of the grid that linear binning uses."""


def whole_matrix(dtype: Any) -> Prepare:
    """Return a case that keeps all weights of one dimension in memory."""

    def prepare(data: Sample) -> Callable[[], Any]:
        x, q, y = (array.astype(dtype) for array in (data.x, data.q, data.y))
        factor = dtype(-0.5 / data.h**2)

        def run() -> Any:
            weights = q[:, None] - x
            weights *= weights
            weights *= factor
            np.exp(weights, out=weights)
            return weights @ y / weights.sum(axis=1)

        return run

    return prepare


def tiles(data: Sample) -> Callable[[], Any]:
    """Prepare the same in blocks of 16 queries and 4096 points, which stay in the cache."""
    rows, width = 16, 4096
    factor = -0.5 / data.h**2

    def run() -> Any:
        out = np.empty(data.q.size)
        space = np.empty((rows, width))
        for j in range(0, data.q.size, rows):
            q = data.q[j : j + rows, None]
            above, below = np.zeros(len(q)), np.zeros(len(q))
            for i in range(0, data.x.size, width):
                x = data.x[i : i + width]
                weights = space[: len(q), : x.size]
                np.subtract(q, x, out=weights)
                np.multiply(weights, weights, out=weights)
                np.multiply(weights, factor, out=weights)
                np.exp(weights, out=weights)
                above += weights @ data.y[i : i + width]
                below += weights.sum(axis=1)
            out[j : j + rows] = above / below
        return out

    return run


def scipy_distances(data: Sample) -> Callable[[], Any]:
    """Prepare scipy's squared distances, numpy's exponential and product."""
    cdist = module("scipy.spatial.distance").cdist
    x, q = columns(data.x), columns(data.q)

    def run() -> Any:
        weights = cdist(q, x, "sqeuclidean")
        weights *= -0.5 / data.h**2
        np.exp(weights, out=weights)
        return weights @ data.y / weights.sum(axis=1)

    return run


def product_distances(data: Sample) -> Callable[[], Any]:
    """Prepare distances by a matrix product, |q|^2 - 2 q'x + |x|^2."""

    def run() -> Any:
        weights = data.q @ data.x.T
        weights *= 2.0
        weights -= (data.q * data.q).sum(axis=1)[:, None]
        weights -= (data.x * data.x).sum(axis=1)
        weights *= 0.5 / data.h**2
        np.exp(weights, out=weights)
        return weights @ data.y / weights.sum(axis=1)

    return run


def sklearn_kernel(data: Sample) -> Callable[[], Any]:
    """Prepare scikit-learn's kernel matrix and a product."""
    rbf_kernel = module("sklearn.metrics.pairwise").rbf_kernel
    x, q = columns(data.x), columns(data.q)

    def run() -> Any:
        weights = rbf_kernel(q, x, gamma=0.5 / data.h**2)
        return weights @ data.y / weights.sum(axis=1)

    return run


def binning(data: Sample) -> Callable[[], Any]:
    """Prepare linear binning on [0, 1], convolution by FFT and a cubic spline."""
    fft, interpolate = module("scipy.fft"), module("scipy.interpolate")

    def binned(place: Any, cell: Any, weights: Any) -> Any:
        right = np.bincount(cell, place if weights is None else place * weights, _GRID)
        whole = np.bincount(cell, weights, _GRID)
        nodes = whole - right
        nodes[1:] += right[:-1]
        return nodes

    def run() -> Any:
        place = data.x * (_GRID - 1)
        cell = np.minimum(place.astype(np.int64), _GRID - 2)
        place -= cell
        counts = np.stack([binned(place, cell, data.y), binned(place, cell, None)])
        reach = min(int(8.5 * data.h * (_GRID - 1)), _GRID - 1)
        half = np.exp(-0.5 * (np.arange(reach + 1) / (_GRID - 1) / data.h) ** 2)
        length = fft.next_fast_len(_GRID + reach, real=True)
        kernel = np.zeros(length)
        kernel[: reach + 1] = half
        kernel[length - reach :] = half[:0:-1]
        sums = fft.irfft(fft.rfft(kernel) * fft.rfft(counts, length), length)[:, :_GRID]
        nodes = np.linspace(0.0, 1.0, _GRID)
        return interpolate.CubicSpline(nodes, sums[0] / sums[1])(data.q)

    return run


def neighbours(data: Sample) -> Callable[[], Any]:
    """Prepare a k-d tree and a loop over its neighbourhoods."""
    tree_class = module("scipy.spatial").cKDTree

    def run() -> Any:
        tree = tree_class(data.x[:, None])
        out = np.empty(data.q.size)
        for j, near in enumerate(tree.query_ball_point(data.q[:, None], data.h)):
            weights = 1.0 - ((data.q[j] - data.x[near]) / data.h) ** 2
            out[j] = weights @ data.y[near] / weights.sum()
        return out

    return run


def sorted_slices(data: Sample) -> Callable[[], Any]:
    """Prepare a sort and one slice a query."""

    def run() -> Any:
        order = np.argsort(data.x)
        x, y = data.x[order], data.y[order]
        first = np.searchsorted(x, data.q - data.h)
        last = np.searchsorted(x, data.q + data.h, "right")
        out = np.empty(data.q.size)
        for j in range(data.q.size):
            weights = data.q[j] - x[first[j] : last[j]]
            weights *= weights
            weights *= -1.0 / data.h**2
            weights += 1.0
            out[j] = weights @ y[first[j] : last[j]] / weights.sum()
        return out

    return run


def prefix_sums(data: Sample) -> Callable[[], Any]:
    """Prepare a sort and differences of cumulative sums of powers."""

    def run() -> Any:
        order = np.argsort(data.x)
        x, y = data.x[order] - 0.5, data.y[order]
        turn = np.argsort(data.q)  # sorted queries search faster
        q = data.q[turn] - 0.5
        first = np.searchsorted(x, q - data.h)
        last = np.searchsorted(x, q + data.h, "right")

        def window(values: Any) -> Any:
            sums = np.concatenate([[0.0], np.cumsum(values)])
            return sums[last] - sums[first]

        scale = 1.0 / data.h**2
        own = 1.0 - q * q * scale
        below = (last - first) * own + (2.0 * q * window(x) - window(x * x)) * scale
        above = window(y) * own + (2.0 * q * window(x * y) - window(x * x * y)) * scale
        out = np.empty(data.q.size)
        out[turn] = above / below
        return out

    return run


def score_search(data: Sample) -> Callable[[], Any]:
    """Prepare leave-one-out scores at 60 bandwidths and a refinement of the best."""
    minimize = module("scipy.optimize").minimize_scalar

    def run() -> Any:
        grid = np.geomspace(0.003, 0.3, 60)
        best = int(np.argmin([leave_one_out(data.x, data.y, h) for h in grid]))
        found = minimize(
            lambda h: leave_one_out(data.x, data.y, h),
            bounds=(grid[best - 1], grid[best + 1]),
            method="bounded",
            options={"xatol": 1e-6},
        )
        return np.array([found.x])

    return run


def attention(data: Attention) -> Callable[[], Any]:
    """Prepare attention with one matrix of scores a head."""

    def run() -> Any:
        out = np.empty_like(data.v)
        for head in range(len(data.q)):
            weights = data.q[head] @ data.k[head].T
            weights *= np.float32(data.scale)
            weights -= weights.max(axis=1, keepdims=True)
            np.exp(weights, out=weights)
            out[head] = weights @ data.v[head]
            out[head] /= weights.sum(axis=1, keepdims=True)
        return out

    return run


def heads(dtype: Any, products: str) -> Prepare:
    """Return a case that keeps the weights of all heads; products by einsum or matmul."""

    def prepare(data: Heads) -> Callable[[], Any]:
        x, q, frames, f, f_query = (
            array.astype(dtype)
            for array in (data.x, data.q, data.projections, data.f_train, data.f_query)
        )

        def run() -> Any:
            keys = np.einsum("nd,hdk->hnk", x, frames) / dtype(data.h)
            queries = np.einsum("md,hdk->hmk", q, frames) / dtype(data.h)
            weights = queries @ keys.transpose(0, 2, 1)
            weights -= dtype(0.5) * np.einsum("hnk,hnk->hn", keys, keys)[:, None]
            weights -= dtype(0.5) * np.einsum("hmk,hmk->hm", queries, queries)[:, :, None]
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=2, keepdims=True)
            if products == "einsum":
                bias = np.einsum("hmn,n->mh", weights, f) - f_query[:, None]
                covariance = np.einsum("hmn,gmn->mhg", weights, weights)
            else:
                bias = (weights @ f).T - f_query[:, None]
                by_query = weights.transpose(1, 0, 2)
                covariance = by_query @ by_query.transpose(0, 2, 1)
            return np.concatenate([bias[:, None], covariance], axis=1)

        return run

    return prepare


_SINGLE: dict[str, Any] = {"accuracy": "float32", "needs": "numpy"}

CASES = (
    *cases(
        "W1 W2",
        "numpy, whole matrix",
        whole_matrix(np.float64),
        needs="numpy",
        part={"W2": 100},
        slow="W2",
    ),
    *cases(
        "W1 W2",
        "numpy, whole matrix, float32",
        whole_matrix(np.float32),
        part={"W2": 100},
        slow="W2",
        **_SINGLE,
    ),
    *cases("W1 W2", "numpy, tiles", tiles, needs="numpy", part={"W2": 96}),
    *cases("W1 W3", "scipy cdist", scipy_distances, needs="scipy"),
    *cases("W3", "numpy, distances by product", product_distances, needs="numpy"),
    *cases("W1 W3", "scikit-learn rbf_kernel", sklearn_kernel, needs="sklearn"),
    *cases("W1 W2", "scipy, binning and FFT", binning, needs="scipy", kind="fast", accuracy="1e-6"),
    *cases(
        "W4", "scipy cKDTree", neighbours, needs="scipy", kind="fast", part={"W4": 2000}, slow="W4"
    ),
    *cases(
        "W4", "numpy, sorted slices", sorted_slices, needs="numpy", kind="fast", part={"W4": 50_000}
    ),
    *cases("W4", "numpy, prefix sums", prefix_sums, needs="numpy", kind="fast", accuracy="1e-6"),
    *cases(
        "W5",
        "numpy, all pairs",
        score_search,
        needs="scipy",
        kind="search",
        accuracy="1e-6",
        slow="W5",
    ),
    *cases("W6", "numpy, head by head", attention, **_SINGLE),
    *cases("W7", "numpy einsum", heads(np.float64, "einsum"), needs="numpy"),
    *cases("W7", "numpy matmul", heads(np.float64, "matmul"), needs="numpy"),
    *cases("W7", "numpy matmul, float32", heads(np.float32, "matmul"), **_SINGLE),
)
