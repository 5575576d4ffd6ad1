"""Every Monte Carlo standard error against the spread over 2,000 synthetic studies of R = 200.

The standard deviation over 2,000 studies is itself known to about 2-3%, so that a right MCSE
leaves 0.9-1.1 with probability below 1e-3; halved or doubled degrees of freedom, an ignored
correlation of heads, or division by query points would leave it surely (negative control).
"""

import numpy as np
import pytest

from nwsim.inference import (
    decompose,
    difference,
    empirical_se,
    jackknife,
    performance,
    proportion,
    ratio,
    rmse,
)

N_STUDIES, N_SIM = 2_000, 200
MEASURES = ("bias", "bias2", "variance", "mse", "rmse", "empirical_se")


def calibration(pairs):
    """Root mean square of the stated MCSEs over the true standard deviation."""
    estimates, mcses = np.array(pairs).T
    return np.sqrt(np.mean(mcses**2)) / estimates.std(ddof=1)


@pytest.fixture(scope="module")
def gamma_studies():
    rng = np.random.default_rng(2024)
    return rng.gamma(4.0, 0.5, size=(N_STUDIES, N_SIM)) - 1.5


@pytest.fixture(scope="module")
def head_studies():
    """Two correlated, biased heads at three points that share much of their error."""
    rng = np.random.default_rng(7)
    common = rng.normal(size=(N_STUDIES, N_SIM, 1, 1))
    point = rng.normal(size=(N_STUDIES, N_SIM, 3, 1))
    own = rng.normal(size=(N_STUDIES, N_SIM, 3, 2))
    estimates = 0.7 * common + 0.5 * point + own * [0.5, 0.9] + [0.6, 0.3]
    noise = 0.5 * np.square(common) + 0.2
    covariance = noise[..., None] * np.array([[1.0, 0.4], [0.4, 2.0]])
    return estimates, np.broadcast_to(covariance, (N_STUDIES, N_SIM, 3, 2, 2))


@pytest.fixture(scope="module")
def decomposed(head_studies):
    estimates, noise = head_studies
    return {
        "plain": [decompose(e, np.zeros(3)) for e in estimates],
        "conditional": [
            decompose(e, np.zeros(3), [0.3, 0.7], n, [1.0, 2.0, 1.0])
            for e, n in zip(estimates, noise, strict=True)
        ],
    }


@pytest.mark.parametrize("name", MEASURES)
def test_performance(gamma_studies, name):
    found = [performance(study, [name])[name] for study in gamma_studies]
    assert 0.9 < calibration([(f.estimate, f.mcse) for f in found]) < 1.1


@pytest.mark.parametrize("function", [rmse, empirical_se])
def test_jackknife_forms(gamma_studies, function):
    found = [function(study, "jackknife") for study in gamma_studies]
    assert 0.9 < calibration([(f.estimate, f.mcse) for f in found]) < 1.1


def test_generic_jackknife(gamma_studies):
    def tail_weight(rows):
        deviations = rows - rows.mean()
        return np.mean(deviations**2) / np.mean(np.abs(deviations)) ** 2

    found = [jackknife(tail_weight, study) for study in gamma_studies[:500]]
    # 500 studies: the sd is known to 4%, hence the wider band.
    assert 0.85 < calibration([(f.estimate, f.mcse) for f in found]) < 1.15


@pytest.mark.parametrize("method", ["difference", "delta", "jackknife"])
def test_paired(gamma_studies, method):
    rng = np.random.default_rng(1)
    found = []
    for study in gamma_studies:
        below = study + 4.0
        above = 1.5 * below + rng.normal(size=N_SIM)
        found.append(
            difference(above, below) if method == "difference" else ratio(above, below, method)
        )
    assert 0.9 < calibration([(f.estimate, f.mcse) for f in found]) < 1.1


def test_proportion(gamma_studies):
    found = [proportion(study < 0.3) for study in gamma_studies]
    assert 0.9 < calibration([(f.estimate, f.mcse) for f in found]) < 1.1


@pytest.mark.parametrize("route", ["plain", "conditional"])
@pytest.mark.parametrize("name", ["bias2", "variance", "head_covariance", "mse"])
def test_decomposition(decomposed, route, name):
    pairs = [(getattr(d, name), getattr(d, f"{name}_mcse")) for d in decomposed[route]]
    assert 0.9 < calibration(pairs) < 1.1


def test_points_taken_for_replicates_would_be_seen(head_studies):
    # Negative control: the same errors with points counted as replicates.
    estimates, _ = head_studies
    flat = estimates[:500].mean(axis=3).reshape(500, -1)
    found = [performance(study, ["mse"])["mse"] for study in flat]
    assert calibration([(f.estimate, f.mcse) for f in found]) < 0.85


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_squared_bias_near_zero_is_stated_on_the_safe_side(shift):
    # Below sd / sqrt(R) the squared bias is a degenerate U-statistic: the jackknife may be up
    # to sqrt(2) too large there, and is never too small.
    studies = np.random.default_rng(6).normal(shift, 1.0, size=(N_STUDIES, N_SIM))
    found = [performance(study, ["bias2"])["bias2"] for study in studies]
    assert 0.95 < calibration([(f.estimate, f.mcse) for f in found]) < 1.5
