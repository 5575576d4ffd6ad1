"""The risk of frames against the estimator it stands for, and its gradient against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.heads import random_frames
from nwsim.inference import conditional_moments, decompose_conditional
from nwsim.learning import FrameRisk, QueriedSample
from nwsim.numerics import frames as loops
from nwsim.smoothing import MultiHeadNadarayaWatson


def sample(rng, n, d, queries):
    X = rng.standard_normal((n, d))
    f = np.sin(X.sum(axis=1))
    return QueriedSample(X, f, rng.uniform(0.2, 2.0, n), queries, np.cos(queries[:, 0]))


def risk_of(seed, d, n=25, m=7, n_designs=2, head_weights=None):
    rng = np.random.default_rng(seed)
    return FrameRisk(
        [sample(rng, n, d, rng.standard_normal((m, d))) for _ in range(n_designs)], head_weights
    )


def weights_of(rng, n_heads):
    a = rng.uniform(-0.3, 1.0, n_heads)
    return a / a.sum()


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize(("n_heads", "d", "d_k"), [(1, 2, 1), (3, 4, 2), (2, 5, 4)])
def test_value_is_the_conditional_error_of_the_ensemble(n_heads, d, d_k, uniform):
    rng = np.random.default_rng(n_heads)
    queries, truth = rng.standard_normal((40, d)), rng.standard_normal(40)
    samples = [sample(rng, 60, d, queries)._replace(truth=truth) for _ in range(3)]
    frames = random_frames(n_heads, d, d_k, rng)
    h = rng.uniform(0.3, 1.2, n_heads)
    a = None if uniform else weights_of(rng, n_heads)
    per_design = []
    for one in samples:
        model = MultiHeadNadarayaWatson(frames, h).fit(one.X, one.f)
        per_design.append(conditional_moments(model, queries, one.f, truth, one.noise_variance))
    expected = decompose_conditional(per_design, truth, head_weights=a).mse
    assert FrameRisk(samples, a).value(frames, h) == pytest.approx(expected, rel=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_heads=st.integers(1, 4),
    d=st.integers(1, 5),
    d_k=st.integers(1, 5),
    uniform=st.booleans(),
)
def test_gradient_is_that_of_central_differences(seed, n_heads, d, d_k, uniform):
    d_k = min(d, d_k)
    rng = np.random.default_rng(seed)
    risk = risk_of(seed, d, head_weights=None if uniform else weights_of(rng, n_heads))
    frames = np.asarray(random_frames(n_heads, d, d_k, rng))
    h = rng.uniform(0.4, 1.5, n_heads)
    value, gradient = risk.value_and_gradient(frames, h)
    assert value == risk.value(frames, h)
    # Richardson's combination of two steps: its error is O(step^4).
    way = rng.standard_normal(frames.shape)
    slopes = [
        (risk.value(frames + s * way, h) - risk.value(frames - s * way, h)) / (2 * s)
        for s in (2e-3, 1e-3)
    ]
    slope = (4.0 * slopes[1] - slopes[0]) / 3.0
    size = np.linalg.norm(gradient) * np.linalg.norm(way)
    assert np.sum(gradient * way) == pytest.approx(slope, abs=1e-6 * size + 1e-11)


def test_only_the_ranges_count():
    rng = np.random.default_rng(3)
    risk, frames = risk_of(3, 4), np.asarray(random_frames(3, 4, 2, rng))
    turned = frames @ np.asarray(random_frames(3, 2, 2, rng))
    value, gradient = risk.value_and_gradient(frames, 0.6)
    assert risk.value(turned, 0.6) == pytest.approx(value, rel=1e-13)
    # Hence Q'G is symmetric; for a gradient that ignores this it is not.
    inner = np.swapaxes(frames, 1, 2) @ gradient
    np.testing.assert_allclose(inner, np.swapaxes(inner, 1, 2), atol=1e-14)


def test_far_queries_and_tiny_bandwidths_see_the_nearest_point():
    X = np.array([[0.0, 0.0], [1.0, 0.0]])
    one = QueriedSample(
        X, np.array([3.0, 5.0]), np.array([0.5, 2.0]), np.array([[1e6, 0.0]]), np.array([4.0])
    )
    value, gradient = FrameRisk([one]).value_and_gradient(np.eye(2)[None, :, :1], 1e-3)
    assert value == pytest.approx((5.0 - 4.0) ** 2 + 2.0)
    assert np.isfinite(gradient).all()


def test_a_sample_counts_by_its_queries():
    rng = np.random.default_rng(0)
    few, many = (sample(rng, 20, 3, rng.standard_normal((m, 3))) for m in (2, 10))
    frames = random_frames(2, 3, 1, rng)
    values = [FrameRisk([one]).value(frames, 0.5) for one in (few, many)]
    together = FrameRisk([few, many]).value(frames, 0.5)
    assert together == pytest.approx((2 * values[0] + 10 * values[1]) / 12, rel=1e-13)


@pytest.mark.parametrize("with_gradient", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_compiled_pass_and_its_twin(seed, with_gradient):
    rng = np.random.default_rng(seed)
    n_heads, d_k = 1 + seed % 3, 1 + seed % 2
    d, n, m = d_k + seed % 3, 1 + 4 * seed, 3
    frames = np.asarray(random_frames(n_heads, d, d_k, rng))
    X, Q = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    columns = np.hstack(list(frames))
    found = []
    for fill in (loops.ensemble_risk, loops.ensemble_risk.py_func):
        risk, gradient = np.zeros(m), np.ones((n_heads, d, d_k))
        fill(
            np.ascontiguousarray(X.T), np.ascontiguousarray((X @ columns).T), Q, Q @ columns,
            X[:, 0].copy(), Q[:, 0].copy(), np.linspace(0.0, 1.0, n),
            np.linspace(0.3, 0.9, n_heads), np.full(n_heads, 1 / n_heads),
            with_gradient, risk, gradient,
        )  # fmt: skip
        found.append((risk, gradient))
    for ours, twin in zip(*found, strict=True):
        np.testing.assert_allclose(ours, twin, rtol=1e-12, atol=1e-13)
    assert with_gradient or (found[0][1] == 1.0).all()


def good():
    rng = np.random.default_rng(1)
    return sample(rng, 6, 3, rng.standard_normal((4, 3)))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"f": np.zeros(5)}, "f must have 6"),
        ({"truth": np.zeros(5)}, "truth must have 4"),
        ({"noise_variance": -np.ones(6)}, "noise_variance"),
        ({"queries": np.zeros((4, 2))}, "queries must have 3"),
        ({"X": np.full((6, 3), np.nan)}, "X must be finite"),
        ({"X": np.zeros((0, 3))}, "X must have at least"),
    ],
)
def test_samples_that_do_not_fit_are_refused(change, names):
    with pytest.raises(ParameterError, match=names):
        FrameRisk([good()._replace(**change)])


def test_what_else_is_refused():
    risk = FrameRisk([good()], [0.4, 0.6])
    frames = random_frames(2, 3, 1, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="samples must hold"):
        FrameRisk([])
    with pytest.raises(ParameterError, match="one number of columns"):
        FrameRisk([good(), sample(np.random.default_rng(0), 4, 2, np.zeros((1, 2)))])
    with pytest.raises(ParameterError, match="sum to 1"):
        FrameRisk([good()], [0.4, 0.4])
    with pytest.raises(ParameterError, match="must hold 2 heads"):
        risk.value(frames[:1], 1.0)
    with pytest.raises(ParameterError, match="must have 3 rows"):
        risk.value(random_frames(2, 4, 1, np.random.default_rng(0)), 1.0)
    for bandwidth in (0.0, [1.0, -1.0], [1.0, 1.0, 1.0], np.inf):
        with pytest.raises(ParameterError, match="bandwidth"):
            risk.value(frames, bandwidth)


def test_what_leaves_the_range_of_floats_is_refused():
    rng = np.random.default_rng(12)
    X, queries = rng.standard_normal((6, 2)), rng.standard_normal((3, 2))
    sample = QueriedSample(X, X[:, 0], np.ones(6), queries, queries[:, 0])
    risk = FrameRisk([sample])
    for call in (risk.value, risk.value_and_gradient):
        with pytest.raises(ParameterError, match="bandwidth is too small"):
            call(np.eye(2)[None, :, :1], 1e-200)
    with pytest.raises(ParameterError, match="samples must hold QueriedSample"):
        FrameRisk([1])
