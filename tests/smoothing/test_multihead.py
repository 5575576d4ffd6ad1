"""Many heads: against single heads, dense weights, and the two routes of the decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import MultiHeadNadarayaWatson, NadarayaWatson, conditional_moments, decompose
from nwsim.exceptions import EmptyWindowError, ParameterError
from nwsim.heads import random_frames
from nwsim.numerics.heads import head_sums, project
from nwsim.smoothing import kernel_names
from nwsim.smoothing.kernels import FAMILIES, get_kernel


def _data(seed, n=80, d=4, m=9):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, d)), rng.normal(size=n), rng.normal(size=(m, d))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from(kernel_names()),
    policy=st.sampled_from(["zero", "nearest", "mean"]),
    n_heads=st.integers(1, 4),
    h=st.sampled_from([1e-3, 0.3, 1.0, 30.0]),
)
def test_heads_are_single_smoothers_on_projections(seed, kernel, policy, n_heads, h):
    rng, X, y, Q = _data(seed)
    Q[0] = 1e3  # far away: an empty window, or weights that underflow
    projections = [rng.normal(size=(4, int(rng.integers(1, 4)))) for _ in range(n_heads)]
    bandwidths = h * rng.uniform(0.5, 2.0, n_heads)
    prior, s2 = rng.uniform(0.1, 2.0, 80), rng.random(80)
    model = MultiHeadNadarayaWatson(projections, bandwidths, kernel, empty_window=policy)
    model.fit(X, y, sample_weight=prior)
    mean, covariance, n_empty = model.head_moments(Q, y, s2)
    singles = [
        NadarayaWatson(b, kernel, policy, "direct").fit(X @ P, y, sample_weight=prior)
        for P, b in zip(projections, bandwidths, strict=True)
    ]
    W = np.stack([one.weights(Q @ P) for one, P in zip(singles, projections, strict=True)])
    assert n_empty == model.summary(Q).n_empty
    assert n_empty == sum(
        one.summary(Q @ P).n_empty for one, P in zip(singles, projections, strict=True)
    )
    # Signed weights may be large and cancel: rounding is relative to their absolute sum.
    size = np.abs(W).sum(axis=2).T
    assert np.all(np.abs(mean[:, :, 0] - (W @ y).T) <= 1e-9 * (1.0 + size) * np.abs(y).max())
    expected = np.einsum("hmi,lmi,i->mhl", W, W, s2)
    assert np.all(np.abs(covariance - expected) <= 1e-9 * (1.0 + size[:, :, None] * size[:, None]))
    np.testing.assert_array_equal(covariance, np.swapaxes(covariance, 1, 2))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from(["uniform", "triangular", "epanechnikov4", "gaussian", "laplace"]),
    policy=st.sampled_from(["nan", "zero", "nearest", "mean"]),
    d=st.integers(2, 9),
    n_heads=st.integers(1, 9),
    shift=st.sampled_from([0.0, 10.0, 1000.0]),
    p=st.integers(1, 2),
)
def test_a_query_does_not_see_the_others(seed, kernel, policy, d, n_heads, shift, p):
    rng = np.random.default_rng(seed)
    d_k = int(rng.integers(1, min(d, 3) + 1))
    X = rng.integers(0, 4, (40, d)) + shift
    Q = rng.integers(-3, 7, (12, d)) + shift
    Q[0] = 1e4  # empty everywhere, or faint
    Y, s2 = rng.normal(size=(40, p)), rng.random(40)
    projections = random_frames(n_heads, d, d_k, rng)
    # Some point lies at the very edge of some query's window, but for rounding.
    h = max(1e-3, np.linalg.norm((X[0] - Q[1]) @ projections[0]))
    model = MultiHeadNadarayaWatson(projections, h, kernel, empty_window=policy).fit(X, Y)
    together = (model.predict(Q), model.predict_heads(Q), *model.head_moments(Q, Y, s2)[:2])
    alone = [
        (model.predict(q), model.predict_heads(q), *model.head_moments(q, Y, s2)[:2])
        for q in Q[:, None]
    ]
    for ours, parts in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(ours, np.concatenate(parts))
    sample, queries = (model._split(model._projected(points).T) for points in (X, Q))
    weights = np.stack(
        [
            NadarayaWatson(h, kernel, policy, "direct").fit(z.T, Y).weights(q.T)
            for z, q in zip(sample, queries, strict=True)
        ]
    )
    size = np.abs(weights).sum(axis=2).T[:, :, None]
    expected = np.swapaxes(weights @ Y, 0, 1)
    np.testing.assert_array_equal(np.isnan(together[1]), np.isnan(expected))
    error = np.nan_to_num(np.abs(together[1] - expected) / (1.0 + size))
    assert error.max() <= 1e-12 * np.abs(Y).max()
    np.testing.assert_allclose(
        together[0], expected.mean(axis=1), atol=1e-10 * np.nan_to_num(size).max()
    )


def test_rows_are_projected_as_each_would_be_alone():
    rng = np.random.default_rng(5)
    for n, d, wide in ((1, 1, 1), (7, 5, 12), (64, 33, 3)):
        X, P = rng.normal(size=(n, d)) + 10.0, rng.normal(size=(d, wide))
        found, twin = np.zeros((2, n, wide))
        project(X, P, found)
        project.py_func(X, P, twin)
        np.testing.assert_array_equal(found, twin)
        np.testing.assert_allclose(found, X @ P, rtol=1e-12, atol=1e-12)
        for row, x in zip(found, X, strict=True):
            one = np.zeros((1, wide))
            project(x[None], P, one)
            np.testing.assert_array_equal(one[0], row)


def test_ensemble_is_the_weighted_sum_of_its_heads():
    rng, X, y, Q = _data(0)
    projections = random_frames(3, 4, 2, rng)
    Y = np.column_stack([y, -y])
    weights = np.array([0.5, 0.25, 0.25])
    model = MultiHeadNadarayaWatson(projections, 0.7, head_weights=weights).fit(X, Y)
    heads = model.predict_heads(Q)
    assert heads.shape == (9, 3, 2)
    np.testing.assert_allclose(model.predict(Q), np.einsum("h,mhp->mp", weights, heads))
    single = MultiHeadNadarayaWatson(projections, 0.7).fit(X, y)
    np.testing.assert_allclose(single.predict(Q), single.predict_heads(Q).mean(axis=1))
    np.testing.assert_allclose(single.predict_heads(Q), heads[:, :, 0])


def test_identical_heads_gain_nothing_and_one_head_is_one_smoother():
    rng, X, y, Q = _data(1)
    P = random_frames(1, 4, 2, rng)
    one = MultiHeadNadarayaWatson(P, 0.7).fit(X, y)
    four = MultiHeadNadarayaWatson(np.repeat(np.asarray(P), 4, axis=0), 0.7).fit(X, y)
    np.testing.assert_allclose(four.predict(Q), one.predict(Q))
    single = NadarayaWatson(0.7).fit(X @ P[0], y)
    np.testing.assert_allclose(one.predict(Q), single.predict(Q @ P[0]))
    _, covariance, _ = four.head_moments(Q, y, 1.0)
    np.testing.assert_allclose(covariance, covariance[:, :1, :1] * np.ones((9, 4, 4)))


def test_conditional_and_plain_routes_agree_and_wrong_noise_is_told():
    """Ratio of variances over 4,000 noise draws: standard error 0.022, limit five of them."""
    rng, X, _, Q = _data(2, m=3)
    f = np.sin(X.sum(axis=1))
    model = MultiHeadNadarayaWatson(random_frames(3, 4, 2, rng), 0.8).fit(X, f)
    moments = conditional_moments(model, Q, f, np.sin(Q.sum(axis=1)), 0.25)
    heads = np.stack(
        [
            MultiHeadNadarayaWatson(model.projections, 0.8)
            .fit(X, f + 0.5 * rng.normal(size=80))
            .predict_heads(Q)
            for _ in range(4000)
        ]
    )
    np.testing.assert_allclose(heads.mean(axis=0), moments.mean, atol=0.02)
    for j in range(3):
        ratio = np.cov(heads[:, j].T) / moments.noise_covariance[j]
        assert np.all(np.abs(np.diagonal(ratio) - 1.0) < 0.11)
        assert not np.all(np.abs(np.diagonal(ratio) * 0.8 - 1.0) < 0.11)  # negative control
    plain = decompose(heads, np.sin(Q.sum(axis=1)))
    exact = decompose(
        np.stack([moments.mean] * 2),
        np.sin(Q.sum(axis=1)),
        noise_covariance=moments.noise_covariance,
    )
    assert abs(plain.mse - exact.mse) < 5 * plain.mse_mcse


@pytest.mark.parametrize("name", ["epanechnikov4", "gaussian", "laplace"])
@pytest.mark.parametrize("dims", [(1, 2), (1, 4, 2)])
def test_twin(name, dims):
    rng = np.random.default_rng(0)
    kernel = get_kernel(name)
    n_heads = len(dims)
    results = []
    arguments = (
        rng.normal(size=(sum(dims), 30)),
        rng.normal(size=(4, sum(dims))),
        np.concatenate([[0], np.cumsum(dims)]),
        np.linspace(1.0, 2.0, n_heads),
        FAMILIES[kernel.family],
        kernel.power,
        kernel.exponent,
        np.stack([kernel.polynomial(dim) for dim in dims]),
        rng.normal(size=(3, 30)),
        rng.random(30),
    )
    for function in (head_sums, head_sums.py_func):
        shapes = (n_heads,), (n_heads,), (n_heads, 2), (n_heads, n_heads)
        out = tuple(np.zeros((4, *shape)) for shape in shapes)
        function(*arguments, *out)
        results.append(out)
    for ours, twin in zip(*results, strict=True):
        np.testing.assert_allclose(ours, twin, rtol=1e-12, atol=1e-13)


def test_empty_window_raises_when_asked():
    rng, X, y, _ = _data(3)
    model = MultiHeadNadarayaWatson(
        random_frames(2, 4, 1, rng), 0.1, "uniform", empty_window="raise"
    )
    with pytest.raises(EmptyWindowError, match="windows are empty"):
        model.fit(X, y).predict(np.full((1, 4), 50.0))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"projections": np.zeros((2, 4, 1))}, "projections"),
        ({"projections": np.full((2, 4, 1), np.nan)}, "projections"),
        ({"projections": np.eye(3)[None]}, "X must have 3 columns"),
        ({"bandwidth": [0.1, 0.2, 0.3]}, "bandwidth must be a positive number or 2"),
        ({"bandwidth": 0.0}, "bandwidth must be"),
        ({"bandwidth": "loo"}, "bandwidth must be"),
        ({"head_weights": [0.5, 0.6]}, "head_weights"),
        ({"head_weights": [1.0]}, "head_weights"),
        ({"head_weights": [np.nan, 1.0]}, "head_weights"),
        ({"kernel": "nope"}, "kernel must be one of"),
        ({"empty_window": "nope"}, "empty_window must be one of"),
        ({"engine": "window", "kernel": "uniform"}, "engine 'window' cannot serve"),
    ],
)
def test_bad_input_is_named(arguments, match):
    rng, X, y, _ = _data(4)
    defaults = {"projections": random_frames(2, 4, 1, rng)}
    with pytest.raises(ParameterError, match=match):
        MultiHeadNadarayaWatson(**{**defaults, **arguments}).fit(X, y)


def test_memory_grows_with_pairs_of_heads_and_not_with_queries_times_sample():
    import tracemalloc

    n_heads, m, n = 6, 400, 20_000
    rng = np.random.default_rng(3)
    X, f, Q = rng.normal(size=(n, 4)), rng.normal(size=(n, 1)), rng.normal(size=(m, 4))
    model = MultiHeadNadarayaWatson(random_frames(n_heads, 4, 1, rng)).fit(X, f[:, 0])
    tracemalloc.start()
    try:
        model.head_moments(Q, f, 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # H^2 m + H n numbers, a few copies of each; H m n of them would take 384 MB.
    assert peak < 6 * 8 * (n_heads**2 * m + n_heads * n)
