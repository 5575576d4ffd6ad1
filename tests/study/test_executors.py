"""The same bytes on a Dask cluster, and an end to blocks that take too long."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nwsim.exceptions import ParameterError, StudyError
from nwsim.seeding import stream
from nwsim.study import MissingReplicatesError, run_study
from nwsim.study.deadlines import Deadline
from nwsim.study.executors import DaskExecutor, dask_executor, make_executor
from tests.study.toys import CountingExecutor, snapshot, write_study

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 4.0
"""Far longer than an honest block of the toy takes on a busy machine."""

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="the extra [cluster] is not installed"
)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_study(tmp_path / "studies")


@pytest.fixture
def calm(toy: Path, tmp_path: Path) -> dict[str, bytes]:
    return snapshot(run_study(toy, out=tmp_path / "calm").folder)


def hanging(tmp_path: Path, where: str) -> tuple[Path, Path]:
    """Return a toy that hangs without ever letting go of the interpreter, and its cure."""
    cure = tmp_path / "cure"
    hang = (
        f"if not pathlib.Path({str(cure)!r}).exists() and {where}:\n"
        "        import ctypes; ctypes.PyDLL(None).sleep(600)"
    )
    return write_study(tmp_path / "hanging", BEFORE_PLAIN=hang), cure


@pytest.mark.parametrize("workers", [1, 2])
def test_a_block_that_takes_too_long_is_lost_alone(tmp_path: Path, workers: int) -> None:
    first = float(stream(7, {"n_obs": 100}, 7, "data").normal(0.3, 1.0, size=100)[0])
    where = f'condition["world"] == "b" and data.values[0] == {first!r}'
    path, cure = hanging(tmp_path, where)
    with pytest.raises(
        MissingReplicatesError,
        match=r"5 replicates are missing: they took longer than block_timeout = 4 s, first in "
        r"condition \w+, replicates 5 to 9",
    ) as caught:
        run_study(path, out=tmp_path, workers=workers, block_size=5, block_timeout=SECONDS)
    rows = caught.value.results.performance
    assert (rows[(rows.n_obs == 100) & (rows.world == "b")].n_sim == 5).all()
    assert (rows[(rows.n_obs != 100) | (rows.world != "b")].n_sim == 10).all()
    cure.touch()
    rest = CountingExecutor()
    run_study(path, out=tmp_path, executor=lambda: rest)
    assert [rep for _, rep in rest.reps] == list(range(5, 10))
    again = run_study(path, out=tmp_path / "calm").folder
    assert snapshot(tmp_path / "toy") == snapshot(again)


def test_a_study_of_endless_blocks_is_said_to_be_one(tmp_path: Path) -> None:
    path, _ = hanging(tmp_path, "True")
    with pytest.raises(StudyError, match=r"the first 3 blocks are lost, they took longer than"):
        run_study(path, out=tmp_path, block_timeout=0.5)


def test_what_is_fast_enough_has_the_same_bytes(
    toy: Path, tmp_path: Path, calm: dict[str, bytes]
) -> None:
    before = os.listdir(tmp_path)
    folder = run_study(toy, out=tmp_path / "timed", block_timeout=60.0).folder
    assert snapshot(folder) == calm
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "timed"])


def test_a_deadline_tells_which_call_it_cut_off(tmp_path: Path) -> None:
    deadline = Deadline(0.2, tmp_path)
    assert deadline.wrap(divmod, 3)(7, 2) == (3, 1)
    code = (
        "import pathlib, time\nfrom nwsim.study.deadlines import Deadline\n"
        f"Deadline(0.2, pathlib.Path({str(tmp_path)!r})).wrap(time.sleep, 4)(600)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 1
    assert [deadline.passed(number) for number in (3, 4, 5)] == [False, True, False]


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), "2", True])
def test_bad_time_outs_are_named(toy: Path, tmp_path: Path, seconds: Any) -> None:
    with pytest.raises(ParameterError, match="block_timeout must be a number"):
        run_study(toy, out=tmp_path / "out", block_timeout=seconds)
    assert not (tmp_path / "out").exists()


def test_a_time_out_is_for_processes_of_this_machine(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="block_timeout needs executor 'local'"):
        run_study(toy, out=tmp_path / "out", executor=CountingExecutor, block_timeout=2.0)
    assert not (tmp_path / "out").exists()


def test_executors_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="executor must be one of 'local', 'dask'; got 'mpi'"):
        make_executor("mpi", 1)
    with pytest.raises(ParameterError, match="scheduler needs executor 'dask'"):
        make_executor("local", 1, "tcp://node:8786")
    with pytest.raises(ParameterError, match="workers must be"):
        make_executor("dask", 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"needs the package distributed: .*-e .*\[cluster\]"):
        make_executor("dask", 1)


def children() -> set[int]:
    """Return the processes below this one that do not wait to be collected."""
    found, queue = set(), [os.getpid()]
    while queue:
        parent = queue.pop()
        for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
            for pid in map(int, tasks.read_text().split()):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if words and b"resource_tracker" not in words:
                    found.add(pid)
                queue.append(pid)
    return found


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    before = children()
    yield
    deadline = time.monotonic() + 20.0
    while children() - before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not children() - before


CLUSTER = """
import json, sys, warnings
from distributed import LocalCluster

