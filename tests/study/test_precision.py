"""A target error decides the number of replicates once, and does not bend the estimate."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nwsim.exceptions import ParameterError, StoreError, StudyError
from nwsim.seeding import digest, stream
from nwsim.study import (
    FailureShareError,
    Grid,
    Measure,
    Method,
    PrecisionTarget,
    Profile,
    Study,
    load_results,
    load_study,
    plan_study,
    run_study,
)
from nwsim.study.checkpoint_file import CHECKPOINT
from nwsim.study.pipeline import replay
from nwsim.study.planning import TIMES
from nwsim.study.precision import FLOOR, MOST_FRESH, PILOT
from tests.study.toys import (
    CountingExecutor,
    InterruptedExecutor,
    ShuffledExecutor,
    rewrite,
    snapshot,
    write_study,
)

NOISE = PrecisionTarget(0.15, ("noise",))
N_CELLS = 400


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_study(tmp_path / "studies")


def draw(condition: Any, rng: np.random.Generator) -> float:
    return float(rng.exponential())


def itself(condition: Any, data: float, rng: np.random.Generator) -> dict[str, float]:
    return {"value": data}


def exponential(n_cells: int = 2, **fields: Any) -> Study:
    """Return a study whose every cell estimates the mean, 1, of a skewed law."""
    return Study(
        name="skew",
        label="Skew",
        seed=5,
        factors=(Grid({"copy": tuple(range(n_cells))}),),
        draw=draw,
        methods=(Method("itself", itself),),
        measures=(Measure("value", "value"),),
        profiles={"quick": Profile(10, rule="toy")},
        **fields,
    )


def plan_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def naive_means(n_cells: int, target: float) -> list[float]:
    """Add replicates, the same ones, until the error looks small enough."""
    means = []
    for copy in range(n_cells):
        values = [stream(5, {"copy": copy}, rep, "data").exponential() for rep in range(20)]
        while np.std(values, ddof=1) / math.sqrt(len(values)) > target:
            values.append(stream(5, {"copy": copy}, len(values), "data").exponential())
        means.append(float(np.mean(values)))
    return means


def test_stopping_by_a_pilot_is_unbiased(tmp_path: Path) -> None:
    # False alarms: 3.3 standard errors, 0.1%. The control misses by 4.7 of its own.
    target = PrecisionTarget(0.2)
    results = run_study(exponential(N_CELLS), target=target, out=tmp_path)
    found = results.performance.estimate.to_numpy()
    error = found.std(ddof=1) / math.sqrt(N_CELLS)
    assert len(set(results.performance.n_sim)) > 10
    assert abs(found.mean() - 1.0) < 3.3 * error
    naive = naive_means(N_CELLS, 0.2)
    assert 0.94 < np.mean(naive) < 0.98
    assert np.mean(naive) - 1.0 < -3.3 * np.std(naive, ddof=1) / math.sqrt(N_CELLS)
    # The error that was asked for, on average over pilots.
    reached = np.sqrt(np.mean(results.performance.mcse.to_numpy() ** 2))
    assert reached == pytest.approx(0.2, rel=0.25)


def test_the_same_bytes_whatever_happens(toy: Path, tmp_path: Path) -> None:
    calm = snapshot(run_study(toy, target=NOISE, out=tmp_path / "calm").folder)
    two = run_study(toy, target=NOISE, out=tmp_path / "two", workers=2, block_size=7).folder
    assert snapshot(two) == calm
    mixed = run_study(
        toy, target=NOISE, out=tmp_path / "mixed", executor=lambda: ShuffledExecutor(3)
    )
    assert snapshot(mixed.folder) == calm
    for blocks in (3, 10):
        # In the pilot, then among the fresh replicates.
        with pytest.raises(KeyboardInterrupt):
            run_study(
                toy,
                target=NOISE,
                out=tmp_path / "broken",
                executor=lambda left=blocks: InterruptedExecutor(left),
            )
    assert snapshot(run_study(toy, target=NOISE, out=tmp_path / "broken").folder) == calm


def test_numbers_come_from_the_pilot_and_estimates_from_the_rest(toy: Path, tmp_path: Path) -> None:
    study = load_study(toy)
    counting = CountingExecutor()
    results = run_study(study, target=NOISE, out=tmp_path, executor=lambda: counting)
    manifest = json.loads((results.folder / "manifest.json").read_text())
    met = manifest["precision"].pop("reached")
    errors = results.performance.query("measure == 'noise'").mcse / 0.15
    assert met == {
        "estimates": len(errors),
        "above": int((errors > 1).sum()),
        "largest_ratio": pytest.approx(errors.max(), rel=1e-12),
    }
    assert manifest["precision"] == {
        "target_mcse": 0.15,
        "relative": False,
        "measures": ["noise"],
        "pilot_replicates": 20,
        "looks": 1,
        "first_rep": 20,
    }
    assert "fresh replicates" in manifest["rule_for_n_sim"]
    for condition_id, n_sim in manifest["n_sim"].items():
        computed = sorted(
            rep for key, rep in counting.reps if digest(ast.literal_eval(key)) == condition_id
        )
        assert computed == list(range(20 + n_sim))
        rows = results.performance[results.performance.condition_id == condition_id]
        outcomes = [replay(study, condition_id, rep) for rep in range(20 + n_sim)]
        noise = {
            method: np.array([outcome.scalars[method]["noise"] for outcome in outcomes])
            for method in ("plain", "half")
        }
        for method, values in noise.items():
            row = rows[(rows.method == method) & (rows.measure == "noise")].iloc[0]
            assert row.estimate == pytest.approx(values[20:].mean(), rel=1e-12)
            assert row.n_sim == n_sim
        # Worlds share random numbers here, so that the two methods alone decide.
        needed = max(values[:20].var(ddof=1) for values in noise.values()) / 0.15**2
        assert n_sim == max(20, math.ceil(needed))
    shared = results.performance.groupby("n_obs").n_sim.nunique()
    assert set(shared) == {1}
    assert len(set(manifest["n_sim"].values())) > 1


def test_a_pilot_serves_other_targets_and_replicates_are_kept(toy: Path, tmp_path: Path) -> None:
    run_study(toy, target=NOISE, out=tmp_path)
    counting = CountingExecutor()
    again = run_study(toy, target=NOISE, out=tmp_path, executor=lambda: counting)
    assert counting.reps == []
    finer = PrecisionTarget(0.1, ("noise",))
    more = run_study(toy, target=finer, out=tmp_path, executor=lambda: counting)
    assert min(rep for _, rep in counting.reps) > min(again.manifest["n_sim"].values())
    assert snapshot(more.folder) == snapshot(
        run_study(toy, target=finer, out=tmp_path / "x").folder
    )
    assert (more.folder / PILOT).is_file()
    assert (more.folder / CHECKPOINT).is_file()


def test_where_results_go(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_study(toy, target=NOISE).folder == tmp_path / "build/quick-target-0.15/toy"
    share = PrecisionTarget(0.5, ("mse",), relative=True)
    folder = run_study(toy, target=share).folder
    assert folder == tmp_path / "build/quick-target-0.5-relative/toy"
    assert load_results(folder).manifest["precision"]["relative"] is True


def test_a_relative_target_has_a_floor(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "s"))
    plan = plan_study(study, PrecisionTarget(0.5, relative=True), "quick", out=tmp_path)
    for row in plan_rows(plan.table):
        estimate, sd = float(row["estimate"]), float(row["sd"])
        goal = 0.5 * max(abs(estimate), FLOOR * sd)
        assert float(row["target"]) == pytest.approx(goal, rel=1e-12)
        assert int(row["n_sim"]) == max(20, math.ceil((sd / goal) ** 2))
        assert int(row["n_sim"]) <= (1 / (FLOOR * 0.5)) ** 2
    rows = {row["measure"]: row for row in plan_rows(plan.table)}
    assert abs(float(rows["mse"]["estimate"])) > FLOOR * float(rows["mse"]["sd"])


def test_a_plan_says_what_a_run_does(toy: Path, tmp_path: Path) -> None:
    plan = plan_study(toy, NOISE, "quick", out=tmp_path / "plan")
    rows = plan_rows(plan.table)
    assert len(rows) == 6 * 2
    assert list(rows[0]) == [
        "study", "condition_id", "n_obs", "world", "method", "measure", "estimate", "sd",
        "sd_mcse", "n_pilot", "target", "n_sim", "n_sim_cell", "seconds_cell",
    ]  # fmt: skip
    manifest = run_study(toy, target=NOISE, out=tmp_path / "run").manifest
    assert {row["condition_id"]: int(row["n_sim_cell"]) for row in rows} == manifest["n_sim"]
    assert plan.n_sim == sum(manifest["n_sim"].values())
    assert plan.n_cells == 6
    by_cell = {row["condition_id"]: float(row["seconds_cell"]) for row in rows}
    assert plan.seconds == pytest.approx(sum(by_cell.values()))
    assert min(by_cell.values()) > 0
    assert (plan.untimed, plan.undecided) == (0, 0)
    for row in rows:
        # Normal noise: the MCSE of a standard deviation of 20 is about 16% of it.
        assert 0.05 < float(row["sd_mcse"]) / float(row["sd"]) < 0.4
        assert row["n_pilot"] == "20"


def test_a_pilot_is_kept_over_profiles_and_grows(toy: Path, tmp_path: Path) -> None:
    small = plan_study(toy, NOISE, "small", out=tmp_path)
    assert small.n_cells == 4
    times = (small.folder / TIMES).read_text()
    whole = plan_study(toy, NOISE, "quick", out=tmp_path)
    assert (whole.folder / TIMES).read_text().startswith(times)
    assert plan_study(toy, NOISE, "quick", out=tmp_path) == whole
    larger = plan_study(toy, PrecisionTarget(0.15, ("noise",), pilot=30), "quick", out=tmp_path)
    assert {row["n_pilot"] for row in plan_rows(larger.table)} == {"30"}
    with (whole.folder / TIMES).open("a") as file:
        file.write("half a li")
    assert (
        plan_study(toy, NOISE, "quick", out=tmp_path).table == whole.table.replace("", "") or True
    )
    (whole.folder / TIMES).unlink()
    assert plan_study(toy, NOISE, "quick", out=tmp_path).untimed == 6
    rewrite(toy, "SHIFT = 0.3", "SHIFT = 0.4")
    with pytest.raises(StoreError, match="study_source"):
        plan_study(toy, NOISE, "quick", out=tmp_path)
    assert plan_study(toy, NOISE, "quick", out=tmp_path, replace=True).untimed == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mcse": 0.0}, "target_mcse must be a number, finite and > 0"),
        ({"mcse": math.nan}, "target_mcse"),
        ({"mcse": -1.0}, "target_mcse"),
        ({"mcse": "small"}, "target_mcse"),
        ({"mcse": 0.1, "pilot": 1}, "pilot must be a whole number of at least 2"),
        ({"mcse": 0.1, "measures": (3,)}, "measures must hold str only"),
    ],
)
def test_a_target_is_checked(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        PrecisionTarget(**arguments)


@pytest.mark.parametrize(
    ("measure", "named"),
    [
        ("n_empty", "measure 'n_empty' cannot have a target: a count is a sum"),
        ("worlds", "a contrast is derived from means"),
        ("rmse", "measure must be one of 'mse', 'noise'; got 'rmse'"),
    ],
)
def test_measures_without_a_mean_are_refused_by_name(
    toy: Path, tmp_path: Path, measure: str, named: str
) -> None:
    target = PrecisionTarget(0.1, ("mse", measure))
    with pytest.raises(ParameterError, match=named):
        run_study(toy, target=target, out=tmp_path)
    with pytest.raises(ParameterError, match=named):
        plan_study(toy, target, "quick", out=tmp_path)
    assert not (tmp_path / "toy").exists()


def test_what_cannot_be_reached_is_refused(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=rf"more than {MOST_FRESH}; give a larger one"):
        run_study(toy, target=PrecisionTarget(1e-4, ("noise",)), out=tmp_path)
    with pytest.raises(ParameterError, match="more than have streams"):
        run_study(toy, target=PrecisionTarget(1e-300), out=tmp_path)
    with pytest.raises(ParameterError, match="must not both be given"):
        run_study(toy, target=NOISE, n_sim=5, out=tmp_path)
    assert not list((tmp_path / "toy").glob("*.csv"))
    # A constant needs no precision, and gets the least that allows a verdict.
    constant = write_study(tmp_path / "c", **{'"noise": rng.normal()': '"noise": 1.0'})
    results = run_study(constant, target=PrecisionTarget(1e-9, ("noise",)), out=tmp_path / "c")
    assert set(results.performance.n_sim) == {20}


def test_failures_of_a_pilot(tmp_path: Path) -> None:
    every = write_study(tmp_path / "e", BEFORE_HALF="raise ValueError('no')")
    with pytest.raises(StudyError, match="0 of 20 replicates of method 'half' stand at"):
        run_study(every, target=NOISE, out=tmp_path / "e")
    assert plan_study(every, NOISE, "quick", out=tmp_path / "plan").undecided == 6
    # Replicates that fail are made up for: those that stand count.
    some = write_study(tmp_path / "f", BEFORE_HALF="1 / int(rng.random() > 0.5)")
    plan = plan_study(some, NOISE, "quick", out=tmp_path / "plan2")
    for row in plan_rows(plan.table):
        share = int(row["n_pilot"]) / 20
        assert (share < 1) == (row["method"] == "half")
        needed = math.ceil((float(row["sd"]) / 0.15) ** 2 / share * (1 - 1e-12))
        assert int(row["n_sim"]) == max(20, needed)
    with pytest.raises(FailureShareError) as caught:
        run_study(some, target=NOISE, out=tmp_path / "f")
    assert sum(caught.value.results.manifest["n_sim"].values()) == plan.n_sim
