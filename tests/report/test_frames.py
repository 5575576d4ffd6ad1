from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.report.drawing import exponent_text, number_text
from nwsim.report.frames import parse_setting, select, series
from nwsim.report.layout import spread
from nwsim.report.slopes import claimed, same_level, slope_note, stated_slope
from tests.report.fake import FakeResults


def table(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def claims(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "claim": "R1",
                "setting": setting,
                "quantity": quantity,
                "theory": theory,
                "estimate": theory + 0.01,
                "mcse": 0.002,
                "margin": 0.1,
                "rule": "rate",
            }
            for setting, quantity, theory in rows
        ],
        columns=["claim", "setting", "quantity", "theory", "estimate", "mcse", "margin", "rule"],
    )


def test_select_takes_a_level_or_several() -> None:
    frame = table(dim=[1, 2, 3], method=["rate", "loo", "rate"])
    assert select(frame, {"dim": 2})["dim"].tolist() == [2]
    assert select(frame, {"dim": (1, 3), "method": "rate"})["dim"].tolist() == [1, 3]
    assert select(frame, None)["dim"].tolist() == [1, 2, 3]


def test_select_names_an_unknown_column() -> None:
    with pytest.raises(ParameterError, match=r"where must name columns.*'regoin'"):
        select(table(region=["interior"]), {"regoin": "interior"})


def test_series_are_sorted_and_carry_what_is_constant() -> None:
    frame = table(
        n_obs=[8, 2, 4, 2],
        alpha=[1.0, 1.0, 1.0, 0.5],
        method=["rate"] * 4,
        estimate=[1.0, 2.0, 3.0, 4.0],
    )
    first, second = series(frame, ["alpha"])
    assert first[0] == {"alpha": 0.5, "method": "rate"}
    assert second[1]["n_obs"].tolist() == [2, 4, 8]
    assert second[1]["estimate"].tolist() == [2.0, 3.0, 1.0]
    assert series(frame.iloc[:0], ["alpha"]) == []


def test_a_factor_that_varies_along_a_line_is_named() -> None:
    frame = table(n_obs=[2, 2], alpha=[1.0, 1.0], region=["interior", "whole"], estimate=[1.0, 2.0])
    with pytest.raises(ParameterError, match=r"still varying along a line: region$"):
        series(frame, ["alpha"])


def test_setting_is_parsed_and_levels_compare_as_numbers() -> None:
    assert parse_setting("alpha=0.5;dim=1;method=rate") == {
        "alpha": "0.5",
        "dim": "1",
        "method": "rate",
    }
    assert same_level("2.0", 2)
    assert same_level("1e-3", 0.001)
    assert not same_level("2.0", 2.5)
    assert not same_level("rate", 2)
    assert same_level("true", True)
    assert not same_level("1", True)


def test_claimed_takes_the_row_of_the_condition() -> None:
    rows = claims(
        ("alpha=0.5;dim=1;method=rate", "mse", -0.5),
        ("alpha=1.0;dim=1;method=rate", "mse", -0.6),
        ("alpha=0.5;dim=1;method=rate", "bias2", -0.4),
    )
    condition = {"alpha": 0.5, "dim": 1, "method": "rate"}
    said = claimed(rows, "mse", condition)
    assert said is not None
    assert said["theory"] == -0.5
    assert said["estimate"] == pytest.approx(-0.49)
    assert claimed(rows, "variance", condition) is None
    assert claimed(rows, "mse", condition | {"dim": 2}) is None
    assert claimed(rows, "mse", condition, rule="equivalence") is None


def test_theory_of_a_condition_holds_for_its_other_methods_but_not_their_estimate() -> None:
    rows = claims(("alpha=0.5;dim=1;method=rate", "mse", -0.5))
    said = claimed(rows, "mse", {"alpha": 0.5, "dim": 1, "method": "loo"})
    assert said == {"theory": -0.5, "margin": 0.1}


def test_slopes_come_from_the_tables() -> None:
    results = FakeResults(
        claims=claims(("alpha=3.0;dim=1", "mse", -0.571)),
        curves=table(
            curve=["tail_slope"],
            measure=["mse"],
            alpha=[1.0],
            dim=[1],
            estimate=[-0.61],
            mcse=[0.02],
        ),
    )
    assert stated_slope(results, "mse", {"alpha": 3.0, "dim": 1}) == -0.571
    # No claim: the exponent that R1 states.
    assert stated_slope(results, "mse", {"alpha": 1.0, "dim": 2}) == pytest.approx(-0.5)
    one = {"alpha": 1.0, "dim": 1}
    assert slope_note(results, "mse", one, "tail_slope") == "−0.610 ± 0.020"
    assert slope_note(results, "mse", one, "tail_slope", with_error=False) == "−0.610"
    assert slope_note(results, "bias2", one, "tail_slope") == ""
    three = {"alpha": 3.0, "dim": 1}
    assert slope_note(results, "mse", three, "tail_slope") == "−0.561 ± 0.002 (−0.571)"


@pytest.mark.parametrize(
    ("value", "text"),
    [(-4 / 7, "−4/7"), (-0.8, "−4/5"), (-1.0, "−1"), (2 / 3, "2/3"), (-0.5713, "−0.571")],
)
def test_exponents_read_as_fractions(value: float, text: str) -> None:
    assert exponent_text(value) == text


def test_numbers_have_a_minus_sign() -> None:
    assert number_text(-0.25, 2) == "−0.25"


@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=12),
    st.floats(0.001, 0.5),
)
def test_labels_are_spread(wanted: list[float], gap: float) -> None:
    heights = np.array(wanted)
    placed = spread(heights, gap)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(placed[order]) >= gap * (1 - 1e-9)).all()
    assert math.isclose(placed.mean(), heights.mean(), abs_tol=1e-9)


def test_labels_far_enough_apart_stay() -> None:
    wanted = np.array([0.9, 0.1, 0.5])
    np.testing.assert_allclose(spread(wanted, 0.2), wanted)
