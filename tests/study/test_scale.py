"""What the runner itself costs; figures are printed (-s) and bounds are for an idle machine."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from nwsim.study import run_study
from nwsim.study.executors import InlineExecutor
from tests.study.toys import write_study

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


class TimedExecutor(InlineExecutor):
    """Adds up the time that calls take, and that between the first call and the last."""

    def __init__(self) -> None:
        self.inside = self.blocks = 0.0
        self.begun = self.ended = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        start = time.perf_counter()
        self.begun = self.begun or start
        future = super().submit(fn, *args, **kwargs)
        self.ended = time.perf_counter()
        self.inside += self.ended - start
        self.blocks += 1
        return future


def test_long_blocks_cost_little_more_than_themselves(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s", BEFORE_DRAW="import time; time.sleep(0.02)")
    executor = TimedExecutor()
    run_study(path, out=tmp_path, executor=lambda: executor)
    share = (executor.ended - executor.begun) / executor.inside - 1.0
    print(f"{executor.inside / executor.blocks:.3f} s a block, {share:.2%} more for the runner")
    assert share < 0.05


def test_a_replicate_costs_the_loop_and_the_store_little(tmp_path: Path) -> None:
    executor = TimedExecutor()
    start = time.perf_counter()
    run_study(write_study(tmp_path / "s"), out=tmp_path, n_sim=2000, executor=lambda: executor)
    whole = time.perf_counter() - start
    per = 1e6 * (executor.ended - executor.begun - executor.inside) / 12000
    print(
        f"{per:.0f} us a replicate outside of calls, {1e6 * executor.inside / 12000:.0f} inside, "
        f"{1e6 * whole / 12000:.0f} with tables and all"
    )
    assert per < 100.0


MILLION = """
import resource, sys, time
from pathlib import Path
from nwsim.study import load_study, run_study
from nwsim.study.cells import plan_cells
from nwsim.study.pipeline import identity_of
from nwsim.study.replicate import Outcome
from nwsim.study.store import CHECKPOINT, Store

place = Path(sys.argv[1])
study = load_study(place / "s" / "toy.py")
R = 1_000_000 // (6 * 2 * 3) + 1
cells = plan_cells(study, "quick", R)
folder = place / "toy"
folder.mkdir()
start = time.perf_counter()
with Store(folder / CHECKPOINT, identity_of(study)) as store:
    store.register(cells)
    for cell in cells:
        for first in range(0, R, 16):
            values = {"mse": 0.25 + first, "noise": -0.5, "n_empty": 2.0}
            store.add(cell, [Outcome(rep, {"plain": values, "half": values}, (), ())
                             for rep in range(first, min(first + 16, R))])
written = time.perf_counter()
run_study(study, out=place, n_sim=R)
ended = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{written - start:.1f} {ended - written:.1f} {peak:.0f}")
"""


def test_a_million_rows(tmp_path: Path) -> None:
    write_study(tmp_path / "s")
    done = subprocess.run(
        [sys.executable, "-c", MILLION, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    write, tables, peak = map(float, done.stdout.split())
    print(f"10^6 rows: written in {write} s, tables in {tables} s, peak {peak} MB")
    assert write + tables < 20.0
    assert peak < 500.0


def test_a_finished_study_is_resumed_at_once(tmp_path: Path) -> None:
    write_study(tmp_path / "studies")
    command = [sys.executable, "-m", "nwsim", "run", "toy", "--out", "o"]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
        )
        seconds.append(time.perf_counter() - start)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    print(f"first {seconds[0]:.2f} s, again {min(seconds[1:]):.2f} s; {cpu / 3:.2f} s of CPU a run")
    assert min(seconds[1:]) < 2.0
