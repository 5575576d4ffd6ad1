"""Scaling curves: seconds of a call against n, m, d, the number of heads, and workers.

A call is what a user pays for: fit and predict from raw arrays (many heads: fit and
``head_moments``), one thread. What is compared at a point is timed in turn in one process, and
ratios are taken within a round. Answers are checked against plain numpy at some of the queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nwsim._files import write_atomic
from nwsim._typing import FloatArray
from nwsim.bench.interleaved import interleaved, quartiles
from nwsim.bench.second_worker import worker_rows
from nwsim.exceptions import ParameterError
from nwsim.smoothing import ENGINES, MultiHeadNadarayaWatson, NadarayaWatson, get_kernel
from nwsim.study.runner import single_threaded

SEED = 20261204
TOLERANCE = 1e-12
"""Asked of the engines, relative to the range of y."""

ACCEPTED = 10.0 * TOLERANCE
"""Error beyond which a point is called wrong: sums of kernels condition the quotient a little."""

N_CHECKED = 8
FIXED_N, FIXED_M = 16384, 1024
COLUMNS = (
    *("curve", "kernel", "dim", "bandwidth", "n_obs", "n_queries", "n_heads", "n_sim"),
    *("engine", "served_by", "x", "median_s", "q25_s", "q75_s", "n_rounds"),
    *("relative_to", "ratio", "ratio_q25", "ratio_q75", "local_slope", "error", "status"),
)
"""Columns of ``scaling.csv``."""


class Setting(NamedTuple):
    """A smoother whose engines are compared."""

    kernel: str
    dim: int
    bandwidth: float


# Windows of the smallest samples hold some twenty points, so that none is empty.
SETTINGS = (
    Setting("gaussian", 1, 0.05),
    Setting("epanechnikov", 1, 0.05),
    Setting("laplace", 1, 0.05),
    Setting("gaussian", 2, 0.15),
    Setting("epanechnikov", 2, 0.15),
    Setting("gaussian", 3, 0.25),
    Setting("epanechnikov", 3, 0.25),
)


@dataclass(frozen=True)
class Effort:
    """How far the curves go.

    Attributes
    ----------
    limit : float
        Seconds of a call that an engine may be expected to take at its next point.
    budget : float
        Seconds of rounds at a point.
    n_obs, n_queries, dims, heads : tuple of int
        Places along the curves.
    study_s : float
        Seconds of the study that one worker runs.
    study_rounds : int
        Times that it is run, with each number of workers.
    """

    limit: float
    budget: float
    n_obs: tuple[int, ...]
    n_queries: tuple[int, ...]
    dims: tuple[int, ...]
    heads: tuple[int, ...]
    study_s: float
    study_rounds: int


STANDARD = Effort(
    limit=1.5,
    budget=1.0,
    n_obs=tuple(4**k for k in range(4, 11)),
    n_queries=tuple(4**k for k in range(2, 9)),
    dims=tuple(range(1, 9)),
    heads=(1, 2, 4, 8, 16, 32),
    study_s=20.0,
    study_rounds=3,
)
QUICK = Effort(
    limit=0.05,
    budget=0.05,
    n_obs=(256, 1024, 4096),
    n_queries=(16, 64, 256),
    dims=(1, 2, 4),
    heads=(1, 2, 4),
    study_s=1.0,
    study_rounds=1,
)


class Data(NamedTuple):
    """Inputs (n, d), responses (n,) and queries (m, d)."""

    X: FloatArray
    y: FloatArray
    Q: FloatArray


def make_data(n_obs: int, n_queries: int, dim: int) -> Data:
    """Draw a uniform sample on the unit cube and queries in its middle, from a fixed seed."""
    rng = np.random.default_rng([SEED, n_obs, n_queries, dim])
    X = rng.random((n_obs, dim))
    y = np.sin(2.0 * math.pi * X).mean(axis=1) + rng.normal(size=n_obs)
    return Data(X, y, 0.25 + 0.5 * rng.random((n_queries, dim)))


def engines_of(setting: Setting) -> list[str]:
    """Return the engines that serve, ``direct`` first and ``auto`` last."""
    data = make_data(64, 1, setting.dim)
    able = []
    for name in ENGINES:
        try:
            smoother(setting, name).fit(data.X, data.y)
        except ParameterError:
            continue
        able.append(name)
    able.sort(key=lambda name: name != "direct")
    return [*able, "auto"]


def smoother(setting: Setting, engine: str) -> NadarayaWatson:
    """Return the smoother of a setting, unfitted."""
    return NadarayaWatson(setting.bandwidth, setting.kernel, engine=engine, tol=TOLERANCE)


def some_queries(Q: FloatArray) -> FloatArray:
    """Return the positions of the queries at which answers are checked, (k,)."""
    return np.unique(np.linspace(0, len(Q) - 1, N_CHECKED).round().astype(np.int64))


def reference(setting: Setting, data: Data, rows: FloatArray) -> FloatArray:
    """Return the smoother's values at some of the queries in plain numpy, (k,)."""
    kernel, values = get_kernel(setting.kernel), []
    for q in data.Q[rows]:
        u = np.sqrt(np.square((data.X - q) / setting.bandwidth).sum(axis=1))
        weights = kernel(u, setting.dim)
        values.append(float((weights * data.y).sum() / weights.sum()))
    return np.array(values)


