"""The seven workloads: data from fixed seeds, and a trusted answer in plain numpy.

Names of arrays: ``x`` are the inputs, ``y`` the responses, ``q`` the queries.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nwsim._files import replacing
from nwsim._typing import FloatArray


@dataclass(frozen=True)
class Sample:
    """Data of a smoother: x (n,) or (n, d), y (n,), q (m,) or (m, d), bandwidth h."""

    x: FloatArray
    y: FloatArray
    q: FloatArray
    h: float


@dataclass(frozen=True)
class Attention:
    """Data of attention: q, k, v (H, n, d) in float32, and the scale of the scores."""

    q: Any
    k: Any
    v: Any
    scale: float


@dataclass(frozen=True)
class Heads:
    """Data of heads: x (n, d), q (m, d), projections (H, d, d_k), f at x (n,) and q (m,)."""

    x: FloatArray
    q: FloatArray
    projections: FloatArray
    f_train: FloatArray
    f_query: FloatArray
    h: float


@dataclass(frozen=True)
class Workload:
    """What is computed, and how an answer is judged.

    Attributes
    ----------
    name : str
        Such as ``"W1"``.
    label : str
        For the figure.
    what : str
        One sentence.
    draw : callable
        ``draw() -> data``, the same at every call.
    reference : callable
        ``reference(data) -> array``, the trusted answer.
    error : callable
        ``error(data, answer, reference) -> float``, without a unit.
    """

    name: str
    label: str
    what: str
    draw: Callable[[], Any]
    reference: Callable[[Any], Any]
    error: Callable[[Any, Any, Any], float]


def part_of(data: Any, count: int) -> tuple[Any, Any]:
    """Return the data with ``count`` of its queries, evenly spread, and which these are."""
    rows = np.linspace(0, len(data.q) - 1, count).astype(np.int64)
    return replace(data, q=np.ascontiguousarray(data.q[rows])), rows


def cached_reference(workload: Workload, folder: Path) -> Path:
    """Return the file of a workload's reference; compute it if it is not there yet.

    Its name holds a digest of the files that define data and formula, so that it is computed
    again when they change.
    """
    digest = hashlib.sha256()
    for function in (workload.draw, workload.reference):
        digest.update(Path(inspect.getfile(function)).read_bytes())
    path = folder / f"reference-{workload.name}-{digest.hexdigest()[:12]}.npy"
    if not path.is_file():
        answer = np.asarray(workload.reference(workload.draw()))
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, answer)
    return path


def relative_to_range(data: Any, answer: Any, reference: Any) -> float:
    """Return the largest error over the range of the responses."""
    return _largest(answer, reference) / float(np.ptp(data.y))


def relative_to_largest(data: Any, answer: Any, reference: Any) -> float:
    """Return the largest error over the largest entry of the reference."""
    return _largest(answer, reference) / float(np.max(np.abs(reference)))


def _largest(answer: Any, reference: Any) -> float:
    """Return the largest difference; NaN where the answer is undefined or of another shape."""
    answer = np.asarray(answer, dtype=np.float64)
    if answer.shape != reference.shape:
        return float("nan")
    return float(np.max(np.abs(answer - reference)))


def excess_score(data: Any, answer: Any, reference: Any) -> float:
    """Return by how much the score at a bandwidth exceeds the least score, relative to it."""
    bandwidth = float(np.ravel(answer)[0])
    return leave_one_out(data.x, data.y, bandwidth) / float(reference[1]) - 1.0


def leave_one_out(x: FloatArray, y: FloatArray, h: float) -> float:
    """Return the mean squared leave-one-out error of a Gaussian smoother, over all pairs."""
    weights = np.exp(-0.5 * ((x[:, None] - x) / h) ** 2)
    np.fill_diagonal(weights, 0.0)
    sums = weights.sum(axis=1)
    if not np.all(sums > 0.0):
        return float("inf")
    return float(np.mean((y - weights @ y / sums) ** 2))


def _line(name: str, n_obs: int, n_queries: int, h: float, random: bool = False) -> Sample:
    rng = np.random.default_rng(int(name[1:]))
    x = rng.random(n_obs)
    y = np.sin(4 * np.pi * x) + 0.5 * x + 0.3 * rng.standard_normal(n_obs)
    q = rng.random(n_queries) if random else np.linspace(0.0, 1.0, n_queries)
    return Sample(x, y, q, h)


def _w1() -> Sample:
    return _line("W1", 10_000, 1_000, 0.05)


def _w2() -> Sample:
    return _line("W2", 1_000_000, 1_000, 0.01)


def _w3() -> Sample:
    rng = np.random.default_rng(3)
    x, q = rng.random((20_000, 3)), rng.random((1_000, 3))
    f = np.sin(2 * np.pi * x[:, 0]) + x[:, 1] ** 2 - x[:, 2]
    return Sample(x, f + 0.3 * rng.standard_normal(20_000), q, 0.15)


def _w4() -> Sample:
    return _line("W4", 1_000_000, 100_000, 0.005, random=True)


def _w5() -> Sample:
    return _line("W5", 2_000, 1, 1.0)


def _w6() -> Attention:
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((8, 4096, 32), dtype=np.float32) for _ in range(3))
    return Attention(q, k, v, 32**-0.5)


def _w7() -> Heads:
    rng = np.random.default_rng(7)
    x, q = rng.standard_normal((4096, 8)), rng.standard_normal((512, 8))
    frames = [np.linalg.qr(rng.standard_normal((8, 4)))[0] for _ in range(8)]

    def f(z: FloatArray) -> FloatArray:
        return np.sin(z[:, 0]) + 0.5 * z[:, 1] - 0.25 * z[:, 2] * z[:, 3]

    return Heads(x, q, np.stack(frames), f(x), f(q), 0.8)


def gaussian_means(data: Sample) -> FloatArray:
    """Return the smoother's values, (m,), one query at a time over all of the sample."""
    x = data.x.reshape(len(data.x), -1)
    q = data.q.reshape(len(data.q), -1)
    means = np.empty(len(q))
    for j in range(len(q)):
        weights = np.exp(-0.5 * (((q[j] - x) / data.h) ** 2).sum(axis=1))
        means[j] = (weights * data.y).sum() / weights.sum()
    return means


