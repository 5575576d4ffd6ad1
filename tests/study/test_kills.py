"""Real processes, killed at random moments of a run: nothing that was finished is lost."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nwsim.study.checkpoint_file import CHECKPOINT
from tests.study.toys import snapshot, write_study

ROOT = Path(__file__).resolve().parents[2]
BLOCK = 16
WORKERS = 2


class Run:
    """A run of the toy in a process of its own, that can be struck while it lasts."""

    def __init__(self, place: Path, n_sim: int) -> None:
        self.place = place
        self.folder = place / "out" / "toy"
        self.started = place / "started"
        # One line a replicate, whole whoever is killed: the system appends at once.
        count = (
            "log = os.open(os.environ['STARTED'], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
            "    os.write(log, b'.')\n    os.close(log)\n    import time; time.sleep(0.01)"
        )
        write_study(place / "studies", BEFORE_DRAW=count)
        self.command = [sys.executable, "-m", "nwsim", "run", "toy", "--n-sim", str(n_sim)]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        self.process = subprocess.Popen(
            [*self.command, "--workers", str(WORKERS), "--out", "out"],
            cwd=self.place,
            env={**os.environ, "PYTHONPATH": str(ROOT), "STARTED": str(self.started)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self.process

    def workers(self) -> list[int]:
        assert self.process is not None
        try:
            tasks = Path(f"/proc/{self.process.pid}/task")
            pids = [
                int(pid)
                for task in tasks.glob("*/children")
                for pid in task.read_text().split()
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
        except OSError:
            return []
        return sorted(pids)

    def finished(self) -> int:
        path = self.folder / CHECKPOINT
        if not path.is_file():
            return 0
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30.0)
        try:
            (count,) = connection.execute("SELECT COUNT(*) FROM replicates").fetchone()
        except sqlite3.OperationalError:
            # Its process died while it opened the file; the next one repairs that.
            count = 0
        finally:
            connection.close()
        return int(count)

    def begun(self) -> int:
        return self.started.stat().st_size if self.started.is_file() else 0


def strike(run: Run, rng: random.Random, kills: int) -> list[str]:
    """Kill the parent or a worker at random moments, until the run ends by itself."""
    hit: list[str] = []
    process = run.start()
    while True:
        before = run.finished()
        target = rng.choice(("parent", "worker"))
        wait = before + rng.randrange(BLOCK)
        while process.poll() is None and (run.finished() < wait or not run.workers()):
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.2))
        if process.poll() is not None:
            if process.returncode == 0:
                return hit
            process = run.start()
            continue
        if len(hit) >= kills:
            process.wait(timeout=120)
            continue
        stored = run.finished()
        victims = [process.pid] if target == "parent" else run.workers()
        if not victims:
            continue
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            continue
        hit.append(target)
        if target == "parent":
            process.wait(timeout=60)
            process = run.start()
        assert run.finished() >= stored


def check(tmp_path: Path, kills: int, n_sim: int, seed: int) -> None:
    calm = Run(tmp_path / "calm", n_sim)
    assert calm.start().wait(timeout=300) == 0
    run = Run(tmp_path / "struck", n_sim)
    hit = strike(run, random.Random(seed), kills)
    assert len(hit) == kills, "the run ended too soon"
    assert snapshot(run.folder) == snapshot(calm.folder)
    assert run.finished() == calm.finished() == calm.begun() == 6 * n_sim
    # What a kill costs is the block that each worker had.
    again = run.begun() - run.finished()
    print(f"kills {hit}: {again} of {run.finished()} replicates were computed again")
    assert again <= kills * WORKERS * BLOCK


def test_three_kills(tmp_path: Path) -> None:
    check(tmp_path, kills=3, n_sim=40, seed=5)


@pytest.mark.slow
def test_two_dozen_kills(tmp_path: Path) -> None:
    check(tmp_path, kills=24, n_sim=250, seed=11)
