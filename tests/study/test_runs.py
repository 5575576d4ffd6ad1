"""The same bytes for any workers, blocks, order, interruption or extension."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from nwsim.exceptions import NwsimError, PrecisionWarning, StoreError, StudyError
from nwsim.seeding import digest, stream
from nwsim.study import (
    Grid,
    Measure,
    Method,
    Profile,
    Study,
    load_results,
    load_study,
    run_study,
)
from nwsim.study.checkpoint_file import CHECKPOINT
from nwsim.study.executors import InlineExecutor, WorkerPool, workers_of
from nwsim.study.locks import LOCK
from nwsim.study.pipeline import replay
from nwsim.study.results import differences
from nwsim.study.runner import progress_bar
from tests.study.toys import (
    CountingExecutor,
    InterruptedExecutor,
    ShuffledExecutor,
    rewrite,
    snapshot,
    write_study,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_study(tmp_path / "studies")


@pytest.fixture
def reference(toy: Path, tmp_path: Path) -> dict[str, bytes]:
    run_study(toy, out=tmp_path / "reference")
    return snapshot(tmp_path / "reference" / "toy")


def test_tables_hold_what_numpy_says(toy: Path, tmp_path: Path) -> None:
    results = run_study(toy, out=tmp_path)
    condition = {"n_obs": 100, "world": "b"}
    errors = []
    for rep in range(10):
        values = stream(7, {"n_obs": 100}, rep, "data").normal(0.3, 1.0, size=100)
        errors.append((values.mean() - 0.3) ** 2)
    rows = results.performance
    row = rows[(rows.condition_id == digest(condition)) & (rows.method == "plain")].iloc[0]
    assert row.measure == "mse"
    assert row.estimate == pytest.approx(np.mean(errors), rel=1e-14)
    assert row.mcse == pytest.approx(np.std(errors, ddof=1) / np.sqrt(10), rel=1e-14)
    assert (row.n_sim, row.n_failed, row.n_empty) == (10, 0, 20)
    assert list(rows.columns) == [
        "study", "condition_id", "n_obs", "world", "method", "measure", "estimate", "mcse",
        "n_sim", "n_failed", "n_empty",
    ]  # fmt: skip
    # n_empty is a column and has no rows of its own.
    assert set(rows.measure) == {"mse", "noise"}
    assert len(rows) == 6 * 2 * 2


def test_shared_streams_pair_levels_and_methods_have_their_own(toy: Path, tmp_path: Path) -> None:
    results = run_study(toy, out=tmp_path)
    pairs = results.contrasts[results.contrasts.contrast == "worlds"]
    # Both worlds are the same here and share numbers, so every ratio is exactly one.
    assert (pairs.estimate == 1.0).all()
    assert (pairs.mcse == 0.0).all()
    assert set(pairs.level) == {"b"}
    assert set(pairs.world) == {"b"}
    noise = results.performance[results.performance.measure == "noise"]
    assert noise[noise.world == "a"].estimate.nunique() == 6


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_block_size_does_not_matter(
    toy: Path, tmp_path: Path, reference: dict[str, bytes], size: int
) -> None:
    run_study(toy, out=tmp_path, block_size=size)
    assert snapshot(tmp_path / "toy") == reference


def test_two_processes_give_the_same_bytes(
    toy: Path, tmp_path: Path, reference: dict[str, bytes]
) -> None:
    # The file is gone before workers start: its functions travel by value.
    study = load_study(toy)
    moved = tmp_path / "elsewhere" / "toy.py"
    moved.parent.mkdir()
    toy.rename(moved)
    assert study.namespace is not None
    study.namespace["__file__"] = str(moved)  # type: ignore[index]
    run_study(study, out=tmp_path, workers=2, block_size=4)
    assert snapshot(tmp_path / "toy") == reference


def test_four_workers_and_the_seed_of_hashes_do_not_matter(
    toy: Path, tmp_path: Path, reference: dict[str, bytes]
) -> None:
    for hash_seed, workers in (("0", "1"), ("4242", "4")):
        out = tmp_path / hash_seed
        subprocess.run(
            [sys.executable, "-m", "nwsim", "run", str(toy), "--workers", workers, "--out", out],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
        assert snapshot(out / "toy") == reference


def test_order_of_completion_does_not_matter(
    toy: Path, tmp_path: Path, reference: dict[str, bytes]
) -> None:
    made: list[ShuffledExecutor] = []

    def factory() -> ShuffledExecutor:
        made.append(ShuffledExecutor(seed=3))
        return made[-1]

    run_study(toy, out=tmp_path, block_size=2, executor=factory)
    assert made[0].order != sorted(made[0].order)
    assert snapshot(tmp_path / "toy") == reference


def test_interrupted_then_resumed(toy: Path, tmp_path: Path, reference: dict[str, bytes]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_study(toy, out=tmp_path, block_size=4, executor=lambda: InterruptedExecutor(5))
    # Nothing half-written, and at most the block in flight is lost: 4 + 4 + 2 + 4 + 4.
    assert {path.name for path in (tmp_path / "toy").iterdir()} == {LOCK, CHECKPOINT}
    rest = CountingExecutor()
    run_study(toy, out=tmp_path, block_size=4, executor=lambda: rest)
    assert len(rest.reps) == 60 - 18
    assert snapshot(tmp_path / "toy") == reference


def test_lost_replicates_alone_are_computed(
    toy: Path, tmp_path: Path, reference: dict[str, bytes]
) -> None:
    run_study(toy, out=tmp_path)
    connection = sqlite3.connect(tmp_path / "toy" / CHECKPOINT)
    with connection:
        for table in ("replicates", "scalars", "failures"):
            connection.execute(f"DELETE FROM {table} WHERE cell = 2 AND rep IN (3, 8)")
    connection.close()
    rest = CountingExecutor()
    run_study(toy, out=tmp_path, executor=lambda: rest)
    assert [rep for _, rep in rest.reps] == [3, 8]
    assert snapshot(tmp_path / "toy") == reference


def test_more_replicates_later(toy: Path, tmp_path: Path, reference: dict[str, bytes]) -> None:
    run_study(toy, out=tmp_path, n_sim=6)
    rest = CountingExecutor()
    run_study(toy, out=tmp_path, executor=lambda: rest)
    assert len(rest.reps) == 6 * 4
    assert snapshot(tmp_path / "toy") == reference
    # Fewer again: the surplus stays in the checkpoint and out of the tables.
    assert set(run_study(toy, out=tmp_path, n_sim=6).performance.n_sim) == {6}


def test_finished_study_is_not_computed_again(toy: Path, tmp_path: Path) -> None:
    first = run_study(toy, out=tmp_path)
    before = snapshot(first.folder)
    run_study(toy, out=tmp_path, executor=lambda: InterruptedExecutor(0))
    assert snapshot(first.folder) == before
    runs = json.loads((first.folder / "run.json").read_text())["runs"]
    assert [run["replicates_computed"] for run in runs] == [60, 0]
    assert runs[0]["commit"]


def test_added_level_keeps_the_cells_there_are(toy: Path, tmp_path: Path) -> None:
    old = run_study(toy, out=tmp_path).performance
    rewrite(toy, "SIZES = (50, 100, 200)", "SIZES = (25, 50, 100, 200)")
    rest = CountingExecutor()
    new = run_study(toy, out=tmp_path, executor=lambda: rest).performance
    assert len(rest.reps) == 20
    assert all("'n_obs': 25" in condition for condition, _ in rest.reps)
    kept = new[new.n_obs > 25].reset_index(drop=True)
    assert kept.equals(old)
    assert new.n_obs.tolist() == sorted(new.n_obs)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("SIZES = (50, 100, 200)", "SIZES = (50, 100)", "level 200 of factor 'n_obs'"),
        ("SIZES = (50, 100, 200)", "SIZES = (50, 100, 300)", "level 200 of factor 'n_obs'"),
        ('"world": ("a", "b")', '"world": ("b", "a", "c"), "extra": (1,)', "factors"),
        ("seed=7", "seed=8", "seed: 7 then, 8 now"),
        ("SHIFT = 0.3", "SHIFT = 0.4", "study_source"),
        ("0.5 * data.values", "0.6 * data.values", "study_source"),
        ('"plain", plain)', '"plain", plain, lambda c: c["n_obs"] > 50)', "study_source"),
        (
            'Measure("noise", "noise")',
            'Measure("noise", "noise", methods=("plain", "half"), where=lambda c: c["n_obs"] > 50)',
            "other methods or measures",
        ),
    ],
)
def test_changes_are_refused_by_name(
    toy: Path, tmp_path: Path, old: str, new: str, named: str
) -> None:
    folder = run_study(toy, out=tmp_path).folder
    before = snapshot(folder)
    rewrite(toy, old, new)
    with pytest.raises(StoreError, match="--replace") as caught:
        run_study(toy, out=tmp_path)
    assert named in str(caught.value)
    assert str(folder / CHECKPOINT) in str(caught.value)
    assert snapshot(folder) == before


def test_other_shared_streams_are_refused(toy: Path, tmp_path: Path) -> None:
    rewrite(toy, '        Contrast("worlds", "mse", "world", "b", "a", kind="ratio"),\n', "")
    run_study(toy, out=tmp_path)
    rewrite(toy, 'shared_streams=("world",)', "shared_streams=()")
    with pytest.raises(StoreError, match="another shared_streams: world then, none now"):
        run_study(toy, out=tmp_path)


def test_replace_starts_over(toy: Path, tmp_path: Path) -> None:
    run_study(toy, out=tmp_path)
    rewrite(toy, "seed=7", "seed=8")
    run_study(toy, out=tmp_path, replace=True)
    replaced = snapshot(tmp_path / "toy")
    run_study(toy, out=tmp_path / "fresh")
    assert snapshot(tmp_path / "fresh" / "toy") == replaced


@pytest.mark.parametrize(
    "content", [b"not a database" * 50, b"SQLite format 3\x00" + b"\x01" * 500]
)
def test_foreign_checkpoint_is_refused(toy: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "toy" / CHECKPOINT
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"not a usable checkpoint|not a checkpoint") as caught:
        run_study(toy, out=tmp_path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_another_database_is_refused(toy: Path, tmp_path: Path) -> None:
    path = tmp_path / "toy" / CHECKPOINT
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cells (a)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="not a checkpoint of nwsim"):
        run_study(toy, out=tmp_path)


def test_truncated_checkpoint_is_refused(toy: Path, tmp_path: Path) -> None:
    path = run_study(toy, out=tmp_path).folder / CHECKPOINT
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(StoreError, match=r"damaged|not a usable") as caught:
        run_study(toy, out=tmp_path)
    assert str(path) in str(caught.value)


def test_unwritable_folder_is_one_message_before_any_work(toy: Path, tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("here")
    counting = CountingExecutor()
    with pytest.raises(StoreError, match="cannot write results to"):
        run_study(toy, out=obstacle / "below", executor=lambda: counting)
    assert not counting.reps


def test_one_replicate_has_no_mcse_and_warns(toy: Path, tmp_path: Path) -> None:
    with pytest.warns(PrecisionWarning, match="one replicate"):
        results = run_study(toy, profile="one", out=tmp_path)
    assert results.performance.mcse.isna().all()
    assert results.performance.estimate.notna().all()
    assert results.contrasts.mcse.isna().all()
    assert set(results.claims.verdict) == {"inconclusive"}


def test_profile_keeps_part_of_the_study(toy: Path, tmp_path: Path) -> None:
    results = run_study(toy, profile="small", out=tmp_path)
    assert set(results.performance.n_obs) == {50, 100}
    assert results.manifest["profile"] == "small"


def test_default_folders(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rewrite(toy, '"small"', '"standard"')
    assert run_study("toy").folder == tmp_path / "build/quick/toy"
    assert run_study("toy", profile="standard").folder == tmp_path / "results/toy"
    assert load_results("toy").performance.equals(run_study("toy", "standard").performance)
    assert load_results(Path("build/quick/toy")).manifest["profile"] == "quick"
    assert load_results("toy", profile="quick").manifest["profile"] == "quick"
    with pytest.raises(StoreError, match=r"no results in build/one/toy"):
        load_results("toy", profile="one")


def test_another_number_of_replicates_leaves_tracked_results_alone(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rewrite(toy, '"small"', '"standard"')
    before = snapshot(run_study("toy", "standard").folder)
    assert run_study("toy", "standard", n_sim=4).folder == tmp_path / "build/standard-4/toy"
    assert run_study("toy", "standard", n_sim=4, out="mine").folder == tmp_path / Path("mine/toy")
    assert snapshot(Path("results/toy")) == before


def test_replay_gives_the_stored_row(toy: Path, tmp_path: Path) -> None:
    folder = run_study(toy, out=tmp_path).folder
    key = digest({"n_obs": 200, "world": "a"})
    connection = sqlite3.connect(folder / CHECKPOINT)
    stored = connection.execute(
        "SELECT method, measure, value FROM scalars JOIN cells USING (cell) "
        "WHERE condition_id = ? AND rep = 4",
        (key,),
    ).fetchall()
    connection.close()
    outcome = replay(load_study(toy), key, 4)
    again = [(m, name, x) for m, values in outcome.scalars.items() for name, x in values.items()]
    assert sorted(again) == sorted(stored)
    assert len(stored) == 6


def test_differences_are_found_beyond_the_tolerance(toy: Path, tmp_path: Path) -> None:
    first = run_study(toy, out=tmp_path / "a")
    second = run_study(toy, out=tmp_path / "b")
    assert not list(differences(first, second))
    # A thousandth of an MCSE is the tolerance: half of it passes, twice is reported.
    second.performance.loc[0, "estimate"] += 0.5e-3 * second.performance.loc[0, "mcse"]
    assert not list(differences(first, second))
    second.performance.loc[0, "estimate"] += 2e-3 * second.performance.loc[0, "mcse"]
    second.claims.loc[0, "verdict"] = "refuted"
    assert len(list(differences(first, second))) == 2


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("performance", "mcse"), ("performance", "n_empty"), ("contrasts", "mcse"),
        ("contrasts", "n_sim"), ("contrasts", "baseline"), ("curves", "estimate"),
        ("curves", "mcse"), ("claims", "theory"), ("claims", "margin"), ("claims", "mcse"),
        ("claims", "ci_low"), ("claims", "ci_high"), ("claims", "rule"),
    ],
)  # fmt: skip
def test_every_column_is_compared(toy: Path, tmp_path: Path, table: str, column: str) -> None:
    first = run_study(toy, out=tmp_path)
    second = load_results("toy", tmp_path)
    frame = getattr(second, table)
    old = frame.loc[1, column]
    frame.loc[1, column] = "other" if isinstance(old, str) else type(old)(old + 1)
    (found,) = differences(first, second)
    assert f": {column} " in found
    shorter = dataclasses.replace(second, **{table: frame.drop(index=2)})
    assert len(list(differences(first, shorter))) == 2


def test_curves_have_every_factor(toy: Path, tmp_path: Path) -> None:
    curves = run_study(toy, out=tmp_path).curves
    assert list(curves.columns) == [
        "study", "curve", "n_obs", "world", "method", "measure", "over", "x", "estimate", "mcse",
        "ci_low", "ci_high",
    ]  # fmt: skip
    assert curves.n_obs.isna().all()
    assert set(curves.over) == {"n_obs"}
    assert set(curves.world) == {"a", "b"}


def test_as_many_blocks_fly_as_the_executor_can_use(
    toy: Path, tmp_path: Path, reference: dict[str, bytes]
) -> None:
    class Watched(ThreadPoolExecutor):
        flying: ClassVar[list[Future[Any]]] = []
        seen: ClassVar[list[int]] = []

        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            self.seen.append(sum(not future.done() for future in self.flying))
            if len(self.flying) > 1:
                args = (slowly, *args)
            self.flying.append(super().submit(*args, **kwargs))
            return self.flying[-1]

    def slowly(function: Any, *args: Any) -> Any:
        with lock:
            return function(*args)

    lock = threading.Lock()
    run_study(toy, out=tmp_path, block_size=1, executor=lambda: Watched(4))
    assert snapshot(tmp_path / "toy") == reference
    # The first one alone, then up to twice the threads, whatever `workers` says.
    assert Watched.seen[:2] == [0, 0]
    assert max(Watched.seen) in (6, 7)


def test_executors_say_how_much_they_can_do() -> None:
    class Client:
        def ncores(self) -> dict[str, int]:
            return {"a": 4, "b": 8}

    class ClientExecutor(Executor):
        _client = Client()

    assert workers_of(InlineExecutor()) == 1
    assert workers_of(WorkerPool(3)) == 3
    assert workers_of(ClientExecutor()) == 12
    assert workers_of(Executor()) == os.cpu_count()


def test_a_selection_of_nothing_is_an_error(toy: Path, tmp_path: Path) -> None:
    rewrite(toy, '"rate", method="plain"', '"rate", where=lambda c: c["world"] == "z"')
    with pytest.raises(StudyError, match="claim 'T1' selects no condition"):
        run_study(toy, out=tmp_path)


@pytest.mark.parametrize("body", ['setting["nope"]', "float('nan')", "1 / 0"])
def test_a_failing_theory_is_found_before_any_work(toy: Path, tmp_path: Path, body: str) -> None:
    rewrite(toy, "return -1.0", f"return {body}")
    counting = CountingExecutor()
    with pytest.raises(NwsimError, match="claim 'T1'"):
        run_study(toy, out=tmp_path, executor=lambda: counting)
    assert not counting.reps


def test_a_study_without_a_file(tmp_path: Path) -> None:
    def build(scale: float) -> Study:
        return Study(
            name="handmade",
            label="made by hand",
            seed=3,
            factors=Grid({"n_obs": (10, 20)}),  # type: ignore[arg-type]
            draw=lambda condition, rng: scale * rng.normal(size=condition["n_obs"]),
            methods=Method("mean", lambda condition, data, rng: {"mse": data.mean() ** 2}),  # type: ignore[arg-type]
            measures=Measure("mse", "squared error"),  # type: ignore[arg-type]
            profiles={"quick": Profile(5, rule="test")},
        )

    one = run_study(build(1.0), out=tmp_path / "one")
    two = run_study(build(1.0), out=tmp_path / "two", workers=2, block_size=2)
    assert snapshot(one.folder) == snapshot(two.folder)
    assert len(one.claims) == len(one.curves) == len(one.contrasts) == 0
    assert list(one.curves.columns)[:4] == ["study", "curve", "n_obs", "method"]


def test_another_run_in_the_same_folder_is_one_message(toy: Path, tmp_path: Path) -> None:
    class Rival(CountingExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            if not self.reps:
                self.reps.append(("", 0))
                run_study(toy, out=tmp_path)
            return super().submit(*args, **kwargs)

    with pytest.raises(StoreError, match="another run is at work in"):
        run_study(toy, out=tmp_path, executor=Rival)


def test_progress_shows_an_eta_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream_class, shown in ((Terminal, True), (io.StringIO, False)):
        error = stream_class()
        monkeypatch.setattr(sys, "stderr", error)
        with progress_bar("toy", 60, 20) as advance:
            advance(10)
        assert ("30/60" in error.getvalue()) is shown
        assert bool(error.getvalue()) is shown
