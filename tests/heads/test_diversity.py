"""The index: its ends, its invariances, and its law for random subspaces."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.heads import (
    coordinate_frames,
    diversity_path,
    head_diversity_index,
    minimum_overlap,
    null_mean,
    null_quantiles,
    null_sample,
    null_variance,
    overlap_matrix,
    random_frames,
)


@st.composite
def heads(draw):
    d = draw(st.integers(1, 8))
    sizes = draw(st.lists(st.integers(1, d), min_size=2, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return [rng.standard_normal((d, size)) for size in sizes], rng


@given(heads())
def test_the_index_is_one_minus_the_mean_overlap(case):
    projections, _ = case
    found = head_diversity_index(projections)
    above = overlap_matrix(projections)[np.triu_indices(len(projections), 1)]
    assert 0.0 <= found <= 1.0
    assert found == pytest.approx(1.0 - above.mean(), abs=1e-10)
    assert found == pytest.approx(head_diversity_index(projections[::-1]), abs=1e-12)


@given(heads())
def test_the_index_sees_ranges_alone_and_turns_with_the_space(case):
    projections, rng = case
    d = len(projections[0])
    turn = random_frames(1, d, d, rng)[0]
    changed = []
    for head in projections:
        size = head.shape[1]
        mix = np.eye(size) + 0.3 * np.triu(rng.standard_normal((size, size)), 1)
        changed.append(1e6 * turn @ head @ mix)
    expected = head_diversity_index(projections)
    assert head_diversity_index(changed) == pytest.approx(expected, abs=1e-7)


def test_the_printed_form_moves_with_scale():
    frames = random_frames(3, 6, 2, np.random.default_rng(0))
    assert head_diversity_index(2 * frames) == pytest.approx(head_diversity_index(frames))
    printed = head_diversity_index(frames, normalization="printed")
    scaled = head_diversity_index(2 * frames, normalization="printed")
    assert 1 - scaled == pytest.approx(16 * (1 - printed))


@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 99))
def test_the_ends(n_heads, d_k, seed):
    rng = np.random.default_rng(seed)
    same = random_frames(1, n_heads * d_k, d_k, rng).repeat(n_heads, axis=0)
    apart = random_frames(n_heads, n_heads * d_k, d_k, rng, orthogonal=True)
    assert head_diversity_index(same) == pytest.approx(0.0, abs=1e-28)
    assert head_diversity_index(apart) == pytest.approx(1.0, abs=1e-14)
    assert head_diversity_index(same, "printed") == pytest.approx(1 - 1 / d_k, abs=1e-14)
    assert head_diversity_index(apart, "printed") == pytest.approx(1.0, abs=1e-14)


def test_a_head_inside_another_adds_no_diversity():
    assert head_diversity_index([np.eye(4)[:, :3], np.eye(4)[:, 1:2]]) == 0.0


def test_a_tiny_diversity_keeps_its_digits():
    frames = diversity_path(4, 10, 2, np.random.default_rng(1)).frames(1e-7)
    assert head_diversity_index(frames) == pytest.approx(2e-14, rel=1e-6)


def test_the_metric_form_is_the_index_of_transformed_heads():
    rng = np.random.default_rng(2)
    frames = random_frames(3, 6, 2, rng)
    factor = rng.standard_normal((6, 6))
    found = head_diversity_index(frames, metric=factor.T @ factor)
    assert found == pytest.approx(head_diversity_index(factor @ frames), abs=1e-8)
    assert abs(found - head_diversity_index(frames)) > 0.01
    same = head_diversity_index(frames, metric=7 * np.eye(6))
    assert same == pytest.approx(head_diversity_index(frames), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda W: head_diversity_index(W[:1]), "projections must hold a pair of heads; got 1"),
        (lambda W: head_diversity_index(W[:1], "printed"), "projections must hold a pair"),
        (lambda W: head_diversity_index(W + np.inf), r"projections\[0\] must be finite"),
        (lambda W: head_diversity_index(W * 0), r"projections\[0\] must have full column rank"),
        (lambda W: head_diversity_index(W * 0, "printed"), r"projections\[0\] must have full"),
        (lambda W: head_diversity_index(W, "frobenius"), "normalization must be one of"),
        (lambda W: head_diversity_index(W, "printed", np.eye(4)), "metric must be left out"),
        (lambda W: head_diversity_index(W, metric=np.eye(3)), "metric must be of shape"),
        (
            lambda W: head_diversity_index([W[0], W[1][:, :1]], "printed"),
            r"normalization='printed' must have equal d_k; got \[1, 2\]",
        ),
        (lambda W: null_mean(1, 4, 2), "n_heads must be a whole number of at least 2"),
        (lambda W: null_variance(2, 4, 5), "d_k must be a whole number of at least 1 and at most"),
        (lambda W: null_sample(2, 4, 2, 0, np.random.default_rng(0)), "n_sim must be"),
        (lambda W: null_sample(2, 4, 2, 9, 0), "rng must be"),
        (
            lambda W: null_sample(2, 4, 2, 9, np.random.default_rng(0), np.diag([1.0, 0, 0, 0])),
            "metric must have at least the rank",
        ),
        (lambda W: null_quantiles(2, 4, 2, 1.1, 9, np.random.default_rng(0)), "q must lie within"),
        (lambda W: minimum_overlap(2, 4, [1, 2]), "d_k must be one number"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ParameterError, match=f"^{message}"):
        call(coordinate_frames(2, 4, 2))


SHAPES = [(2, 3, 1), (4, 10, 2), (3, 5, 4), (3, 8, (1, 3, 6)), (5, 6, 3)]


def z_values(sample, n_heads, d, d_k):
    """Return z-values of the exact mean and of the exact variance, the latter by kurtosis."""
    variance = null_variance(n_heads, d, d_k)
    centred = sample - null_mean(n_heads, d, d_k)
    squares = centred**2
    return (
        centred.mean() / math.sqrt(variance / len(sample)),
        (squares.mean() - variance) / (squares.std() / math.sqrt(len(sample))),
    )


@pytest.mark.parametrize(("n_heads", "d", "d_k"), SHAPES)
def test_the_null_has_its_exact_moments(n_heads, d, d_k):
    # Ten z-values within 4: a false alarm in 6e-4 of seeds.
    sample = null_sample(n_heads, d, d_k, 6000, np.random.default_rng(20))
    assert max(np.abs(z_values(sample, n_heads, d, d_k))) < 4


@pytest.mark.parametrize(("n_heads", "d", "d_k"), SHAPES)
def test_frames_that_are_not_uniform_miss_the_null(n_heads, d, d_k):
    # The negative control: an uneven covariance pulls subspaces together; power is near 1.
    metric = np.diag([9.0, *np.ones(d - 1)])
    sample = null_sample(n_heads, d, d_k, 6000, np.random.default_rng(20), metric)
    assert z_values(sample, n_heads, d, d_k)[0] < -8


def test_the_null_variance_is_that_of_a_beta_law_for_lines():
    assert null_variance(2, 7, 1) == pytest.approx(2 * 6 / (7**2 * 9))
    assert null_variance(5, 7, 1) == pytest.approx(2 * 6 / (7**2 * 9) / 10)
    assert null_variance(3, 1, 1) == 0.0
    assert null_variance(3, 4, 4) == 0.0
    assert null_mean(3, 4, 4) == 0.0
    assert null_mean(2, 8, (2, 4)) == 0.5


def test_the_null_sample_is_the_index_of_random_frames():
    frames = random_frames(3, 5, 2, np.random.default_rng(7))
    normals = np.random.default_rng(7).standard_normal((5, 6))
    expected = head_diversity_index(np.split(normals, 3, axis=1))
    assert null_sample(3, 5, 2, 1, np.random.default_rng(7))[0] == pytest.approx(expected)
    assert head_diversity_index(frames) == pytest.approx(expected)


def test_draws_do_not_depend_on_how_many_follow(monkeypatch):
    many = null_sample(3, 5, 2, 20, np.random.default_rng(8))
    monkeypatch.setattr("nwsim.heads.diversity._CHUNK", 100)
    np.testing.assert_array_equal(many[:7], null_sample(3, 5, 2, 7, np.random.default_rng(8)))


def test_quantiles_hold_their_probability():
    # 5% and 95% of 4000 fresh draws, se .0044 with the error of both samples: |z| < 4.5.
    low, high = null_quantiles(3, 8, 2, [0.05, 0.95], 4000, np.random.default_rng(9))
    fresh = null_sample(3, 8, 2, 4000, np.random.default_rng(10))
    assert abs((fresh < low).mean() - 0.05) < 0.022
    assert abs((fresh > high).mean() - 0.05) < 0.022
    # Frames on a path of the same mean are outside far more often than uniform ones would be.
    assert head_diversity_index(diversity_path(3, 8, 2).frames_at(0.3)) < low
    assert np.shape(null_quantiles(3, 8, 2, 0.5, 10, np.random.default_rng(0))) == ()


@given(st.integers(2, 6), st.integers(1, 8), st.data())
def test_no_frames_go_below_the_least_overlap(n_heads, d, data):
    d_k = data.draw(st.integers(1, d))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    bound = minimum_overlap(n_heads, d, d_k)
    found = 1.0 - head_diversity_index(random_frames(n_heads, d, d_k, rng))
    assert found >= bound - 1e-12
    assert bound >= (n_heads * d_k / d - 1) / (n_heads - 1)


def test_the_least_overlap_is_attained():
    # Three lines at 60 degrees in the plane are a tight frame; two planes in R^3 share a line.
    angles = np.pi * np.arange(3) / 3
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]
    assert 1 - head_diversity_index(lines) == pytest.approx(minimum_overlap(3, 2, 1))
    planes = [np.eye(3)[:, :2], np.eye(3)[:, 1:]]
    assert 1 - head_diversity_index(planes) == pytest.approx(minimum_overlap(2, 3, 2))
    assert minimum_overlap(2, 3, 2) == pytest.approx(0.5)
    assert minimum_overlap(4, 8, 2) == 0.0


def test_the_printed_index_refuses_what_it_cannot_raise_to_a_fourth_power():
    frames = random_frames(2, 4, 2, np.random.default_rng(0))
    assert head_diversity_index(1e100 * frames) == pytest.approx(head_diversity_index(frames))
    with pytest.raises(ParameterError, match="projections must have entries"):
        head_diversity_index(1e100 * frames, "printed")
