"""Descent over frames: gradients through QR, optima that are known, and records of starts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.heads import (
    coordinate_frames,
    head_diversity_index,
    minimum_overlap,
    overlap_matrix,
    random_frames,
)
from nwsim.heads.projections import upright_qr
from nwsim.learning import (
    FrameFit,
    FrameRisk,
    QueriedSample,
    best_bandwidth,
    curvatures,
    descend,
    distinct_optima,
    fit_frames,
    least_overlap_frames,
    mean_overlap,
    orthonormal_pullback,
    shaken,
    starting_frames,
)


def risk_of(f, d, seed=0, n=60, noise=0.3, n_designs=2):
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(n_designs):
        X, Q = rng.standard_normal((n, d)), rng.standard_normal((40, d))
        samples.append(QueriedSample(X, f(X), np.full(n, noise**2), Q, f(Q)))
    return FrameRisk(samples)


def wave(X):
    return np.sin(2.0 * X[:, 0])


@given(
    seed=st.integers(0, 2**32 - 1),
    stack=st.integers(1, 3),
    d=st.integers(1, 6),
    c=st.integers(1, 6),
    ranges_only=st.booleans(),
)
def test_gradient_through_qr(seed, stack, d, c, ranges_only):
    c = min(c, d)
    rng = np.random.default_rng(seed)
    A = np.asarray(random_frames(stack, d, c, rng)) + 0.3 * rng.standard_normal((stack, d, c))
    B = rng.standard_normal((stack, d, d))
    B = B + np.swapaxes(B, 1, 2)
    C = np.zeros((stack, d, c)) if ranges_only else rng.standard_normal((stack, d, c))

    # tr(Q'BQ) knows the range alone; <C, Q> knows the columns.
    def value(A):
        Q, _ = upright_qr(A)
        return float(np.sum(Q * (B @ Q)) + np.sum(C * Q))

    Q, R = upright_qr(A)
    if np.linalg.cond(R).max() > 20.0:
        return
    G = 2.0 * B @ Q + C
    ours = orthonormal_pullback(Q, R, G)
    way = rng.standard_normal(A.shape)
    slopes = [(value(A + s * way) - value(A - s * way)) / (2 * s) for s in (2e-4, 1e-4)]
    slope = (4.0 * slopes[1] - slopes[0]) / 3.0
    size = (1.0 + np.linalg.norm(G)) * np.linalg.norm(way)
    assert np.sum(ours * way) == pytest.approx(slope, abs=1e-6 * size)
    if ranges_only:
        outside = G - Q @ (np.swapaxes(Q, 1, 2) @ G)
        short = np.swapaxes(np.linalg.solve(R, np.swapaxes(outside, 1, 2)), 1, 2)
        np.testing.assert_allclose(ours, short, atol=1e-10 * size)


def test_descent_finds_the_leading_eigenvectors():
    rng = np.random.default_rng(5)
    S = np.diag([5.0, 4.0, 3.0, 2.0, 1.0])

    def rest(P):  # positive, least where every head spans the two largest
        return float(20.0 - np.sum(P * (S @ P))), -2.0 * (S @ P)

    found = descend(rest, random_frames(2, 5, 2, rng), tolerance=1e-8)
    assert found.converged
    assert found.value == pytest.approx(20.0 - 18.0)
    np.testing.assert_allclose(found.frames[:, 2:], 0.0, atol=1e-5)

    # Side by side the heads must share out the four largest, and no more is to be had.
    apart = descend(rest, random_frames(2, 5, 2, rng, orthogonal=True), orthogonal=True)
    assert apart.value == pytest.approx(20.0 - 14.0, rel=1e-5)
    assert head_diversity_index(apart.frames) == pytest.approx(1.0)


def test_identical_heads_stay_identical():
    risk = risk_of(wave, 3)
    one = np.repeat(random_frames(1, 3, 1, np.random.default_rng(2)), 2, axis=0)
    found = descend(partial(risk.value_and_gradient, bandwidth=0.4), one)
    assert head_diversity_index(found.frames) == pytest.approx(0.0, abs=1e-12)
    alone = descend(partial(risk.value_and_gradient, bandwidth=0.4), one[:1])
    assert found.value == pytest.approx(alone.value, rel=1e-6)


def test_fit_finds_the_one_direction_that_counts():
    risk = risk_of(wave, 4)
    starts = starting_frames(2, 4, 1, np.random.default_rng(0))
    fits = fit_frames(risk, starts, 0.3)
    assert [fit.start for fit in fits] == list(starts)
    best = min(fits, key=lambda fit: fit.value)
    assert best.converged
    assert best.gradient_norm <= 3e-4 * best.value
    np.testing.assert_allclose(np.abs(best.frames[:, 0, 0]), 1.0, atol=0.02)
    # The negative control: mutually orthogonal heads cannot both see it.
    apart = fit_frames(risk, {"coordinates": starts["coordinates"]}, 0.3, orthogonal=True)[0]
    assert overlap_matrix(apart.frames)[0, 1] == pytest.approx(0.0, abs=1e-12)
    assert apart.value > 1.5 * best.value
    assert all(fit.value < risk.value(starts[fit.start], 0.3) for fit in fits)


def test_bandwidth_is_fitted_within_its_span():
    risk = risk_of(wave, 3)
    frames = np.repeat(coordinate_frames(1, 3, 1), 2, axis=0)  # both see what counts
    h = best_bandwidth(risk, frames, 0.5, 4.0)
    around = [risk.value(frames, h * factor) for factor in (0.9, 1.0, 1.1)]
    assert around[1] == min(around)
    assert 0.5 / 1.1 <= best_bandwidth(risk, frames, 0.5, 1.1) <= 0.5 * 1.1
    fixed, free = (fit_frames(risk, {"one": frames}, 2.0, span=s)[0] for s in (None, 40.0))
    assert fixed.bandwidth == 2.0
    assert free.value < 0.8 * fixed.value
    assert free.converged
    # Nothing is left to gain by the bandwidth alone, which is inside its span.
    at = [risk.value(free.frames, free.bandwidth * factor) for factor in (0.98, 1.0, 1.02)]
    assert at[1] == min(at)
    assert 0.06 < free.bandwidth < 2.0
    assert free.value == pytest.approx(risk.value(free.frames, free.bandwidth), rel=1e-12)


@pytest.mark.parametrize(
    ("n_heads", "d", "d_k"), [(3, 6, 2), (4, 6, 2), (2, 6, 4), (3, 2, 1), (6, 4, 2), (5, 7, 2)]
)
def test_least_overlap_is_reached(n_heads, d, d_k):
    frames = least_overlap_frames(n_heads, d, d_k, np.random.default_rng(n_heads))
    least = minimum_overlap(n_heads, d, d_k)
    assert 1.0 - head_diversity_index(frames) == pytest.approx(least, abs=1e-4)
    assert mean_overlap(frames)[0] == pytest.approx(least, abs=1e-4)


def test_a_scale_stops_at_its_bound():
    def rise(P):  # grows with the scale: as small as admitted
        return float(np.sum(P**2)), 2.0 * P

    start = random_frames(2, 3, 1, np.random.default_rng(4))
    found = descend(rise, start, reach=0.5, scale=1.2)
    assert found.scale == pytest.approx(np.exp(-0.5))
    assert found.converged
    assert found.value == pytest.approx(2.0 * np.exp(-1.0))
    assert descend(rise, start).scale == 1.0


def test_mean_overlap_has_its_gradient():
    rng = np.random.default_rng(1)
    frames, way = random_frames(3, 5, 2, rng), rng.standard_normal((3, 5, 2))
    value, gradient = mean_overlap(frames)
    assert value == pytest.approx(1.0 - head_diversity_index(frames))
    slope = (mean_overlap(frames + 1e-5 * way)[0] - mean_overlap(frames - 1e-5 * way)[0]) / 2e-5
    assert np.sum(gradient * way) == pytest.approx(slope, rel=1e-7)


def test_curvatures_of_a_known_function():
    # sum_k tr(Q_k'SQ_k) at coordinate axes: 2 (s_j - s_i) for i seen and j not seen.
    S = np.diag([1.0, 2.0, 4.0, 4.0])

    def function(P):
        return float(np.sum(P * (S @ P))), 2.0 * (S @ P)

    axes = np.eye(4)[None, :, :1]
    np.testing.assert_allclose(curvatures(function, axes), [2.0, 6.0, 6.0], rtol=1e-6)
    # The third and fourth are one eigenspace: heads within it turn freely.
    flat = curvatures(function, np.eye(4)[None, :, 2:3])
    np.testing.assert_allclose(flat, [-6.0, -4.0, 0.0], atol=1e-6)
    assert curvatures(function, np.eye(4)[None]).size == 0


def test_a_symmetry_of_the_function_is_a_flat_direction():
    # The overlap of two heads is unchanged when both turn together: three dimensions of turns.
    frames = coordinate_frames(2, 3, 1)
    values = curvatures(mean_overlap, frames)
    assert (np.abs(values) < 1e-6).sum() == 3
    assert (values > 0.5).sum() == 1


def fit(value, frames, converged=True):
    return FrameFit("start", frames, 1.0, value, 0.0, 1, converged)


def test_optima_are_counted_by_value_and_by_index():
    apart = coordinate_frames(2, 4, 1)
    alike = np.repeat(apart[:1], 2, axis=0)
    one = [fit(1.0, apart), fit(1.0 + 1e-5, apart[::-1]), fit(1.0, shaken_little(apart))]
    assert distinct_optima(one) == 1
    assert distinct_optima([*one, fit(1.0, alike)]) == 2
    assert distinct_optima([*one, fit(1.1, apart)]) == 2
    assert distinct_optima([*one, fit(1.1, apart, converged=False)]) == 1
    assert distinct_optima([]) == 0


def shaken_little(frames):
    return shaken(frames, 1e-3, np.random.default_rng(0))


def test_starts_are_of_every_kind():
    starts = starting_frames(2, 4, 2, np.random.default_rng(3), n_each=3)
    assert len(starts) == 10
    overlaps = {name: 1.0 - head_diversity_index(frames) for name, frames in starts.items()}
    assert max(overlaps[f"apart_{i}"] for i in range(3)) < 1e-12
    assert min(overlaps[f"together_{i}"] for i in range(3)) > 0.8
    assert "coordinates" not in starting_frames(3, 4, 2, np.random.default_rng(3))


def test_what_is_refused():
    risk, rng = risk_of(wave, 3), np.random.default_rng(0)
    function = partial(risk.value_and_gradient, bandwidth=1.0)
    frames = random_frames(2, 3, 1, rng)
    with pytest.raises(ParameterError, match="starts must hold"):
        fit_frames(risk, {}, 1.0)
    with pytest.raises(ParameterError, match="full column rank"):
        descend(function, np.zeros((2, 3, 1)))
    with pytest.raises(ParameterError, match="start must have 3 axes"):
        descend(function, frames[0])
    with pytest.raises(ParameterError, match="room for orthogonal frames"):
        descend(function, random_frames(2, 3, 2, rng), orthogonal=True)
    with pytest.raises(ParameterError, match="columns of start"):
        descend(function, np.repeat(frames[:1], 2, axis=0), orthogonal=True)
    with pytest.raises(ParameterError, match="tolerance"):
        descend(function, frames, tolerance=0.0)
    with pytest.raises(ParameterError, match="reach"):
        descend(function, frames, reach=-1.0)
    with pytest.raises(ParameterError, match="logarithm of scale"):
        descend(function, frames, reach=0.1, scale=2.0)
    with pytest.raises(ParameterError, match="max_iterations"):
        descend(function, frames, max_iterations=0)
    with pytest.raises(ParameterError, match="span"):
        best_bandwidth(risk, frames, 1.0, 1.0)
    with pytest.raises(ParameterError, match="bandwidth"):
        fit_frames(risk, {"one": frames}, -1.0)
    with pytest.raises(ParameterError, match="n_each"):
        starting_frames(2, 3, 1, rng, n_each=0)
    with pytest.raises(ParameterError, match="size"):
        shaken(frames, 0.0, rng)
