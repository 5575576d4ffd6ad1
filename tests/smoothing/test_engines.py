"""All engines against the dense oracle: random shapes, ties, gaps, fixed grids, edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import LocalLinear, NadarayaWatson
from nwsim.exceptions import ParameterError
from nwsim.smoothing import ENGINES, get_kernel, kernel_names
from tests.smoothing import oracle


def _sample(rng, shape, n, d):
    if shape == "grid":
        X = rng.integers(0, 9, (n, d)) / 8.0  # ties, and queries on window edges
    elif shape == "gap":
        X = rng.random((n, d)) * 0.3 + np.where(rng.random((n, 1)) < 0.5, 0.0, 0.7)
    elif shape == "outlier":
        X = rng.random((n, d))
        X[0] = 1e4
    elif shape == "flat":
        X = rng.random((n, d))
        X[:, -1] = 0.25
    else:
        X = rng.random((n, d))
    return X


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from(kernel_names()),
    shape=st.sampled_from(["uniform", "grid", "gap", "outlier", "flat"]),
    n=st.integers(1, 300),
    d=st.integers(1, 3),
    h=st.sampled_from([0.03, 0.125, 0.25, 0.8, 40.0]),
)
def test_engines_agree_with_dense_weights(seed, kernel, shape, n, d, h):
    rng = np.random.default_rng(seed)
    X, y = _sample(rng, shape, n, d), rng.normal(size=n)
    prior = rng.uniform(0.1, 2.0, n)
    Q = np.concatenate([X[: min(n, 10)], rng.uniform(-0.2, 1.2, (10, d))])
    if shape == "grid":
        Q = np.concatenate([Q, Q + h, Q - h])
    weights = oracle.dense_weights(X, Q, h, kernel, prior)
    total, absolute = weights.sum(axis=1), np.abs(weights).sum(axis=1)
    s2 = rng.random(n)
    for name, engine in ENGINES.items():
        if not engine.serves(get_kernel(kernel), d):
            continue
        model = NadarayaWatson(h, kernel, engine=name).fit(X, y, sample_weight=prior)
        if name == "nufft" and d > 1 and np.prod(np.ptp(X, axis=0) / h) > 1e4:
            # An outlier is in the period of the Fourier series: too many coefficients.
            with pytest.raises(ParameterError, match="Fourier coefficients"):
                model.moment_sums(Q, y, s2)
            continue
        sums = model.moment_sums(Q, y, s2)
        scale = np.exp(sums.log_scale)
        # Exponents of some hundreds are known to their rounding only.
        accuracy = 2e-13 if engine.ranges else 1.2e-12
        tolerance = accuracy * np.maximum(absolute, 1e-280)
        assert np.all(np.abs(sums.sum_k * scale - total) <= tolerance), name
        slack = tolerance * (1.0 + np.abs(y).max())
        assert np.all(np.abs(sums.sum_kv[:, 0] * scale - weights @ y) <= slack), name
        expected = weights**2 @ s2
        off = np.abs(sums.sum_k2s2 * scale**2 - expected)
        assert np.all(off <= accuracy * expected + 1e-300), name


def test_membership_at_the_edge_is_decided_alike():
    # 0.1 + 0.2 - 0.2 is not 0.1: membership is abs(q - x) <= h on the rounded difference.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1000, 400) / 10.0
    h = 0.3
    q = np.unique(np.concatenate([x + h, x - h]))
    counted = (np.abs(q[:, None] - x[None, :]) <= h).sum(axis=1)
    for engine in ("direct", "window", "cells", "prefix"):
        model = NadarayaWatson(h, "uniform", engine=engine).fit(x, x)
        np.testing.assert_array_equal(model.moment_sums(q, x, 0.0).sum_k, counted)


def test_ball_membership_in_two_dimensions():
    x = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    h = 5.0  # the 3-4-5 triangle puts points exactly on the circle
    inside = np.sum(((x[:, None] - x[None, :]) / h) ** 2, axis=-1) <= 1.0
    for engine in ("direct", "cells"):
        model = NadarayaWatson(h, "uniform", engine=engine).fit(x, x[:, 0])
        sums = model.moment_sums(x, x[:, 0], 0.0)
        np.testing.assert_array_equal(sums.sum_k, inside.sum(axis=1))


@pytest.mark.parametrize("shift", [1e4, -1e4])
@pytest.mark.parametrize("kernel", kernel_names())
def test_shift_of_x(kernel, shift):
    rng = np.random.default_rng(1)
    x, y = rng.random(200), rng.normal(size=200)
    q = rng.random(50)
    for engine, what in ENGINES.items():
        if what.serves(get_kernel(kernel), 1):
            base = NadarayaWatson(0.2, kernel, "nearest", engine).fit(x, y).predict(q)
            moved = NadarayaWatson(0.2, kernel, "nearest", engine).fit(x + shift, y)
            shifted = moved.predict(q + shift)
            if kernel != "uniform":  # whose windows jump where a point sits on the edge
                conditioning = 1e-8 if get_kernel(kernel).order == 2 else 1e-5
                assert np.abs(base - shifted).max() <= conditioning * np.ptp(y)


def test_dyadic_grid_far_away_is_exact():
    x = np.arange(64) / 64.0
    y = np.sin(9 * x)
    for kernel in ("gaussian", "epanechnikov", "uniform"):
        here = NadarayaWatson(0.125, kernel).fit(x, y).predict(x)
        far = NadarayaWatson(0.125, kernel).fit(x + 2.0**27, y).predict(x + 2.0**27)
        np.testing.assert_array_equal(here, far)


def test_auto_prefers_what_serves_and_reports_it():
    X = np.random.default_rng(0).random((3000, 3))
    x, y = X[:, 0], X[:, 0]
    assert NadarayaWatson(0.1, "epanechnikov").fit(x, y).engine_ == "prefix"
    assert NadarayaWatson(1e-4, "epanechnikov").fit(x, y).engine_ == "window"
    assert NadarayaWatson(0.1, "epanechnikov").fit(X, y).engine_ == "cells"
    assert NadarayaWatson(9.0, "epanechnikov").fit(X, y).engine_ == "direct"
    assert NadarayaWatson(0.1, "laplace").fit(x, y).engine_ == "recursive"
    assert LocalLinear(0.1, "laplace").fit(x, y).engine_ == "direct"
    assert NadarayaWatson(0.1, "gaussian4").fit(x, y).engine_ == "direct"
    model = NadarayaWatson(0.01).fit(x, y)
    assert model.engine_ == "expansion" == model.summary(x).engine
    assert model.summary(x[:1]).engine == "direct"
    assert NadarayaWatson(0.1).fit(X, y).engine_ == "direct"
    many = np.tile(X, (10, 1))
    assert NadarayaWatson(0.5).fit(many, many[:, 0]).engine_ == "nufft"
    assert NadarayaWatson(0.5, tol=1e-15).fit(many, many[:, 0]).engine_ == "direct"


def test_engine_that_cannot_serve_is_refused_by_name():
    X = np.random.default_rng(0).random((30, 4))
    with pytest.raises(ParameterError, match=r"'cells'.*'epanechnikov' in 4.*use one of direct"):
        NadarayaWatson(kernel="epanechnikov", engine="cells").fit(X, X[:, 0])
    with pytest.raises(ParameterError, match="engine must be one of 'auto'"):
        NadarayaWatson(engine="fast").fit(X, X[:, 0])


def test_memory_of_a_large_prediction():
    import tracemalloc

    n, m = 10**6, 10**3
    rng = np.random.default_rng(0)
    x, y = rng.random(n), rng.random(n)
    q = np.linspace(0.0, 1.0, m)
    model = NadarayaWatson(1e-3, "epanechnikov").fit(x, y)
    tracemalloc.start()
    try:
        predicted = model.predict(q)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(predicted).all()
    assert peak < 200e6


def test_local_linear_engines_agree():
    rng = np.random.default_rng(3)
    X, y = rng.random((400, 2)), rng.normal(size=400)
    Q = rng.random((40, 2))
    expected = oracle.local_linear(X, y, Q, 0.3, "triweight")
    for engine in ("direct", "cells"):
        model = LocalLinear(0.3, "triweight", engine=engine).fit(X, y)
        np.testing.assert_allclose(model.predict(Q), expected, rtol=1e-9, atol=1e-9)
