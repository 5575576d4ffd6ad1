"""Asymptotic constants against closed forms, and exponents against the known cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from nwsim.exceptions import ParameterError
from nwsim.inference import (
    asymptotic_bias,
    asymptotic_variance,
    optimal_bandwidth,
    rate_exponent,
    rate_exponents,
)

SPREAD = 0.8  # standard deviation of the Gaussian design


def normal_density(x, variance):
    dim = x.shape[1]
    return np.exp(-(x**2).sum(axis=1) / (2 * variance)) / (2 * math.pi * variance) ** (dim / 2)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_bias_of_a_gaussian_window_in_a_gaussian_design(dim):
    # f = |x|^2: the population smooth is |shrunk x|^2 + d times the posterior variance.
    x = np.random.default_rng(dim).normal(size=(6, dim))
    h = 0.01
    shrink = SPREAD**2 / (SPREAD**2 + h**2)
    square = (x**2).sum(axis=1)
    exact = square * shrink**2 + dim * h**2 * shrink - square
    found = asymptotic_bias(h, 1.0, np.full(6, 2.0 * dim), 2.0 * x, -x / SPREAD**2)
    assert found == pytest.approx(exact, rel=2e-3, abs=1e-3 * h**2)


def test_bias_without_a_design_term_is_that_of_the_curvature():
    assert asymptotic_bias(0.1, 0.2, [3.0]) == pytest.approx([0.01 * 0.1 * 3.0])


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_variance_of_a_gaussian_window_in_a_gaussian_design(dim):
    x = np.random.default_rng(dim).normal(size=(6, dim)) * 0.5
    h, n_obs = 0.01, 1_000
    roughness = (4 * math.pi) ** (-dim / 2)
    numerator = (4 * math.pi * h**2) ** (-dim / 2) * normal_density(x, SPREAD**2 + h**2 / 2)
    exact = 0.5 * numerator / normal_density(x, SPREAD**2 + h**2) ** 2 / n_obs
    found = asymptotic_variance(0.5, roughness, n_obs, h, dim, normal_density(x, SPREAD**2))
    assert found == pytest.approx(exact, rel=2e-3)


def test_variance_has_the_shape_of_its_points():
    assert asymptotic_variance(1.0, 1.0, 10, 0.1, 1, 2.0).shape == ()
    assert asymptotic_variance(1.0, 1.0, 10, 0.1, 1, [2.0]).shape == (1,)
    assert asymptotic_variance([1.0, 2.0], 1.0, 10, 0.1, 1, 2.0) == pytest.approx([0.5, 1.0])


@given(
    st.floats(0.01, 100),
    st.floats(0.01, 100),
    st.integers(10, 10**6),
    st.integers(1, 4),
    st.sampled_from([2, 4]),
)
def test_optimal_bandwidth_minimises_the_asymptotic_risk(bias2, variance, n_obs, dim, order):
    def risk(log_h):
        h = math.exp(log_h)
        return bias2 * h ** (2 * order) + variance / (n_obs * h**dim)

    best = minimize_scalar(risk, bracket=(-3.0, 0.0), tol=1e-10)
    found = optimal_bandwidth(bias2, variance, n_obs, dim, order)
    assert math.log(found) == pytest.approx(best.x, abs=1e-5)


@pytest.mark.parametrize(
    ("alpha", "dim", "expected"), [(2.0, 1, -4 / 5), (1.0, 1, -2 / 3), (0.5, 2, -1 / 3)]
)
def test_minimax_exponent(alpha, dim, expected):
    assert rate_exponent(alpha, dim) == pytest.approx(expected)


@given(st.floats(0.05, 2.0), st.integers(1, 5))
def test_bias_and_variance_balance_below_saturation(alpha, dim):
    found = rate_exponents(alpha, dim)
    assert found.bias2 == pytest.approx(found.variance)
    assert found.mse == pytest.approx(rate_exponent(alpha, dim))


def test_saturation_and_its_rescue():
    saturated = rate_exponents(3.0, 1, order=2)
    assert saturated.bias2 == saturated.mse == pytest.approx(-4 / 7)
    assert saturated.variance == pytest.approx(-6 / 7)
    assert rate_exponents(3.0, 1, order=4).mse == pytest.approx(-6 / 7)
    assert rate_exponents(3.0, 1, order=2, bandwidth_exponent=-1 / 5).mse == pytest.approx(-4 / 5)


def test_boundary_matters_above_three_halves():
    assert rate_exponents(2.0, 1, boundary=True).mse == pytest.approx(-3 / 5)
    for alpha in (0.25, 0.5, 1.0, 1.5):
        assert rate_exponents(alpha, 1, boundary=True).mse == pytest.approx(rate_exponent(alpha, 1))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: asymptotic_bias(0.0, 1.0, [1.0]), "bandwidth"),
        (lambda: asymptotic_bias(0.1, -1.0, [1.0]), "mu2"),
        (lambda: asymptotic_bias(0.1, 1.0, [math.nan]), "laplacian"),
        (lambda: asymptotic_bias(0.1, 1.0, [1.0], [[1.0]]), "score"),
        (lambda: asymptotic_bias(0.1, 1.0, [1.0], [[1.0]], [[1.0, 2.0]]), "gradient"),
        (lambda: asymptotic_variance(-1.0, 1.0, 10, 0.1, 1, 1.0), "noise_variance"),
        (lambda: asymptotic_variance(1.0, 0.0, 10, 0.1, 1, 1.0), "roughness"),
        (lambda: asymptotic_variance(1.0, 1.0, 0, 0.1, 1, 1.0), "n_obs"),
        (lambda: asymptotic_variance(1.0, 1.0, 10, -0.1, 1, 1.0), "bandwidth"),
        (lambda: asymptotic_variance(1.0, 1.0, 10, 0.1, 0, 1.0), "dim"),
        (lambda: asymptotic_variance(1.0, 1.0, 10, 0.1, 1, [1.0, 0.0]), "density"),
        (lambda: asymptotic_variance([1.0] * 2, 1.0, 10, 0.1, 1, [1.0] * 3), "density"),
        (lambda: optimal_bandwidth(0.0, 1.0, 10, 1), "squared_bias_constant"),
        (lambda: optimal_bandwidth(1.0, 0.0, 10, 1), "variance_constant"),
        (lambda: optimal_bandwidth(1.0, 1.0, 10, 1, order=3), "order"),
        (lambda: rate_exponent(0.0, 1), "alpha"),
        (lambda: rate_exponent(1.0, 1.5), "dim"),
        (lambda: rate_exponents(1.0, 1, order=0), "order"),
        (lambda: rate_exponents(1.0, 1, bandwidth_exponent=0.1), "bandwidth_exponent"),
        (lambda: rate_exponents(1.0, 1, bandwidth_exponent=-1.0), "bandwidth_exponent"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ParameterError, match=name):
        call()
