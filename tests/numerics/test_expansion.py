"""Moments of cells and their series: twins, who lies where, sums of the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from nwsim.numerics import expansion


def _moments(function, x, places, columns, width, h, n_cells, terms):
    out = np.zeros((n_cells, columns.shape[0], terms))
    low = float(x.min()) if x.size else 0.0
    function(x, places, columns, low, width, h, out)
    return out


@pytest.mark.parametrize("seed", range(20))
def test_twins(seed):
    rng = np.random.default_rng(seed)
    n, m, terms = (0, 1, 7, 60)[seed % 4], (0, 1, 5)[seed % 3], (4, 8)[seed % 2]
    x, columns = rng.random(n), rng.normal(size=(1 + seed % 3, n))
    every = np.empty(0, np.int64)
    made = [
        _moments(function, x, every, columns, 0.25, 0.5, 6, terms)
        for function in (expansion.cell_moments, expansion.cell_moments.py_func)
    ]
    np.testing.assert_allclose(*made, rtol=1e-12, atol=1e-13)
    q, centres = rng.random(m), np.linspace(0.0, 1.0, 6)
    series = np.ascontiguousarray(made[0].transpose(1, 2, 0))
    first, last = np.zeros(m, np.int64), rng.integers(0, 7, m)
    sums = []
    for function in (expansion.expanded_sums, expansion.expanded_sums.py_func):
        out = np.zeros((m, columns.shape[0]))
        function(q, centres, 0.5, series, first, last, out)
        sums.append(out)
    np.testing.assert_allclose(*sums, rtol=1e-12, atol=1e-13)


def _place(x, low, width, h):
    cell, z, factor = np.empty(x.size, np.int64), np.empty(x.size), np.empty(x.size)
    expansion.place(x, low, width, h, cell, z, factor)
    return cell, z, factor


@given(seed=st.integers(0, 10**6), power=st.integers(-40, 3), low=st.floats(-1e3, 1e3))
def test_powers_of_two_are_placed_as_numpy_places_them(seed, power, low):
    # Compiled code may fuse products with sums; with such widths that changes nothing.
    x = low + np.random.default_rng(seed).random(200)
    low, width = float(x.min()), 2.0**power
    cell, z, factor = _place(x, low, width, 2.0 * width)
    number = np.rint((x - low) / width - 0.5)
    np.testing.assert_array_equal(cell, number)
    np.testing.assert_array_equal(z, (x - (low + (number + 0.5) * width)) / (2.0 * width))
    np.testing.assert_allclose(factor, np.exp(-0.5 * z * z), rtol=1e-15)


def test_widths_of_other_kinds_are_not():
    # The negative control of the test above: a fused product moves some centres by an ulp.
    x = 0.3 + 0.3 * np.random.default_rng(0).random(4000)
    low, width = float(x.min()), 1e-9
    cell, z, _ = _place(x, low, width, width)
    expected = (x - (low + (cell + 0.5) * width)) / width
    if np.array_equal(z, expected):
        pytest.skip("this machine does not fuse products with sums")
    assert np.abs(z - expected).max() > 1e-9


@pytest.mark.parametrize("n", [1, 40, 70_000])
def test_moments_are_those_of_the_points(n):
    rng = np.random.default_rng(n)
    x, columns = rng.random(n), rng.random((3, n))
    width, h = 0.125, 0.5
    got = _moments(expansion.cell_moments, x, np.empty(0, np.int64), columns, width, h, 9, 8)
    cell, z, factor = _place(x, float(x.min()), width, h)
    powers = factor[:, None] * z[:, None] ** np.arange(8)
    for c in range(3):
        for k in range(8):
            expected = np.bincount(cell, columns[c] * powers[:, k], 9)
            scale = np.bincount(cell, columns[c] * np.abs(powers[:, k]), 9)
            assert np.all(np.abs(got[:, c, k] - expected) <= 1e-12 * scale)


def test_kept_cells_are_those_of_all():
    rng = np.random.default_rng(0)
    x, columns = rng.random(50), rng.random((2, 50))
    every = np.empty(0, np.int64)
    everything = _moments(expansion.cell_moments, x, every, columns, 2.0**-8, 0.01, 257, 4)
    cell = _place(x, float(x.min()), 2.0**-8, 0.01)[0]
    kept, places = np.unique(cell, return_inverse=True)
    some = _moments(
        expansion.cell_moments, x, places.astype(np.int64), columns, 2.0**-8, 0.01, kept.size, 4
    )
    np.testing.assert_array_equal(some, everything[kept])


def test_series_of_one_point_is_its_gaussian():
    terms, width, h = 24, 0.5, 1.0
    x, q = np.array([0.3]), np.linspace(-5.0, 5.0, 41)
    moments = _moments(
        expansion.cell_moments, x, np.empty(0, np.int64), np.ones((1, 1)), width, h, 1, terms
    )
    factorials = np.exp(gammaln(np.arange(terms) + 1.0))
    series = np.ascontiguousarray((moments / factorials).transpose(1, 2, 0))
    out = np.zeros((q.size, 1))
    whole = np.zeros(q.size, np.int64), np.ones(q.size, np.int64)
    expansion.expanded_sums(q, x + 0.5 * width, h, series, *whole, out)
    np.testing.assert_allclose(out[:, 0], np.exp(-0.5 * (q - 0.3) ** 2), rtol=1e-13)


def test_many_equal_points_in_one_of_many_cells_do_not_round_away():
    # Half a million terms 0.1 in one cell; one running sum of them is off by about 1e-12.
    n, n_cells = 10**6, 4096
    x = np.random.default_rng(0).random(n)
    x[: n // 2] = 0.0
    column = np.full((1, n), 0.1)
    every = np.empty(0, np.int64)
    found = _moments(expansion.cell_moments, x, every, column, 2.0**-12, 2.0**-11, n_cells, 4)
    z = (x[x < 2.0**-12] - 2.0**-13) / 2.0**-11
    exact = math.fsum(0.1 * np.exp(-0.5 * z * z))
    assert abs(found[0, 0, 0] / exact - 1.0) < 2e-13
    running = np.cumsum(0.1 * np.exp(-0.5 * z * z))[-1]  # the negative control
    assert abs(running / exact - 1.0) > 2e-13