def head_reference(model: MultiHeadNadarayaWatson, data: Data, rows: FloatArray) -> FloatArray:
    """Return the heads' noise covariance under unit noise in plain numpy, (k, H, H)."""
    Z = np.stack([data.X @ P for P in model.projections])
    values = []
    for q in data.Q[rows]:
        centres = np.stack([q @ P for P in model.projections])
        u2 = np.square((Z - centres[:, None, :]) / model.bandwidth).sum(axis=2)
        weights = np.exp(-0.5 * u2)
        weights /= weights.sum(axis=1, keepdims=True)
        values.append(weights @ weights.T)
    return np.stack(values)


def verdict(error: float) -> str:
    """Return the status of a point with this error."""
    return "ok" if error <= ACCEPTED else "wrong"


def timing(seconds: FloatArray, base: FloatArray | None, relative_to: str) -> dict[str, Any]:
    """Return the columns of a point: quartiles of seconds, and of ratios within rounds."""
    median, q25, q75 = quartiles(seconds)
    row: dict[str, Any] = {"median_s": median, "q25_s": q25, "q75_s": q75, "n_rounds": len(seconds)}
    if base is not None:
        ratio, low, high = quartiles(seconds / base)
        row |= {"relative_to": relative_to, "ratio": ratio, "ratio_q25": low, "ratio_q75": high}
    return row


def engine_rows(curve: str, setting: Setting, places: Sequence[int], effort: Effort) -> list[Any]:
    """Return the points of all engines along n or m, each as long as its calls are short."""
    expected = dict.fromkeys(engines_of(setting), 0.0)
    last: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for place in places:
        able = [engine for engine, seconds in expected.items() if seconds <= effort.limit]
        if not able:
            break
        n, m = (place, FIXED_M) if curve == "n_obs" else (FIXED_N, place)
        data = make_data(n, m, setting.dim)
        seconds = interleaved([caller(setting, name, data) for name in able], effort.budget)
        checked = some_queries(data.Q)
        truth, span = reference(setting, data, checked), float(np.ptp(data.y))
        for index, name in enumerate(able):
            model = smoother(setting, name).fit(data.X, data.y)
            error = float(np.abs(model.predict(data.Q)[checked] - truth).max()) / span
            base = seconds[:, able.index("direct")] if "direct" in able else None
            row = {
                "curve": curve,
                **setting._asdict(),
                "n_obs": n,
                "n_queries": m,
                "engine": name,
                "served_by": model.summary(data.Q).engine,
                "x": place,
                **timing(seconds[:, index], base, "direct"),
                "error": error,
                "status": verdict(error),
            }
            rows.append(row)
            growth = max(1.0, row["median_s"] / last[name]) if name in last else 4.0
            last[name] = row["median_s"]
            expected[name] = growth * row["median_s"]
    return rows


def caller(setting: Setting, engine: str, data: Data) -> Callable[[], FloatArray]:
    """Return the call that is timed."""
    return lambda: smoother(setting, engine).fit(data.X, data.y).predict(data.Q)


