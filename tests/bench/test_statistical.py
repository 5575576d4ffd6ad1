"""Statistical speed: the routes estimate one quantity, and gains are what they claim."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nwsim.bench import routes, statistical
from nwsim.bench.routes import GENTLE, ROUTES, Cell
from nwsim.bench.statistical import Sampled
from nwsim.inference import jackknife

N_PILOT, N_SLOW = 60, 3
SMALL = Cell("rate", "small", "fixed", 256, 0.05, options=GENTLE)
REDRAWN = Cell("rate", "small", "redrawn", 128, 0.2, "epanechnikov", options=GENTLE)
HEADS = Cell("decomposition", "small", "fixed", 64, 0.4, n_heads=2)


@pytest.fixture(scope="module")
def small() -> dict[str, dict[str, Any]]:
    rows = statistical.cell_rows(SMALL, N_PILOT, N_SLOW)
    return {row["route"]: row for row in rows}


def test_three_routes_estimate_one_quantity(small: dict[str, dict[str, Any]]) -> None:
    assert {name: row["status"] for name, row in small.items()} == dict.fromkeys(ROUTES, "ok")
    row = small["conditional"]
    assert 0.0 < abs(row["difference"]) < 4.0 * row["difference_mcse"]
    # The paired difference must be sharp enough to see a tenth of the error.
    assert row["difference_mcse"] < 0.1 * row["estimate"]


def test_statsmodels_reproduces_the_plain_route_to_rounding() -> None:
    for rep in range(3):
        data = SMALL.draw(rep)
        assert routes.statsmodels(SMALL, data) == pytest.approx(
            routes.plain(SMALL, data), rel=1e-10
        )


def test_a_route_to_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def half_the_noise(cell: Cell, data: Any) -> float:
        parts = routes.decomposed(cell, data)
        return parts.mse - 0.5 * parts.variance

    def narrower(cell: Cell, data: Any) -> float:
        return routes.statsmodels(Cell("rate", "", "fixed", 256, 0.0501, options=GENTLE), data)

    monkeypatch.setitem(ROUTES, "conditional", half_the_noise)
    monkeypatch.setitem(ROUTES, "statsmodels", narrower)
    rows = statistical.cell_rows(SMALL, N_PILOT, N_SLOW)
    assert [row["status"] for row in rows] == ["disagrees", "ok", "disagrees"]


def test_noise_averaged_out_saves_replicates(small: dict[str, dict[str, Any]]) -> None:
    row = small["conditional"]
    # First order gives 2 n h sqrt(2 pi) / (1 - 1/2), some 130, for a region of length 1/2.
    assert row["gain_replicates"] > 20.0
    assert 0.0 < row["gain_replicates_se"] < row["gain_replicates"]
    assert abs(row["bias2_share"]) < 0.05
    assert small["plain"]["gain_replicates"] == small["statsmodels"]["gain_replicates"] == 1.0


def test_heads_are_served_by_two_routes() -> None:
    rows = {row["route"]: row for row in statistical.cell_rows(HEADS, 20, 2)}
    assert rows["conditional"]["status"] == rows["plain"]["status"] == "ok"
    assert rows["statsmodels"]["status"] == "not_served"
    assert "heads" in rows["statsmodels"]["message"]
    assert "seconds_needed" not in rows["statsmodels"]


def test_a_kernel_that_statsmodels_lacks_is_named() -> None:
    assert routes.refusal(REDRAWN, "statsmodels") == (
        "not_served",
        "KernelReg has no kernel epanechnikov",
    )
    assert routes.refusal(REDRAWN, "plain") is None


def test_statsmodels_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "find_spec", lambda name: None)
    refused = routes.refusal(SMALL, "statsmodels")
    assert refused is not None
    assert refused[0] == "not_installed"


def test_a_fixed_function_serves_all_replicates() -> None:
    one, other = SMALL.draw(0), SMALL.draw(1)
    assert one.function is other.function
    np.testing.assert_array_equal(one.queries, other.queries)
    assert not np.array_equal(one.samples[0].X, other.samples[0].X)
    one, other = REDRAWN.draw(0), REDRAWN.draw(1)
    assert not np.array_equal(one.queries, other.queries)
    assert not np.array_equal(one.function(one.queries), other.function(one.queries))


def test_a_replicate_is_the_same_at_every_call() -> None:
    one, again = REDRAWN.draw(3), REDRAWN.draw(3)
    np.testing.assert_array_equal(one.samples[1].X, again.samples[1].X)
    np.testing.assert_array_equal(one.responses(1), again.responses(1))


def sampled(values: np.ndarray, seconds: float) -> Sampled:
    return Sampled(np.arange(len(values)), values, np.full(len(values), seconds))


def test_replicates_needed_follow_from_the_pilot() -> None:
    rng = np.random.default_rng(0)
    few, many = 5.0 + rng.normal(size=200), 5.0 + 10.0 * rng.normal(size=200)
    found = {"conditional": sampled(few, 0.2), "plain": sampled(many, 0.1)}
    target = 0.05
    row = statistical.route_columns("conditional", found, target)
    plain = statistical.route_columns("plain", found, target)
    assert row["n_sim_needed"] == math.ceil((few.std(ddof=1) / target) ** 2)
    assert row["seconds_needed"] == pytest.approx(0.2 * row["n_sim_needed"])
    assert plain["seconds_needed"] == pytest.approx(0.1 * plain["n_sim_needed"])
    assert row["gain_replicates"] == pytest.approx(many.var(ddof=1) / few.var(ddof=1))
    assert row["gain_seconds"] == pytest.approx(plain["seconds_needed"] / row["seconds_needed"])
    assert plain["gain_seconds"] == 1.0


def test_the_error_of_a_gain_is_that_of_normal_theory() -> None:
    # Var log s^2 is 2/(R - 1) for normal values, twice that for two independent variances.
    pairs = np.random.default_rng(1).normal(size=(400, 2))
    found = jackknife(statistical.log_variance_ratio, pairs)
    assert found.mcse == pytest.approx(math.sqrt(4.0 / 399.0), rel=0.25)


def test_slow_replicates_are_spread_over_the_pilot() -> None:
    found = statistical.sample_routes(SMALL, dict.fromkeys(ROUTES, lambda cell, data: 1.0), 9, 3)
    assert found["plain"].reps.tolist() == list(range(9))
    assert found["statsmodels"].reps.tolist() == [0, 4, 8]


def test_cells_are_distinct_and_hold_the_target_of_the_benchmark() -> None:
    for quick in (True, False):
        found = [(c.study, c.name, c.function, c.n_obs, c.kernel) for c in routes.cells(quick)]
        assert len(set(found)) == len(found)
    assert ("rate", "variance-bound", "fixed", 4096, "gaussian") in found


def test_a_run_writes_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistical, "cells", lambda quick: (REDRAWN,))
    drawn: list[Path] = []
    monkeypatch.setattr("nwsim.report.statistical.draw_statistical", drawn.append)
    statistical.run(tmp_path, quick=True)
    assert drawn == [tmp_path]
    table = pd.read_csv(tmp_path / "statistical.csv")
    assert tuple(table.columns) == statistical.COLUMNS
    assert table["route"].tolist() == list(ROUTES)
    assert table["status"].tolist() == ["ok", "ok", "not_served"]
    assert table["target_mcse"].iloc[0] == pytest.approx(
        statistical.TARGET * table["estimate"].iloc[0]
    )
