"""Tables keep every bit; slopes, claims and contrasts say what they are made from."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import StoreError
from nwsim.inference import Estimate
from nwsim.study import Claim, Curve
from nwsim.study.cells import Cell
from nwsim.study.claims import judge, setting_text
from nwsim.study.curves import derive
from nwsim.study.results import read_results
from nwsim.study.tables import read_table, table_text, write_text


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
    write_text(path, table_text(("name", "estimate", "n_sim", "flag"), rows))
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
    write_text(path, "old")

    def fail(self: Path, data: bytes) -> int:
        self.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(StoreError, match="No space left"):
        write_text(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]
    assert path.read_text() == "old"


def line(
    values: dict[int, float], mcse: float
) -> tuple[list[Cell], dict[tuple[str, str, str], Estimate]]:
    cells = [
        Cell(f"{n}", {"n_obs": n, "alpha": 0.5}, 10, {"m": ("mse",)})
        for n in sorted(values, reverse=True)
    ]
    estimates = {(f"{n}", "m", "mse"): Estimate(x, mcse * x, 10) for n, x in values.items()}
    return cells, estimates


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


def test_equivalence_claims_use_the_largest_level() -> None:
    cells, estimates = line(POWER, 0.01)
    row = judge(claim(rule="equivalence", theory=POWER[8000], margin=1e-4), cells, estimates)[0]
    assert row["estimate"] == POWER[8000]
    assert row["verdict"] == "supported"
    every = judge(claim(rule="equivalence", over=None, margin=1.0), cells, estimates)
    assert len(every) == 6
    assert every[0]["setting"] == "alpha=0.5;method=m;n_obs=8000"


def test_local_slopes_lie_between_their_levels() -> None:
    cells, estimates = line(POWER, 0.01)
    points = derive(Curve("c", "mse", "local_slope"), cells, estimates)
    assert [point["x"] for point in points] == pytest.approx(
        [250 * 2 ** (k + 0.5) for k in range(5)]
    )
    assert [point["estimate"] for point in points] == pytest.approx([-0.8] * 5)
    assert "n_obs" not in points[0]


def test_settings_are_sorted() -> None:
    assert setting_text({"b": 1, "a": 0.5, "c": True}) == "a=0.5;b=1;c=true"
