"""Nearest points on a sorted line: bisection against looking at every point."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim import LocalLinear, NadarayaWatson
from nwsim.numerics import moments


def _members(x, q, h, prior):
    """Return who is nearest (m, n), by looking at every point."""
    X, Q, bandwidth = x[None], q[:, None], np.array([h])
    least, found = np.empty(q.size), np.empty((q.size, x.size), bool)
    moments.nearest_squared(X, Q, bandwidth, prior, np.full(q.size, -1), least)
    moments.nearest_members(X, Q, bandwidth, prior, least, found)
    return found


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    m=st.integers(0, 8),
    grid=st.sampled_from([3, 20, 10**6]),
    scale=st.sampled_from([1.0, 1e-170, 1e-308, 1e150, 1e307]),
    h=st.sampled_from([1e-300, 0.05, 1.0, 1e200]),
    far=st.sampled_from([0.0, 1.0, 1e17]),
)
def test_bisection_finds_who_a_full_search_finds(seed, n, m, grid, scale, h, far):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.integers(-grid, grid, n) / grid) * scale
    q = (rng.integers(-grid, grid, m) / (2 * grid) + far * (rng.random(m) < 0.5)) * min(
        scale, 1e290
    )
    prior = rng.random(n) * (rng.random(n) < 0.7)
    prior[rng.integers(n)] = 1.0
    ranges = []
    for search in (moments.nearest_on_line, moments.nearest_on_line.py_func):
        starts, stops = np.empty((2, m), np.int64)
        with np.errstate(over="ignore"):
            search(x, q, h, prior, starts, stops)
        ranges.append((starts, stops))
    np.testing.assert_array_equal(*ranges)
    at = np.arange(n)
    inside = (starts[:, None] <= at) & (at < stops[:, None]) & (prior > 0.0)
    np.testing.assert_array_equal(inside, _members(x, q, h, prior))


@pytest.mark.parametrize("estimator", [NadarayaWatson, LocalLinear])
def test_a_sorted_line_gives_what_any_order_gives(estimator):
    rng = np.random.default_rng(0)
    x, y, s2 = rng.integers(0, 40, 200) / 8.0, rng.normal(size=200), rng.random(200)
    prior = rng.random(200) * (rng.random(200) < 0.7)
    q = np.concatenate([np.arange(-8, 60) / 16.0 + 0.01, [1e9, -1e18, 5e17]])
    line, plain = (
        estimator(1e-3, "triangular", "nearest", engine).fit(x, y, sample_weight=prior)
        for engine in ("window", "direct")
    )
    assert line.summary(q).n_empty == q.size
    rows, expected = line.weights(q), plain.weights(q)
    np.testing.assert_array_equal(rows > 0.0, expected > 0.0)
    np.testing.assert_allclose(rows, expected, rtol=1e-14)
    for ours, theirs in zip(line.head_moments(q, y, s2), plain.head_moments(q, y, s2), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    np.testing.assert_allclose(line.predict(q), plain.predict(q), rtol=1e-14)
    # A single nearest point gives its value to the last bit.
    distinct = np.sort(rng.random(200))
    line, plain = (
        estimator(1e-9, "triangular", "nearest", engine).fit(distinct, y, sample_weight=prior)
        for engine in ("window", "direct")
    )
    between = rng.random(60)
    np.testing.assert_array_equal(line.predict(between), plain.predict(between))


def test_a_line_is_not_searched_from_end_to_end():
    n = 200_000
    x = np.linspace(0.0, 1.0, n)
    model = NadarayaWatson(1e-12, "uniform", "nearest", "window").fit(x, x)
    q = np.linspace(0.1, 0.9, 500) + 0.3 / n
    model.predict(q)
    tracemalloc.start()
    try:
        found = model.predict(q)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, q, atol=1.0 / n)
    assert peak < 4 * n  # one row of distances alone would take 8 n bytes
