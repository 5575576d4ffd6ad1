"""The oracle's search for a bandwidth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.smoothing import oracle_bandwidth


@given(st.floats(-2.0, 2.0))
def test_finds_the_minimum_of_a_bowl(place):
    found = oracle_bandwidth(lambda h: (math.log(h) - place) ** 2, math.exp(-3), math.exp(3))
    assert math.log(found.bandwidth) == pytest.approx(place, abs=0.1)
    assert found.risk == pytest.approx((math.log(found.bandwidth) - place) ** 2)
    assert not found.at_edge


def test_takes_the_lower_of_two_minima():
    def risk(h):
        x = math.log(h)
        return min((x + 2.0) ** 2 + 0.1, (x - 2.2) ** 2)

    assert math.log(oracle_bandwidth(risk, math.exp(-3), math.exp(3)).bandwidth) == pytest.approx(
        2.2, abs=0.1
    )


@pytest.mark.parametrize(("sign", "end"), [(1.0, 0.1), (-1.0, 10.0)])
def test_says_when_it_ends_at_an_end(sign, end):
    found = oracle_bandwidth(lambda h: sign * h, 0.1, 10.0)
    assert found.at_edge
    assert found.bandwidth == pytest.approx(end, rel=1e-12)


def test_is_never_worse_than_its_grid():
    # A needle that stands on a place of the grid.
    found = oracle_bandwidth(lambda h: -1.0 if abs(h - 1.0) < 1e-9 else 0.0, 0.1, 10.0)
    assert found.risk == -1.0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0.0, 1.0), "low"), ((1.0, 1.0), "high"), ((2.0, 1.0), "high")],
)
def test_names_what_is_wrong(arguments, named):
    with pytest.raises(ParameterError, match=named):
        oracle_bandwidth(lambda h: h, *arguments)


def test_a_risk_that_is_not_finite_is_named():
    with pytest.raises(ParameterError, match="risk must be finite"):
        oracle_bandwidth(lambda h: math.nan, 0.1, 1.0)
