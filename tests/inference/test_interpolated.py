"""Best levels between those of a grid: exact for parabolas, honest about what they assume."""

import math

import numpy as np
import pytest

from nwsim.exceptions import ParameterError
from nwsim.inference import held_out_laws
from nwsim.inference.interpolated import interpolated_optimum, optimum_slope
from nwsim.inference.optima import Draws

LEVELS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 12.0])


def parabola(best, n_sim=30, noise=0.0, rng=None):
    values = 1.0 + 0.3 * np.log(LEVELS / best) ** 2 + np.zeros((n_sim, 1))
    return values if rng is None else values + noise * rng.normal(size=values.shape)


@pytest.mark.parametrize("best", [1.7, 2.4, 3.0, 5.2, 8.0])
def test_vertex_of_a_parabola_is_found(best):
    draws = Draws(LEVELS, parabola(best), np.random.default_rng(0), 50)
    np.testing.assert_allclose(np.exp(interpolated_optimum(draws)), best, rtol=1e-9)


@pytest.mark.parametrize(("best", "end"), [(0.2, 1.0), (40.0, 12.0)])
def test_an_end_stays(best, end):
    draws = Draws(LEVELS, parabola(best), np.random.default_rng(0), 50)
    np.testing.assert_allclose(np.exp(interpolated_optimum(draws)), end)


def test_equal_means_and_missing_replicates():
    flat = Draws(
        LEVELS, np.array([[9.0, 2.0, 2.0, 2.0, 9.0, 9.0]] * 3), np.random.default_rng(0), 5
    )
    np.testing.assert_allclose(np.exp(interpolated_optimum(flat)), math.sqrt(6.0), rtol=0.2)
    level = Draws(LEVELS, np.ones((3, 6)), np.random.default_rng(0), 5)
    np.testing.assert_allclose(np.exp(interpolated_optimum(level)), 1.0)
    empty = Draws(LEVELS, np.empty((0, 6)), np.random.default_rng(0), 5)
    assert np.isnan(interpolated_optimum(empty)).all()
    with pytest.raises(ParameterError, match="three or more"):
        interpolated_optimum(Draws(LEVELS[:2], np.ones((3, 2)), np.random.default_rng(0), 5))


def slope(optima, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = 4.0 ** np.arange(len(optima))
    values = [parabola(best, rng=rng, **options) for best in optima]
    return optimum_slope(x, [LEVELS] * x.size, values, rng, 200)


def test_slope_slack_and_ends_by_hand():
    found = slope([2.0, 3.0, 4.0], noise=1e-7)
    assert found.draws[0] == pytest.approx(math.log(2.0) / math.log(16.0), abs=1e-5)
    assert found.slack < 1e-5
    assert found.ends.tolist() == [0, 0, 0]
    # Moved by log(2.2/2) and log(5.5/6); weights are -+1 / (2 log 4), the middle has none.
    moved = slope([2.2, 3.3, 5.5], noise=1e-7)
    by_hand = 0.5 * (math.log(1.1) + math.log(6.0 / 5.5)) / (2.0 * math.log(4.0))
    assert moved.slack == pytest.approx(by_hand, rel=1e-3)
    assert slope([0.1, 3.0, 99.0]).ends.tolist() == [-1, 0, 1]
    np.testing.assert_allclose(found.complement().draws, 1.0 - found.draws)


def test_verdict_takes_the_slack_into_account():
    found = slope([2.2, 3.3, 5.5], noise=1e-7)
    at = float(found.draws[0])
    assert found.verdict(at, 1.1 * found.slack).verdict == "supported"
    assert found.verdict(at, 0.9 * found.slack).verdict == "inconclusive"
    assert found.verdict(at + 2.0 * found.slack, 1.1 * found.slack).verdict == "inconclusive"
    assert found.verdict(at + 2.2 * found.slack, 1.1 * found.slack).verdict == "refuted"
    verdict = found.verdict(at, 1.0)
    assert verdict.ci_high - verdict.ci_low == pytest.approx(2.0 * found.slack, rel=1e-3)
    assert slope([2.0, 3.0], n_sim=0).verdict(0.0, 1.0).verdict == "inconclusive"
    with pytest.raises(ParameterError, match="distinct"):
        optimum_slope([1.0, 1.0], [LEVELS] * 2, [np.ones((3, 6))] * 2, np.random.default_rng(0), 5)


@pytest.mark.parametrize(("best", "fits"), [((2, 3, 3, 4), 1.0), ((2, 3, 4, 12), 0.0)])
def test_share_in_which_a_law_fits_the_cells(best, fits):
    # A constant may be anything from sqrt(2 * 3) to sqrt(12) at 3; 4 begins at sqrt(12), 2 ends
    # at sqrt(6): no constant reaches both, but x^0.1 over three decades doubles.
    values = [parabola(level, n_sim=5) for level in best]
    laws = {"slow": lambda x: x**0.1, "constant": np.ones_like}
    x = 10.0 ** np.arange(4)
    found = held_out_laws(x, [LEVELS] * 4, values, laws, 2, np.random.default_rng(0), 20)
    assert found.fit_shares == {"slow": fits, "constant": 0.0}
    for score in found.scores.values():
        np.testing.assert_allclose(score.fitted[2:], score.predictions)
    one = held_out_laws(x, [LEVELS] * 4, [v[:1] for v in values], laws, 2, np.random.default_rng(0))
    assert math.isnan(one.fit_shares["slow"])
