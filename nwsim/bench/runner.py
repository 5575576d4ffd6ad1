"""What the runner itself costs: beside long blocks, per replicate, in rows, and on resuming."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import nwsim
from nwsim._files import write_atomic
from nwsim._typing import Factors
from nwsim.study import Grid, Measure, Method, Profile, Study, run_study
from nwsim.study.executors import InlineExecutor
from nwsim.study.results import table_text

COLUMNS = ("quantity", "unit", "median", "q25", "q75", "n_rounds", "limit", "within")
"""Columns of ``runner.csv``; a median within its limit is what the runner promises."""

BLOCK_SECONDS = 0.2
"""Length of the blocks beside which the runner's share is measured."""

N_ROWS = 1_000_000
LIMITS = {
    ("overhead_of_long_blocks", "share"): 0.05,
    ("overhead_of_short_replicates", "us"): 100.0,
    ("rows_written_and_summarised", "s"): 20.0,
    ("memory_with_these_rows", "MB"): 500.0,
    ("resume_of_a_finished_study", "s"): 2.0,
}


class Clocked(InlineExecutor):
    """Adds up the time inside calls, and that from the first call to the end of the last."""

    def __init__(self) -> None:
        self.inside = self.begun = self.ended = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call in place and keep its time."""
        start = time.perf_counter()
        self.begun = self.begun or start
        future = super().submit(fn, *args, **kwargs)
        self.ended = time.perf_counter()
        self.inside += self.ended - start
        return future

    @property
    def outside(self) -> float:
        """Seconds of the loop and the checkpoint between the first call and the last."""
        return self.ended - self.begun - self.inside


def _draw(condition: Factors, rng: Any, seconds: float = 0.0) -> float:
    if seconds:
        time.sleep(seconds)
    return float(rng.normal())


def _method(condition: Factors, data: float, rng: Any) -> dict[str, float]:
    return {"mse": data * data, "noise": data, "n_empty": 0}


def toy(n_sim: int, seconds: float = 0.0, levels: int = 6) -> Study:
    """Return a study of no work: six cells, two methods, three measures."""
    return Study(
        name="runner",
        label="The runner itself",
        seed=1,
        factors=(Grid({"size": tuple(range(levels))}),),
        draw=partial(_draw, seconds=seconds),
        methods=(Method("first", _method), Method("second", _method)),
        measures=(
            Measure("mse", "squared error"),
            Measure("noise", "noise"),
            Measure("n_empty", "empty windows", kind="count"),
        ),
        profiles={"quick": Profile(n_sim, rule="as many as are timed")},
    )


def overhead(study: Study) -> Clocked:
    """Run a study in a folder of its own and return the clock."""
    clock = Clocked()
    with tempfile.TemporaryDirectory(prefix="nwsim-") as folder:
        run_study(study, out=folder, executor=lambda: clock)
    return clock


def long_blocks(quick: bool) -> float:
    """Return the runner's share beside blocks of ``BLOCK_SECONDS``."""
    n_sim = 4 if quick else 32
    clock = overhead(toy(n_sim, BLOCK_SECONDS / 16 if not quick else BLOCK_SECONDS / 2))
    return clock.outside / clock.inside


def short_replicates(quick: bool) -> float:
    """Return microseconds of the loop and the checkpoint a replicate that takes no time."""
    n_sim = 50 if quick else 2000
    return 1e6 * overhead(toy(n_sim)).outside / (6 * n_sim)


_ROWS = """
import resource, sys, time
from pathlib import Path
from nwsim.bench.runner import toy
from nwsim.study import run_study
from nwsim.study.cells import plan_cells
from nwsim.study.provenance import identity_of
from nwsim.study.replicate import Outcome
from nwsim.study.checkpoint_file import CHECKPOINT
from nwsim.study.store import Store

folder, n_rows = Path(sys.argv[1]), int(sys.argv[2])
study = toy(-(-n_rows // 36))
cells = plan_cells(study, "quick", None)
n_sim = cells[0].n_sim
(folder / "runner").mkdir()
start = time.perf_counter()
with Store(folder / "runner" / CHECKPOINT, identity_of(study)) as store:
    store.register(cells)
    for cell in cells:
        for first in range(0, n_sim, 16):
            values = {"mse": 0.25 + first, "noise": -0.5, "n_empty": 2.0}
            store.add(cell, [Outcome(rep, {"first": values, "second": values}, (), ())
                             for rep in range(first, min(first + 16, n_sim))])
results = run_study(study, out=folder)
seconds = time.perf_counter() - start
assert results.performance["n_sim"].min() == n_sim
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_RESUME = """
import sys, time
start = time.perf_counter()
from nwsim.bench.runner import toy
from nwsim.study import run_study

run_study(toy(20), out=sys.argv[1])
print(time.perf_counter() - start)
"""


def _process(script: str, *arguments: str) -> list[float]:
    root = str(Path(nwsim.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return [float(text) for text in done.stdout.split()]


def many_rows(quick: bool) -> tuple[float, float]:
    """Return seconds and megabytes of writing rows and making tables of them."""
    with tempfile.TemporaryDirectory(prefix="nwsim-") as folder:
        seconds, megabytes = _process(_ROWS, folder, str(N_ROWS // 100 if quick else N_ROWS))
    return seconds, megabytes


def resume(quick: bool) -> float:
    """Return seconds to run a finished study again in a new process, imports included."""
    with tempfile.TemporaryDirectory(prefix="nwsim-") as folder:
        times = [_process(_RESUME, folder)[0] for _ in range(2)]
    return times[1]


def measure(quick: bool) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    rounds = 1 if quick else 5
    found: dict[tuple[str, str], list[float]] = {key: [] for key in LIMITS}
    keys = list(LIMITS)
    for _ in range(rounds):
        values = (long_blocks(quick), short_replicates(quick), *many_rows(quick), resume(quick))
        for key, value in zip(keys, values, strict=True):
            found[key].append(value)
    return [row(*key, values, LIMITS[key]) for key, values in found.items()]


def row(quantity: str, unit: str, values: list[float], limit: float) -> dict[str, Any]:
    """Return a row: median and quartiles over rounds against the limit."""
    middle = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (middle,) * 3
    return {
        "quantity": quantity,
        "unit": unit,
        "median": middle,
        "q25": low,
        "q75": high,
        "n_rounds": len(values),
        "limit": limit,
        "within": middle <= limit,
    }


def run(out: Path, quick: bool) -> None:
    """Measure and write ``runner.csv``."""
    write_atomic(out / "runner.csv", table_text(COLUMNS, measure(quick)))
