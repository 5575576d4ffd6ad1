"""A tiny study, written to a file and varied by replacing pieces of its text."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nwsim.study.executors import InlineExecutor

TABLES = ("performance.csv", "contrasts.csv", "curves.csv", "claims.csv", "manifest.json")

SOURCE = '''"""A toy."""

import os
import pathlib
import signal
from dataclasses import dataclass

from nwsim.study import Claim, Contrast, Curve, Grid, Measure, Method, Profile, Study

SIZES = (50, 100, 200)
SHIFT = 0.3


@dataclass(frozen=True)
class Data:
    values: object


def draw(condition, rng):
    """Draw the data."""
    # BEFORE_DRAW
    return Data(rng.normal(SHIFT, 1.0, size=condition["n_obs"]))


def plain(condition, data, rng):
    # BEFORE_PLAIN
    return {"mse": (data.values.mean() - SHIFT) ** 2, "noise": rng.normal(), "n_empty": 2}


def half(condition, data, rng):
    # BEFORE_HALF
    return {"mse": (0.5 * data.values.mean() - SHIFT) ** 2, "noise": rng.normal(), "n_empty": 0}


def theory(setting):
    return -1.0


METHODS = (Method("plain", plain), Method("half", half))

STUDY = Study(
    name="toy",
    label="Toy",
    seed=7,
    factors=(Grid({"n_obs": SIZES, "world": ("a", "b")}),),
    draw=draw,
    methods=METHODS,
    measures=(
        Measure("mse", "squared error"),
        Measure("noise", "noise"),
        Measure("n_empty", "empty windows", kind="count"),
    ),
    claims=(
        Claim("T1", "falls like 1/n", "mse", theory, 0.5, "rate", method="plain"),
        Claim("T2", "noise has mean zero", "noise", 0.0, 0.9, "equivalence"),
    ),
    curves=(Curve("local", "mse", "local_slope"), Curve("tail", "mse", "tail_slope", tail=2)),
    contrasts=(
        Contrast("methods", "mse", "method", "half", "plain"),
        Contrast("worlds", "mse", "world", "b", "a", kind="ratio"),
    ),
    profiles={
        "quick": Profile(10, rule="toy"),
        "small": Profile(10, keep=lambda condition: condition["n_obs"] < 200, rule="toy"),
        "one": Profile(1, rule="toy"),
    },
    shared_streams=("world",),
)
'''


def write_study(folder: Path, **replacements: str) -> Path:
    """Write the toy study; keywords are text to replace, ``BEFORE_PLAIN="code"`` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    source = SOURCE
    for old, new in replacements.items():
        marker = f"# {old}" if old.startswith("BEFORE") else old
        assert marker in source
        source = source.replace(marker, new)
    path = folder / "toy.py"
    path.write_text(source)
    return path


def rewrite(path: Path, old: str, new: str) -> None:
    source = path.read_text()
    assert old in source
    path.write_text(source.replace(old, new))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES}


class InterruptedExecutor(InlineExecutor):
    """Stands for Ctrl-C after some blocks."""

    def __init__(self, blocks: int) -> None:
        self.left = blocks

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().submit(fn, *args, **kwargs)


class CountingExecutor(InlineExecutor):
    """Counts the replicates that it is given."""

    def __init__(self) -> None:
        self.reps: list[tuple[str, int]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.reps += [(str(args[1]), rep) for rep in args[2]]
        return super().submit(fn, *args, **kwargs)


class ShuffledExecutor(InlineExecutor):
    """Finishes what is in flight in a random order, on one other thread."""

    workers = 3

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.waiting: list[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = []
        self.order: list[int] = []
        self.count = 0
        self.change = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self.change:
            self.waiting.append((future, fn, (self.count, *args)))
            self.count += 1
            self.change.notify()
        return future

    def _work(self) -> None:
        while True:
            with self.change:
                self.change.wait_for(lambda: len(self.waiting) > 3 or self.closed, timeout=0.01)
                if self.closed and not self.waiting:
                    return
                if not self.waiting:
                    continue
                item = self.waiting.pop(self.random.randrange(len(self.waiting)))
            future, fn, (number, *args) = item
            self.order.append(number)
            future.set_result(fn(*args))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self.change:
            self.closed = True
            self.change.notify()
        self.thread.join()