def dim_rows(effort: Effort) -> Iterator[dict[str, Any]]:
    """Yield the points of the direct engine along the dimension."""
    settings = [Setting("gaussian", dim, 0.3) for dim in effort.dims]
    n, m = 4096, 512
    data = [make_data(n, m, setting.dim) for setting in settings]
    calls = [caller(setting, "direct", own) for setting, own in zip(settings, data, strict=True)]
    seconds = interleaved(calls, 4.0 * effort.budget)
    for index, (setting, own) in enumerate(zip(settings, data, strict=True)):
        checked = some_queries(own.Q)
        estimates = calls[index]()[checked]
        error = float(np.abs(estimates - reference(setting, own, checked)).max() / np.ptp(own.y))
        yield {
            "curve": "dim",
            **setting._asdict(),
            "n_obs": n,
            "n_queries": m,
            "engine": "direct",
            "served_by": "direct",
            "x": setting.dim,
            **timing(seconds[:, index], seconds[:, 0], f"x={effort.dims[0]}"),
            "error": error,
            "status": verdict(error),
        }


def head_rows(effort: Effort) -> Iterator[dict[str, Any]]:
    """Yield the points of the moments of many heads along their number."""
    n, m, dim, d_k, bandwidth = 4096, 64, 8, 2, 0.5
    data = make_data(n, m, dim)
    projections = np.random.default_rng([SEED, dim, d_k]).normal(size=(max(effort.heads), dim, d_k))
    models = [MultiHeadNadarayaWatson(projections[:count], bandwidth) for count in effort.heads]

    def call_of(model: MultiHeadNadarayaWatson) -> Callable[[], Any]:
        return lambda: model.fit(data.X, data.y).head_moments(data.Q, data.y, 1.0)

    calls = [call_of(model) for model in models]
    seconds = interleaved(calls, 4.0 * effort.budget)
    checked = some_queries(data.Q)
    for index, (count, model) in enumerate(zip(effort.heads, models, strict=True)):
        truth = head_reference(model, data, checked)
        covariance = calls[index]()[1][checked]
        error = float(np.abs(covariance - truth).max() / np.abs(truth).max())
        yield {
            "curve": "n_heads",
            "kernel": "gaussian",
            "dim": dim,
            "bandwidth": bandwidth,
            "n_obs": n,
            "n_queries": m,
            "n_heads": count,
            "engine": "head_moments",
            "served_by": model.summary(data.Q).engine,
            "x": count,
            **timing(seconds[:, index], seconds[:, 0], f"x={effort.heads[0]}"),
            "error": error,
            "status": verdict(error),
        }


def with_slopes(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the table, with the log-log slope from each point's predecessor on its line."""
    table = pd.DataFrame(list(rows), columns=list(COLUMNS))
    table = table.astype({"n_heads": "Int64", "n_sim": "Int64", "local_slope": float})
    # Along the dimension it is the place, elsewhere it tells lines apart.
    dim = table["dim"].where(table["curve"] != "dim", 0)
    # Two numbers of workers make a ratio, no slope.
    sized = table[table["curve"] != "workers"]
    for _, points in sized.groupby(["curve", "kernel", dim[sized.index], "engine"], sort=False):
        x, seconds = points["x"].to_numpy(float), points["median_s"].to_numpy(float)
        table.loc[points.index[1:], "local_slope"] = np.diff(np.log(seconds)) / np.diff(np.log(x))
    return table


def run(out: Path, quick: bool = False) -> None:
    """Measure all curves, write ``scaling.csv`` and draw it.

    Parameters
    ----------
    out : Path
        Folder of the table and its ``figures/``, such as ``results/bench``.
    quick : bool
        A few small points of each curve.

    Notes
    -----
    An engine leaves a curve when its next call would take more than a second or so at its
    present slope. ``error`` is the largest difference from plain numpy at some queries, relative
    to the range of y (``n_heads``: of noise covariances, relative to the largest).
    """
    from nwsim.report.scaling import draw_scaling

    effort = QUICK if quick else STANDARD
    rows: list[dict[str, Any]] = []
    with single_threaded():
        for setting in SETTINGS:
            rows += engine_rows("n_obs", setting, effort.n_obs, effort)
            rows += engine_rows("n_queries", setting, effort.n_queries, effort)
        rows += dim_rows(effort)
        rows += head_rows(effort)
    rows += worker_rows(effort.study_s, effort.study_rounds)
    write_atomic(Path(out) / "scaling.csv", with_slopes(rows).to_csv(index=False))
    draw_scaling(Path(out))
