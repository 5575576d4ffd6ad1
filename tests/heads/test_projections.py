"""Frames: orthonormal, uniform where they say so, and refused by name where they cannot be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh
from scipy.stats import rankdata

from nwsim.exceptions import ParameterError
from nwsim.heads import (
    DiversityPath,
    check_projections,
    coordinate_frames,
    diversity_path,
    head_dimensions,
    head_diversity_index,
    pca_frames,
    principal_angles,
    random_frames,
    sir_frames,
)

EYE = np.eye(4)


def is_orthonormal(matrix):
    return np.allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=1e-12)


@st.composite
def dimensions(draw):
    d = draw(st.integers(2, 9))
    sizes = draw(st.lists(st.integers(1, d), min_size=1, max_size=5))
    return d, sizes, draw(st.integers(0, 10**6))


@given(dimensions())
def test_random_frames_are_orthonormal_whatever_their_shapes(case):
    d, sizes, seed = case
    frames = random_frames(len(sizes), d, sizes, np.random.default_rng(seed))
    assert [frame.shape for frame in frames] == [(d, size) for size in sizes]
    assert all(is_orthonormal(frame) for frame in frames)
    assert isinstance(frames, list) == (len(set(sizes)) > 1)
    assert len(check_projections(frames)) == len(sizes)


@given(dimensions())
def test_orthogonal_frames_and_coordinates_fit_or_are_refused(case):
    d, sizes, seed = case
    makers = (
        lambda rng: random_frames(len(sizes), d, sizes, rng, orthogonal=True),
        lambda rng: coordinate_frames(len(sizes), d, sizes, rng),
        lambda rng: coordinate_frames(len(sizes), d, sizes),
    )
    for make in makers:
        rng = np.random.default_rng(seed)
        if sum(sizes) > d:
            with pytest.raises(ParameterError, match=rf"^d_k must leave room.*{sum(sizes)}.*{d}"):
                make(rng)
        else:
            assert is_orthonormal(np.hstack(list(make(rng))))
            check_projections(make(rng), orthogonal=True)


def test_coordinates_are_coordinates():
    np.testing.assert_array_equal(coordinate_frames(2, 5, 2), [np.eye(5)[:, :2], np.eye(5)[:, 2:4]])
    drawn = coordinate_frames(2, 5, [1, 3], np.random.default_rng(3))
    np.testing.assert_array_equal(np.sort(np.hstack(drawn), axis=0)[-1], np.ones(4))
    assert (np.hstack(drawn).sum(axis=0) == 1).all()


def entries(frames):
    """Return z-values of E Q_11 = 0 and E Q_11^2 = 1/d, for frames (n, d, d_k)."""
    n, d, _ = frames.shape
    first = frames[:, 0, 0]
    # Q_11^2 is Beta(1/2, (d-1)/2), of variance 2 (d-1) / (d^2 (d+2)).
    spread = math.sqrt(2 * (d - 1) / (d**2 * (d + 2)) / n)
    return first.mean() * math.sqrt(n * d), ((first**2).mean() - 1 / d) / spread


def test_random_frames_are_uniform():
    # Two normal z-values within 4: a false alarm in 1.3e-4 of seeds.
    rng = np.random.default_rng(11)
    frames = np.concatenate([random_frames(500, 5, 2, rng) for _ in range(4)])
    assert max(np.abs(entries(frames))) < 4


def test_frames_without_the_sign_fix_are_not_uniform():
    raw = np.linalg.qr(np.random.default_rng(11).standard_normal((2000, 5, 2)))[0]
    assert abs(entries(raw)[0]) > 20


def test_a_draw_is_its_seeds():
    one, other = (random_frames(3, 6, 2, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@given(
    n_heads=st.integers(2, 5),
    d_k=st.integers(1, 3),
    slack=st.integers(0, 3),
    angle=st.floats(0, math.pi / 2),
    seed=st.none() | st.integers(0, 99),
)
def test_a_path_has_the_diversity_it_prescribes(n_heads, d_k, slack, angle, seed):
    rng = None if seed is None else np.random.default_rng(seed)
    path = diversity_path(n_heads, (n_heads + 1) * d_k + slack, d_k, rng)
    frames = path.frames(angle)
    assert all(is_orthonormal(frame) for frame in frames)
    assert head_diversity_index(frames) == pytest.approx(1 - math.cos(angle) ** 4, abs=1e-12)
    assert path.index(angle) == pytest.approx(1 - math.cos(angle) ** 4, abs=1e-15)
    np.testing.assert_allclose(
        np.cos(principal_angles(frames[0], frames[1])), math.cos(angle) ** 2, atol=1e-12
    )


@given(st.floats(0, 1))
def test_a_path_is_found_by_its_index(index):
    path = diversity_path(3, 8, 2, np.random.default_rng(0))
    # An index is a squared sine: entries rounded at 1e-16 move it by 1e-16 times the sine.
    rounding = 1e-14 * math.sqrt(index) + 1e-28
    found = head_diversity_index(path.frames_at(index))
    assert found == pytest.approx(index, rel=1e-12, abs=rounding)
    assert path.index(path.angle(index)) == pytest.approx(index, rel=1e-12)


def test_the_ends_of_a_path_are_exact():
    path = diversity_path(3, 8, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(path.frames_at(0.0), np.stack([path.shared] * 3))
    np.testing.assert_array_equal(path.frames_at(1.0), path.private)
    assert DiversityPath.angle(1.0) == math.pi / 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: diversity_path(3, 7, 2), "d_k must leave room for one shared frame"),
        (lambda: diversity_path(1, 7, 2), "n_heads must be a whole number of at least 2"),
        (lambda: diversity_path(3, 8, 2).frames(2.0), "angle must be"),
        (lambda: diversity_path(3, 8, 2).frames_at(1.5), "index must be"),
        (lambda: random_frames(3, 4, 5, np.random.default_rng(0)), "d_k must be"),
        (lambda: random_frames(3, 4, 2, 0), "rng must be a numpy.random.Generator"),
        (lambda: random_frames(3, 4, [2, 1], np.random.default_rng(0)), "d_k must have one entry"),
        (lambda: head_dimensions(0, 4, 2), "n_heads must be"),
        (lambda: head_dimensions(2, 4, 1.5), "d_k must be a whole number"),
    ],
)
def test_bad_dimensions_are_named(call, message):
    with pytest.raises(ParameterError, match=f"^{message}"):
        call()


@pytest.mark.parametrize(
    ("projections", "options", "message"),
    [
        (EYE[None, :, :2], {"minimum_heads": 2}, "projections must hold a pair of heads; got 1"),
        ([], {}, "projections must hold at least 1 heads; got 0"),
        (EYE, {}, "projections must have shape"),
        ("uniform", {}, "projections must be an array"),
        ([EYE[:, :2], EYE[:3, :2]], {}, "projections must have one number of rows d; got 4, 3"),
        ([EYE[:, 0]], {}, r"projections\[0\] must have 2 axes"),
        ([EYE[:, :0]], {}, r"projections\[0\] must have 1 to d columns"),
        ([EYE[:2]], {}, r"projections\[0\] must have 1 to d columns"),
        ([EYE, EYE * np.nan], {}, r"projections\[1\] must be finite"),
        ([EYE * 1j], {}, r"projections\[0\] must be real"),
        ([EYE, np.ones((4, 2))], {}, r"projections\[1\] must have full column rank; .* 1 are"),
        ([np.zeros((4, 1))], {}, r"projections\[0\] must have full column rank; .* 0 are"),
        ([EYE[:, :3], EYE[:, 2:]], {"orthogonal": True}, "d_k must leave room for orthogonal"),
        ([EYE[:, :2], EYE[:, 1:3]], {"orthogonal": True}, "projections must be orthonormal"),
        ([2 * EYE[:, :2]], {"orthogonal": True}, "projections must be orthonormal"),
    ],
)
def test_bad_projections_are_named(projections, options, message):
    with pytest.raises(ParameterError, match=f"^{message}"):
        check_projections(projections, **options)


def test_the_rank_does_not_depend_on_scales_of_columns():
    skewed = EYE[:, :3] * [1e-200, 1.0, 1e200]
    assert head_diversity_index([skewed, EYE[:, :3]]) == pytest.approx(0.0, abs=1e-15)
    nearly = np.array([[1.0, 1.0], [0.0, 1e-6], [0.0, 0.0]])
    check_projections([nearly])
    with pytest.raises(ParameterError, match="full column rank"):
        check_projections([nearly], rank_tol=1e-3)


def inputs(n_obs, rng):
    """Inputs with standard deviations 4, 3, 2, 1 along a random frame, and the frame."""
    frame = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    return rng.standard_normal((n_obs, 4)) * [4.0, 3.0, 2.0, 1.0] @ frame.T + 100.0, frame


def test_pca_finds_the_axes_and_deals_them_out():
    rng = np.random.default_rng(2)
    X, frame = inputs(4000, rng)
    blocks = pca_frames(X, 2, 2)
    dealt = pca_frames(X, 2, 2, allocation="dealt")
    assert is_orthonormal(np.hstack(list(blocks)))
    assert principal_angles(blocks[0], frame[:, :2]).max() < 0.1
    np.testing.assert_array_equal(np.hstack(list(dealt)), np.hstack(list(blocks))[:, [0, 2, 1, 3]])
    uneven = pca_frames(X, 3, [1, 2, 1], allocation="dealt")
    order = np.hstack(list(blocks))[:, [0, 1, 3, 2]]
    np.testing.assert_array_equal(np.hstack(uneven), order)


def test_sir_finds_the_direction_that_pca_misses():
    rng = np.random.default_rng(3)
    X, frame = inputs(4000, rng)
    index = (X - 100.0) @ frame[:, 3]
    y = np.tanh(index) + 0.1 * rng.standard_normal(4000)
    assert principal_angles(sir_frames(X, y, 1, 1)[0], frame[:, 3:])[0] < 0.1
    assert principal_angles(pca_frames(X, 1, 1)[0], frame[:, 3:])[0] > 1.0


def test_sir_heads_are_uncorrelated():
    rng = np.random.default_rng(4)
    X, _ = inputs(500, rng)
    y = X[:, 0] + np.sin(X[:, 1])
    frames = sir_frames(X, y, 2, 2, allocation="dealt")
    assert all(is_orthonormal(frame) for frame in frames)
    covariance = np.cov(X, rowvar=False)
    assert head_diversity_index(frames, metric=covariance) == pytest.approx(1.0, abs=1e-10)
    assert head_diversity_index(frames) < 0.99


def test_sir_does_not_depend_on_the_order_of_rows_or_on_affine_maps():
    rng = np.random.default_rng(5)
    X, _ = inputs(300, rng)
    y = np.round(X[:, 0])
    order = rng.permutation(300)
    first = sir_frames(X, y, 1, 2)
    np.testing.assert_allclose(first, sir_frames(X[order], y[order], 1, 2), atol=1e-10)
    change = rng.standard_normal((4, 4))
    moved = sir_frames(X @ change + 3.0, y, 1, 2)
    assert principal_angles(change @ moved[0], first[0]).max() < 1e-8


def test_sir_is_the_eigenproblem_of_weighted_slice_means():
    rng = np.random.default_rng(7)
    X, _ = inputs(200, rng)
    # Slices of very unequal counts: most responses are tied.
    y = np.maximum(np.round(X[:, 0] + X[:, 1] - 200.0), 0.0)
    centred = X - X.mean(axis=0)
    covariance = centred.T @ centred / 200
    between = np.zeros((4, 4))
    labels = np.floor((rankdata(y) - 0.5) / 200 * 10)
    for label in np.unique(labels):
        mean = centred[labels == label].mean(axis=0)
        between += (labels == label).mean() * np.outer(mean, mean)
    expected = eigh(between, covariance)[1][:, ::-1][:, :2]
    assert principal_angles(sir_frames(X, y, 1, 2)[0], expected).max() < 1e-8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: pca_frames(X, 3, 2), "d_k must need no more than the 4 directions"),
        (lambda X, y: pca_frames(X[:3], 3, 1), "d_k must need no more than the 2 directions"),
        (lambda X, y: pca_frames(X, 1, 1, allocation="best"), "allocation must be one of"),
        (lambda X, y: pca_frames(X * np.nan, 1, 1), "X must be finite"),
        (lambda X, y: sir_frames(X, y[1:], 1, 1), "lengths must agree"),
        (lambda X, y: sir_frames(X[:, [0, 0]], y, 1, 1), "X must vary in every direction"),
        (lambda X, y: sir_frames(X[:2], y[:2], 1, 1, n_slices=2), "X must vary"),
        (lambda X, y: sir_frames(X, y, 2, 2, n_slices=4), "d_k must need no more than the 3 dir"),
        (lambda X, y: sir_frames(X, y > 0, 1, 2), "d_k must need no more than the 1 directions"),
        (lambda X, y: sir_frames(X, y, 1, 1, n_slices=1), "n_slices must be"),
    ],
)
def test_bad_data_are_named(call, message):
    X = np.random.default_rng(6).standard_normal((50, 4))
    with pytest.raises(ParameterError, match=f"^{message}"):
        call(X, X[:, 0])
