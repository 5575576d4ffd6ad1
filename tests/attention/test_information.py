"""Entropy and information of attention: identities, limits, derivatives."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.attention.information import (
    bottleneck,
    information_at,
    mutual_information,
    row_entropy,
)
from nwsim.attention.weights import attention_weights
from nwsim.exceptions import ParameterError

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 999))


def rows_of(shape: tuple[int, int, int], sharp: float = 2.0) -> Any:
    m, n, seed = shape
    scores = np.random.default_rng(seed).standard_normal((m, n)) * sharp
    return attention_weights(scores, np.eye(n), temperature=1.0)


def test_entropy_of_known_rows() -> None:
    rows = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]
    want = [0.0, math.log(2), math.log(4)]
    np.testing.assert_allclose(row_entropy(rows), want, rtol=1e-15, atol=0)


@given(shape=SHAPES, sharp=st.sampled_from([0.0, 1.0, 10.0, 1e3]))
def test_information_is_entropy_of_the_mean_row_less_mean_entropy(
    shape: tuple[int, int, int], sharp: float
) -> None:
    rows = rows_of(shape, sharp)
    mean = rows.mean(axis=0, keepdims=True)
    want = row_entropy(mean)[0] - row_entropy(rows).mean()
    got = float(mutual_information(rows))
    assert got == pytest.approx(want, abs=1e-14)
    assert 0.0 <= got <= math.log(min(rows.shape)) + 1e-12


@given(shape=SHAPES, beta=st.floats(-3.0, 3.0))
def test_uniform_rows_have_the_least_bottleneck_of_beta_that_is_not_negative(
    shape: tuple[int, int, int], beta: float
) -> None:
    rows = rows_of(shape)
    n = rows.shape[1]
    flat = float(bottleneck(np.full_like(rows, 1.0 / n), beta))
    assert flat == pytest.approx(-beta * math.log(n), abs=1e-13)
    assert float(bottleneck(rows, abs(beta))) >= -abs(beta) * math.log(n) - 1e-12


def test_a_negative_beta_may_prefer_sharp_rows() -> None:
    rows = np.eye(3)[[0, 0, 0]]
    assert float(bottleneck(rows, -1.0)) == 0.0 < float(bottleneck(np.full((3, 3), 1 / 3), -1.0))


def test_batches_are_those_of_their_entries() -> None:
    rows = np.stack([rows_of((4, 5, seed)) for seed in range(6)]).reshape(2, 3, 4, 5)
    assert row_entropy(rows).shape == (2, 3, 4)
    got = bottleneck(rows, 0.7)
    assert got.shape == (2, 3)
    for place in np.ndindex(2, 3):
        assert got[place] == pytest.approx(float(bottleneck(rows[place], 0.7)), rel=1e-14)


@given(
    shape=SHAPES,
    temperature=st.floats(0.05, 50.0),
    beta=st.floats(-2.0, 2.0),
    masked=st.booleans(),
)
def test_derivatives_are_those_of_finite_differences(
    shape: tuple[int, int, int], temperature: float, beta: float, masked: bool
) -> None:
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((m, n))
    mask = None
    if masked:
        mask = rng.random((m, n)) < 0.6
        mask[:, 0] = True
    found = information_at(scores, temperature, mask)
    step = 1e-4 * temperature
    # Central differences at two steps, extrapolated: an error of order step^4.
    near, far = (
        (up.entropy - down.entropy, up.information - down.information)
        for up, down in (
            [information_at(scores, temperature + sign * width, mask) for sign in (1, -1)]
            for width in (step, 2 * step)
        )
    )
    slopes = [(8 * a - b) / (12 * step) for a, b in zip(near, far, strict=True)]
    close = {"rel": 1e-6, "abs": 1e-9 / temperature}
    assert found.d_entropy == pytest.approx(slopes[0], **close)
    assert found.d_information == pytest.approx(slopes[1], **close)
    assert found.d_bottleneck(beta) == pytest.approx(slopes[1] - beta * slopes[0], **close)


def test_values_are_those_of_the_weights() -> None:
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((7, 2)), rng.standard_normal((5, 2))
    mask = rng.random((7, 5)) < 0.7
    mask[:, 2] = True
    weights = attention_weights(q, k, 0.3, mask)
    found = information_at(q @ k.T, 0.3, mask)
    assert found.entropy == pytest.approx(float(row_entropy(weights).mean()), rel=1e-13)
    assert found.information == pytest.approx(float(mutual_information(weights)), rel=1e-12)
    assert found.bottleneck(-0.5) == pytest.approx(float(bottleneck(weights, -0.5)), rel=1e-13)


def test_weights_next_to_the_least_float_count_for_nothing() -> None:
    rows = np.array([[1.0, 5e-324], [1.0, 0.0], [1.0, 0.0]])
    assert rows.mean(axis=0)[1] == 0.0
    assert float(mutual_information(rows)) == 0.0
    scores = np.array([[0.0, -744.0], [0.0, -1e4], [0.0, -1e4]])
    # (2 / 3) log 3 of the least float.
    assert information_at(scores, 1.0).information in (0.0, 5e-324)


def exact_information(rows: list[list[Decimal]]) -> Decimal:
    """Return mean_i sum_j w log(w / p) in the digits of the context."""
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    terms = (w * (w / p).ln() for row in rows for w, p in zip(row, mean, strict=True))
    return sum(terms, Decimal(0)) / len(rows)


@pytest.mark.parametrize("temperature", [1e-1, 1.0, 1e1, 1e2, 1e3, 1e5, 1e7, 1e9])
def test_information_keeps_its_digits_where_rows_are_alike(temperature: float) -> None:
    rng = np.random.default_rng(11)
    scores = rng.standard_normal((6, 8))
    weights = attention_weights(scores, np.eye(8), temperature)
    found = information_at(scores, temperature)
    with localcontext() as context:
        context.prec = 60
        want = exact_information([[Decimal(w) for w in row] for row in weights.tolist()])
        assert float(mutual_information(weights)) == pytest.approx(float(want), rel=2e-14, abs=0)

        def softmax(t: Decimal) -> list[list[Decimal]]:
            kernel = [[(Decimal(s) / t).exp() for s in row] for row in scores.tolist()]
            return [[w / sum(row) for w in row] for row in kernel]

        # Of the scores, not of weights that were rounded first.
        t, step = Decimal(temperature), Decimal(temperature) * Decimal("1e-12")
        want = exact_information(softmax(t))
        up, down = (exact_information(softmax(t + sign * step)) for sign in (1, -1))
        slope = float((up - down) / (2 * step))
    assert found.information == pytest.approx(float(want), rel=2e-14, abs=0)
    assert found.d_information == pytest.approx(slope, rel=2e-13, abs=0)


def test_information_with_masks_at_high_temperature() -> None:
    rng = np.random.default_rng(12)
    scores, mask = rng.standard_normal((5, 7)), rng.random((5, 7)) < 0.5
    mask[:, 0] = True
    flat = mask / mask.sum(axis=1, keepdims=True)
    want = float(mutual_information(flat))
    assert information_at(scores, 1e12, mask).information == pytest.approx(want, rel=1e-11)
    # One mask for all: information is that of the keys in it.
    some = np.array([True, False, True, True, False, True, True])
    found = information_at(scores, 1e8, some)
    assert found.information == pytest.approx(
        information_at(scores[:, some], 1e8).information, rel=1e-13, abs=0
    )


MAGNITUDES = (0.0, 5e-324, 1e-300, 1e-150, 1.0, 1e150, 1e300, 1.7e308)


@given(
    sizes=st.lists(st.sampled_from(MAGNITUDES), min_size=12, max_size=12),
    seed=st.integers(0, 99),
    temperature=st.sampled_from(MAGNITUDES[1:]),
)
def test_hostile_scores_give_numbers_or_an_error(
    sizes: list[float], seed: int, temperature: float
) -> None:
    scores = np.reshape(sizes, (3, 4)) * np.random.default_rng(seed).uniform(-1, 1, (3, 4))
    try:
        found = information_at(scores, temperature)
    except ParameterError as error:
        assert "temperature must keep derivatives" in str(error)  # noqa: PT017
        assert temperature < 1e-150
        return
    assert all(math.isfinite(value) for value in vars(found).values())
    assert 0.0 <= found.information <= math.log(3) + 1e-15
    assert 0.0 <= found.entropy <= math.log(4) + 1e-15
    assert found.d_entropy >= 0.0


@pytest.mark.parametrize("power", [-1070, -600, 0, 600, 1022])
def test_scores_and_temperature_share_a_unit(power: int) -> None:
    # Powers of two: weights are the same bits, and derivatives in t scale by the inverse.
    scores = np.array([[1.0, -1.0, 0.5], [-0.5, 1.0, 0.25]])
    unit = 2.0**power
    plain = information_at(scores, 1.0)
    if power < -1000:
        with pytest.raises(ParameterError, match="temperature must keep derivatives"):
            information_at(scores * unit, unit)
        return
    moved = information_at(scores * unit, unit)
    assert (moved.entropy, moved.information) == (plain.entropy, plain.information)
    assert moved.d_entropy == plain.d_entropy / unit
    assert moved.d_information == plain.d_information / unit


def test_at_temperatures_next_to_zero_values_are_those_of_the_limit() -> None:
    scores = np.array([[3.0, 1.0, 3.0], [0.0, 2.0, 1.0]])
    found = information_at(scores, 5e-324)
    assert (found.d_entropy, found.d_information) == (0.0, 0.0)
    assert found.entropy == pytest.approx(math.log(2) / 2)
    want = float(mutual_information([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]))
    assert found.information == pytest.approx(want)


def test_entropy_is_not_negative_where_rounding_takes_a_weight_above_one() -> None:
    assert row_entropy([[1.0 + 5e-7, 0.0], [1.0 + 2.3e-16, 0.0]]).tolist() == [0.0, 0.0]


def test_objectives_beyond_the_range_are_refused() -> None:
    flat, found = np.full((2, 9), 1 / 9), information_at(np.eye(2, 9), 1.0)
    for call in (
        lambda beta: bottleneck(flat, beta),
        found.bottleneck,
        lambda beta: information_at(np.eye(2, 9) * 1e-100, 1e-100).d_bottleneck(beta),
    ):
        with pytest.raises(ParameterError, match="beta must keep I - beta H"):
            call(1.7e308)
        with pytest.raises(ParameterError, match="beta must be a number"):
            call(math.nan)


def test_information_may_rise_with_temperature() -> None:
    # All queries agree on the largest score; only softer rows tell them apart.
    scores = np.array([[2.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
    assert information_at(scores, 0.2).d_information > 0.0
    assert information_at(scores, 5.0).d_information < 0.0


@pytest.mark.parametrize("temperature", [1e-300, 1e-8, 1e8, 1e300])
def test_extreme_temperatures_give_the_limits(temperature: float) -> None:
    scores = np.array([[1e200, 0.0, -1e200], [0.0, 0.0, -1.0]]) * min(1.0, temperature)
    found = information_at(scores, temperature)
    assert all(math.isfinite(value) for value in vars(found).values())
    assert 0.0 <= found.information <= math.log(2)
    assert 0.0 <= found.entropy <= math.log(3)


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([[0.5, 0.4]], "sum to 1"),
        ([[1.5, -0.5]], "weights must be >= 0"),
        ([[math.nan, 1.0]], "weights must be finite"),
        ([0.5, 0.5], "at least 2 axes"),
        (np.zeros((0, 2)), "rows and columns"),
        (np.zeros((2, 0)), "rows and columns"),
        ([[1.5e308, 1.5e308]], "sum to 1"),
        ([["a"]], "real numbers"),
    ],
)
def test_bad_weights_are_refused(rows: Any, match: str) -> None:
    for function in (row_entropy, mutual_information, lambda w: bottleneck(w, 1.0)):
        with pytest.raises(ParameterError, match=match):
            function(rows)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([[0.0, 1.0]], 0.0), "temperature"),
        (([[0.0, math.inf]], 1.0), "scores must be finite"),
        (([0.0, 1.0], 1.0), "scores must have 2 axes"),
        ((np.zeros((2, 0)), 1.0), "rows and columns"),
        (([[0.0, 1.0]], 1.0, [[False, False]]), "mask"),
        (([[0.0, 1.0]], 1.0, [[True, True, True]]), "mask must broadcast"),
        (([[0.0, 1.0]], 1.0, [[[True, True]]]), "mask must have 2 axes"),
    ],
)
def test_bad_scores_are_refused(arguments: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        information_at(*arguments)
    with pytest.raises(ParameterError, match="beta"):
        bottleneck([[1.0]], math.nan)


def test_example_of_the_docs_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "systems" / "information.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert "assert" in example
    exec(example, {})
