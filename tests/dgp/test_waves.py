"""The compiled wave sum against its interpreted twin, numpy and exact values."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim.dgp.functions.wave import CUBIC, QUADRATIC, SINUSOID, TRIANGLE, Shape
from nwsim.numerics.waves import wave_sum

SHAPES = (SINUSOID, TRIANGLE, QUADRATIC, CUBIC)


def reference(shape: Shape, turns: np.ndarray) -> np.ndarray:
    """Return the shape by its textbook formula."""
    r = np.abs(turns - np.rint(turns))
    if shape is SINUSOID:
        return np.cos(2.0 * np.pi * r)
    if shape is TRIANGLE:
        return 1.0 - 4.0 * r
    if shape is QUADRATIC:
        return np.where(r < 0.25, 1.0 - 16.0 * r**2, -1.0 + 16.0 * (0.5 - r) ** 2)
    return 1.0 - 24.0 * r**2 + 32.0 * r**3


def run(function, points, frequencies, phases, weights, shape):
    out = np.full(len(points), -7.0)
    function(points, frequencies, phases, weights, shape.coefficients, shape.absolute, out)
    return out


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_single_wave_is_the_textbook_shape(shape):
    turns = np.linspace(-3.0, 3.0, 24001)
    one = np.ones(1)
    values = run(wave_sum, turns[:, None], np.ones((1, 1)), np.zeros(1), one, shape)
    assert np.abs(values - reference(shape, turns)).max() < 1.5e-15
    assert np.abs(values).max() <= 1.0


@pytest.mark.parametrize("seed", range(50))
def test_twin_agrees_to_the_last_bit_on_random_shapes(seed):
    rng = np.random.default_rng(seed)
    n, count, dim = (int(rng.integers(low, high)) for low, high in ((0, 9), (1, 7), (1, 5)))
    points = rng.normal(size=(n, dim))
    frequencies = rng.normal(size=(count, dim)) * 2.0 ** rng.uniform(0, 26)
    phases, weights = rng.random(count), rng.normal(size=count)
    shape = SHAPES[seed % 4]
    compiled = run(wave_sum, points, frequencies, phases, weights, shape)
    twin = run(wave_sum.py_func, points, frequencies, phases, weights, shape)
    np.testing.assert_array_equal(compiled, twin)


@pytest.mark.parametrize("n", [1, 3, 1023, 1024, 1025, 2500])
@pytest.mark.parametrize("dim", [1, 3])
def test_matches_numpy_whatever_the_number_of_points(n, dim):
    rng = np.random.default_rng(n)
    points, frequencies = rng.random((n, dim)), 50.0 * rng.normal(size=(20, dim))
    phases, weights = rng.random(20), rng.normal(size=20)
    expected = np.cos(2 * np.pi * (points @ frequencies.T + phases)) @ weights
    values = run(wave_sum, points, frequencies, phases, weights, SINUSOID)
    assert np.abs(values - expected).max() < 1e-11
    alone = np.concatenate(
        [run(wave_sum, points[i : i + 1], frequencies, phases, weights, SINUSOID) for i in (0, -1)]
        if n == 1
        else [
            run(wave_sum, np.ascontiguousarray(part), frequencies, phases, weights, SINUSOID)
            for part in (points[:1], points[1:])
        ]
    )
    np.testing.assert_array_equal(alone[:n], values)


def test_top_frequency_keeps_its_phase():
    # Dyadic points make <u, x> exact, so the phase alone is rounded.
    points = np.arange(64.0)[:, None] / 64.0
    frequency = np.full((1, 1), 2.0**26 + 1.0)
    values = run(wave_sum, points, frequency, np.zeros(1), np.ones(1), SINUSOID)
    assert np.abs(values - np.cos(2 * np.pi * points[:, 0])).max() < 1e-15


def test_nan_and_infinity_come_out_as_nan_in_their_own_row():
    points = np.array([[0.25], [np.nan], [np.inf], [0.5]])
    values = run(wave_sum, points, np.ones((1, 1)), np.zeros(1), np.ones(1), SINUSOID)
    assert np.isnan(values[1:3]).all()
    assert np.isfinite(values[[0, 3]]).all()
    with np.errstate(invalid="ignore"):
        twin = run(wave_sum.py_func, points, np.ones((1, 1)), np.zeros(1), np.ones(1), SINUSOID)
    np.testing.assert_array_equal(twin, values)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_suprema_and_derivatives_of_the_shapes(shape):
    turns = np.linspace(0.0, 1.0, 4001)
    step = 1e-5
    slope = (reference(shape, turns + step) - reference(shape, turns - step)) / (2 * step)
    assert np.abs(slope).max() == pytest.approx(shape.supremum(1), rel=1e-4)
    below = shape.derivative()
    if below is not None:
        factor, derivative = below
        expected = factor * reference(derivative, turns - 0.25)
        assert np.abs(slope - expected).max() < 1e-2
    above = shape.integral()
    if above is not None:
        factor, integral = above
        ends = reference(integral, np.array([0.55, 0.35]))
        grid = 0.1 + 0.2 * (np.arange(4000) + 0.5) / 4000
        mean = reference(shape, grid).mean()
        assert factor * (ends[0] - ends[1]) / 0.2 == pytest.approx(mean, abs=1e-6)
