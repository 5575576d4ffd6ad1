"""Weights: sums of one, floors, optima by brute force, and scores out of sample."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.heads import (
    FIBONACCI_FLOOR,
    check_head_weights,
    error_moments,
    fibonacci_weights,
    geometric_floor,
    geometric_weights,
    half_split,
    held_out_stacking,
    inverse_variance_weights,
    optimal_weights,
    order_weights,
    score_weights,
    stacking_weights,
    sum_of_squares,
    uniform_weights,
)


@given(st.integers(1, 60), st.floats(0.05, 1.0))
def test_profiles_sum_to_one_and_fall(n_heads, rho):
    for weights in (
        uniform_weights(n_heads),
        geometric_weights(n_heads, rho),
        fibonacci_weights(n_heads),
        inverse_variance_weights(np.arange(1, n_heads + 1)),
    ):
        assert weights.shape == (n_heads,)
        assert weights.sum() == pytest.approx(1.0, abs=1e-14)
        assert (np.diff(weights) <= 1e-17).all()
        assert weights.min() > 0


@given(st.integers(1, 40), st.floats(0.05, 0.99))
def test_geometric_weights_have_the_stated_sum_of_squares(n_heads, rho):
    expected = (1 - rho) * (1 + rho**n_heads) / ((1 + rho) * (1 - rho**n_heads))
    assert sum_of_squares(geometric_weights(n_heads, rho)) == pytest.approx(expected)
    assert expected >= geometric_floor(rho)


def test_fibonacci_weights_are_fibonacci_numbers():
    np.testing.assert_allclose(fibonacci_weights(7), np.array([13, 8, 5, 3, 2, 1, 1]) / 33)
    np.testing.assert_allclose(fibonacci_weights(2), [0.5, 0.5])
    assert fibonacci_weights(1) == [1.0]


def test_floors():
    assert sum_of_squares(fibonacci_weights(3000)) == pytest.approx(FIBONACCI_FLOOR, rel=1e-12)
    assert pytest.approx(0.236, abs=5e-4) == FIBONACCI_FLOOR
    assert geometric_floor(2 / (1 + 5**0.5)) == pytest.approx(FIBONACCI_FLOOR)
    assert sum_of_squares(geometric_weights(3000, 0.8)) == pytest.approx(geometric_floor(0.8))
    assert geometric_floor(1.0) == 0.0
    assert sum_of_squares(uniform_weights(3000)) == pytest.approx(1 / 3000)


def test_weights_are_handed_out_by_quality():
    ordered = order_weights(geometric_weights(4, 0.5), [3.0, 1.0, 2.0, 1.0])
    np.testing.assert_allclose(ordered * 15, [1, 8, 2, 4])


def test_weights_are_checked_at_the_door():
    np.testing.assert_array_equal(check_head_weights("uniform", 4), np.full(4, 0.25))
    np.testing.assert_array_equal(check_head_weights([2, -1], 2), [2.0, -1.0])
    np.testing.assert_array_equal(check_head_weights([1, 1], 2, sum_to_one=False), [1.0, 1.0])


@st.composite
def moments(draw, max_heads=6):
    size = draw(st.integers(1, max_heads))
    rank = draw(st.integers(1, 2 * size))
    spread = draw(st.sampled_from([0.0, 2.0, 5.0]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shared = draw(st.sampled_from([0.0, 1.0]))
    errors = rng.standard_normal((rank, size)) + shared * rng.standard_normal((rank, 1))
    return error_moments(errors * 10.0 ** (-spread * rng.uniform(size=size))), rng


@given(moments())
def test_optima_fulfil_their_conditions_and_no_weights_do_better(case):
    matrix, rng = case
    size = len(matrix)
    free = optimal_weights(matrix, nonnegative=False)
    kept = optimal_weights(matrix)
    for found in (free, kept):
        # a'Ma is rounded at the size of its largest terms.
        rounding = 1e-13 * np.abs(found.weights).sum() ** 2
        assert found.weights.sum() == pytest.approx(1.0, abs=rounding)
        assert found.kkt <= rounding
        value = found.weights @ matrix @ found.weights
        assert found.value == pytest.approx(value, abs=rounding * matrix.max())
    assert kept.weights.min() >= 0.0
    assert 0.0 <= kept.gap <= 1e-12 * matrix.max()
    tiny = 1e-13 * matrix.max() * np.abs(free.weights).sum() ** 2
    assert free.value <= kept.value + tiny
    rivals = rng.dirichlet(np.full(size, 0.5), 200)
    assert kept.value <= np.einsum("rk,kl,rl->r", rivals, matrix, rivals).min() + tiny
    steps = rng.standard_normal((200, size))
    rivals = free.weights + steps - steps.mean(axis=1, keepdims=True)
    assert free.value <= np.einsum("rk,kl,rl->r", rivals, matrix, rivals).min() + tiny


@given(moments())
def test_nonnegative_optima_are_those_of_every_support_tried(case):
    matrix, _ = case
    size = len(matrix)
    best = np.inf
    for count in range(1, size + 1):
        for support in map(list, itertools.combinations(range(size), count)):
            block = matrix[np.ix_(support, support)]
            found = optimal_weights(block, nonnegative=False)
            if found.weights.min() >= -1e-12:
                best = min(best, found.value)
    assert optimal_weights(matrix).value == pytest.approx(best, rel=1e-9, abs=1e-13 * matrix.max())


def test_the_closed_form_for_regular_moments():
    rng = np.random.default_rng(1)
    matrix = error_moments(rng.standard_normal((50, 4)) * [1, 2, 3, 4])
    solved = np.linalg.solve(matrix, np.ones(4))
    found = optimal_weights(matrix, nonnegative=False)
    np.testing.assert_allclose(found.weights, solved / solved.sum(), rtol=1e-10)
    assert found.value == pytest.approx(1 / solved.sum())
    assert found.unique
    diagonal = optimal_weights(np.diag([1e-6, 1.0, 2.0]))
    np.testing.assert_allclose(diagonal.weights, inverse_variance_weights([1e-6, 1.0, 2.0]))


def test_heads_that_cannot_be_told_apart_share_equally():
    for nonnegative in (True, False):
        found = optimal_weights(np.full((3, 3), 2.0), nonnegative=nonnegative)
        np.testing.assert_allclose(found.weights, np.full(3, 1 / 3))
        assert not found.unique
        assert found.value == pytest.approx(2.0)
    good, other = np.random.default_rng(2).standard_normal((2, 50))
    # Copies of one head, and a worse one that only a negative weight could use.
    for copies in (2, 4):
        errors = error_moments(np.column_stack([good] * copies + [3 * good + 0.1 * other]))
        shares = [1 / copies] * copies
        np.testing.assert_allclose(optimal_weights(errors).weights, [*shares, 0.0])
        free = optimal_weights(errors, nonnegative=False).weights
        np.testing.assert_allclose(free[:copies], free[0])
        assert free[-1] < -0.1
    np.testing.assert_array_equal(optimal_weights(np.zeros((4, 4))).weights, np.full(4, 0.25))


def test_singular_moments_with_a_perfect_mixture():
    # Errors that cancel: one over two of each leaves nothing.
    matrix = np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = optimal_weights(matrix)
    np.testing.assert_allclose(found.weights, [0.5, 0.5])
    assert found.value == pytest.approx(0.0, abs=1e-15)


def test_error_moments_give_the_mean_squared_error():
    rng = np.random.default_rng(3)
    errors = rng.standard_normal((5, 7, 3))
    noise = np.einsum("rmkj,rmlj->rmkl", *[rng.standard_normal((5, 7, 3, 3))] * 2)
    weights = np.array([0.5, 0.7, -0.2])
    expected = ((errors @ weights) ** 2).mean()
    assert weights @ error_moments(errors) @ weights == pytest.approx(expected)
    expected += np.einsum("k,rmkl,l->rm", weights, noise, weights).mean()
    assert weights @ error_moments(errors, noise) @ weights == pytest.approx(expected)


def test_regret_is_scored_on_other_moments():
    rng = np.random.default_rng(4)
    scales = np.array([1.0, 2.0, 4.0])
    one, other = (error_moments(rng.standard_normal((30, 3)) * scales) for _ in range(2))
    chosen = optimal_weights(one).weights
    score = score_weights(chosen, other)
    assert score.mse == pytest.approx(chosen @ other @ chosen)
    assert score.regret > 0
    assert score.relative_regret == pytest.approx(score.mse / score.optimum - 1)
    assert score_weights(chosen, one).regret == pytest.approx(0.0, abs=1e-14)
    assert np.isnan(score_weights([0.5, 0.5], [[1, -1], [-1, 1]]).relative_regret)


@given(st.integers(1, 5), st.integers(0, 10**6))
def test_stacking_minimises_its_sum_of_squares(n_heads, seed):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(40)
    predictions = 0.7 * y[:, None] + rng.standard_normal((40, n_heads))

    def loss(weights):
        return ((predictions @ weights - y) ** 2).sum()

    for nonnegative, sum_to_one in itertools.product([True, False], repeat=2):
        weights = stacking_weights(predictions, y, nonnegative=nonnegative, sum_to_one=sum_to_one)
        rivals = weights + 0.1 * rng.standard_normal((100, n_heads))
        rivals = np.maximum(rivals, 0.0) if nonnegative else rivals
        if sum_to_one:
            assert weights.sum() == pytest.approx(1.0)
            rivals = rivals[rivals.sum(axis=1) > 0.1]
            rivals = rivals / rivals.sum(axis=1, keepdims=True)
        assert weights.min() >= 0.0 or not nonnegative
        assert all(loss(weights) <= loss(rival) * (1 + 1e-12) for rival in rivals)


def test_the_chosen_half_is_flattered_and_the_other_is_not():
    # Fifteen useless heads, 40 points, 200 worlds. Free weights fitted on half of the points
    # look better than uniform ones there and are worse elsewhere. A score on the chosen half
    # would turn the second sign; either mean gap passes 0 + 6 standard errors by chance in
    # 1e-9 of seeds.
    rng = np.random.default_rng(5)
    gaps = []
    for _ in range(200):
        y = rng.standard_normal(40)
        heads = rng.standard_normal((40, 15))
        found = held_out_stacking(heads, y, half_split(40, rng), nonnegative=False)
        gaps.append((found.uniform_mse - found.chosen_mse, found.held_out_mse - found.uniform_mse))
    means = np.mean(gaps, axis=0)
    errors = np.std(gaps, axis=0) / np.sqrt(len(gaps))
    assert (means > 6 * errors).all()


def test_held_out_scores_are_of_the_other_points():
    rng = np.random.default_rng(6)
    y = rng.standard_normal(9)
    heads = y[:, None] + rng.standard_normal((9, 3)) * [0.1, 1.0, 2.0]
    chosen = half_split(9, rng)
    found = held_out_stacking(heads, y, chosen)
    assert (found.n_chosen, found.n_held_out, found.best_head) == (4, 5, 0)
    np.testing.assert_array_equal(found.weights, stacking_weights(heads[chosen], y[chosen]))
    rest = ~chosen
    assert found.held_out_mse == pytest.approx(((heads @ found.weights - y)[rest] ** 2).mean())
    assert found.best_head_mse == pytest.approx(((heads[:, 0] - y)[rest] ** 2).mean())
    assert found.uniform_mse == pytest.approx(((heads.mean(axis=1) - y)[rest] ** 2).mean())
    changed = np.where(rest, 99.0, y)
    np.testing.assert_array_equal(held_out_stacking(heads, changed, chosen).weights, found.weights)


ONES = np.ones((4, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uniform_weights(0), "n_heads must be"),
        (lambda: geometric_weights(3, 0.0), "rho must be"),
        (lambda: geometric_weights(3, 1.1), "rho must be"),
        (lambda: geometric_floor(float("nan")), "rho must be"),
        (lambda: fibonacci_weights(2.5), "n_heads must be"),
        (lambda: inverse_variance_weights([1.0, 0.0]), "variances must be > 0"),
        (lambda: inverse_variance_weights([1.0, np.nan]), "variances must be finite"),
        (lambda: order_weights([1.0], [1.0, 2.0]), "losses must have one entry a weight: 1; got 2"),
        (lambda: check_head_weights("equal", 2), "head_weights must be 'uniform' or an array"),
        (lambda: check_head_weights([1.0, 1.0], 2), "head_weights must sum to 1; they sum to 2.0"),
        (lambda: check_head_weights([1.0], 2), "head_weights must have one weight a head: 2"),
        (lambda: check_head_weights([np.nan, 1.0], 2), "head_weights must be finite"),
        (lambda: optimal_weights(np.ones((2, 3))), "moments must be square"),
        (lambda: optimal_weights([[1.0, 0.5], [0.2, 1.0]]), "moments must be symmetric"),
        (lambda: optimal_weights([[1.0, 2.0], [2.0, 1.0]]), "moments must be positive semidef"),
        (lambda: optimal_weights([[np.inf]]), "moments must be finite"),
        (lambda: optimal_weights(np.ones((0, 0))), "moments must have at least 1 rows"),
        (lambda: error_moments(np.ones((0, 2))), "errors must"),
        (lambda: error_moments(ONES, np.ones((4, 2, 3))), "noise_covariance must have shape"),
        (lambda: score_weights([0.5, 0.6], np.eye(2)), "weights must sum to 1"),
        (lambda: score_weights([1.5, -0.5], np.eye(2)), "weights must be >= 0"),
        (lambda: stacking_weights(ONES, np.ones(3)), r"predictions must have shape \(3, H\)"),
        (lambda: stacking_weights(ONES * np.nan, np.ones(4)), "predictions must be finite"),
        (lambda: held_out_stacking(ONES, np.ones(4), np.ones(4)), "chosen must be a boolean"),
        (lambda: held_out_stacking(ONES, np.ones(4), np.ones(4, bool)), "chosen must leave points"),
        (lambda: half_split(1, np.random.default_rng(0)), "n_obs must be"),
        (lambda: half_split(4, None), "rng must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ParameterError, match=f"^{message}"):
        call()
