"""Laws for the best level: planted laws are found, and no grid is asked more than it knows.

Error rates are shares among 200 simulated studies with fixed seeds; a rule whose true rate is 5%
exceeds the limit used, 5% plus three binomial standard errors, with probability 0.3%.
"""

import math
from collections import Counter

import numpy as np
import pytest

from nwsim.exceptions import ParameterError
from nwsim.inference import held_out_laws

N_STUDIES = 200
LIMIT = 0.05 + 3 * math.sqrt(0.05 * 0.95 / N_STUDIES)
X = 2.0 ** np.arange(3, 13, 1.5)
DIVISORS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 48.0])
FINE = np.exp(np.linspace(0.0, math.log(48.0), 40))
LAWS = {
    "power": lambda n: n**0.3,
    "constant": lambda n: 1.0,
    "steep": lambda n: n**0.45,
    "log": np.log,
}


def study(rng, best, grid=DIVISORS, n_sim=20, noise=0.1):
    """Values whose mean is least at best(n), with paired levels."""
    values = []
    for at in X:
        mean = 1.0 + 0.3 * np.square(np.log(grid) - math.log(best(at)))
        shared = 1.0 + 0.2 * rng.normal(size=(n_sim, 1))
        values.append(mean * shared + noise * rng.normal(size=(n_sim, grid.size)))
    return [grid] * X.size, values


def compare(best, seed=0, laws=LAWS, n_test=2, n_boot=200, **options):
    rng = np.random.default_rng(seed)
    return held_out_laws(X, *study(rng, best, **options), laws, n_test, rng, n_boot)


def words(best, names, **options):
    """Share of each word among studies, by law."""
    found = {name: Counter() for name in names}
    for seed in range(N_STUDIES):
        comparison = compare(best, seed, **options)
        for name in names:
            found[name][comparison.verdict(name).verdict] += 1 / N_STUDIES
    return found


