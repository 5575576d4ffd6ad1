"""Scaling curves: what is called, in which order, and how answers are checked; no times."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nwsim.bench import scaling, second_worker
from nwsim.bench.interleaved import interleaved, quartiles
from nwsim.exceptions import ParameterError
from nwsim.smoothing import ENGINES, NadarayaWatson

TINY = dataclasses.replace(
    scaling.QUICK,
    limit=60.0,
    budget=1e-6,
    n_obs=(256, 512),
    n_queries=(4, 8),
    dims=(1, 2),
    heads=(1, 2),
)
GAUSSIAN, EPANECHNIKOV = scaling.SETTINGS[:2]


def test_calls_take_turns_and_the_order_turns_round() -> None:
    log: list[str] = []
    seconds = interleaved([lambda: log.append("a"), lambda: log.append("b")], 1e-9, least=3)
    assert "".join(log) == "ab" + "abbaab"
    assert seconds.shape == (3, 2)
    assert (seconds >= 0.0).all()


def test_rounds_end_at_the_most() -> None:
    assert interleaved([int], 60.0, least=1, most=4).shape == (4, 1)


@pytest.mark.parametrize(
    ("calls", "options", "named"),
    [([], {}, "calls"), ([int], {"least": 0}, "least"), ([int], {"most": 2}, "most")],
)
def test_rounds_without_sense_are_refused(
    calls: list[type], options: dict[str, int], named: str
) -> None:
    with pytest.raises(ParameterError, match=named):
        interleaved(calls, 1.0, **options)


def test_a_budget_must_be_positive() -> None:
    with pytest.raises(ParameterError, match="budget"):
        interleaved([int], 0.0)


def test_quartiles() -> None:
    assert quartiles(np.arange(5.0)) == (2.0, 1.0, 3.0)


def test_engines_are_those_that_serve() -> None:
    assert set(scaling.engines_of(EPANECHNIKOV)) >= {"direct", "window", "cells", "auto"}
    found = scaling.engines_of(GAUSSIAN)
    assert found[0] == "direct"
    assert found[-1] == "auto"
    assert not {"window", "cells"} & set(found)


@pytest.mark.parametrize("setting", scaling.SETTINGS, ids=lambda s: f"{s.kernel}-{s.dim}")
def test_engines_agree_along_the_sample_size(setting: scaling.Setting) -> None:
    rows = pd.DataFrame(scaling.engine_rows("n_obs", setting, TINY.n_obs, TINY))
    assert set(rows["x"]) == {256, 512}
    assert set(rows["engine"]) == set(scaling.engines_of(setting))
    assert set(rows["served_by"]) <= set(ENGINES)
    assert (rows["status"] == "ok").all()
    assert (rows["error"] <= scaling.ACCEPTED).all()
    assert (rows["relative_to"] == "direct").all()
    assert rows.loc[rows["engine"] == "direct", "ratio"].tolist() == [1.0, 1.0]


def test_a_wrong_answer_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    right = NadarayaWatson.predict

    def predict(self: NadarayaWatson, Q: np.ndarray) -> np.ndarray:
        off = 1e-9 if self.engine == "auto" else 0.0
        return right(self, Q) + off

    monkeypatch.setattr(NadarayaWatson, "predict", predict)
    rows = scaling.engine_rows("n_queries", EPANECHNIKOV, (8,), TINY)
    assert {
        row["engine"]: row["status"] for row in rows if row["engine"] in ("auto", "direct")
    } == {
        "direct": "ok",
        "auto": "wrong",
    }


def test_no_number_is_wrong() -> None:
    assert scaling.verdict(float("nan")) == "wrong"


def test_an_engine_leaves_when_its_next_call_would_take_too_long() -> None:
    hasty = dataclasses.replace(TINY, limit=1e-9)
    rows = scaling.engine_rows("n_obs", EPANECHNIKOV, TINY.n_obs, hasty)
    assert {row["x"] for row in rows} == {256}


def test_dimensions_and_heads_are_checked() -> None:
    rows = [*scaling.dim_rows(TINY), *scaling.head_rows(TINY)]
    assert [(row["curve"], row["x"]) for row in rows] == [
        *(("dim", 1), ("dim", 2)),
        *(("n_heads", 1), ("n_heads", 2)),
    ]
    assert all(row["status"] == "ok" for row in rows)


def test_slopes_are_those_of_each_line() -> None:
    def row(curve: str, dim: int, x: int, seconds: float) -> dict[str, object]:
        place = {"curve": curve, "kernel": "gaussian", "dim": dim, "engine": "direct"}
        return place | {"x": x, "median_s": seconds}

    table = scaling.with_slopes(
        [row("n_obs", d, x, x**p) for d, p in ((1, 1.0), (2, 2.0)) for x in (4, 8, 16)]
        + [row("dim", x, x, x**0.5) for x in (1, 2)]
    )
    nan = float("nan")
    expected = [nan, 1.0, 1.0, nan, 2.0, 2.0, nan, 0.5]
    np.testing.assert_allclose(table["local_slope"], expected, rtol=1e-12)


def test_a_run_writes_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "QUICK", TINY)
    monkeypatch.setattr(scaling, "SETTINGS", (EPANECHNIKOV,))
    # Start-up of 1 and 2 seconds, and 12 and 6 seconds of replicates.
    whole, part, machine = ([[13.0, 8.0]], [[4.0, 3.5]], [[12.0, 8.0]])
    made = second_worker.rows_of(*map(np.array, (whole, part, machine)), 100)
    monkeypatch.setattr(scaling, "worker_rows", lambda study_s, n_rounds: made)
    drawn: list[Path] = []
    monkeypatch.setattr("nwsim.report.scaling.draw_scaling", drawn.append)
    scaling.run(tmp_path, quick=True)
    assert drawn == [tmp_path]
    table = pd.read_csv(tmp_path / "scaling.csv")
    assert tuple(table.columns) == scaling.COLUMNS
    assert set(table["curve"]) == {"n_obs", "n_queries", "dim", "n_heads", "workers"}
    two = table[(table["curve"] == "workers") & (table["x"] == 2)].set_index("engine")
    assert two["median_s"].to_dict() == pytest.approx(
        {"study": 8.0, "startup": 2.0, "study_less_startup": 6.0, "machine": 8.0}
    )
    assert two["ratio"].to_dict() == pytest.approx(
        {"study": 8 / 13, "startup": 2.0, "study_less_startup": 0.5, "machine": 2 / 3}
    )


def test_the_study_of_workers_runs() -> None:
    assert second_worker.study_seconds(1, 2) > 0.0


def test_processes_share_all_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        def __init__(self, shares: list[int], share: int) -> None:
            shares.append(share)

        def result(self) -> float:
            return 0.0

    class Pool:
        def __init__(self) -> None:
            self.shares: list[int] = []

        def submit(self, function: object, share: int) -> Done:
            assert function is second_worker.replicate_seconds
            return Done(self.shares, share)

    pool = Pool()
    second_worker.machine_seconds(pool, 2, 10)  # type: ignore[arg-type]
    assert pool.shares == [5, 5]
