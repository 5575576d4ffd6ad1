"""Principal angles against scipy and closed forms, to the last digits of tiny ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm, subspace_angles

from nwsim.exceptions import ParameterError
from nwsim.heads import (
    canonical_correlations,
    cross_gram,
    orthonormal_bases,
    overlap_matrix,
    pairwise_angles,
    principal_angles,
    random_frames,
)


@st.composite
def pairs(draw):
    d = draw(st.integers(1, 8))
    p, q = draw(st.integers(1, d)), draw(st.integers(1, d))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return rng.standard_normal((d, p)), rng.standard_normal((d, q)), rng


@given(pairs())
def test_angles_are_those_of_scipy(case):
    first, second, _ = case
    found = principal_angles(first, second)
    assert found.shape == (min(first.shape[1], second.shape[1]),)
    assert (np.diff(found) >= 0).all()
    # Among larger ones scipy takes tiny angles from their cosines, good to 1e-8 only.
    np.testing.assert_allclose(found, subspace_angles(first, second)[::-1], atol=1e-7)
    np.testing.assert_allclose(found, principal_angles(second, first), atol=1e-10)


@pytest.mark.parametrize("angle", [1e-12, 1e-8, 1e-3, 0.7, 0.8, 1.5, np.pi / 2])
def test_angles_are_accurate_at_any_size(angle):
    first = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    second = np.array([[np.cos(angle), 0.0], [0.0, 1.0], [np.sin(angle), 0.0]])
    found = principal_angles(first, second)
    np.testing.assert_allclose(found, [0.0, angle], rtol=1e-12, atol=1e-15)


def test_cosines_alone_would_lose_tiny_angles():
    first = np.array([[1.0], [0.0]])
    second = np.array([[np.cos(1e-9)], [np.sin(1e-9)]])
    assert np.arccos(min(1.0, float((first.T @ second)[0, 0]))) == 0.0
    assert principal_angles(first, second)[0] == pytest.approx(1e-9, rel=1e-12)


@given(pairs())
def test_angles_see_ranges_alone_and_turn_with_the_space(case):
    first, second, rng = case
    d, p = first.shape
    mix = np.eye(p) + 0.3 * np.triu(rng.standard_normal((p, p)), 1)
    turn = random_frames(1, d, d, rng)[0]
    expected = principal_angles(first, second)
    np.testing.assert_allclose(principal_angles(first @ mix, second), expected, atol=1e-7)
    np.testing.assert_allclose(principal_angles(turn @ first, turn @ second), expected, atol=1e-7)


@given(pairs())
def test_canonical_correlations_are_whitened_cross_covariances(case):
    first, second, rng = case
    d = len(first)
    factor = rng.standard_normal((d, d + 2))
    metric = factor @ factor.T + 0.1 * np.eye(d)

    def whiten(matrix):
        return np.linalg.inv(sqrtm(matrix.T @ metric @ matrix).real)

    expected = np.linalg.svd(
        whiten(first) @ first.T @ metric @ second @ whiten(second), compute_uv=False
    )
    found = canonical_correlations(first, second, metric)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(np.cos(principal_angles(first, second, metric)), found, atol=1e-7)
    plain = np.cos(principal_angles(first, second))
    np.testing.assert_allclose(canonical_correlations(first, second, 3 * np.eye(d)), plain, 0, 1e-7)


def test_canonical_correlations_are_those_of_the_projected_inputs():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 3))
    first, second = rng.standard_normal((3, 1)), rng.standard_normal((3, 1))
    expected = abs(np.corrcoef(X @ first[:, 0], X @ second[:, 0])[0, 1])
    found = canonical_correlations(first, second, np.cov(X, rowvar=False))
    assert found[0] == pytest.approx(expected, rel=1e-10)


def test_orthogonal_heads_are_correlated_where_inputs_are():
    metric = np.array([[1.0, 0.8], [0.8, 1.0]])
    first, second = np.eye(2)[:, :1], np.eye(2)[:, 1:]
    assert canonical_correlations(first, second) == pytest.approx([0.0])
    assert canonical_correlations(first, second, metric) == pytest.approx([0.8])


def test_overlaps_are_mean_squared_cosines():
    heads = random_frames(4, 7, [2, 3, 1, 4], np.random.default_rng(2))
    found = overlap_matrix(heads)
    assert found.shape == (4, 4)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 1.0)
    spectra = pairwise_angles(heads)
    for (k, other), angles in zip(zip(*np.triu_indices(4, 1), strict=True), spectra, strict=True):
        np.testing.assert_allclose(angles, principal_angles(heads[k], heads[other]), atol=1e-14)
        assert found[k, other] == pytest.approx((np.cos(angles) ** 2).mean(), abs=1e-12)


def test_bases_keep_orthonormal_heads_as_they_are():
    heads = random_frames(3, 6, 2, np.random.default_rng(3))
    np.testing.assert_allclose(np.stack(orthonormal_bases(heads)), heads, atol=1e-14)


def test_cross_grams_in_both_forms():
    rng = np.random.default_rng(4)
    first, second = random_frames(2, 6, 2, rng)
    np.testing.assert_allclose(cross_gram(first, second), first.T @ second, atol=1e-14)
    np.testing.assert_allclose(
        cross_gram(3 * first, second, form="printed"), 1.5 * first.T @ second, atol=1e-14
    )
    np.testing.assert_allclose(cross_gram(3 * first, second), first.T @ second, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda W: cross_gram(W, W[:, :1], form="printed"), "form='printed' must have equal d_k"),
        (lambda W: cross_gram(W, W, "printed", np.eye(3)), "metric must be left out"),
        (lambda W: cross_gram(W, W, form="source"), "form must be one of 'orthonormal', 'printed'"),
        (lambda W: pairwise_angles([W]), "projections must hold a pair of heads"),
        (lambda W: principal_angles(W, W, np.eye(2)), r"metric must be of shape \(3, 3\)"),
        (lambda W: principal_angles(W, W, np.tri(3)), "metric must be symmetric"),
        (lambda W: principal_angles(W, W, -np.eye(3)), "metric must be positive semidefinite"),
        (
            lambda W: principal_angles(W, W, np.diag([1, 0, 1])),
            "metric must have variance in every",
        ),
        (lambda W: principal_angles(W, W, np.full((3, 3), np.inf)), "metric must be finite"),
        (lambda W: principal_angles(W, W[:, [0, 0]]), r"projections\[1\] must have full column"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ParameterError, match=f"^{message}"):
        call(np.eye(3)[:, :2])


def test_a_singular_metric_is_fine_where_heads_do_not_look():
    W = np.eye(3)[:, :1]
    assert principal_angles(W, np.eye(3)[:, 2:], np.diag([1.0, 0.0, 2.0]))[0] == np.pi / 2
