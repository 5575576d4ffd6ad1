"""Sweeps along a sorted sample: twins, membership, exact sums, sums without cancellation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.numerics import sweeps


def _windows(x, q, h):
    found = [np.empty(q.size, np.int64) for _ in range(3)]
    sweeps.half_windows(x, q, h, *found)
    return found


def _polynomial(function, x, columns, squares, q, h, kernel, extent):
    low, _, high = _windows(x, q, h)
    sums, bound = np.zeros((q.size, columns.shape[0])), np.zeros((q.size, 2))
    noise = np.zeros(q.size if squares.size else 0)
    function(
        x, columns, squares, q, low, high, h, 0.5 * extent * h, extent * h, kernel,
        np.convolve(kernel, kernel), sums, noise, bound,
    )  # fmt: skip
    return sums, noise, bound


def _laplace(function, x, columns, squares, q, h):
    stops = np.searchsorted(x, q, side="right").astype(np.int64)
    sums = np.zeros((q.size, columns.shape[0]))
    noise = np.zeros(q.size if squares.size else 0)
    function(x, columns, squares, q, stops, h, sums, noise)
    return sums, noise


def _sample(seed, n, m, n_columns):
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n_columns, n))
    columns[:1] = np.abs(columns[:1])
    squares = rng.random(n) if seed % 2 else np.empty(0)
    return np.sort(rng.random(n)), columns, squares, np.sort(rng.uniform(-0.3, 1.3, m))


@pytest.mark.parametrize("seed", range(30))
def test_twins(seed):
    n, m = (0, 1, 5, 70, 150)[seed % 5], (0, 1, 4, 9)[seed % 4]
    x, columns, squares, q = _sample(seed, n, m, 1 + seed % 3)
    kernel = np.array([1.0, 0.0, -1.0, 0.0, 0.5][: (1, 3, 5)[seed % 3]])
    extent = (0.5, 2.0)[seed % 2]
    pairs = [
        (
            _polynomial(sweep, x, columns, squares, q, 0.2, kernel, extent),
            _laplace(laplace, x, columns, squares, q, 0.2),
        )
        for sweep, laplace in (
            (sweeps.polynomial_sweep, sweeps.laplace_sweep),
            (sweeps.polynomial_sweep.py_func, sweeps.laplace_sweep.py_func),
        )
    ]
    for ours, twin in zip(*pairs, strict=True):
        for a, b in zip(ours, twin, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13 * max(1, n))


@given(
    x=st.lists(st.integers(-40, 40), max_size=60),
    q=st.lists(st.integers(-60, 60), max_size=30),
    h=st.integers(1, 25),
)
def test_windows_hold_who_is_within_h_in_float64(x, q, h):
    # Tenths are not numbers of float64: whether 0.3 - 0.1 <= 0.2 is for its rounding to say.
    x, q, h = np.sort(np.array(x, float)) / 10, np.sort(np.array(q, float)) / 10, h / 10
    low, middle, high = _windows(x, q, h)
    inside = np.abs(q[:, None] - x[None, :]) <= h
    for j in range(q.size):
        np.testing.assert_array_equal(np.flatnonzero(inside[j]), np.arange(low[j], high[j]))
        assert low[j] <= middle[j] <= high[j]
        assert np.all(x[low[j] : middle[j]] < q[j])
        assert np.all(x[middle[j] : high[j]] >= q[j])


@given(seed=st.integers(0, 10**6), n=st.integers(1, 300), degree=st.integers(0, 3))
def test_polynomials_on_a_dyadic_grid_are_summed_exactly(seed, n, degree):
    # All products and sums are multiples of powers of two within 53 bits.
    rng = np.random.default_rng(seed)
    x = np.sort(rng.integers(0, 64, n)) / 16.0
    q = np.sort(rng.integers(-8, 72, 40)) / 16.0
    columns = rng.integers(0, 4, (2, n)).astype(float)
    kernel = rng.integers(-3, 4, degree + 1).astype(float)
    sums, noise, _ = _polynomial(
        sweeps.polynomial_sweep, x, columns, columns[0], q, 0.5, kernel, 1.0
    )
    u = (q[:, None] - x[None, :]) / 0.5
    weights = np.where(np.abs(u) <= 1.0, np.polynomial.polynomial.polyval(u, kernel), 0.0)
    np.testing.assert_array_equal(sums, weights @ columns.T)
    np.testing.assert_array_equal(noise, weights**2 @ columns[0])


def test_a_window_that_does_not_hold_its_cut_is_in_doubt():
    x, q = np.linspace(0.0, 1.0, 11), np.array([0.1, 0.5])
    sums, _, bound = _polynomial(
        sweeps.polynomial_sweep, x, np.ones((1, 11)), np.empty(0), q, 0.15, np.ones(1), 4.0
    )
    assert np.isinf(bound[:, 0]).any()
    assert sums.shape == (2, 1)


def test_bound_holds_the_absolute_terms():
    x, columns, squares, q = _sample(1, 400, 50, 1)
    kernel = np.array([1.0, 0.0, -3.0, 0.0, 2.0])  # of both signs
    sums, noise, bound = _polynomial(
        sweeps.polynomial_sweep, x, columns, squares, q, 0.2, kernel, 2.0
    )
    u = (q[:, None] - x[None, :]) / 0.2
    weights = np.where(np.abs(u) <= 1.0, np.polynomial.polynomial.polyval(u, kernel), 0.0)
    assert np.all(bound[:, 0] >= np.abs(weights) @ columns[0] * (1 - 1e-12))
    assert np.all(bound[:, 1] >= weights**2 @ squares * (1 - 1e-12))
    np.testing.assert_allclose(sums[:, 0], weights @ columns[0], atol=1e-12)
    np.testing.assert_allclose(noise, weights**2 @ squares, atol=1e-12)


def test_compensated_sum_loses_nothing():
    total, lost = np.zeros(1), np.zeros(1)
    parts = [1e16, 1.0, -1e16, 1e-3, 3.0] * 20
    for part in parts:
        sweeps.flush(np.array([part]), total, lost)
    assert total[0] + lost[0] == pytest.approx(math.fsum(parts), rel=1e-15)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 200), log_h=st.floats(-6, 3))
def test_laplace_sweep_against_dense_sums(seed, n, log_h):
    x, columns, squares, q = _sample(2 * seed + 1, n, 30, 2)
    h = 10.0**log_h
    sums, noise = _laplace(sweeps.laplace_sweep, x, columns, squares, q, h)
    u = (q[:, None] - x[None, :]) / h
    weights = np.where(u >= 0.0, np.exp(-np.abs(u)), 0.0)
    scale = weights @ np.abs(columns).T
    # An exponent of some hundreds is known to its rounding alone.
    assert np.all(np.abs(sums - weights @ columns.T) <= 2e-13 * (scale + n * 1e-100))
    expected = weights**2 @ squares
    assert np.all(np.abs(noise - expected) <= 4e-13 * (expected + n * 1e-200))