def test_scores_by_hand():
    # Best levels 1, 2, 4 and 4 at x = 1, 10, 100, 1000; no noise. The last is held out.
    grid = [1.0, 2.0, 4.0, 8.0]
    values = [
        np.tile(row, (3, 1))
        for row in ([1, 2, 3, 4.0], [2, 1, 3, 4.0], [3, 2, 1, 4.0], [3, 2.5, 2, 3.0])
    ]
    laws = {"constant": lambda n: 1.0, "doubling": lambda n: 2.0 ** np.log10(n)}
    rng = np.random.default_rng(0)
    found = held_out_laws([1.0, 10, 100, 1000], [grid] * 4, values, laws, 1, rng, 50)
    constant, doubling = found.scores["constant"], found.scores["doubling"]
    log2 = math.log(2.0)
    # Geometric mean of 1, 2, 4 is 2; the doubling goes on to 8.
    np.testing.assert_allclose(constant.predictions, [2.0])
    np.testing.assert_allclose(doubling.predictions, [8.0])
    np.testing.assert_allclose(found.scores["free_power"].predictions, [8.0])
    assert constant.log_error == pytest.approx(log2)
    assert doubling.log_error == pytest.approx(log2)
    # Level 4 owns what is nearer to it than to 2 and 8.
    assert constant.miss == pytest.approx(log2 / 2)
    assert constant.regret == pytest.approx(0.25)
    assert doubling.regret == pytest.approx(0.5)
    assert constant.log_error_ci == pytest.approx((log2, log2))
    assert (constant.rival, doubling.rival) == ("doubling", "constant")
    assert constant.difference == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(found.best_train, [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(found.best_test, [4.0])
    np.testing.assert_array_equal(found.at_edge, [False])


def test_nothing_is_known_beyond_the_grid():
    # The best level is the last: a law that predicts far beyond it does not miss.
    values = [np.tile([2.0, 1.0, 3.0], (3, 1))] * 2 + [np.tile([3.0, 2.0, 1.0], (3, 1))]
    rng = np.random.default_rng(0)
    laws = {"beyond": lambda n: np.where(n > 2, 50.0, 1.0)}
    found = held_out_laws([1.0, 2, 3], [[1.0, 2, 4]] * 3, values, laws, 1, rng, 50)
    assert found.scores["beyond"].miss == 0.0
    assert found.scores["beyond"].log_error == pytest.approx(math.log(25.0))
    np.testing.assert_array_equal(found.at_edge, [True])


@pytest.mark.parametrize("grid", [DIVISORS, FINE])
def test_a_planted_law_is_found(grid):
    precise = {"grid": grid, "noise": 0.05, "n_sim": 50}
    found = [compare(lambda n: 1.2 * n**0.3, seed, **precise) for seed in range(40)]
    truth = Counter(comparison.verdict("power").verdict for comparison in found)
    assert truth["supported"] >= 30
    assert truth["refuted"] <= 5  # at a true rate of 5% more has a chance of 1%
    assert all(c.verdict("constant").verdict == "refuted" for c in found)
    slopes = [
        math.log(c.scores["free_power"].predictions[-1] / 1.2) / math.log(X[-1]) for c in found
    ]
    # Best levels lie on a grid: half a step at the largest x is 0.04 in the exponent.
    assert np.mean(slopes) == pytest.approx(0.3, abs=0.04)


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_the_true_law_is_seldom_refuted_and_a_false_one_seldom_supported(noise):
    found = words(lambda n: 1.2 * n**0.3, ("power", "steep"), noise=noise)
    assert found["power"]["refuted"] <= LIMIT
    assert found["steep"]["supported"] <= LIMIT


def test_a_truth_between_two_laws_decides_neither():
    # Exponent .375 lies halfway from .3 to .45.
    found = words(lambda n: 1.2 * n**0.375, ("power", "steep"), grid=FINE)
    for counts in found.values():
        assert counts["supported"] <= LIMIT
        assert counts["refuted"] <= LIMIT


def test_laws_that_a_grid_cannot_tell_apart_stay_undecided():
    # Without any noise, on divisors: the plain error knows a winner, the grid does not.
    laws = {"slow": lambda n: np.log(n) ** 0.05, "constant": lambda n: 1.0}
    found = compare(lambda n: 4.1 * np.log(n) ** 0.05 / 1.1, laws=laws, noise=0.0)
    assert found.scores["slow"].difference != 0.0
    assert found.scores["slow"].difference_se < 1e-9
    for name in laws:
        assert found.verdict(name).verdict == "inconclusive"
        assert found.verdict(name).estimate == 0.0


def test_margin_asks_for_more():
    found = compare(lambda n: 1.2 * n**0.3, grid=FINE, noise=0.05, n_sim=50)
    assert found.verdict("power").verdict == "supported"
    assert found.verdict("power", margin=1.0).verdict == "inconclusive"
    assert found.verdict("constant", margin=0.3).verdict == "refuted"
    assert found.verdict("constant", margin=3.0).verdict == "inconclusive"


def test_neither_unit_nor_order_of_groups_matters():
    rng = np.random.default_rng(1)
    levels, values = study(rng, lambda n: 1.2 * n**0.3)
    found = held_out_laws(X, levels, values, LAWS, 2, np.random.default_rng(2), 200)
    order = np.random.default_rng(3).permutation(X.size)
    again = held_out_laws(
        X[order],
        [5.0 * levels[g] for g in order],
        [100.0 * values[g] for g in order],
        LAWS,
        2,
        np.random.default_rng(2),
        200,
    )
    np.testing.assert_array_equal(again.x_test, found.x_test)
    for name, score in found.scores.items():
        assert again.scores[name].log_error == pytest.approx(score.log_error)
        assert again.scores[name].miss == pytest.approx(score.miss, abs=1e-12)
        assert again.scores[name].regret == pytest.approx(score.regret)
        np.testing.assert_allclose(again.scores[name].predictions, 5.0 * score.predictions)


def test_held_out_groups_do_not_reach_the_fit():
    rng = np.random.default_rng(4)
    levels, values = study(rng, lambda n: 1.2 * n**0.3)
    found = held_out_laws(X, levels, values, LAWS, 2, np.random.default_rng(2), 50)
    changed = values[:-2] + [v[:, ::-1] for v in values[-2:]]
    again = held_out_laws(X, levels, changed, LAWS, 2, np.random.default_rng(2), 50)
    for name, score in found.scores.items():
        np.testing.assert_array_equal(again.scores[name].predictions, score.predictions)
        assert again.scores[name].log_error != score.log_error


@pytest.mark.parametrize("n_sim", [0, 1])
def test_no_precision_without_replicates(n_sim):
    rng = np.random.default_rng(5)
    levels, values = study(rng, lambda n: 1.2 * n**0.3)
    values[-1] = values[-1][:n_sim]
    found = held_out_laws(X, levels, values, LAWS, 2, rng, 50)
    score = found.scores["power"]
    assert math.isnan(score.log_error) == (n_sim == 0)
    assert math.isnan(score.regret) == (n_sim == 0)
    assert np.isnan([*score.log_error_ci, *score.regret_ci, *score.miss_ci]).all()
    assert found.verdict("power").verdict == "inconclusive"


def test_no_regret_over_a_least_mean_of_zero():
    rng = np.random.default_rng(6)
    levels, values = study(rng, lambda n: 1.2 * n**0.3)
    found = held_out_laws(X, levels, [v - 10.0 for v in values], LAWS, 2, rng, 50)
    assert math.isnan(found.scores["power"].regret)
    assert math.isfinite(found.scores["power"].log_error)


GROUPS = ([[1.0, 2.0]] * 3, [np.ones((3, 2))] * 3)


@pytest.mark.parametrize(
    ("x", "laws", "n_test", "message"),
    [
        ([1.0, 2, 2], LAWS, 1, "x must be distinct"),
        ([0.0, 2, 3], LAWS, 1, "x and levels must be > 0"),
        ([1.0, 2, 3], LAWS, 2, "n_test"),
        ([1.0, 2, 3], LAWS, 0, "n_test"),
        ([1.0, 2, 3], {}, 1, "laws must hold"),
        ([1.0, 2, 3], {"free_power": np.sqrt}, 1, "free_power"),
        ([1.0, 2, 3], {"bad": lambda n: n - 1.0}, 1, "law 'bad' must be finite and > 0"),
        ([1.0, 2, 3], {"bad": lambda n: n[:2]}, 1, "law 'bad' must return one number an x"),
        ([1.0, 2, 3], {"bad": lambda n: "x"}, 1, "law 'bad' must return one number an x"),
        ([1.0, 2], LAWS, 1, "levels and values must have one entry an x"),
    ],
)
def test_refuses_by_name(x, laws, n_test, message):
    with pytest.raises(ParameterError, match=message):
        held_out_laws(x, *GROUPS, laws, n_test, np.random.default_rng(0))


def test_a_verdict_needs_a_law_and_a_rival():
    found = compare(lambda n: n**0.3)
    with pytest.raises(ParameterError, match="name must be one of"):
        found.verdict("free_power")
    with pytest.raises(ParameterError, match="margin"):
        found.verdict("power", margin=-1.0)
    alone = compare(lambda n: n**0.3, laws={"power": LAWS["power"]})
    assert (alone.scores["power"].rival, alone.scores["free_power"].rival) == ("", "power")
    assert math.isnan(alone.scores["power"].difference)
    with pytest.raises(ParameterError, match="must have a rival"):
        alone.verdict("power")
