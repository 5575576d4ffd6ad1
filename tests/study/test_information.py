"""The study of information: its arithmetic, its limits, and what it says of a known case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from nwsim import NadarayaWatson
from nwsim.attention.information import information_at
from nwsim.inference import decompose_conditional, design_moments
from nwsim.study import load_study

STUDY = load_study("information", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
SMALL = {"form": "gaussian", "dim": 3, "n_obs": 64, "t": 0.0}
METHODS = {method.name: method.function for method in STUDY.methods}
NAMES = STUDY.namespace
minimise, score, vertex = (NAMES[name] for name in ("minimise", "score", "vertex"))


def drawn(seed=0, **levels):
    condition = {**SMALL, **levels}
    return condition, STUDY.draw(condition, np.random.default_rng(seed))


def test_errors_are_those_of_nadaraya_watson():
    condition, data = drawn()
    fit = NadarayaWatson(0.3).fit
    per_design = design_moments(fit, data.samples, data.queries, data.truth)
    want = decompose_conditional(per_design, data.truth).mse
    assert score(condition, data, 0.09) == pytest.approx(want, rel=1e-10)


def test_a_vertex_is_exact_for_a_parabola_in_the_logarithm():
    grid = np.geomspace(0.01, 100.0, 13)
    assert vertex((np.log(grid) - 0.7) ** 2, grid) == pytest.approx(np.exp(0.7), rel=1e-12)
    assert vertex(grid, grid) == grid[0]
    assert vertex(-grid, grid) == grid[-1]


def test_a_minimum_inside_is_that_of_a_finer_search():
    condition, data = drawn(3, form="dot", n_obs=128)
    row = minimise(condition, data, None, -0.75)
    assert row["inside"] == 1.0

    def objective(log_t):
        return information_at(data.scores, np.exp(log_t)).bottleneck(-0.75)

    start = np.log(10.0) * row["log_temperature"]
    found = minimize_scalar(objective, bounds=(start - 0.6, start + 0.6), method="bounded")
    step = np.log(STUDY.namespace["GRID"][1] / STUDY.namespace["GRID"][0])
    assert start == pytest.approx(found.x, abs=0.5 * step)
    limits = data.limits[1] + 0.75 * data.limits[0]
    assert found.fun < limits.min() - 1e-6


def test_limits_are_those_of_the_weights():
    _, data = drawn(1)
    for t, place in ((1e-9, 0), (1e9, 1)):
        found = information_at(data.scores, t)
        want = data.limits[:, place]
        np.testing.assert_allclose([found.entropy, found.information], want, atol=1e-7)


@pytest.mark.parametrize("form", ["gaussian", "dot"])
def test_a_beta_that_is_not_negative_ends_at_infinite_temperature(form):
    condition, data = drawn(2, form=form)
    for beta in (0.0, 0.25, 1.0):
        row = minimise(condition, data, None, beta)
        assert row["inside"] == 0.0
        assert row["excess"] <= 0.0
        assert row["log_temperature"] == 3.0
    # A negative control: far below 0 the other end is best.
    row = minimise(condition, data, None, -20.0)
    assert row["excess"] > 1.0
    assert row["log_temperature"] < -3.0


def test_identities_hold_to_rounding():
    condition, data = drawn()
    row = METHODS["identities"](condition, data, None)
    assert row["identity_gap"] < 1e-12
    assert row["derivative_gap"] < 1e-6


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 1e3, 1e7])
def test_the_curve_is_that_of_the_weights(spread):
    scores = spread * np.random.default_rng(4).standard_normal((9, 7))
    scores[2] = scores[2, 0]  # ties
    found = NAMES["curve_of"](scores)
    want = np.array([NAMES["both"](NAMES["weights_of"](scores, t)) for t in NAMES["GRID"]]).T
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)


def test_queries_are_as_many_as_keys():
    # With fewer, the information of sharp weights stays at the log of their number, and no
    # large n has a minimum inside.
    for n_obs in (64, 256):
        assert drawn(n_obs=n_obs)[1].scores.shape == (n_obs, n_obs)


def depth(data, beta):
    values, limits = (part[1] - beta * part[0] for part in (data.curve, data.limits))
    return limits.min() - values.min()


@pytest.mark.parametrize("form", ["gaussian", "dot"])
@pytest.mark.parametrize("dim", [1, 3])
def test_no_beta_has_a_minimum_where_the_critical_one_has_none(form, dim):
    for seed in range(4):
        condition, data = drawn(seed, form=form, dim=dim)
        beta = NAMES["critical"](data.limits)
        cold, hot = data.limits[1] - beta * data.limits[0]
        assert cold == pytest.approx(hot, abs=1e-12)
        most = max(depth(data, other) for other in np.linspace(-4.0, 0.0, 201))
        assert most <= depth(data, beta) + 1e-9
        row = METHODS["beta_critical"](condition, data, None)
        assert row["beta"] == beta
        assert row["inside"] == (depth(data, beta) > 1e-6)
        log_t = np.log(10.0) * row["log_temperature"]
        assert row["log_to_best"] == pytest.approx(log_t - np.log(data.best))


def test_costs_are_judged_at_every_sample_size():
    claims = [claim for claim in STUDY.claims if claim.id == "I1_regret"]
    assert claims
    assert all(claim.where is None for claim in claims)
