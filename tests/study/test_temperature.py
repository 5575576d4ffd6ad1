"""The study of the temperature: its worlds, its entropy, and the temperature it chooses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nwsim import NadarayaWatson, conditional_moments
from nwsim.study import load_study

STUDY = load_study("temperature", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
NAMES = STUDY.namespace
LIMIT = {"world": "normal", "alpha": 0.0, "dim": 2, "n_obs": 32, "temperature": 1.0}
BEST = {"world": "torus", "alpha": 1.0, "dim": 1, "n_obs": 256, "temperature": 0.0}


def drawn(condition, seed=0):
    return STUDY.draw(condition, np.random.default_rng(seed))


@pytest.mark.parametrize("form", ["gaussian", "dot"])
@pytest.mark.parametrize("t", [0.01, 1.0, 100.0])
def test_scores_are_those_of_the_weights(form, t):
    data = drawn(LIMIT)
    exponent = NAMES["scores_of"](form, data) / t
    want = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    want /= want.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(NAMES["weights_of"](form, data, t), want, rtol=0, atol=1e-13)


def test_entropy_at_known_weights():
    weights = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.25] * 4])
    want = np.log([1.0, 2.0, 4.0])
    np.testing.assert_allclose(NAMES["entropy_of"](weights), want, rtol=1e-15)


@pytest.mark.parametrize("form", ["gaussian", "dot"])
@pytest.mark.parametrize("world", ["normal", "sphere", "lattice"])
def test_the_derivative_is_within_the_bound_and_another_is_not(form, world):
    data = drawn({**LIMIT, "world": world})
    scores = NAMES["scores_of"](form, data)
    for t in (0.25, 1.0, 4.0):
        weights = NAMES["weights_of"](form, data, t)
        error, ratio = NAMES["slope_check"](form, data, t, weights, scores)
        assert ratio < 0.6
        assert error < 1e-4
        # Negative control: the variance under weights of a slightly other temperature.
        other = NAMES["weights_of"](form, data, 1.01 * t)
        assert NAMES["slope_check"](form, data, t, other, scores)[1] > 10.0


def test_points_of_the_torus_have_one_length_and_keep_near_distances():
    x = np.random.default_rng(0).random((50, 2))
    at = NAMES["torus"](x)
    np.testing.assert_allclose(np.linalg.norm(at, axis=1), math.sqrt(2) / (2 * math.pi), rtol=1e-14)
    step = NAMES["torus"](x + 1e-4) - at
    np.testing.assert_allclose(np.linalg.norm(step, axis=1), math.sqrt(2) * 1e-4, rtol=1e-6)


def log_ties_z(form, n_sim):
    """Return how many standard errors the cold entropy is from that of equally near points."""
    found = []
    for seed in range(n_sim):
        data = drawn({**LIMIT, "world": "lattice", "n_obs": 49}, seed)
        row = NAMES["at_level"](form, data, NAMES["COLD"])
        assert row["entropy_gap"] < 1e-12
        found.append(row["entropy"])
    # All 49 points: of a query's 13 coordinates 6 are half ones, with two nearest each.
    return (np.mean(found) - 2 * 6 / 13 * math.log(2)) / (np.std(found, ddof=1) / n_sim**0.5)


def test_ties_of_a_full_lattice():
    """False alarm: |t| > 5 with 39 degrees of freedom, below 2e-5. Control: dot products."""
    assert abs(log_ties_z("gaussian", 40)) < 5.0
    assert abs(log_ties_z("dot", 40)) > 20.0


def test_on_a_sphere_both_forms_see_the_same_keys():
    sphere, normal = (
        NAMES["at_level"]("dot", drawn({**LIMIT, "world": w}), 1e-9) for w in ("sphere", "normal")
    )
    assert (sphere["differ"], sphere["on_nearest"]) == (0.0, pytest.approx(1.0))
    assert normal["differ"] > 0.5
    assert normal["on_largest"] == pytest.approx(1.0)


@pytest.mark.parametrize("world", ["torus", "cube"])
def test_the_error_is_that_of_conditional_moments(world):
    data = drawn({**BEST, "world": world})
    row = NAMES["chosen"]("gaussian", data)

    def error(t):
        fit = NadarayaWatson(math.sqrt(t), engine="direct").fit(data.k, data.f_k)
        m = conditional_moments(fit, data.q, data.f_k, data.f_q, data.noise2)
        return float(np.mean(m.bias[:, 0] ** 2 + m.noise_covariance[:, 0, 0]))

    best = math.exp(row["log_best_t"])
    assert row["best_mse"] == pytest.approx(error(best), rel=1e-10)
    # No temperature far from it is better.
    assert min(error(best * factor) for factor in (0.5, 0.7, 1.4, 2.0)) > row["best_mse"]
    assert row["n_at_edge"] == 0


def test_keys_of_one_length_have_one_best_temperature():
    data = drawn(BEST)
    softmax, gaussian = (NAMES["chosen"](form, data)["log_best_t"] for form in ("dot", "gaussian"))
    assert softmax == pytest.approx(gaussian, abs=1e-6)
    data = drawn({**BEST, "world": "cube"})
    softmax, gaussian = (NAMES["chosen"](form, data)["log_best_t"] for form in ("dot", "gaussian"))
    assert softmax > math.log(3) + gaussian


def test_the_margin_is_below_half_the_distance_to_the_next_exponent():
    for dim in (1, 2):
        alphas = {c["alpha"] for c in STUDY.conditions() if c["alpha"] and c["dim"] == dim}
        exponents = sorted(NAMES["exponent"]({"alpha": a, "dim": dim}) for a in alphas)
        assert NAMES["SLOPE_MARGIN"] < 0.5 * np.diff(exponents).min()
        # Nor is it the exponent of a bandwidth that is not squared.
        assert NAMES["SLOPE_MARGIN"] < 0.5 * 0.5 * min(map(abs, exponents))
