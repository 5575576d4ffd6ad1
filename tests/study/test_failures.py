"""What fails is counted, and leaves everything else standing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nwsim.exceptions import StudyError
from nwsim.seeding import stream
from nwsim.study import (
    FailureShareError,
    MissingReplicatesError,
    load_results,
    load_study,
    run_study,
)
from nwsim.study.checkpoint_file import CHECKPOINT
from nwsim.study.executors import InlineExecutor
from nwsim.study.replicate import read_only
from tests.study.toys import CountingExecutor, rewrite, snapshot, write_study

ROOT = Path(__file__).resolve().parents[2]


def failures_of(folder: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / CHECKPOINT)
    rows = connection.execute(
        "SELECT method, rep, type, message FROM failures ORDER BY cell, rep, method"
    ).fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize("swap", [False, True])
def test_a_failing_method_leaves_the_other_standing(tmp_path: Path, swap: bool) -> None:
    whole = run_study(write_study(tmp_path / "s"), out=tmp_path / "whole").performance
    failing = 'if condition["n_obs"] == 100: raise ValueError("no luck")'
    path = write_study(tmp_path / "f", BEFORE_HALF=failing)
    if swap:
        rewrite(
            path,
            '(Method("plain", plain), Method("half", half))',
            '(Method("half", half), Method("plain", plain))',
        )
    with pytest.raises(FailureShareError, match=r"100\.0% .* 'half' .* ValueError: no luck") as bad:
        run_study(path, out=tmp_path)
    rows = bad.value.results.performance
    standing = rows[~((rows.n_obs == 100) & (rows.method == "half"))]
    expected = whole.merge(standing, on=["condition_id", "method", "measure"])
    assert len(expected) == len(standing) == len(whole) - 4
    assert (expected.estimate_x == expected.estimate_y).all()
    lost = rows[(rows.n_obs == 100) & (rows.method == "half")]
    assert lost.estimate.isna().all()
    assert set(zip(lost.n_sim, lost.n_failed, strict=True)) == {(0, 10)}


def test_every_measure_comes_from_the_replicates_that_stand(tmp_path: Path) -> None:
    nan = 'if data.values[0] > 1.5: return {"mse": float("nan"), "noise": 0.0, "n_empty": 0}'
    path = write_study(tmp_path / "s", BEFORE_PLAIN=nan)
    rewrite(path, "shared_streams", "max_failure_share=0.5,\n    shared_streams")
    results = run_study(path, out=tmp_path, n_sim=50)
    rows = results.performance
    plain = rows[rows.method == "plain"]
    assert (plain.n_failed > 0).any()
    assert (plain.n_sim + plain.n_failed == 50).all()
    assert (plain.groupby("condition_id").n_sim.nunique() == 1).all()
    assert (rows[rows.method == "half"].n_failed == 0).all()
    # The mean of noise, too, leaves out the replicates whose mse was not finite.
    task_rows = failures_of(results.folder)
    assert {(method, kind, text) for method, _, kind, text in task_rows} == {
        ("plain", "NaN", "not finite: mse")
    }
    counted = {entry["condition_id"]: entry["count"] for entry in results.manifest["failures"]}
    by_cell = plain[plain.n_failed > 0].groupby("condition_id").n_failed.first().to_dict()
    assert counted == by_cell
    # A pair counts only where both methods stand.
    pairs = results.contrasts[results.contrasts.contrast == "methods"]
    assert (pairs.n_sim == plain[plain.measure == "mse"].n_sim.to_numpy()).all()


def test_three_of_fifty(tmp_path: Path) -> None:
    failing = 'if round(rng.normal(), 9) in FATAL: raise ArithmeticError("x")'
    path = write_study(tmp_path / "s", BEFORE_HALF=failing)
    owners = {"n_obs": 50}
    draws = {rep: stream(7, owners, rep, "method:half") for rep in range(50)}
    fatal = {round(draws[rep].normal(), 9) for rep in (4, 17, 30)}
    rewrite(path, "SHIFT = 0.3", f"SHIFT = 0.3\nFATAL = {fatal!r}")
    with pytest.raises(FailureShareError, match=r"6\.0%") as caught:
        run_study(path, out=tmp_path, n_sim=50)
    rows = caught.value.results.performance
    half = rows[(rows.method == "half") & (rows.n_obs == 50) & (rows.world == "a")]
    assert set(half.n_sim) == {47}
    assert set(half.n_failed) == {3}
    # The first number decides on failure, the second is the measure.
    noise = [draws[rep].normal(size=2)[1] for rep in range(50) if rep not in (4, 17, 30)]
    row = half[half.measure == "noise"].iloc[0]
    assert row.estimate == pytest.approx(np.mean(noise), rel=1e-12)
    assert row.mcse == pytest.approx(np.std(noise, ddof=1) / np.sqrt(47), rel=1e-12)


def test_a_failing_draw_fails_every_method(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s", BEFORE_DRAW='if rng.random() < 0.3: raise OSError("dry")')
    with pytest.raises(FailureShareError):
        run_study(path, out=tmp_path)
    rows = failures_of(tmp_path / "toy")
    assert rows
    assert {kind for _, _, kind, _ in rows} == {"OSError"}
    assert {text for *_, text in rows} == {"draw: dry"}
    per_replicate = [method for method, *_ in rows]
    assert per_replicate.count("plain") == per_replicate.count("half")


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        ('return {"mse": 1.0, "n_empty": 0}', "declared but not returned: noise"),
        (
            'return {"mse": 1.0, "noise": 0.0, "n_empty": 0, "more": 1.0}',
            "returned but not declared: more",
        ),
        ('return {"mse": "x", "noise": 0.0, "n_empty": 0}', "measure 'mse' must be a number"),
        ('return {"mse": 1.0, "noise": 0.0, "n_empty": 0.5}', "count 'n_empty' must be whole"),
        ("return None", "must return a mapping"),
    ],
)
def test_undeclared_and_missing_measures_are_errors(
    tmp_path: Path, returned: str, named: str
) -> None:
    path = write_study(tmp_path / "s", BEFORE_PLAIN=returned)
    with pytest.raises(StudyError, match=named):
        run_study(path, out=tmp_path)
    assert not (tmp_path / "toy" / "performance.csv").exists()


def test_warnings_are_counted_whatever_the_filters(tmp_path: Path) -> None:
    # The test session turns warnings into errors; the replicates must stand all the same.
    noisy = 'import warnings; warnings.warn("edge", UserWarning)'
    results = run_study(write_study(tmp_path / "s", BEFORE_PLAIN=noisy), out=tmp_path)
    assert (results.performance.n_failed == 0).all()
    assert results.manifest["warnings"] == [
        {"role": "plain", "category": "UserWarning", "count": 60}
    ]


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    flag = tmp_path / "killed"
    kill = (
        f'flag = pathlib.Path({str(flag)!r})\n    if condition["n_obs"] == 100 and '
        "not flag.exists() and flag.touch() is None: os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = write_study(tmp_path / "s", BEFORE_PLAIN=kill)
    run_study(path, out=tmp_path, workers=2, block_size=5)
    assert flag.exists()
    run_study(path, out=tmp_path / "calm")
    assert snapshot(tmp_path / "toy") == snapshot(tmp_path / "calm" / "toy")


def test_a_deadly_block_is_given_up_and_the_rest_kept(tmp_path: Path) -> None:
    flag = tmp_path / "cured"
    fatal = float(stream(7, {"n_obs": 100}, 7, "data").normal(0.3, 1.0, size=100)[0])
    kill = (
        f'if not pathlib.Path({str(flag)!r}).exists() and condition["world"] == "b" and '
        f"data.values[0] == {fatal!r}: os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = write_study(tmp_path / "s", BEFORE_PLAIN=kill)
    with pytest.raises(MissingReplicatesError, match="5 replicates are missing") as caught:
        run_study(path, out=tmp_path, workers=2, block_size=5)
    # The tables are of what stands, and say so.
    results = caught.value.results
    rows = results.performance
    hit = (rows.n_obs == 100) & (rows.world == "b")
    assert set(rows[hit].n_sim) == {5}
    assert set(rows[~hit].n_sim) == {10}
    assert (rows.n_failed == 0).all()
    assert results.manifest["missing"] == {rows[hit].condition_id.iloc[0]: 5}
    pairs = results.contrasts
    assert set(pairs[(pairs.n_obs == 100) & (pairs.world == "b")].n_sim) == {5}
    flag.touch()
    rest = CountingExecutor()
    run_study(path, out=tmp_path, executor=lambda: rest)
    assert [rep for _, rep in rest.reps] == list(range(5, 10))
    run_study(path, out=tmp_path / "calm")
    assert snapshot(tmp_path / "toy") == snapshot(tmp_path / "calm" / "toy")


@pytest.mark.parametrize(
    "write",
    [
        "data.values[0] = 9.0",
        "data.values.sort()",
        "data.more[0]['x'][:] = 1.0",
        "data.values[:10].base[:] = 0.0",
    ],
)
def test_a_method_cannot_change_what_the_next_one_gets(tmp_path: Path, write: str) -> None:
    more = "    values: object\n    more: object = ()"
    whole = write_study(tmp_path / "s")
    expected = run_study(whole, out=tmp_path / "whole").performance
    path = write_study(tmp_path / "f", BEFORE_PLAIN=write)
    rewrite(path, "    values: object", more)
    rewrite(path, 'size=condition["n_obs"]))', 'size=condition["n_obs"]), [{"x": np.ones(3)}])')
    rewrite(path, "import os\n", "import os\nimport numpy as np\n")
    with pytest.raises(FailureShareError, match=r"'plain' .* ValueError: .*read-only"):
        run_study(path, out=tmp_path)
    assert {method for method, *_ in failures_of(tmp_path / "toy")} == {"plain"}
    rows = load_results("toy", tmp_path).performance
    half = rows[rows.method == "half"].reset_index(drop=True)
    assert half.equals(expected[expected.method == "half"].reset_index(drop=True))


def test_a_measure_that_is_zero_leaves_undefined_rows(tmp_path: Path) -> None:
    zero = 'return {"mse": 0.0, "noise": rng.normal(), "n_empty": 0}'
    results = run_study(write_study(tmp_path / "s", BEFORE_PLAIN=zero), out=tmp_path, n_sim=25)
    ratios = results.contrasts[results.contrasts.contrast == "worlds"]
    assert ratios[ratios.method == "plain"].estimate.isna().all()
    assert (ratios[ratios.method == "half"].estimate == 1.0).all()
    assert results.curves[results.curves.method == "plain"].estimate.isna().all()
    assert set(results.claims[results.claims.claim == "T1"].verdict) == {"inconclusive"}
    # Noise has mean zero, and 25 replicates are enough to be judged.
    assert "supported" in set(results.claims[results.claims.claim == "T2"].verdict)


def test_a_draw_may_fill_the_same_array_again(tmp_path: Path) -> None:
    expected = run_study(write_study(tmp_path / "s"), out=tmp_path / "fresh")
    path = write_study(tmp_path / "f", BEFORE_DRAW="view = BUFFER[: condition['n_obs']]")
    rewrite(path, "SHIFT = 0.3", "SHIFT = 0.3\nBUFFER = __import__('numpy').empty((1, 200))[0]")
    rewrite(path, "return Data(", "view[:] = (")
    rewrite(path, 'size=condition["n_obs"]))', 'size=condition["n_obs"]))\n    return Data(view)')
    results = run_study(path, out=tmp_path)
    assert results.manifest["failures"] == []
    assert results.performance.equals(expected.performance)


def test_arrays_are_read_only_for_a_while() -> None:
    base = np.zeros((2, 3))
    view, fixed, odd = base[0], np.zeros(3), np.zeros(3)
    fixed.flags.writeable = False
    part = odd[:2]
    odd.flags.writeable = False
    arrays = [view, base, fixed, part]
    before = [array.flags.writeable for array in arrays]
    assert before == [True, True, False, True]
    with read_only((view, {"a": [fixed]}, part)):
        assert not any(array.flags.writeable for array in arrays)
    assert [array.flags.writeable for array in arrays[:3]] == before[:3]


class Deadly(InlineExecutor):
    """Breaks, as a pool does whose worker dies, on conditions of its choice."""

    def __init__(self, levels: tuple[int, ...]) -> None:
        self.levels = levels

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if args[1]["n_obs"] not in self.levels:
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor())
        return future


def test_a_deadly_first_condition_leaves_the_others(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    with pytest.raises(MissingReplicatesError, match="20 replicates are missing") as caught:
        run_study(path, out=tmp_path, block_size=2, executor=lambda: Deadly((50,)))
    rows = caught.value.results.performance
    assert set(rows[rows.n_obs == 50].n_sim) == {0}
    assert set(rows[rows.n_obs > 50].n_sim) == {10}
    claims = caught.value.results.claims
    assert set(claims[claims.claim == "T1"].verdict) == {"inconclusive"}


def test_no_survivor_at_all_is_said_soon(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    made: list[Deadly] = []

    def factory() -> Deadly:
        made.append(Deadly((50, 100, 200)))
        return made[-1]

    with pytest.raises(StudyError, match="no worker process survives"):
        run_study(path, out=tmp_path, block_size=2, executor=factory)
    assert len(made) == 9


def test_workers_are_single_threaded_and_draw_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    look = (
        "import sys, threadpoolctl; "
        "assert 'matplotlib' not in sys.modules and 'pandas' not in sys.modules; "
        "assert all(pool['num_threads'] == 1 for pool in threadpoolctl.threadpool_info()); "
        "assert os.environ['OMP_NUM_THREADS'] == os.environ['NUMBA_NUM_THREADS'] == '1'"
    )
    before = dict(os.environ)
    path = write_study(tmp_path / "s", BEFORE_PLAIN=look)
    results = run_study(path, out=tmp_path, workers=2)
    assert results.manifest["failures"] == []
    assert dict(os.environ) == before


def test_draw_and_specification_are_unchanged_by_a_run(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "s"))
    before = repr(study)
    run_study(study, out=tmp_path)
    assert repr(study) == before


ODD_ERRORS = """
class Mute(Exception):
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


