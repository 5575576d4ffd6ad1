"""Engines that sum from fewer operations: accuracy, bounds, windows in doubt, plans, costs."""

from __future__ import annotations

import re
from math import lgamma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import LocalLinear, NadarayaWatson
from nwsim.exceptions import ParameterError
from nwsim.smoothing import ENGINES, costs, expansion, fourier, get_kernel
from nwsim.smoothing.engines import lay_out
from nwsim.smoothing.fast import FAST
from nwsim.smoothing.sums import WeightedSample
from tests.smoothing import oracle

# Each engine with a kernel that it serves.
SERVED = [
    ("prefix", "epanechnikov"),
    ("prefix", "triweight"),
    ("prefix", "tricube"),
    ("recursive", "laplace"),
    ("expansion", "gaussian"),
    ("nufft", "gaussian"),
]


@pytest.fixture
def redone(monkeypatch):
    """Return a list that receives how many windows are summed point by point, call by call."""
    counts = []
    original = WeightedSample._add

    def add(self, Q, columns, squares, exclude, result, rows, narrow=True):
        counts.append(len(Q) if isinstance(rows, slice) else len(rows))
        return original(self, Q, columns, squares, exclude, result, rows, narrow)

    monkeypatch.setattr(WeightedSample, "_add", add)
    return counts


