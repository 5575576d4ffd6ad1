"""Densities, scores, covariances and draws of every registered design.

Statistical tests use 5 standard errors per number (false-alarm rate below 1e-6 each, at
fixed seeds) and have a negative control.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from nwsim.dgp import design_names, make_design
from nwsim.exceptions import ParameterError
from tests.dgp.cases import DESIGN_CASES

CASES = [(name, options, dim) for name, options in DESIGN_CASES for dim in (1, 2)]
RANDOM = [case for case in CASES if case[0] != "grid"]


def case_id(value):
    if isinstance(value, dict):
        return "-".join(str(item) for item in value.values()) or "default"
    return str(value)


def quadrature(design, per_axis):
    """Return nodes and weights that cover the support, heavy tails included."""
    u = (np.arange(per_axis) + 0.5) / per_axis
    if design.domain == "space":
        # x = tan: the tails of a t fall faster than the Jacobian grows.
        x = 0.5 + np.tan(math.pi * (u - 0.5))
        w = math.pi * (1.0 + (x - 0.5) ** 2) / per_axis
    else:
        x, w = u, np.full(per_axis, 1.0 / per_axis)
    axes = np.meshgrid(*([x] * design.dim), indexing="ij")
    weights = np.ones(())
    for part in np.meshgrid(*([w] * design.dim), indexing="ij"):
        weights = weights * part
    return np.stack([axis.ravel() for axis in axes], axis=1), weights.ravel()


@pytest.mark.parametrize(("name", "options", "dim"), CASES, ids=case_id)
def test_density_integrates_to_one_and_has_the_stated_covariance(name, options, dim):
    design = make_design(name, dim=dim, **options)
    nodes, weights = quadrature(design, 20001 if dim == 1 else 1201)
    mass = weights * design.density(nodes)
    assert mass.sum() == pytest.approx(1.0, abs=2e-3)
    mean = mass @ nodes
    covariance = (nodes - mean).T @ (mass[:, None] * (nodes - mean))
    np.testing.assert_allclose(covariance, design.covariance, atol=2e-2 * design.covariance.max())
    assert design.covariance.shape == (dim, dim)


@pytest.mark.parametrize(("name", "options", "dim"), CASES, ids=case_id)
def test_score_is_the_gradient_of_the_log_density(name, options, dim):
    design = make_design(name, dim=dim, **options)
    X = 0.05 + 0.9 * np.random.default_rng(1).random((200, dim))
    step = 1e-6
    expected = np.empty_like(X)
    for j in range(dim):
        move = step * np.eye(dim)[j]
        rise = np.log(design.density(X + move)) - np.log(design.density(X - move))
        expected[:, j] = rise / (2 * step)
    assert design.score(X).shape == X.shape
    np.testing.assert_allclose(design.score(X), expected, rtol=1e-5, atol=1e-6)


def covariance_alarm(X, covariance):
    """Whether any entry of the sample covariance is over 5 standard errors away."""
    centred = X - X.mean(axis=0)
    products = centred[:, :, None] * centred[:, None, :]
    se = products.std(axis=0) / math.sqrt(len(X))
    return bool((np.abs(products.mean(axis=0) - covariance) > 5.0 * se).any())


@pytest.mark.parametrize(("name", "options", "dim"), RANDOM, ids=case_id)
def test_draws_have_the_stated_covariance_and_score(name, options, dim):
    design = make_design(name, dim=dim, **options)
    X = design.draw(np.random.default_rng(2), 200_000)
    assert X.shape == (200_000, dim)
    assert X.flags.c_contiguous
    assert not covariance_alarm(X, design.covariance)
    assert covariance_alarm(X, 1.1 * design.covariance)
    assert (design.density(X) > 0.0).all()
    if design.domain == "space":
        # Stein: E score_i x_j = -1(i = j) ties the draws to the density.
        stein = design.score(X)[:, :, None] * X[:, None, :]
        se = stein.std(axis=0) / math.sqrt(len(X))
        assert (np.abs(stein.mean(axis=0) + np.eye(dim)) < 5.0 * se).all()


def kolmogorov_alarm(sample, design):
    """Kolmogorov-Smirnov at level 1e-6 against the integrated density (dim 1)."""
    nodes, weights = quadrature(design, 20001)
    mass = weights * design.density(nodes)
    cumulative = np.interp(np.sort(sample), nodes[:, 0], np.cumsum(mass) - 0.5 * mass)
    gap = np.abs(cumulative - (np.arange(len(sample)) + 0.5) / len(sample)).max()
    return gap * math.sqrt(len(sample)) > math.sqrt(-0.5 * math.log(0.5e-6))


@pytest.mark.parametrize(
    ("name", "options"), [case for case in DESIGN_CASES if case[0] != "grid"], ids=case_id
)
def test_draws_follow_the_density(name, options):
    design = make_design(name, **options)
    X = design.draw(np.random.default_rng(3), 20_000)[:, 0]
    assert not kolmogorov_alarm(X, design)
    wrong = 0.85 * X if design.domain == "space" else X**1.2
    assert kolmogorov_alarm(wrong, design)


def test_kolmogorov_negative_control():
    # A law of the same mean and variance is told apart.
    laplace = make_design("isotropic", law="laplace", scale=0.5)
    gaussian = make_design("gaussian", scale=0.5)
    X = gaussian.draw(np.random.default_rng(4), 20_000)[:, 0]
    assert kolmogorov_alarm(X, laplace)
    assert not kolmogorov_alarm(X, gaussian)


@pytest.mark.parametrize(("name", "options", "dim"), CASES, ids=case_id)
def test_designs_are_frozen_hashable_and_reproducible(name, options, dim):
    design = make_design(name, dim=dim, **options)
    before = repr(design)
    X = design.draw(np.random.default_rng(5), 64)
    np.testing.assert_array_equal(design.draw(np.random.default_rng(5), 64), X)
    assert repr(design) == before
    assert hash(design) == hash(make_design(name, dim=dim, **options))
    with pytest.raises(dataclasses.FrozenInstanceError):
        design.dim = 7
    assert design.draw(np.random.default_rng(5), 1).shape == (1, dim)


def test_grid_is_deterministic_and_takes_nothing_from_the_rng():
    rng = np.random.default_rng(6)
    state = rng.bit_generator.state
    X = make_design("grid", dim=2).draw(rng, 9)
    assert rng.bit_generator.state == state
    np.testing.assert_allclose(np.unique(X), [1 / 6, 1 / 2, 5 / 6])
    assert len(np.unique(X, axis=0)) == 9
    for n, dim in ((10, 2), (100, 3), (2, 2)):
        with pytest.raises(ParameterError, match="n must be a whole number to the power dim"):
            make_design("grid", dim=dim).draw(rng, n)
    assert len(make_design("grid", dim=3).draw(rng, 10**6)) == 10**6


@pytest.mark.parametrize("name", ["uniform", "grid", "beta"])
def test_outside_the_cube_density_is_zero_and_score_undefined(name):
    design = make_design(name, dim=2)
    outside = np.array([[0.5, 1.2], [-0.1, 0.5]])
    np.testing.assert_array_equal(design.density(outside), 0.0)
    assert np.isnan(design.score(outside)).all()


def test_torus_has_no_outside():
    design = make_design("uniform", domain="torus")
    np.testing.assert_array_equal(design.density(np.array([[1.7], [-3.0]])), 1.0)
    assert design.domain == "torus"


def test_a_far_point_of_a_mixture_keeps_a_finite_score():
    design = make_design("clustered", dim=2)
    assert np.isfinite(design.score(np.array([[1e3, -1e3]]))).all()


def test_matrix_option_and_its_checks():
    matrix = [[2.0, 0.5], [0.5, 1.0]]
    design = make_design("correlated_gaussian", dim=2, matrix=matrix)
    np.testing.assert_array_equal(design.covariance, matrix)
    for bad, match in (
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[1.0]], r"shape \(2, 2\)"),
    ):
        with pytest.raises(ParameterError, match=match):
            make_design("correlated_gaussian", dim=2, matrix=bad)


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("nope", {}, "design must be one of 'uniform'"),
        ("uniform", {"scale": 1.0}, "no option 'scale'; it accepts dim, domain"),
        ("uniform", {"domain": "space"}, "domain must be one of 'cube', 'torus'"),
        ("uniform", {"dim": 0}, "dim must be"),
        ("gaussian", {"scale": 0.0}, "scale must be"),
        ("correlated_gaussian", {"correlation": 1.0, "dim": 2}, "correlation must be"),
        ("correlated_gaussian", {"correlation": -0.6, "dim": 3}, "correlation must be"),
        ("beta", {"a": 0.0}, "a must be"),
        ("clustered", {"spread": -1.0}, "spread must be"),
        ("clustered", {"centres": [[1.0, 2.0]], "dim": 1}, "centres must have 1 columns"),
        ("isotropic", {"law": "cauchy"}, "law must be one of 'student', 'laplace'"),
        ("isotropic", {"df": 2.0}, "df must be"),
    ],
)
def test_bad_options_are_refused_by_name(name, options, match):
    with pytest.raises(ParameterError, match=match):
        make_design(name, **options)


@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_bad_sample_size_is_refused(n):
    with pytest.raises(ParameterError, match="n must be a whole number"):
        make_design("uniform").draw(np.random.default_rng(0), n)


def test_names_are_listed():
    assert {"uniform", "grid", "gaussian", "correlated_gaussian", "beta"} < set(design_names())