def epanechnikov_means(data: Sample) -> FloatArray:
    """Return the smoother's values, (m,), one query at a time over its own window."""
    order = np.argsort(data.x)
    x, y = data.x[order], data.y[order]
    first = np.searchsorted(x, data.q - data.h, side="left")
    last = np.searchsorted(x, data.q + data.h, side="right")
    means = np.empty(len(data.q))
    for j, (start, stop) in enumerate(zip(first, last, strict=True)):
        weights = 1.0 - ((data.q[j] - x[start:stop]) / data.h) ** 2
        means[j] = (weights * y[start:stop]).sum() / weights.sum()
    return means


def least_score(data: Sample) -> FloatArray:
    """Return the bandwidth of the least leave-one-out score, and that score.

    The search goes over a grid and refines around each of its three best points.
    """
    from scipy.optimize import minimize_scalar

    grid = np.geomspace(1e-3, 1.0, 61)
    scores = [leave_one_out(data.x, data.y, h) for h in grid]
    found = []
    for i in np.argsort(scores)[:3]:
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)]
        best = minimize_scalar(
            lambda h: leave_one_out(data.x, data.y, h),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-9},
        )
        found.append((float(best.fun), float(best.x)))
    score, bandwidth = min(found)
    return np.array([bandwidth, score])


def attention_values(data: Attention) -> FloatArray:
    """Return softmax attention, (H, n, d), in float64."""
    q, k, v = (np.asarray(part, dtype=np.float64) for part in (data.q, data.k, data.v))
    out = np.empty(q.shape[:2] + v.shape[2:])
    for head in range(len(q)):
        scores = q[head] @ k[head].T * data.scale
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[head] = weights @ v[head] / weights.sum(axis=1, keepdims=True)
    return out


def head_parts(data: Heads) -> FloatArray:
    """Return bias (m, H) and noise covariance (m, H, H) of the heads as (m, 1 + H, H)."""
    n_heads = len(data.projections)
    parts = np.empty((len(data.q), 1 + n_heads, n_heads))
    for j in range(len(data.q)):
        weights = np.empty((n_heads, len(data.x)))
        for head in range(n_heads):
            u = (data.x - data.q[j]) @ data.projections[head] / data.h
            weights[head] = np.exp(-0.5 * (u * u).sum(axis=1))
            weights[head] /= weights[head].sum()
        parts[j, 0] = weights @ data.f_train - data.f_query[j]
        parts[j, 1:] = weights @ weights.T
    return parts


WORKLOADS = (
    Workload(
        "W1",
        "W1: Gaussian, d = 1, n = 10⁴, m = 10³",
        "Gaussian kernel in one dimension, bandwidth 0.05, queries on a grid",
        _w1,
        gaussian_means,
        relative_to_range,
    ),
    Workload(
        "W2",
        "W2: Gaussian, d = 1, n = 10⁶, m = 10³",
        "Gaussian kernel in one dimension, bandwidth 0.01, queries on a grid",
        _w2,
        gaussian_means,
        relative_to_range,
    ),
    Workload(
        "W3",
        "W3: Gaussian, d = 3, n = 2 × 10⁴, m = 10³",
        "Gaussian kernel in three dimensions, bandwidth 0.15, random queries",
        _w3,
        gaussian_means,
        relative_to_range,
    ),
    Workload(
        "W4",
        "W4: Epanechnikov, d = 1, n = 10⁶, m = 10⁵",
        "Epanechnikov kernel in one dimension, bandwidth 0.005, random queries",
        _w4,
        epanechnikov_means,
        relative_to_range,
    ),
    Workload(
        "W5",
        "W5: leave-one-out bandwidth, n = 2000",
        "Bandwidth of the least leave-one-out score of a Gaussian kernel in one dimension",
        _w5,
        least_score,
        excess_score,
    ),
    Workload(
        "W6",
        "W6: attention, float32, H = 8, n = m = 4096",
        "Softmax attention forward, 8 heads of 32 dimensions, in float32",
        _w6,
        attention_values,
        relative_to_largest,
    ),
    Workload(
        "W7",
        "W7: bias and covariance, H = 8, n = 4096, m = 512",
        "Conditional bias of 8 heads in 4 dimensions and the covariance of their noise",
        _w7,
        head_parts,
        relative_to_largest,
    ),
)
