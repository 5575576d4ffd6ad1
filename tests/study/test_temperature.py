"""The study of the temperature: its worlds, its entropy, and the temperature it chooses."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
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
def test_the_derivative_is_within_rounding_and_another_is_not(form, world):
    data = drawn({**LIMIT, "world": world})
    scores = NAMES["scores_of"](form, data)
    for t in NAMES["MIDDLE"]:
        weights = NAMES["weights_of"](form, data, t)
        error, ratio = NAMES["slope_check"](t, weights, scores)
        assert ratio < 0.1
        assert error < 1e-12
        # Negative control: the variance under weights of a slightly other temperature.
        other = NAMES["weights_of"](form, data, (1.0 + 1e-5) * t)
        if t in (0.25, 1.0, 4.0):
            assert NAMES["slope_check"](t, other, scores)[1] > 10.0


@pytest.mark.parametrize("t", [0.25, 1.0, 16.0])
def test_the_derivative_is_that_of_exact_arithmetic(t):
    """Entropies of 40 digits, differenced over a step that leaves some twenty right ones."""
    data = drawn({**LIMIT, "n_obs": 8})
    scores = NAMES["scores_of"]("dot", data)[:1]
    with localcontext() as context:
        context.prec = 40

        def entropy(log_step):
            at = Decimal(t) * log_step.exp()
            terms = [(Decimal(float(score)) / at).exp() for score in scores[0]]
            return -sum(w * w.ln() for w in (term / sum(terms) for term in terms))

        step = Decimal("1e-10")
        want = float((entropy(step) - entropy(-step)) / (2 * step))
    weights = NAMES["weights_of"]("dot", data, t)[:1]
    exact = (weights * (scores - (weights * scores).sum()) ** 2).sum() / t**2
    assert exact == pytest.approx(want, rel=1e-10)
    assert NAMES["slope_check"](t, weights, scores)[0] < 1e-12


def test_measures_of_every_query_are_those_of_the_worst_one():
    """One query of forty has its largest dot product with a key that is not the nearest."""
    rng = np.random.default_rng(3)
    k = rng.standard_normal((40, 2))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    k[0] *= 1.5
    # Each at a key; key 1 has a direction near that of the long key 0, and no other has.
    k[1] = [[math.cos(0.2), -math.sin(0.2)], [math.sin(0.2), math.cos(0.2)]] @ k[0] / 1.5
    far = k[2:] @ k[0] < 0.9
    k = np.vstack([k[:2], k[2:][far]])
    data = NAMES["Tables"](k[1:], k, np.zeros(len(k) - 1), np.zeros(len(k)), 0.0)
    row = NAMES["at_level"]("dot", data, NAMES["COLD"])
    assert row["off_largest"] < 1e-12
    assert row["off_nearest"] == 1.0
    assert row["on_nearest"] == pytest.approx(1.0 - 1.0 / len(data.q))
    cold = NAMES["at_level"]("gaussian", data, NAMES["COLD"])
    assert (cold["off_nearest"], cold["entropy_gap"]) == (0.0, 0.0)


@pytest.mark.parametrize("form", ["gaussian", "dot"])
def test_entropies_fall_nowhere_on_the_way_up(form):
    levels = NAMES["LEVELS"]
    assert [NAMES["next_level"](t) for t in levels[:-1]] == list(levels[1:])
    assert NAMES["next_level"](levels[-1]) > levels[-1]
    data = drawn(LIMIT)
    for t in levels:
        assert NAMES["at_level"](form, data, t)["entropy_fall"] <= 1e-14
    # Negative control: one query of 64 whose entropy falls.
    entropies = [NAMES["entropy_of"](NAMES["weights_of"](form, data, t)) for t in (1.0, 4.0)]
    entropies[1][5] = entropies[0][5] - 1e-6
    assert (entropies[0] - entropies[1]).max() > NAMES["STEP_MARGIN"]
    assert (entropies[0] - entropies[1]).mean() < 0


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

    def error(t, tables):
        fit = NadarayaWatson(math.sqrt(t), engine="direct").fit(tables.k, tables.f_k)
        m = conditional_moments(fit, tables.q, tables.f_k, tables.f_q, tables.noise2)
        return float(np.mean(m.bias[:, 0] ** 2 + m.noise_covariance[:, 0, 0]))

    best = math.exp(row["log_best_t"])
    assert row["best_mse"] == pytest.approx(error(best, data), rel=1e-10)
    # On what it was chosen by no temperature far from it is better.
    least = error(best, data.others)
    assert min(error(best * factor, data.others) for factor in (0.5, 0.7, 1.4, 2.0)) > least
    assert row["n_at_edge"] == 0


def test_a_temperature_is_chosen_on_other_draws_than_those_that_score():
    data, other = drawn(BEST), drawn({**BEST, "n_obs": BEST["n_obs"] + 1})
    row = NAMES["chosen"]("gaussian", data)
    moved = NAMES["chosen"]("gaussian", other._replace(others=data.others))
    assert moved["log_best_t"] == row["log_best_t"]
    assert moved["best_mse"] != row["best_mse"]
    assert (
        NAMES["chosen"]("gaussian", data._replace(others=other))["log_best_t"]
        != (row["log_best_t"])
    )
    assert not np.array_equal(data.k, data.others.k)
    assert not np.array_equal(data.q, data.others.q)


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
        alphas = {
            c["alpha"] for c in STUDY.conditions() if c["world"] == "cube" and c["dim"] == dim
        }
        errors = sorted(NAMES["error_exponent"]({"alpha": a, "dim": dim}) for a in alphas)
        assert NAMES["SLOPE_MARGIN"] < 0.5 * min(np.diff(errors).min(), -errors[-1])
        # Nor is it the exponent of a bandwidth that is not squared.
        assert NAMES["SLOPE_MARGIN"] < 0.5 * 0.5 * min(map(abs, exponents))


def test_no_claim_is_judged_twice_on_the_same_weights():
    # On the torus both forms are one; a row a method would be one row twice.
    (torus, *_) = [c for c in STUDY.conditions() if c["world"] == "torus"]
    assert [m.name for m in STUDY.methods if m.where is None or m.where(torus)] == ["gaussian"]
    # Where dot products are not distances the search for the best one ends at an edge.
    assert [c.method for c in STUDY.claims if c.quantity == "log_best_t"] == ["gaussian"]
