"""Tables keep every bit; slopes, claims and contrasts say what they are made from."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim._files import CLAIM_COLUMNS, parse_setting, replacing, setting_text, write_atomic
from nwsim.exceptions import ParameterError, StoreError, StudyError
from nwsim.inference import Estimate, Verdict, equivalence
from nwsim.seeding import digest
from nwsim.study import (
    Claim,
    ClaimRule,
    Contrast,
    Curve,
    CurvePoint,
    CurveRule,
    Points,
    register_rule,
    rules,
)
from nwsim.study.cells import Cell
from nwsim.study.derived import compare, derive, judge
from nwsim.study.judging import judge_rate, judge_rate_of_log
from nwsim.study.results import RESERVED, TABLES, columns_of, read_results, read_table, table_text


@given(
    values=st.lists(
        st.one_of(
            st.floats(allow_nan=True, allow_infinity=True),
            st.floats(1e-12, 1e12),
            st.sampled_from([1e-12, 1e12, 0.1, -0.0, 5e-324, 1.7976931348623157e308]),
        ),
        min_size=1,
    ),
    names=st.text(st.characters(codec="utf-8"), max_size=8).filter(str.isprintable),
)
def test_floats_and_texts_come_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], names: str
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    rows = [{"name": names, "estimate": x, "n_sim": 3, "flag": True} for x in values]
    write_atomic(path, table_text(("name", "estimate", "n_sim", "flag"), rows))
    frame = read_table(path, {"flag": "bool"})
    expected = np.array(values)
    expected[np.isnan(expected)] = np.nan
    read = frame.estimate.to_numpy()
    assert (read.view(np.int64) == expected.view(np.int64))[~np.isnan(expected)].all()
    assert np.isnan(read[np.isnan(expected)]).all()
    assert frame.n_sim.dtype == np.int64
    assert frame.flag.dtype == bool
    assert frame.name.tolist() == [names] * len(values)


def test_integers_have_no_point_and_undefined_is_empty() -> None:
    text = table_text(("n", "x", "y"), [{"n": 2**60, "x": math.nan}, {"n": 1, "x": 1.0, "y": "a"}])
    assert text == "n,x,y\n1152921504606846976,,\n1,1.0,a\n"


def test_gaps_in_integer_columns_stay_gaps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n_obs,flag\n5,true\n,\n")
    frame = read_table(path, {"n_obs": "int", "flag": "bool"})
    assert frame.n_obs[0] == 5
    assert frame.n_obs.isna().tolist() == frame.flag.isna().tolist() == [False, True]


@pytest.mark.parametrize("text", ["", "a,b\n1\n", "estimate\nx\n"])
def test_damaged_tables_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"t\.csv"):
        read_table(path, {})


def test_missing_and_foreign_results(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run the study first"):
        read_results(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(StoreError, match="not a manifest"):
        read_results(tmp_path)


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    write_atomic(path, "old")

    def fail(self: Path, data: bytes) -> int:
        self.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(StoreError, match="No space left"):
        write_atomic(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]
    assert path.read_text() == "old"


class Toy:
    """Estimates by level of n_obs, with replicates that have exactly these means."""

    def __init__(self, values: dict[int, float], mcse: float, n_sim: int = 100) -> None:
        self.values, self.mcse, self.n_sim = values, mcse, n_sim
        self.lost: dict[int, set[int]] = {}

    def reps(self, cell: Cell) -> np.ndarray:
        lost = self.lost.get(int(cell.factors["n_obs"]), set())
        return np.array([rep for rep in range(self.n_sim) if rep not in lost], dtype=np.int64)

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        value = self.values[int(cell.factors["n_obs"])]
        return Estimate(value, abs(self.mcse * value), self.reps(cell).size)

    def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
        reps = self.reps(cell)
        return reps, self.values[int(cell.factors["n_obs"])] + 1e-3 * np.sin(reps)


def line(values: dict[int, float], mcse: float, n_sim: int = 100) -> tuple[list[Cell], Toy]:
    cells = [
        Cell(f"{n}", {"n_obs": n, "alpha": 0.5}, n_sim, {"m": ("mse",)})
        for n in sorted(values, reverse=True)
    ]
    return cells, Toy(values, mcse, n_sim)


POWER = {n: 3.0 * n**-0.8 for n in (250, 500, 1000, 2000, 4000, 8000)}


def claim(**fields: object) -> Claim:
    base = {
        "id": "R", "statement": "s", "quantity": "mse", "theory": -0.8, "margin": 0.02,
        "rule": "rate",
    }  # fmt: skip
    return Claim(**{**base, **fields})  # type: ignore[arg-type]


def test_rate_claims() -> None:
    # One percent noise on six doublings: the standard error of the slope is 0.00345.
    cells, estimates = line(POWER, 0.01)
    row = judge(claim(), cells, estimates)[0]
    assert row["setting"] == "alpha=0.5;method=m"
    assert row["estimate"] == pytest.approx(-0.8, abs=1e-12)
    assert row["mcse"] == pytest.approx(0.00345, abs=5e-6)
    assert row["verdict"] == "supported"
    assert judge(claim(theory=-0.7), cells, estimates)[0]["verdict"] == "refuted"
    assert judge(claim(margin=0.004), cells, estimates)[0]["verdict"] == "inconclusive"
    by_setting = claim(theory=lambda setting: -1.6 * setting["alpha"])
    assert judge(by_setting, cells, estimates)[0]["theory"] == -0.8


def test_the_rate_of_a_mean_of_logs_is_that_of_the_quantity() -> None:
    levels = np.array([500.0, 1000.0, 2000.0])
    values, relative = 3.0 * levels**-0.8, np.array([0.01, 0.02, 0.01])
    common: dict[str, Any] = {
        "levels": levels,
        "n_sim": np.full(3, 50),
        "n_planned": np.full(3, 50),
        "setting": {},
        "measure": "m",
    }
    plain = judge_rate(Points(estimates=values, mcse=values * relative, **common), -0.8, 0.1)
    logs = Points(estimates=np.log(values), mcse=relative, **common)
    of_log = judge_rate_of_log(logs, -0.8, 0.1)
    assert of_log.estimate == pytest.approx(-0.8, abs=1e-12)
    assert of_log.mcse == pytest.approx(plain.mcse, rel=1e-12)
    assert of_log.verdict == "supported"
    assert judge_rate_of_log(logs, -0.5, 0.1).verdict == "refuted"
    # A constant in the logs, of any size, is none of the slope's business.
    for shift in (-5000.0, 5000.0):
        moved = Points(estimates=np.log(values) + shift, mcse=relative, **common)
        found = judge_rate_of_log(moved, -0.8, 0.1)
        assert found.estimate == pytest.approx(-0.8, abs=1e-9)
        assert found.mcse == pytest.approx(plain.mcse, rel=1e-9)


def test_a_tail_is_the_largest_levels() -> None:
    bent = {**POWER, 250: 100.0}
    cells, estimates = line(bent, 0.01)
    assert judge(claim(), cells, estimates)[0]["verdict"] == "refuted"
    assert judge(claim(tail=5), cells, estimates)[0]["verdict"] == "supported"


@pytest.mark.parametrize("bad", [-1e-4, 0.0, math.nan])
def test_a_quantity_without_logarithm_is_inconclusive(bad: float) -> None:
    cells, estimates = line({**POWER, 8000: bad}, 0.01)
    row = judge(claim(), cells, estimates)[0]
    assert row["verdict"] == "inconclusive"
    assert math.isnan(row["estimate"])
    points = derive(Curve("c", "mse", "local_slope"), cells, estimates)
    assert len(points) == 5
    assert [math.isnan(point["estimate"]) for point in points] == [False] * 4 + [True]
    assert math.isnan(derive(Curve("t", "mse", "tail_slope"), cells, estimates)[0]["estimate"])


def test_a_setting_short_of_levels_is_inconclusive() -> None:
    cells, toy = line({n: POWER[n] for n in (4000, 8000)}, 0.001)
    assert judge(claim(), cells, toy)[0]["verdict"] == "supported"
    assert judge(claim(tail=2), cells, toy)[0]["verdict"] == "supported"
    row = judge(claim(tail=3), cells, toy)[0]
    assert row["verdict"] == "inconclusive"
    assert math.isnan(row["estimate"])
    (point,) = derive(Curve("t", "mse", "tail_slope", tail=3), cells, toy)
    assert math.isnan(point["estimate"])
    assert not math.isnan(
        derive(Curve("t", "mse", "tail_slope", tail=2), cells, toy)[0]["estimate"]
    )


@pytest.mark.parametrize(("n_sim", "verdict"), [(19, "inconclusive"), (20, "supported")])
def test_few_replicates_give_an_estimate_and_no_verdict(n_sim: int, verdict: str) -> None:
    cells, toy = line(POWER, 0.01, n_sim)
    row = judge(claim(), cells, toy)[0]
    assert row["verdict"] == verdict
    assert row["estimate"] == pytest.approx(-0.8, abs=1e-12)
    assert row["ci_low"] < -0.8 < row["ci_high"]


@pytest.mark.parametrize(("lost", "verdict"), [(1, "supported"), (2, "inconclusive")])
def test_survivors_give_no_verdict(lost: int, verdict: str) -> None:
    cells, toy = line(POWER, 0.01, 100)
    toy.lost[2000] = set(range(lost))
    assert judge(claim(), cells, toy)[0]["verdict"] == verdict
    # Where that cell is not used it does not matter.
    assert judge(claim(tail=2, margin=0.1), cells, toy)[0]["verdict"] == "supported"
    single = claim(rule="equivalence", theory=lambda s: POWER[s["n_obs"]], margin=1.0)
    verdicts = {row["setting"]: row["verdict"] for row in judge(single, cells, toy)}
    assert verdicts.pop("alpha=0.5;method=m;n_obs=2000") == verdict
    assert set(verdicts.values()) == {"supported"}


def test_equivalence_claims_name_the_level_they_judge() -> None:
    cells, toy = line(POWER, 0.01)
    every = judge(claim(rule="equivalence", margin=1.0), cells, toy)
    assert [row["setting"] for row in every] == [
        f"alpha=0.5;method=m;n_obs={n}" for n in sorted(POWER, reverse=True)
    ]
    assert [row["estimate"] for row in every] == [POWER[n] for n in sorted(POWER, reverse=True)]
    theory = lambda setting: POWER[setting["n_obs"]]  # noqa: E731
    along = claim(rule="equivalence", over="n_obs", theory=theory, margin=1e-4)
    (row,) = judge(along, cells, toy)
    assert row["setting"] == "alpha=0.5;method=m;n_obs=8000"
    assert row["estimate"] == row["theory"] == POWER[8000]
    assert row["verdict"] == "supported"


def test_rules_see_the_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (rules.CLAIM_RULES, rules.CURVE_RULES):
        for name in ("falls", "steps"):
            monkeypatch.setitem(known, name, None)  # type: ignore[arg-type]
            known.pop(name)
    seen: list[Points] = []

    def falls(points: Points, theory: float, margin: float) -> Verdict:
        seen.append(points)
        matrix = points.matrix()
        return equivalence(float((np.diff(matrix) < 0).all(axis=1).mean()), 0.0, theory, margin)

    def steps(points: Points) -> list[CurvePoint]:
        step = np.diff(points.matrix())
        return [
            CurvePoint(x, mean, sd)
            for x, mean, sd in zip(
                points.levels[1:], step.mean(axis=0), step.std(axis=0), strict=True
            )
        ]

    register_rule(ClaimRule("falls", falls, over="n_obs"))
    register_rule(CurveRule("steps", steps))
    register_rule(CurveRule("steps", steps))  # a study file may be loaded twice
    with pytest.raises(ParameterError, match="'rate' is taken"):
        register_rule(ClaimRule("rate", falls))
    cells, toy = line(POWER, 0.01)
    toy.lost[500] = {3}
    (row,) = judge(claim(rule="falls", theory=1.0), cells, toy, shared=("n_obs",))
    assert row["verdict"] == "supported"
    assert row["estimate"] == 1.0
    assert [vector.size for vector in seen[0].replicates()] == [100, 99, 100, 100, 100, 100]
    assert seen[0].matrix().shape == (99, 6)
    assert seen[0].paired
    assert judge(claim(), cells, toy)[0]["verdict"] == "supported"
    rows = derive(Curve("s", "mse", "steps"), cells, toy)
    assert [row["x"] for row in rows] == [500, 1000, 2000, 4000, 8000]
    # The same numbers in every level: paired steps have no spread.
    assert [row["mcse"] for row in rows] == pytest.approx([0.0] * 5, abs=1e-15)


def test_a_rule_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, toy = line(POWER, 0.01)
    broken = claim()
    monkeypatch.setitem(rules.CLAIM_RULES, "rate", ClaimRule("rate", lambda *_: 1 / 0))  # type: ignore[arg-type,return-value]
    with pytest.raises(StudyError, match=r"'rate' of claim 'R' fails at alpha=0\.5;.*ZeroDivision"):
        judge(broken, cells, toy)


@pytest.mark.parametrize("kind", ["ratio", "difference"])
def test_a_baseline_of_zero_is_one_undefined_row(kind: str) -> None:
    cells, _ = line({1: 0.0, 2: 1.0}, 0.1)

    class Zero(Toy):
        def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
            return self.reps(cell), np.full(100, self.values[int(cell.factors["n_obs"])])

    cells = [Cell(digest(cell.factors), cell.factors, cell.n_sim, cell.outputs) for cell in cells]
    contrast = Contrast("c", "mse", "n_obs", 2, 1, kind=kind)
    (row,) = compare(contrast, cells, Zero({1: 0.0, 2: 1.0}, 0.1))
    assert row["n_sim"] == 100
    assert math.isnan(row["estimate"]) is (kind == "ratio")
    assert math.isnan(row["mcse"]) is (kind == "ratio")


def test_local_slopes_lie_between_their_levels() -> None:
    cells, estimates = line(POWER, 0.01)
    points = derive(Curve("c", "mse", "local_slope"), cells, estimates)
    assert [point["x"] for point in points] == pytest.approx(
        [250 * 2 ** (k + 0.5) for k in range(5)]
    )
    assert [point["estimate"] for point in points] == pytest.approx([-0.8] * 5)
    assert "n_obs" not in points[0]


def test_settings_are_sorted_and_come_back() -> None:
    text = setting_text({"b": 1, "a": 0.5, "c": True})
    assert text == "a=0.5;b=1;c=true"
    assert parse_setting(text) == {"a": "0.5", "b": "1", "c": "true"}


def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_atomic(tmp_path / "new" / "t.csv", "x")
        with replacing(tmp_path / "other") as temporary:
            temporary.write_text("y")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o640


def test_no_factor_is_named_like_a_column() -> None:
    for table in TABLES:
        assert set(columns_of(table, ("mine",))) <= RESERVED | {"mine"}
    assert columns_of("claims", ("mine",)) == CLAIM_COLUMNS
