"""Engines that sum from fewer operations: accuracy, bounds, windows in doubt, hostile input."""

from __future__ import annotations

import re
import tracemalloc
from math import lgamma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import NadarayaWatson
from nwsim.exceptions import ParameterError
from nwsim.smoothing import ENGINES, costs, expansion, fourier, get_kernel, kernel_names
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


@pytest.mark.parametrize(("engine", "kernel"), SERVED)
@pytest.mark.parametrize("tol", [1e-12, 1e-6])
def test_values_far_from_zero(engine, kernel, tol):
    rng = np.random.default_rng(2)
    x, noise = rng.random(2000), rng.normal(size=2000)
    q = rng.random(50)
    y = noise + 2.0**30
    model = NadarayaWatson(0.1, kernel, engine=engine, tol=tol).fit(x, y)
    exact = NadarayaWatson(0.1, kernel, engine="direct").fit(x, y - 2.0**30).predict(q)
    rounding = 8 * np.spacing(2.0**30)
    assert np.abs(model.predict(q) - 2.0**30 - exact).max() <= tol * np.ptp(y) + rounding


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


@pytest.mark.parametrize("log_h", range(-16, -2))
def test_tiny_bandwidths(log_h):
    # A centre that is off by the rounding of x would be off by much of such a bandwidth.
    rng = np.random.default_rng(5)
    x = 0.3 + 0.3 * rng.random(2000)
    h = 10.0**log_h
    q = x[:300] + h * rng.normal(size=300)
    model = NadarayaWatson(h, engine="expansion").fit(x, x)
    sums = model.moment_sums(q, x, 1.0)
    weights = oracle.dense_weights(x[:, None], q[:, None], h, "gaussian")
    expected = weights.sum(axis=1)
    clear = expected > 1e-60
    assert clear.sum() > 200
    np.testing.assert_allclose(sums.sum_k[clear], expected[clear], rtol=1e-12)
    np.testing.assert_allclose(sums.sum_k2s2[clear], (weights**2).sum(axis=1)[clear], rtol=1e-12)


@pytest.mark.parametrize(("engine", "kernel"), [*SERVED, ("auto", "gaussian")])
@pytest.mark.parametrize("h", [1e-308, 1e-300, 1e-12, 1e12, 1e300])
def test_extreme_bandwidths_of_equal_points(engine, kernel, h):
    x, y = np.full(50, 0.3), np.linspace(1.0, 2.0, 50)
    model = NadarayaWatson(h, kernel, engine=engine).fit(x, y)
    try:
        assert model.predict([0.3])[0] == pytest.approx(y.mean(), rel=1e-12)
    except ParameterError as refusal:
        if not re.search("use another engine|bandwidth is so small", str(refusal)):
            raise


@pytest.mark.parametrize("engine", ["expansion", "nufft"])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e140, 1e290])
def test_extreme_scales(engine, scale):
    x = np.random.default_rng(6).random(200)
    here = NadarayaWatson(0.1, engine="direct").fit(x, x).predict(x)
    far = NadarayaWatson(0.1 * scale, engine=engine).fit(x * scale, x).predict(x * scale)
    np.testing.assert_allclose(far, here, rtol=1e-10)


@pytest.mark.parametrize(("engine", "kernel"), [*SERVED, ("auto", "gaussian")])
@pytest.mark.parametrize("far", [30.0, 1e6, 1e12])
def test_one_query_far_out(engine, kernel, far):
    x = np.random.default_rng(7).random(3000)
    model = NadarayaWatson(0.05, kernel, "nearest", engine=engine).fit(x, x)
    predicted = model.predict([0.5, far, -far])
    direct = NadarayaWatson(0.05, kernel, "nearest", engine="direct").fit(x, x)
    np.testing.assert_allclose(predicted, direct.predict([0.5, far, -far]), rtol=1e-11)


def test_auto_leaves_room_for_noise_and_queries_beyond_the_sample():
    X = np.random.default_rng(8).random((3000, 2))
    for h in np.geomspace(2e-4, 2e-2, 12):
        model = NadarayaWatson(h).fit(X, X[:, 0])
        task = costs.Task(model._sample.kernel, 3000, 3000, 2, np.full(2, h), np.ones(2), 1e-12)
        if np.isfinite(costs.COSTS["nufft"](task)):
            named = NadarayaWatson(h, engine="nufft").fit(X[:10], X[:10, 0])
            assert np.isfinite(named.moment_sums([[-9 * h, 1 + 9 * h]], X[:10, 0], 1.0).sum_k).all()


def test_too_many_coefficients_are_refused():
    x = np.random.default_rng(0).random(20)
    with pytest.raises(ParameterError, match=r"'nufft' would need .* Fourier coefficients"):
        NadarayaWatson(1e-9, engine="nufft").fit(x, x).predict(x)


@pytest.mark.parametrize(("engine", "kernel"), [*SERVED, ("direct", "gaussian")])
def test_point_without_weight_next_to_a_faint_window(engine, kernel):
    # exp(+1800) times no weight is not a number.
    model = NadarayaWatson(0.05, kernel, "nearest", engine=engine)
    model.fit([0.0, 3.0, -15.0], [1.0, 2.0, 3.0], sample_weight=[1.0, 0.0, 1.0])
    mean, covariance, _ = model.head_moments([3.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert mean.item() == pytest.approx(1.0)
    assert covariance.item() == pytest.approx(1.0)


@pytest.mark.parametrize(("engine", "kernel"), SERVED)
def test_no_noise_at_all(engine, kernel):
    x = np.random.default_rng(9).random(100)
    model = NadarayaWatson(0.1, kernel, engine=engine).fit(x, np.zeros(100))
    assert np.all(model.moment_sums(x, np.zeros(100), 0.0).sum_k2s2 == 0.0)
    assert np.all(model.predict(x) == 0.0)


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


def test_memory_of_tiny_cells():
    n = 100_000
    x = np.random.default_rng(12).random(n)
    model = NadarayaWatson(1e-6, engine="expansion").fit(x, x)
    q = x[:100].copy()
    model.predict(q)
    tracemalloc.start()
    try:
        model.predict(q)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400 * n  # cells for the whole line would take thousands of bytes a point


def test_costs_are_complete():
    assert set(costs.COSTS) == set(ENGINES)
    source = Path(costs.__file__).read_text(encoding="utf-8")
    used = set(re.findall(r'(?:\bc|constants\(\))\["(\w+)"\]', source))
    used |= {f"pair_{family}" for family in ("compact", "gaussian", "laplace")}
    assert used == set(costs.constants())
    assert all(0.0 < value < 1e-2 for value in costs.constants().values())


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(kernel_names()),
    d=st.integers(1, 4),
    n=st.integers(1, 60),
    m=st.sampled_from([1, 30, 3000]),
    log_h=st.floats(-12, 12),
    log_tol=st.floats(-15, 5),
    flat=st.booleans(),
)
def test_auto_picks_an_engine_that_serves(seed, kernel, d, n, m, log_h, log_tol, flat):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if flat:
        X[:, 0] = 1.0
    y = rng.normal(size=n)
    model = NadarayaWatson(10.0**log_h, kernel, "nearest", tol=10.0**log_tol).fit(X, y)
    chosen = model._sample.engine_for(m)
    assert ENGINES[chosen].serves(get_kernel(kernel), d)
    assert ENGINES[model.engine_].serves(get_kernel(kernel), d)
    assert np.isfinite(model.predict(np.tile(X, (m // n + 1, 1))[:m])).all()
