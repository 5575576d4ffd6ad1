"""Schedules of the temperature: exact ends, direction, bad values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.attention.schedules import SCHEDULES, temperature_at
from nwsim.exceptions import ParameterError

POSITIVE = st.floats(1e-3, 1e3)


@given(st.integers(1, 1000), POSITIVE, POSITIVE)
def test_ends_are_exact(n_steps: int, initial: float, final: float) -> None:
    for schedule in SCHEDULES:
        assert temperature_at(0, n_steps, initial, final, schedule) == initial
        last = temperature_at(n_steps, n_steps, initial, final, schedule)
        assert last == (initial if schedule == "constant" else final)


@given(st.integers(1, 200), POSITIVE, POSITIVE)
def test_they_go_from_one_end_to_the_other(n_steps: int, initial: float, final: float) -> None:
    for schedule in SCHEDULES[1:]:
        found = np.asarray(temperature_at(range(n_steps + 1), n_steps, initial, final, schedule))
        steps = np.diff(found) * np.sign(final - initial)
        assert (steps >= -1e-12 * max(initial, final)).all()


EXTREME = st.sampled_from([5e-324, 1e-308, 1e-20, 1.0, 1.0 + 2**-52, 3.0, 1e20, 1e300, 1.7e308])


@given(st.integers(1, 50), EXTREME, EXTREME)
def test_no_temperature_is_outside_the_ends_whatever_their_size(
    n_steps: int, initial: float, final: float
) -> None:
    way = float(np.sign(final - initial))
    for schedule in SCHEDULES[1:]:
        found = np.asarray(temperature_at(range(n_steps + 1), n_steps, initial, final, schedule))
        assert (found >= min(initial, final)).all()
        assert (found <= max(initial, final)).all()
        assert (found[0], found[-1]) == (initial, final)
        # Halves and factors of 2, since differences of the largest numbers overflow.
        steps = way * np.diff(found / 2.0)
        assert (steps >= (0.0 if schedule == "linear" else -1e-15 * max(initial, final))).all()


def test_a_start_and_an_end_far_apart_lose_no_digits() -> None:
    near_the_end = temperature_at(2.0**20 - 1.0, 2**20, 1e20, 1.0, "linear")
    assert near_the_end == pytest.approx(1.0 + (1e20 - 1.0) / 2**20, rel=1e-15)
    assert temperature_at(1, 10**9, 1e-20, 1.0, "cosine") == pytest.approx(
        1e-20 + (math.pi / 2e9) ** 2, rel=1e-12
    )


def test_values_between() -> None:
    # The formulas of the source: T_i - r (T_i - T_f); T_f + (T_i - T_f)(1 + cos(pi r))/2.
    steps = np.arange(11)
    linear = [1.0 - s / 10 * 0.9 for s in steps]
    cosine = [0.1 + 0.45 * (1 + math.cos(math.pi * s / 10)) for s in steps]
    np.testing.assert_allclose(temperature_at(steps, 10, 1.0, 0.1, "linear"), linear, rtol=1e-14)
    np.testing.assert_allclose(temperature_at(steps, 10, 1.0, 0.1, "cosine"), cosine, rtol=1e-14)
    np.testing.assert_array_equal(temperature_at(steps, 10, 1.0, 0.1), np.ones(11))


def test_shape_of_the_steps_is_kept() -> None:
    assert isinstance(temperature_at(1, 2, 1.0, 0.1, "cosine"), float)
    assert np.shape(temperature_at(np.zeros((2, 3)), 2, 1.0, 0.1, "linear")) == (2, 3)


@pytest.mark.parametrize(
    ("match", "arguments"),
    [
        ("^step must lie", (11, 10, 1.0, 0.1)),
        ("^step must lie", (-1, 10, 1.0, 0.1)),
        ("^step must lie", (math.nan, 10, 1.0, 0.1)),
        ("^step must be an array of real", ("first", 10, 1.0, 0.1)),
        ("^n_steps", (0, 0, 1.0, 0.1)),
        ("^n_steps", (0, 1.5, 1.0, 0.1)),
        ("^n_steps", (0, 10**400, 1.0, 0.1)),
        ("^step must be an array of real", (1j, 10, 1.0, 0.1)),
        ("^step must be an array of real", ("1", 10, 1.0, 0.1)),
        ("^step must be an array of real", (10**400, 10, 1.0, 0.1)),
        ("^initial", (0, 1, 0.0, 0.1)),
        ("^final", (0, 1, 1.0, -0.1)),
        ("^final", (0, 1, 1.0, math.inf)),
        ("^schedule must be one of", (0, 1, 1.0, 0.1, "step")),
    ],
)
def test_bad_values_are_refused_by_name(match: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ParameterError, match=match):
        temperature_at(*arguments)
