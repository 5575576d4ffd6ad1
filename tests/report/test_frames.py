from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.report.drawing import exponent_text, number_text
from nwsim.report.frames import select, series
from nwsim.report.layout import spread
from nwsim.report.slopes import Said, check_claims, claimed, same_level, slope_note
from nwsim.report.words import Words
from tests.report.fake import FakeResults


def table(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def claims(*rows: tuple[str, str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "claim": claim,
                "setting": setting,
                "quantity": quantity,
                "theory": theory,
                "estimate": theory + 0.01,
                "mcse": 0.002,
                "margin": 0.1,
                "rule": "rate",
            }
            for claim, setting, quantity, theory in rows
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


def test_levels_in_settings_compare_as_numbers() -> None:
    assert same_level("2.0", 2)
    assert same_level("1e-3", 0.001)
    assert not same_level("2.0", 2.5)
    assert not same_level("rate", 2)
    assert same_level("true", True)
    assert not same_level("1", True)


HALF = "alpha=0.5;dim=1;method=rate"
BEYOND = "alpha=3.0;kernel=epanechnikov;method=rate"
AT_BEYOND = {"alpha": 3.0, "kernel": "epanechnikov", "method": "rate"}


def test_claimed_takes_the_row_of_the_condition() -> None:
    rows = claims(
        ("R1", HALF, "mse", -0.5),
        ("R1", "alpha=1.0;dim=1;method=rate", "mse", -0.6),
        ("R1", HALF, "bias2", -0.4),
    )
    condition = {"alpha": 0.5, "dim": 1, "method": "rate"}
    assert claimed(rows, "mse", condition) == Said("R1", -0.5, 0.1, -0.49, 0.002)
    assert claimed(rows, "variance", condition) is None
    assert claimed(rows, "mse", condition | {"dim": 2}) is None
    assert claimed(rows, "mse", condition, rule="equivalence") is None


def test_a_claim_about_one_method_says_nothing_of_another_unless_asked() -> None:
    rows = claims(("R1", HALF, "mse", -0.5))
    condition = {"alpha": 0.5, "dim": 1, "method": "loo"}
    assert claimed(rows, "mse", condition) is None
    lent = claimed(rows, "mse", condition, theory_of="rate")
    assert lent is not None
    assert lent[:3] == ("R1", -0.5, 0.1)
    assert math.isnan(lent.estimate)
    own = claims(
        ("R1", HALF, "mse", -0.5),
        ("R2", "alpha=0.5;dim=1;method=loo", "mse", -0.7),
    )
    said = claimed(own, "mse", condition, theory_of="rate")
    assert said is not None
    assert (said.claim, said.theory) == ("R2", -0.7)


def test_claims_that_differ_about_a_line_must_be_named() -> None:
    rows = claims(("R1.bias2", BEYOND, "bias2", -6 / 7), ("R2", BEYOND, "bias2", -4 / 7))
    for table in (rows, rows.iloc[::-1]):
        with pytest.raises(ParameterError, match=r"claims must name which of .*bias2.*alpha=3.0"):
            claimed(table, "bias2", AT_BEYOND)
        for names, theory in (
            (["R2"], -4 / 7),
            (["R1.bias2"], -6 / 7),
            (["R2", "R1.bias2"], -4 / 7),
            (["R1.bias2", "R2"], -6 / 7),
            (["R9", "R2"], -4 / 7),
        ):
            said = claimed(table, "bias2", AT_BEYOND, names=names)
            assert said is not None
            assert said.theory == theory
        assert claimed(table, "bias2", AT_BEYOND, names=["R9"]) is None
        assert claimed(table, "bias2", AT_BEYOND, names=[]) is None


def test_claims_that_agree_about_a_line_need_no_name() -> None:
    rows = claims(("R1.bias2", BEYOND, "bias2", -4 / 7), ("R2", BEYOND, "bias2", -4 / 7))
    said = claimed(rows, "bias2", AT_BEYOND)
    assert said is not None
    assert said.theory == -4 / 7


def test_one_id_that_says_two_things_is_ambiguous_even_when_named() -> None:
    rows = claims(("R1", BEYOND, "bias2", -6 / 7), ("R1", BEYOND, "bias2", -4 / 7))
    with pytest.raises(ParameterError, match="which of R1 is meant"):
        claimed(rows, "bias2", AT_BEYOND, names=["R1"])


def test_claims_are_looked_up_in_the_manifest() -> None:
    results = FakeResults(manifest={"specification": {"claims": [{"id": "R1"}, {"id": "R2"}]}})
    assert check_claims(results, "claims", None) is None
    assert check_claims(results, "claims", ("R2", "R1")) == ["R2", "R1"]
    with pytest.raises(ParameterError, match=r"printed must be ids .*\(R1, R2\); got 'R3'"):
        check_claims(results, "printed", ["R1", "R3"])
    with pytest.raises(ParameterError, match="claims must be a sequence"):
        check_claims(results, "claims", "R1")
    assert check_claims(FakeResults(), "claims", ["R3"]) == ["R3"]


def test_slopes_come_from_the_tables() -> None:
    results = FakeResults(
        claims=claims(("R1", "alpha=3.0;dim=1", "mse", -0.571)),
        curves=table(
            curve=["tail_slope"],
            measure=["mse"],
            alpha=[1.0],
            dim=[1],
            estimate=[-0.61],
            mcse=[0.02],
        ),
    )
    one, three = {"alpha": 1.0, "dim": 1}, {"alpha": 3.0, "dim": 1}
    assert slope_note(results, "mse", one, "tail_slope", None) == "−0.610 ± 0.020"
    assert slope_note(results, "mse", one, "tail_slope", None, with_error=False) == "−0.610"
    assert slope_note(results, "bias2", one, "tail_slope", None) == ""
    said = claimed(results.claims, "mse", three)
    assert slope_note(results, "mse", three, "tail_slope", said) == "−0.561 ± 0.002 (−0.571)"
    lent = Said("R1", -0.8, 0.1)
    assert slope_note(results, "mse", one, "tail_slope", lent) == "−0.610 ± 0.020 (−4/5)"


def test_measures_are_called_as_the_study_calls_them() -> None:
    measures = [
        {"name": "mse", "label": "loss", "unit": "volt²"},
        {"name": "ratio", "label": "share", "unit": ""},
    ]
    words = Words({"specification": {"measures": measures}})
    assert words.measure("mse") == "loss (volt²)"
    assert words.label("mse") == "loss"
    assert words.measure("ratio") == "share"
    assert words.measure("head_covariance") == "head covariance"
    assert Words().measure("mse") == "mse"


@pytest.mark.parametrize(
    ("factor", "level", "own", "text"),
    [
        ("alpha", 2.0, {}, "$\\alpha = 2$"),
        ("dim", 1, {}, "$d = 1$"),
        ("n_heads", 4, {}, "$H = 4$"),
        ("n_layers", 4, {}, "n layers = 4"),
        ("hdi", 0.25, {"hdi": "HDI"}, "HDI = 0.25"),
        ("shared", True, {}, "shared = true"),
        ("world", "single_index", {}, "single index"),
        ("kernel", "epanechnikov4", {"epanechnikov4": "order 4"}, "order 4"),
        ("method", "loo", {}, "leave-one-out"),
        ("method", "loo", {"loo": "LOO"}, "LOO"),
    ],
)
def test_levels_are_written_with_their_factor(
    factor: str, level: object, own: dict[str, str], text: str
) -> None:
    assert Words({}, own).level(factor, level) == text


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
