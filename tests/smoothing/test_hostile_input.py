"""Fast engines on hostile input: extreme scales, far queries, faint windows, odd weights."""

from __future__ import annotations

import math
import re
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nwsim import LocalLinear, MultiHeadNadarayaWatson, NadarayaWatson
from nwsim.exceptions import ParameterError
from nwsim.smoothing import ENGINES, costs, get_kernel, kernel_names
from tests.smoothing import oracle
from tests.smoothing.test_fast import SERVED


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
        if not re.search("one of the engines that can serve|bandwidth is so small", str(refusal)):
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


@pytest.mark.parametrize(
    ("dim", "others"), [(1, "in 1 dimension: direct, expansion"), (2, "in 2 dimensions: direct")]
)
def test_too_many_coefficients_are_refused_with_who_can_serve(dim, others):
    X = np.random.default_rng(0).random((20, dim))
    model = NadarayaWatson(1e-9, engine="nufft").fit(X, X[:, 0])
    told = rf"'nufft' would need .* Fourier coefficients .* kernel 'gaussian' {others}$"
    with pytest.raises(ParameterError, match=told):
        model.predict(X)
    with pytest.raises(ParameterError, match=f"'prefix' cannot serve .* {others.split(':')[0]};"):
        NadarayaWatson(engine="prefix").fit(X, X[:, 0])


@pytest.mark.parametrize(("engine", "kernel"), [*SERVED, ("auto", "gaussian")])
def test_tolerances_from_the_least_number_to_one(engine, kernel):
    x = np.random.default_rng(0).random(2000)
    q = x[:50]
    exact = NadarayaWatson(0.1, kernel, engine="direct").fit(x, x).predict(q)
    for tol in (5e-324, 1e-300, 1e-15, 1e-13, 1.0):
        model = NadarayaWatson(0.1, kernel, engine=engine, tol=tol).fit(x, x)
        np.testing.assert_allclose(model.predict(q), exact, rtol=0.0, atol=max(tol, 1e-14))
    for tol in (0.0, -1.0, 1.0000001, np.inf, np.nan):
        with pytest.raises(ParameterError, match="tol must be a number, finite and > 0 and <= 1"):
            NadarayaWatson(0.1, kernel, engine=engine, tol=tol).fit(x, x)


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


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(kernel_names()),
    d=st.integers(1, 4),
    n=st.integers(1, 60),
    m=st.sampled_from([1, 30, 3000]),
    log_h=st.floats(-12, 12),
    log_tol=st.floats(-15, 0),
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


def exact_nearest(X, q, h):
    """Return which points are nearest to a query in units of h, in exact arithmetic."""
    distances = [
        sum(
            ((Fraction(float(a)) - Fraction(float(b))) / Fraction(float(c))) ** 2
            for a, b, c in zip(x, q, h, strict=True)
        )
        for x in X
    ]
    return [distance == min(distances) for distance in distances]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 3),
    log_h=st.floats(-320, -100),
    log_size=st.sampled_from([-90.0, 0.0, 150.0, 307.9]),
    kernel=st.sampled_from(["epanechnikov", "uniform", "triangular"]),
    lattice=st.booleans(),
)
def test_nearest_where_squares_overflow(seed, d, log_h, log_size, kernel, lattice):
    rng = np.random.default_rng(seed)
    # Powers of two on lattices: what ties there does so when rounded, too.
    size = 2.0 ** round(log_size * math.log2(10.0))
    draw = rng.integers(-2, 3, (23, d)) if lattice else rng.uniform(-1.0, 1.0, (23, d))
    X, q = size / 4.0 * draw[3:], size / 4.0 * (draw[:3] + 0.5 * lattice)
    h = 10.0 ** (log_h + rng.uniform(0, 3, d))
    if lattice:
        h = np.full(d, 2.0 ** round(log_h * math.log2(10.0)))
    assume((h > 0).all())
    y = rng.normal(size=20)
    found = NadarayaWatson(h, kernel, "nearest").fit(X, y).predict(q)
    expected = [y[exact_nearest(X, row, h)].mean() for row in q]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_gaussian_with_a_tiny_bandwidth_is_refused_without_warnings():
    X = np.random.default_rng(0).random((50, 2))
    with pytest.raises(ParameterError, match="bandwidth is so small"):
        NadarayaWatson(1e-160).fit(X, X[:, 0]).predict(X + 0.01)


@pytest.mark.parametrize(
    "weight", [[0.0, 0.0], [np.nan, 1.0], [1.0], "ab", [1j, 1.0], [10**400, 1], [-1.0, 1.0]]
)
def test_sample_weight_of_the_wrong_kind(weight):
    with pytest.raises(ParameterError, match="sample_weight must"):
        NadarayaWatson(1.0).fit([[0.0], [1.0]], [0.0, 1.0], sample_weight=weight)


@pytest.mark.parametrize("policy", ["nan", "zero", "nearest", "mean", "raise"])
def test_projections_that_overflow_are_refused(policy):
    X, P = np.full((3, 2), 1e150), [np.array([[1e200], [0.0]]), np.array([[0.0], [1.0]])]
    with pytest.raises(ParameterError, match="X and projections must"):
        MultiHeadNadarayaWatson(P, 1.0, "epanechnikov", empty_window=policy).fit(X, X[:, 0])
    model = MultiHeadNadarayaWatson(P, 1.0, "epanechnikov", empty_window=policy)
    with pytest.raises(ParameterError, match="X and projections must"):
        model.fit(X / 1e150, X[:, 0]).predict(X)


def test_masked_arrays_are_refused():
    plain = np.arange(4.0)
    X, y = plain[:, None], np.ma.masked_greater(plain, 2.0)
    P = [np.ones((1, 1))]
    for model in (NadarayaWatson(1.0), LocalLinear(1.0), MultiHeadNadarayaWatson(P)):
        for arrays in ((np.ma.array(X), plain), (X, y), (X, plain, y)):
            with pytest.raises(ParameterError, match="must not be a masked array"):
                model.fit(*arrays)
        with pytest.raises(ParameterError, match="X_query must not be a masked array"):
            model.fit(X, plain).predict(np.ma.array(X))
