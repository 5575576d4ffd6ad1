"""What one core can do, and the share of it that the direct smoothers reach.

The rates are measured by the same turns as the workloads: a probe is a workload whose
operations are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nwsim.bench.cases import cases
from nwsim.bench.machine_limits import MULTIPLY_ADDS_F32
from nwsim.bench.native import call, library
from nwsim.bench.timing import Plan, Run, measure, quartiles
from nwsim.bench.workloads import WORKLOADS as TASKS
from nwsim.bench.workloads import Attention, Heads, Workload, relative_to_largest

COLUMNS = (
    *("quantity", "implementation", "median_per_s", "q25_per_s", "q75_per_s", "n_rounds"),
    *("fraction_of_limit", "status", "message"),
)
"""Columns of ``roofline.csv``."""

# In double and beside its exponentials, it fills half of a usual first cache.
_BLOCK = 1024
_REPEATS = 8000
_ELEMENTS = 4_000_000


@dataclass(frozen=True)
class Probe:
    """Data of a probe, and the number of operations of a call."""

    x: Any
    y: Any
    operations: int


def _small(dtype: Any) -> Callable[[], Probe]:
    def draw() -> Probe:
        x = -20.0 * np.random.default_rng(10).random(_BLOCK).astype(dtype)
        return Probe(x, np.empty(0), _BLOCK * _REPEATS)

    return draw


def _polynomials() -> Probe:
    from nwsim.numerics.probes import MULTIPLY_ADDS

    x = np.random.default_rng(10).random(_BLOCK)
    return Probe(x, np.empty(0), MULTIPLY_ADDS * _BLOCK * (_REPEATS // 10))


def _long() -> Probe:
    rng = np.random.default_rng(10)
    return Probe(rng.random(_ELEMENTS), rng.random(_ELEMENTS), _ELEMENTS)


def _exponential(data: Probe) -> Any:
    return np.exp(data.x.astype(np.float64))


def _nothing(data: Probe) -> Any:
    return np.empty(0)


def c_exponentials(name: str) -> Callable[[Probe], Callable[[], Any]]:
    """Return a probe of the exponentials of C."""

    def prepare(data: Probe) -> Callable[[], Any]:
        library()
        out = np.empty_like(data.x)

        def run() -> Any:
            call(name, data.x, out, _BLOCK, _REPEATS)
            return out

        return run

    return prepare


def own_exponentials(data: Probe) -> Callable[[], Any]:
    """Prepare nwsim's exponentials."""
    from nwsim.numerics.probes import exponentials

    t, out = data.x / np.log(2.0), np.empty(_BLOCK)

    def run() -> Any:
        exponentials(t, _REPEATS, out)
        return out

    return run


def numpy_exponentials(data: Probe) -> Callable[[], Any]:
    """Prepare numpy's exponentials."""
    out = np.empty_like(data.x)

    def run() -> Any:
        for _ in range(_REPEATS):
            np.exp(data.x, out=out)
        return out

    return run