if __name__ == "__main__":
    # Of a slow disk; as an error it would break the start.
    warnings.simplefilter("ignore")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    cluster = LocalCluster(**{**options, **json.loads(sys.argv[1])})
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


class Cluster:
    """A cluster of other people: processes of their own, which can be killed."""

    def __init__(self, place: Path, options: dict[str, Any]) -> None:
        script = place / "cluster.py"
        script.write_text(CLUSTER)
        self.process = subprocess.Popen(
            [sys.executable, str(script), json.dumps(options)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("tcp://")

    def kill(self) -> None:
        """End scheduler and workers at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


@pytest.fixture
def scheduler(no_process_is_left: None, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        started.append(Cluster(tmp_path, options))
        return started[-1]

    yield start
    for cluster in started:
        cluster.kill()


@needs_dask
def test_dask_gives_the_same_bytes(
    toy: Path, tmp_path: Path, calm: dict[str, bytes], no_process_is_left: None
) -> None:
    look = (
        "import threadpoolctl\n    assert all(p['num_threads'] == 1 for p in "
        "threadpoolctl.threadpool_info())\n"
        "    assert os.environ['OMP_NUM_THREADS'] == os.environ['NUMBA_NUM_THREADS'] == '1'"
    )
    path = write_study(tmp_path / "looking", BEFORE_PLAIN=look)
    results = run_study(path, out=tmp_path, executor=dask_executor(2), block_size=3)
    assert results.manifest["failures"] == []
    run_study(toy, out=tmp_path / "plain", executor=dask_executor(2), block_size=3)
    assert snapshot(tmp_path / "plain" / "toy") == calm


@needs_dask
def test_a_dask_worker_that_is_killed_costs_nothing(
    tmp_path: Path, no_process_is_left: None
) -> None:
    flag = tmp_path / "killed"
    kill = (
        f'flag = pathlib.Path({str(flag)!r})\n    if condition["n_obs"] == 100 and '
        "not flag.exists() and flag.touch() is None: os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = write_study(tmp_path / "s", BEFORE_PLAIN=kill)
    run_study(path, out=tmp_path, executor=dask_executor(2), block_size=3)
    assert flag.exists()
    run_study(path, out=tmp_path / "calm")
    assert snapshot(tmp_path / "toy") == snapshot(tmp_path / "calm" / "toy")


@needs_dask
def test_a_block_that_kills_dask_workers_is_given_up(
    tmp_path: Path, no_process_is_left: None
) -> None:
    first = float(stream(7, {"n_obs": 100}, 7, "data").normal(0.3, 1.0, size=100)[0])
    kill = (
        f'if condition["world"] == "b" and data.values[0] == {first!r}: '
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = write_study(tmp_path / "s", BEFORE_PLAIN=kill)
    with pytest.raises(
        MissingReplicatesError, match=r"^5 replicates are missing: their worker died"
    ):
        run_study(path, out=tmp_path, executor=dask_executor(2), block_size=5)


@needs_dask
def test_a_running_cluster_is_used_and_left_running(
    toy: Path, tmp_path: Path, calm: dict[str, bytes], scheduler: Callable[..., Cluster]
) -> None:
    address = scheduler(n_workers=2).address
    for folder in ("one", "two"):
        run_study(toy, out=tmp_path / folder, executor=dask_executor(scheduler=address))
        assert snapshot(tmp_path / folder / "toy") == calm


@needs_dask
def test_workers_that_are_not_fit_are_refused(
    toy: Path, tmp_path: Path, scheduler: Callable[..., Cluster]
) -> None:
    address = scheduler(threads_per_worker=2).address
    with pytest.raises(StudyError, match="has 2 threads; start workers with one thread each"):
        run_study(toy, out=tmp_path, executor=dask_executor(scheduler=address))
    address = scheduler().address
    with pytest.raises(StudyError, match=r"another version of numpy: .* there, 0\.1 here"):
        run_study(
            toy,
            out=tmp_path,
            executor=lambda: DaskExecutor(1, address, {"version of numpy": "0.1"}),
        )


@needs_dask
def test_a_scheduler_that_does_not_answer_is_named(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nwsim.study.executors._PATIENCE", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "tcp://"):
        with pytest.raises(StudyError, match=f"cannot reach a Dask scheduler at '{address}'"):
            run_study(toy, out=tmp_path, executor=dask_executor(scheduler=address))


@needs_dask
def test_a_scheduler_that_goes_away_ends_the_run(
    tmp_path: Path, scheduler: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nwsim.study.executors._PATIENCE", 0.5)
    cluster = scheduler(n_workers=2)
    path = write_study(tmp_path / "s", BEFORE_PLAIN="import time; time.sleep(0.02)")
    made = []

    def factory() -> DaskExecutor:
        made.append(DaskExecutor(1, cluster.address, None))
        return made[-1]

    kept: list[int] = []
    real = DaskExecutor.submit

    def submit(self: DaskExecutor, *args: Any, **kwargs: Any) -> Any:
        kept.append(1)
        if len(kept) == 8:
            cluster.kill()
        return real(self, *args, **kwargs)

    monkeypatch.setattr(DaskExecutor, "submit", submit)
    with pytest.raises(StudyError, match="cannot reach a Dask scheduler"):
        run_study(path, out=tmp_path, executor=factory, block_size=2)
    monkeypatch.undo()
    rest = CountingExecutor()
    run_study(path, out=tmp_path, executor=lambda: rest)
    assert 0 < len(rest.reps) < 60


@needs_dask
def test_ctrl_c_leaves_no_process_and_keeps_what_is_finished(tmp_path: Path) -> None:
    write_study(tmp_path / "studies", BEFORE_PLAIN="import time; time.sleep(0.05)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MARK_OF_THIS_TEST": str(tmp_path)}
    command = [sys.executable, "-m", "nwsim", "run", "toy", "--n-sim", "100"]
    with subprocess.Popen(
        [*command, "--executor", "dask", "--workers", "2", "--out", "o"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        checkpoint = tmp_path / "o" / "toy" / "replications.sqlite-wal"
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline and not (
            checkpoint.is_file() and checkpoint.stat().st_size > 50_000
        ):
            time.sleep(0.1)
        # As a terminal does: to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.decode().split("\n") == [
        "",  # the end of the line in which a terminal shows ^C
        "nwsim: interrupted; what is finished is kept, the same command goes on",
        "",
    ]
    deadline = time.monotonic() + 20.0
    while marked(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not marked(tmp_path)


def marked(mark: Path) -> list[str]:
    """Return the processes that have the mark of a test in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK_OF_THIS_TEST={mark}".encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found
