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
minimise, score, vertex = (STUDY.namespace[name] for name in ("minimise", "score", "vertex"))


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

    start = np.log(row["temperature"])
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
        assert row["temperature"] == 1e3
    # A negative control: far below 0 the other end is best.
    row = minimise(condition, data, None, -20.0)
    assert row["excess"] > 1.0
    assert row["temperature"] < 1e-3


def test_identities_hold_to_rounding():
    condition, data = drawn()
    row = METHODS["identities"](condition, data, None)
    assert row["identity_gap"] < 1e-12
    assert row["derivative_gap"] < 1e-6