def _clustered(rng, n):
    centres = rng.random(20)
    return np.concatenate([rng.random(n // 2), rng.choice(centres, n // 2) + rng.normal(
        0.0, 1e-4, n // 2)])  # fmt: skip


def _exact_means(x, y, q, h):
    """Return Epanechnikov means in extended precision, window by window."""
    means = []
    for point in q:
        inside = np.abs(point - x) <= h
        u = (np.longdouble(point) - x[inside].astype(np.longdouble)) / np.longdouble(h)
        k = 1 - u * u
        means.append(float((k @ y[inside].astype(np.longdouble)) / k.sum()))
    return np.array(means)


def _plain_prefix_means(x, y, q, h):
    """Return the same from differences of running sums of powers, as is often done."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    first, last = np.searchsorted(x, q - h), np.searchsorted(x, q + h, side="right")

    def windows(v):
        running = np.concatenate([[0.0], np.cumsum(v)])
        return running[last] - running[first]

    sums = [
        windows(v) * (h * h - q * q) + 2 * q * windows(v * x) - windows(v * x * x)
        for v in (np.ones_like(x), y)
    ]
    return sums[1] / sums[0]


@pytest.mark.parametrize("shape", ["uniform", "clustered"])
def test_power_sums_do_not_cancel(shape):
    rng = np.random.default_rng(0)
    n, h = 200_000, 0.002
    x = rng.random(n) if shape == "uniform" else _clustered(rng, n)
    y = np.sin(9 * x) + rng.normal(size=n)
    q = np.sort(np.concatenate([rng.choice(x, 40), rng.uniform(0.05, 0.95, 40)]))
    expected = _exact_means(x, y, q, h)
    ours = NadarayaWatson(h, "epanechnikov", engine="prefix").fit(x, y).predict(q)
    assert np.abs(ours - expected).max() <= 1e-12 * np.ptp(y)
    # The negative control: plain running sums do cancel.
    assert np.abs(_plain_prefix_means(x, y, q, h) - expected).max() > 1e-11 * np.ptp(y)


@settings(max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    served=st.sampled_from([*SERVED, ("prefix", "cosine"), ("prefix", "uniform")]),
    n=st.integers(1, 300),
    log_h=st.floats(-4.0, 2.0),
    log_tol=st.floats(-14.0, -2.0),
)
def test_bounds_hold(seed, served, n, log_h, log_tol):
    engine, kernel = served
    rng = np.random.default_rng(seed)
    h = np.array([10.0**log_h])
    X = rng.choice([rng.random((n, 1)), rng.integers(0, 9, (n, 1)) / 8.0, rng.normal(size=(n, 1))])
    Q = np.concatenate([X[:20], X[:10] + h * rng.normal(size=(min(n, 10), 1))])
    layout = lay_out(X, ENGINES[engine].layout)
    prior, squares = rng.random((2, n))
    sample = WeightedSample(layout, get_kernel(kernel), h, prior, engine, 10.0**log_tol)
    found = FAST[engine](sample, Q, sample.columns(rng.normal(size=(2, n))), squares)
    x = layout.X.T
    weights = oracle.dense_weights(x, Q, h, kernel)
    # Whatever is on an edge belongs to it or not by the rule of engines.
    if get_kernel(kernel).family == "compact":
        weights *= np.abs(Q - x.T) <= h
    expected = weights @ prior
    rounding = 1e-14 * expected + 4e-16 * (np.abs(Q - x.T) <= h) @ prior
    known = np.isfinite(found.bound)
    assert np.all(np.abs(found.sums[:, 0] - expected)[known] <= (found.bound + rounding)[known])
    assert np.all(found.absolute[known] >= expected[known] * (1 - 1e-9) - found.bound[known])


@pytest.mark.parametrize("engine", ["expansion", "nufft"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tolerance_is_obeyed(engine, tol):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(3000), [3.0, 3.01, 40.0]])  # thin places, gaps
    y, s2 = np.cos(5 * x) + rng.normal(size=x.size), rng.random(x.size)
    q = np.concatenate([rng.uniform(-0.5, 1.5, 150), [2.9, 3.2, 39.0, 1e4]])
    direct = NadarayaWatson(0.05, engine="direct").fit(x, y)
    model = NadarayaWatson(0.05, engine=engine, tol=tol).fit(x, y)
    allowed = tol + 1e-13
    ours, exact = model.moment_sums(q, y, s2), direct.moment_sums(q, y, s2)
    assert np.all(np.abs(ours.sum_k - exact.sum_k) <= allowed * exact.sum_k)
    assert np.all(np.abs(ours.sum_k2s2 - exact.sum_k2s2) <= allowed * exact.sum_k2s2)
    assert np.abs(model.predict(q) - direct.predict(q)).max() <= 2 * allowed * np.ptp(y)


def test_windows_in_doubt_are_summed_point_by_point(redone):
    # All of the first window's weight is at its edge, where powers of the distance cancel.
    x = np.array([1.0 - 1e-9, 5.0, 5.1, 9.0])
    model = NadarayaWatson(1.0, "triweight", engine="prefix").fit(x, x)
    sums = model.moment_sums([0.0, 5.05], x, 1.0)
    assert redone == [1]
    direct = NadarayaWatson(1.0, "triweight", engine="direct").fit(x, x)
    assert sums.sum_k[0] == direct.moment_sums([0.0, 5.05], x, 1.0).sum_k[0] > 0.0


def test_windows_whose_noise_is_in_doubt_are_summed_point_by_point(redone):
    x = np.linspace(0.0, 1.0, 400)
    far = np.where(x < 0.1, 1e30, 0.0)  # a variance that drowns the transform
    far[300] = 1.0
    model = NadarayaWatson(0.02, engine="nufft").fit(x, x)
    sums = model.moment_sums(x[290:310], x, far)
    assert redone == [20]
    weights = oracle.dense_weights(x[:, None], x[290:310, None], 0.02, "gaussian")
    np.testing.assert_allclose(sums.sum_k2s2, weights**2 @ far, rtol=1e-12)


@pytest.mark.parametrize(("engine", "kernel"), [*SERVED, ("direct", "laplace")])
def test_windows_summed_point_by_point_are_counted(engine, kernel):
    x = np.append(np.random.default_rng(3).random(3000), [30.0, 60.0])
    model = NadarayaWatson(0.02, kernel, "nearest", engine, tol=1e-11).fit(x, x)
    # Amid the sample; single points, too thin for a transform; out of reach, faint if anything.
    amid, single, beyond = [*x[:7]], [30.01, 60.003, 29.99], [1e6, -1e6]
    counts = [model.summary(q).n_pointwise for q in (amid, amid + single, amid + beyond)]
    assert counts[0] == 0
    assert counts[1] == (3 if engine == "nufft" else 0)
    assert counts[2] == (0 if engine in ("prefix", "direct") else 2)
    assert model.moment_sums(amid + beyond, x, 0.0).n_pointwise == counts[2]


def test_smooth_kernels_are_not_in_doubt_everywhere(redone):
    x = np.random.default_rng(3).random(20_000)
    for kernel in ("biweight", "triweight", "tricube", "cosine", "triangular"):
        NadarayaWatson(0.01, kernel, engine="prefix").fit(x, x).predict(x[:500])
    assert sum(redone) <= 5


@pytest.mark.parametrize("kernel", ["epanechnikov4"])
@pytest.mark.parametrize("tol", [1e-12, 1e-3])
def test_engines_call_the_same_windows_empty(kernel, tol):
    rng = np.random.default_rng(4)
    x, q = rng.random(300), np.linspace(-0.1, 1.1, 2000)
    found = [
        NadarayaWatson(0.005, kernel, engine=engine, tol=tol).fit(x, x).moment_sums(q, x, 1.0)
        for engine in ("window", "prefix")
    ]
    assert 0 < found[0].empty(True).sum() < q.size
    np.testing.assert_array_equal(found[0].empty(True), found[1].empty(True))
    assert np.all(found[1].absolute >= found[0].absolute * (1 - 1e-12))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_error_of_the_transforms(d, tol):
    # The trials behind the factor in the bound: the error is less than the precision itself.
    rng = np.random.default_rng(d)
    for shape in ("uniform", "clustered", "heavy"):
        X = rng.random((2000, d))
        if shape == "clustered":
            X[1:] = 0.5 + 1e-3 * X[1:]
        elif shape == "heavy":
            X[:, 0] = np.clip(rng.standard_cauchy(2000), -50, 50)
        h = np.full(d, 0.3) * np.array([1.0, 2.0, 0.7])[:d]
        columns = rng.random((2, 2000))
        layout, Q = lay_out(X, "plain"), X[:100] + 0.1 * rng.normal(size=(100, d))
        sums, bound = fourier.nufft_sums(layout, Q, h, columns, tol)
        weights = oracle.dense_weights(X, Q, h, "gaussian")
        eps = fourier.precision(layout.span, h, tol)
        size = columns.sum(axis=1)
        error = np.abs(sums - weights @ columns.T)
        assert np.all(error <= 1.0 * eps * size)
        assert np.all(bound >= fourier._WORST * eps * size[0])


def test_rounded_phases_are_in_the_bound():
    # The weight is far from the end of a long period, where phases are known to its rounding.
    rng = np.random.default_rng(0)
    X = np.append(0.3 + 2 * rng.random(2000), 1e5)[:, None]
    Q, h = np.linspace(-1.0, 3.0, 50)[:, None], np.ones(1)
    columns = np.ones((1, 2001))
    sums, bound = fourier.nufft_sums(lay_out(X, "plain"), Q, h, columns, 1e-12)
    off = np.abs(sums - oracle.dense_weights(X, Q, h, "gaussian") @ columns.T)[:, 0]
    assert np.all(off <= bound)
    assert off.max() > fourier._WORST * fourier.FINEST * 2001  # without them it would not hold


@given(
    n=st.integers(1, 10**6),
    m=st.integers(1, 10**5),
    log_ratio=st.floats(-3, 8),
    log_tol=st.floats(-13, -2),
)
def test_plan_of_the_expansion_meets_its_bound(n, m, log_ratio, log_tol):
    ratio, tol = 10.0**log_ratio, 10.0**log_tol
    plan = expansion.make_plan(n, m, 2, ratio, 1.0, tol, ratio)
    assert plan is not None
    assert np.frexp(plan.width)[0] == 0.5  # a power of two
    assert plan.half_width >= 0.5 * plan.width
    typical = min(1.0, np.sqrt(2 * np.pi) / ratio)
    assert plan.truncation <= tol * typical / 1000
    assert np.exp(-0.5 * (plan.reach - plan.half_width) ** 2) <= tol * typical / 1000
    # The series itself at the edge of a cell, against the exponential, for all deltas.
    delta = np.linspace(0.01, 12.0, 500)
    for z in (plan.half_width, -plan.half_width):
        term, series = np.ones_like(delta), np.zeros_like(delta)
        for k in range(plan.terms):
            series += term
            term = term * delta * z / (k + 1)
        off = np.exp(-0.5 * delta**2) * np.abs(series - np.exp(delta * z))
        assert off.max() <= plan.truncation * (1 + 1e-9) + 2e-15


def test_largest_truncation_is_the_largest():
    delta = np.linspace(1e-3, 30.0, 30_001)
    for zeta in (0.004, 0.1, 0.5):
        for terms in (4, 16, 28):
            x = delta * zeta
            log = -0.5 * delta**2 + terms * np.log(x) - lgamma(terms + 1.0) + x
            found = expansion.truncation(zeta, terms)
            assert np.exp(log).max() == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(("engine", "kernel"), SERVED)
def test_float32_is_served_in_float64(engine, kernel):
    rng = np.random.default_rng(10)
    x, y, q = (rng.random(500).astype(np.float32) for _ in range(3))
    ours = NadarayaWatson(0.1, kernel, engine=engine).fit(x, y).predict(q)
    upcast = NadarayaWatson(0.1, kernel, engine=engine).fit(*(a.astype(float) for a in (x, y)))
    assert ours.dtype == np.float64
    np.testing.assert_array_equal(ours, upcast.predict(q.astype(float)))


@pytest.mark.parametrize(("engine", "kernel"), SERVED)
def test_same_bits_twice_and_for_copies(engine, kernel):
    rng = np.random.default_rng(11)
    x, y, q = rng.random(800), rng.normal(size=(800, 3)), rng.random(90)
    model = NadarayaWatson(0.1, kernel, engine=engine).fit(x, y)
    first = model.predict(q)
    np.testing.assert_array_equal(first, model.predict(q))
    other = model.at_bandwidth(0.2)
    assert other.engine_ == engine
    np.testing.assert_array_equal(other.at_bandwidth(0.1).predict(q), first)
    alone = np.array([model.predict(q[j : j + 1])[0] for j in range(20)])
    assert np.abs(alone - first[:20]).max() <= 1e-12 * np.ptp(y)


def test_costs_are_complete():
    assert set(costs.COSTS) == set(ENGINES)
    source = Path(costs.__file__).read_text(encoding="utf-8")
    used = set(re.findall(r'(?:\bc|constants\(\))\["(\w+)"\]', source))
    used |= {f"pair_{family}" for family in ("compact", "gaussian", "laplace")}
    assert used == set(costs.constants())
    assert all(0.0 < value < 1e-2 for value in costs.constants().values())


@pytest.mark.parametrize(
    ("engine", "kernel", "d", "able"),
    [
        ("prefix", "gaussian", 1, "direct, expansion, nufft"),
        ("prefix", "epanechnikov", 2, "direct, cells"),
        ("recursive", "epanechnikov", 1, "direct, window, cells, prefix"),
        ("recursive", "laplace", 2, "direct"),
        ("expansion", "gaussian", 2, "direct, nufft"),
        ("expansion", "gaussian4", 1, "direct"),
        ("nufft", "gaussian4", 2, "direct"),
        ("nufft", "gaussian", 4, "direct"),
        ("nufft", "laplace", 1, "direct, recursive"),
    ],
)
def test_refusals_name_the_engines_that_serve(engine, kernel, d, able):
    X = np.random.default_rng(0).random((9, d))
    with pytest.raises(ParameterError, match=f"'{engine}' cannot serve .* use one of {able}$"):
        NadarayaWatson(0.1, kernel, engine=engine).fit(X, X[:, 0])


@pytest.mark.parametrize(("engine", "kernel"), SERVED)
def test_local_lines_are_refused(engine, kernel):
    x = np.linspace(0.0, 1.0, 9)
    with pytest.raises(ParameterError, match=f"'{engine}' cannot serve a local linear fit"):
        LocalLinear(0.1, kernel, engine=engine).fit(x, x)


@pytest.mark.parametrize("engine", ["direct", "window", "cells"])
def test_bits_of_a_query_whatever_is_asked_with_it(engine):
    rng = np.random.default_rng(13)
    x, y, q = rng.random(400), rng.normal(size=400), rng.random(60)
    model = NadarayaWatson(0.1, "tricube", engine=engine).fit(x, y)
    alone = np.array([model.predict(q[j : j + 1])[0] for j in range(60)])
    np.testing.assert_array_equal(alone, model.predict(q))


@pytest.mark.parametrize(("engine", "kernel"), SERVED)
@pytest.mark.parametrize("policy", ["nan", "zero", "nearest", "mean"])
def test_policies_of_empty_windows(engine, kernel, policy):
    rng = np.random.default_rng(14)
    x, y, s2 = rng.random(200), rng.normal(size=(200, 2)), rng.random(200)
    q = np.array([0.5, 9.0, -3.0, 1e4])
    fast, direct = (
        NadarayaWatson(0.1, kernel, policy, name).fit(x, y) for name in (engine, "direct")
    )
    for ours, theirs in zip(
        fast.head_moments(q, y, s2), direct.head_moments(q, y, s2), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)
    assert fast.summary(q).n_empty == direct.summary(q).n_empty
    np.testing.assert_allclose(fast.weights(q) @ y, fast.predict(q), rtol=1e-9, atol=1e-12)
