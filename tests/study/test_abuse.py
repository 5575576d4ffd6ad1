"""What methods, disks and hands do to a run must not reach its numbers."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nwsim.cli import main
from nwsim.exceptions import ParameterError, StoreError, StudyError
from nwsim.study import PrecisionTarget, load_results, load_study, plan_study, run_study
from nwsim.study.checkpoint_file import CHECKPOINT, progress_of, trouble
from nwsim.study.executors import InlineExecutor
from nwsim.study.faults import LONGEST, error_text
from nwsim.study.interrupts import heard
from nwsim.study.results import differences, run_differences
from nwsim.study.store import Store
from tests.study.toys import InterruptedExecutor, rewrite, snapshot, write_study

ROOT = Path(__file__).resolve().parents[2]


def test_what_an_earlier_checkpoint_left_beside_it_is_not_read(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    folder = tmp_path / "toy"
    with pytest.raises(KeyboardInterrupt):
        run_study(path, out=tmp_path, executor=lambda: InterruptedExecutor(2))
    # As after a kill: everything is in the log beside the file.
    connection = sqlite3.connect(folder / CHECKPOINT)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("UPDATE scalars SET value = value + 100")
    connection.commit()
    for suffix in ("-wal", "-shm"):
        shutil.copy(folder / f"{CHECKPOINT}{suffix}", tmp_path / suffix)
    connection.close()
    (folder / CHECKPOINT).unlink()
    for suffix in ("-wal", "-shm"):
        shutil.copy(tmp_path / suffix, folder / f"{CHECKPOINT}{suffix}")
    rewrite(path, "SHIFT = 0.3", "SHIFT = 3.0")
    run_study(path, out=tmp_path)
    run_study(path, out=tmp_path / "clean")
    assert snapshot(folder) == snapshot(tmp_path / "clean" / "toy")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_method_that_swallows_a_signal_cannot_leave_its_value(
    tmp_path: Path, number: int
) -> None:
    swallow = (
        "try:\n        os.kill(os.getpid(), SIGNAL)\n        import time; time.sleep(1)\n"
        '    except: return {"mse": 1e6, "noise": 0.0, "n_empty": 0}'
    ).replace("SIGNAL", str(int(number)))
    once = f"if data.values[0] > 1.0:\n        {swallow}".replace(
        "\n    except", "\n        except"
    )
    once = once.replace("\n        os.kill", "\n            os.kill")
    once = once.replace("\n        import", "\n            import")
    write_study(tmp_path / "studies", BEFORE_HALF=once)
    done = subprocess.run(
        [sys.executable, "-m", "nwsim", "run", "toy", "--out", "o"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 128 + number, done.stderr
    assert "what is finished is kept" in done.stderr
    checkpoint = sqlite3.connect(tmp_path / "o/toy" / CHECKPOINT)
    (largest,) = checkpoint.execute("SELECT MAX(value) FROM scalars").fetchone()
    checkpoint.close()
    assert largest is None or largest < 1e6


def test_signals_are_heard_and_handlers_come_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with heard() as check:
        check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert {number: signal.getsignal(number) for number in before} == before
    seen: list[object] = []

    def elsewhere() -> None:
        with heard() as quiet:
            seen.append(quiet())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [None]


def test_a_plan_leaves_the_checkpoint_of_a_run_alone(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    run_study(path, "small", out=tmp_path)
    kept = (tmp_path / "toy" / CHECKPOINT).read_bytes()
    for replace in (True, False):
        plan_study(path, PrecisionTarget(0.5, ("noise",)), out=tmp_path, replace=replace)
    assert (tmp_path / "toy" / CHECKPOINT).read_bytes() == kept
    run_study(path, "small", out=tmp_path)


def sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("no")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_READONLY"])
def test_nobody_is_told_to_give_up_a_checkpoint_for_a_full_disk(name: str) -> None:
    text = str(trouble(Path("c"), sqlite_error(name)))
    assert "is the disk full" in text
    assert "--replace" not in text
    assert "--replace" in str(trouble(Path("c"), sqlite_error("SQLITE_CORRUPT")))
    assert "another process" in str(trouble(Path("c"), sqlite3.IntegrityError("UNIQUE")))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scalars SET value = 'text' WHERE rep = 2",
        "UPDATE cells SET factors = '{' WHERE cell = 1",
        "ALTER TABLE scalars RENAME COLUMN value TO other",
    ],
)
def test_what_no_run_writes_is_named(tmp_path: Path, statement: str) -> None:
    path = write_study(tmp_path / "s")
    run_study(path, out=tmp_path)
    connection = sqlite3.connect(tmp_path / "toy" / CHECKPOINT)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="use --replace to start over"):
        run_study(path, out=tmp_path)


def test_status_counts_the_replicates_that_are_asked_for(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "s"))
    run_study(study, target=PrecisionTarget(0.5, ("noise",)), out=tmp_path)
    from nwsim.study.cells import plan_cells

    assert progress_of(tmp_path / "toy" / CHECKPOINT, plan_cells(study, "quick")) == (0, 0)
    connection = sqlite3.connect(tmp_path / "toy" / CHECKPOINT)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="another checkpoint format"):
        progress_of(tmp_path / "toy" / CHECKPOINT, plan_cells(study, "quick"))


@pytest.mark.parametrize("count", [2**32 + 1, 10**11])
def test_more_replicates_than_could_end_are_refused(tmp_path: Path, count: int) -> None:
    path = write_study(tmp_path / "s")
    with pytest.raises(ParameterError, match="n_sim must be a whole number of at least 1 and at"):
        run_study(path, n_sim=count, out=tmp_path)
    assert not (tmp_path / "toy").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_method_that_forks_has_no_second_parent(tmp_path: Path, workers: int) -> None:
    fork = "p = os.fork()\n    if p == 0: raise SystemExit\n    os.waitpid(p, 0)"
    calm = run_study(write_study(tmp_path / "calm"), out=tmp_path / "a").folder
    path = write_study(tmp_path / "s", BEFORE_HALF=fork)
    folder = run_study(path, out=tmp_path / "b", workers=workers).folder
    for name, content in snapshot(folder).items():
        if name != "manifest.json":
            assert content == (calm / name).read_bytes()


def test_a_spread_beyond_float64_is_undefined_and_costs_no_table(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s", BEFORE_HALF='return {"mse": 1e308 * rng.random(), "noise":')
    rewrite(path, '"noise":\n', '"noise": 0.0, "n_empty": 0}\n')
    results = run_study(path, out=tmp_path)
    table = results.performance
    beyond = table[(table.method == "half") & (table.measure == "mse")]
    assert beyond.estimate.isna().all()
    assert beyond.mcse.isna().all()
    assert (beyond.n_sim == 10).all()
    assert table[table.method == "plain"].estimate.notna().all()


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def test_texts_of_errors_are_short_and_end_nothing() -> None:
    assert error_text(Exits()) == "Exits()"
    text = error_text(ValueError("x" * 100_000))
    assert text.startswith("x" * LONGEST + "... (100000 characters)")


def test_counts_below_zero_are_refused_and_zero_has_one_sign(tmp_path: Path) -> None:
    path = write_study(
        tmp_path / "s", BEFORE_HALF='return {"mse": 1, "noise": -0.0, "n_empty": -3}'
    )
    with pytest.raises(StudyError, match="count 'n_empty' must be whole, 0 or more; got -3"):
        run_study(path, out=tmp_path)
    rewrite(path, "-3}", "0}")
    from nwsim.study.pipeline import replay

    study = load_study(path)
    key = run_study(study, out=tmp_path, replace=True).performance.condition_id.iloc[0]
    assert math.copysign(1.0, replay(study, key, 0).scalars["half"]["noise"]) == 1.0


def test_a_study_that_prints_leaves_the_tables_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_study(tmp_path / "studies", BEFORE_HALF='print("hello")')
    key = run_study(path, out=tmp_path, executor=InlineExecutor).performance.condition_id.iloc[0]
    capsys.readouterr()
    assert main(["replay", "toy", "--condition", key, "--rep", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("condition_id,rep,")
    assert "hello" not in captured.out
    assert "hello" in captured.err
    assert main(["plan", "toy", "--target-mcse", "5", "--measure", "noise"]) == 0
    assert capsys.readouterr().out.startswith("study,condition_id,")


def test_runs_that_were_not_the_same_differ(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    first = run_study(path, out=tmp_path / "a")
    second = run_study(path, out=tmp_path / "b")
    assert list(run_differences(first, second)) == []
    second.manifest["seed"] = 8
    second.manifest["missing"] = {"x": 1}
    assert list(run_differences(first, second)) == [
        "manifest.json: seed differs",
        "manifest.json: missing differs",
    ]
    assert load_results(first.folder).manifest["seed"] == 7
    # Of two studies every row would differ: that they are two is all that is said.
    second.manifest["study"] = "other"
    assert next(iter(run_differences(first, second))) == "manifest.json: study differs"
    assert list(differences(first, second)) == []


def test_an_empty_checkpoint_path_is_no_crash(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "s"))
    with pytest.raises(ParameterError, match="out must be the path of a folder"):
        run_study(study, out="")
    with pytest.raises(StoreError), Store(tmp_path / "none" / "x.sqlite", {}):
        pass