class Silent(Mute):
    def __repr__(self):
        return "Silent here"


def draw("""


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        ("MemoryError('too large')", "MemoryError", "too large"),
        ("SystemExit(3)", "SystemExit", "3"),
        ("Mute()", "Mute", "Mute without a text"),
        ("Silent()", "Silent", "Silent here"),
        (r"ValueError('a\udcffb')", "ValueError", r"a\udcffb"),
    ],
)
def test_odd_exceptions_are_failures(tmp_path: Path, raised: str, kind: str, text: str) -> None:
    path = write_study(tmp_path / "s", BEFORE_PLAIN=f"raise {raised}")
    rewrite(path, "\ndef draw(", ODD_ERRORS)
    with pytest.raises(FailureShareError):
        run_study(path, out=tmp_path, n_sim=2, block_size=1)
    rows = failures_of(tmp_path / "toy")
    assert {(method, name, words) for method, _, name, words in rows} == {("plain", kind, text)}
    assert len(rows) == 12


def test_numbers_too_large_for_a_float_are_named(tmp_path: Path) -> None:
    huge = 'return {"mse": 10**5000, "noise": 0.0, "n_empty": 0}'
    with pytest.raises(StudyError, match="measure 'mse' is too large for a float"):
        run_study(write_study(tmp_path / "s", BEFORE_PLAIN=huge), out=tmp_path)


def test_a_study_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s", BEFORE_PLAIN="LOCK")
    rewrite(path, "SHIFT = 0.3", "SHIFT = 0.3\nLOCK = __import__('threading').Lock()")
    with pytest.raises(StudyError, match=r"study 'toy' uses what cannot be sent .*lock"):
        run_study(path, out=tmp_path)


def test_futures_that_nobody_ends_do_not_hold_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster whose scheduler dies may lose a future without a word."""
    monkeypatch.setattr("nwsim.study.runner._LOOK", 0.05)
    made: list[int] = []

    class Gone(InlineExecutor):
        workers = 2
        is_alive = False

        def submit(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            if len(made) == 1:
                return Future()
            return super().submit(*args, **kwargs)

    def factory() -> Gone:
        made.append(1)
        return Gone()

    path = write_study(tmp_path / "s")
    results = run_study(path, out=tmp_path, executor=factory)
    assert len(made) == 2
    assert results.manifest["missing"] == {}
    assert (results.performance["n_sim"] == 10).all()