def c_multiply_adds(name: str, lanes: int) -> Callable[[Probe], Callable[[], Any]]:
    """Return a probe of multiply-adds from registers, ``lanes`` a round."""

    def prepare(data: Probe) -> Callable[[], Any]:
        library()
        return lambda: call(name, data.operations // lanes)

    return prepare


def own_multiply_adds(data: Probe) -> Callable[[], Any]:
    """Prepare the polynomials of nwsim's compiled loop."""
    from nwsim.numerics.probes import multiply_adds

    out = np.empty(_BLOCK)
    return lambda: multiply_adds(data.x, _REPEATS // 10, out)


def reading(data: Probe) -> Callable[[], Any]:
    """Prepare the sum of an array that is larger than the caches near a core."""
    library()
    return lambda: call("read_all", data.x, len(data.x))


def binning(data: Probe) -> Callable[[], Any]:
    """Prepare linear binning into 4096 cells."""
    library()
    cells = 4096

    def run() -> None:
        call("bin_linearly", data.x, data.y, len(data.x), float(cells), np.zeros(4 * cells + 4))

    return run


WORKLOADS = (
    Workload(
        "exponentials_f64",
        "exponentials, double",
        "exp of 1024 numbers between -20 and 0, again and again",
        _small(np.float64),
        _exponential,
        relative_to_largest,
    ),
    Workload(
        "exponentials_f32",
        "exponentials, single",
        "the same in single precision",
        _small(np.float32),
        _exponential,
        relative_to_largest,
    ),
    Workload(
        "multiply_adds_f64",
        "multiply-adds, double",
        "fused multiply-adds from registers",
        _polynomials,
        _nothing,
        relative_to_largest,
    ),
    Workload(
        "multiply_adds_f32",
        "multiply-adds, single",
        "the same in single precision",
        _polynomials,
        _nothing,
        relative_to_largest,
    ),
    Workload(
        "numbers_read",
        "numbers read",
        "sum of 4 million doubles",
        _long,
        _nothing,
        relative_to_largest,
    ),
    Workload(
        "numbers_binned",
        "numbers binned",
        "linear binning of 4 million pairs",
        _long,
        _nothing,
        relative_to_largest,
    ),
)

_NO_ANSWER: dict[str, Any] = {"kind": "limit", "accuracy": "none", "needs": ""}

CASES = (
    *cases("exponentials_f64", "C, AVX2", c_exponentials("exponentials_f64"), needs=""),
    *cases("exponentials_f64", "nwsim", own_exponentials, needs=""),
    *cases("exponentials_f64", "numpy", numpy_exponentials, needs="numpy"),
    *cases(
        "exponentials_f32",
        "C, AVX2",
        c_exponentials("exponentials_f32"),
        needs="",
        accuracy="float32",
    ),
    *cases("exponentials_f32", "numpy", numpy_exponentials, needs="numpy", accuracy="float32"),
    *cases(
        "multiply_adds_f64",
        "C, AVX2",
        c_multiply_adds("multiply_adds_f64", MULTIPLY_ADDS_F32 // 2),
        **_NO_ANSWER,
    ),
    *cases("multiply_adds_f64", "nwsim", own_multiply_adds, **_NO_ANSWER),
    *cases(
        "multiply_adds_f32",
        "C, AVX2",
        c_multiply_adds("multiply_adds_f32", MULTIPLY_ADDS_F32),
        **_NO_ANSWER,
    ),
    *cases("numbers_read", "C, AVX2", reading, **_NO_ANSWER),
    *cases("numbers_binned", "C", binning, **_NO_ANSWER),
)

_LIMIT = "C, AVX2"


def probe(plan: Plan, cache: Path, say: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Measure the rates of one core; return rows of ``roofline.csv``."""
    rows = []
    for workload in WORKLOADS:
        operations = workload.draw().operations
        runs = measure(workload, {__name__: CASES}, plan, cache, say)
        limits = next((run.seconds for run in runs if run.case.competitor == _LIMIT), {})
        for run in runs:
            shared = [limits[k] / run.seconds[k] for k in run.seconds if k in limits]
            rates = quartiles([operations / seconds for seconds in run.seconds.values()])
            rows.append(_row(workload.name, run, rates, quartiles(shared)[1]))
    return rows


def _row(
    quantity: str, run: Run, rates: tuple[float, float, float], fraction: float
) -> dict[str, Any]:
    low, middle, high = rates
    values = (
        *(quantity, run.case.competitor, middle, low, high, len(run.seconds)),
        *(fraction, run.status, run.message),
    )
    return dict(zip(COLUMNS, values, strict=True))


def pairs_of(workload: Workload) -> int:
    """Return the number of kernel evaluations of a workload over all pairs."""
    data = workload.draw()
    if isinstance(data, Attention):
        return int(np.prod(data.q.shape[:2]) * data.k.shape[1])
    heads = len(data.projections) if isinstance(data, Heads) else 1
    return heads * len(data.q) * len(data.x)


def reached(timings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of pairs per second, and the share of the limit that is reached.

    Parameters
    ----------
    timings : sequence of dict
        Rows of ``timings.csv``. The ratio of a limit's row is its time over that of nwsim, so
        it is the share that nwsim reaches.
    """
    rows = []
    for workload in TASKS:
        own = [row for row in timings if row["workload"] == workload.name]
        for limit in own:
            direct = [row for row in own if row["competitor"] == limit["relative_to"]]
            if limit["kind"] != "limit" or not direct or direct[0]["kind"] != "direct":
                continue
            pairs = pairs_of(workload)
            for row, fraction in ((limit, 1.0), (direct[0], limit["ratio"])):
                values = (
                    *(f"pairs_{workload.name}", row["competitor"], pairs / row["median_s"]),
                    *(pairs / row["q75_s"], pairs / row["q25_s"], row["n_rounds"]),
                    *(fraction, row["status"], row["message"]),
                )
                rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
