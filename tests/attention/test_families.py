"""Weights with one free number: each family against its definition, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nwsim.attention import WEIGHT_FAMILIES, abramson_scales, weight_family
from nwsim.exceptions import ParameterError
from nwsim.smoothing import get_kernel
from nwsim.smoothing.bandwidths import rule_of_thumb


def sample(seed, m=7, n=30, d=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)), rng.normal(size=(n, d))


def normalised(logs):
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def gaps(q, k):
    return np.linalg.norm(q[:, None] - k, axis=2)


def pilot(k):
    return rule_of_thumb(k, np.ones(len(k)), get_kernel("gaussian"))


@pytest.mark.parametrize("number", [0.05, 0.7, 20.0])
@pytest.mark.parametrize("kind", WEIGHT_FAMILIES)
def test_weights_are_those_of_the_definition(kind, number):
    q, k = sample(1)
    found = weight_family(kind, q, k).weights(number)
    if kind == "unit_norm":
        q, k = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (q, k))
    h, log_prior = np.full((len(q), len(k)), number), np.zeros(len(k))
    if kind == "neighbors":
        h = number * np.sort(gaps(q, k), axis=1)[:, [math.ceil(math.sqrt(len(k))) - 1]]
    elif kind.startswith("abramson"):
        scales = abramson_scales(k, pilot(k))
        h = number * scales
        if kind == "abramson_density":
            log_prior = -2.0 * np.log(scales)
    expected = normalised(-0.5 * (gaps(q, k) / h) ** 2 + log_prior)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("kind", WEIGHT_FAMILIES)
def test_middles_go_with_the_scale_of_the_keys(kind):
    q, k = sample(2)
    first, larger = weight_family(kind, q, k), weight_family(kind, 8.0 * q, 8.0 * k)
    # A multiple of a distance, and what is scaled to length 1, have no unit.
    ratio = 1.0 if kind in ("neighbors", "unit_norm") else 8.0
    assert larger.middle == pytest.approx(ratio * first.middle, rel=1e-12)
    np.testing.assert_allclose(
        larger.weights(larger.middle), first.weights(first.middle), rtol=1e-9, atol=1e-300
    )


def test_neighbours_make_bandwidths_of_the_size_of_the_rule_of_thumb():
    q, k = sample(3)
    found = weight_family("neighbors", q, k)
    distance = np.sort(gaps(q, k), axis=1)[:, 5]
    typical = np.exp(np.log(found.middle * distance).mean())
    assert typical == pytest.approx(pilot(k), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("best", np.eye(2), np.eye(2)), "kind must be one of"),
        (("fixed", np.ones(3), np.eye(2)), "q must have 2 axes"),
        (("fixed", np.eye(2), np.ones((1, 2))), "k must have at least 2 rows"),
        (("fixed", np.ones((2, 3)), np.eye(2)), "k must have as many columns as q, 3"),
        (("fixed", np.eye(2), np.ones((4, 2))), "k must vary"),
        (("abramson", 1e200 * np.eye(2), 1e200 * np.eye(2)), "k must vary, over a range"),
        (("abramson", 1e-200 * np.eye(2), 1e-200 * np.eye(2)), "k must vary, over a range"),
        (("unit_norm", np.eye(2), np.array([[1.0, 1.0], [2.0, 2.0]])), "k must vary"),
        (("unit_norm", np.zeros((2, 2)), np.eye(2)), "q must hold no zero vector"),
        (("fixed", [[np.nan]], [[0.0], [1.0]]), "q must be finite"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ParameterError, match=message):
        weight_family(*arguments)


@pytest.mark.parametrize("number", [0.0, -1.0, np.nan, np.inf, "1", None, 10**400, True])
@pytest.mark.parametrize("kind", WEIGHT_FAMILIES)
def test_a_number_that_is_none(kind, number):
    with pytest.raises(ParameterError, match="number must"):
        weight_family(kind, *sample(4)).weights(number)


def test_numbers_that_leave_the_range_of_bandwidths():
    for size, number in ((100.0, 1.7e308), (1e-3, 5e-324)):
        q, k = (size * array for array in sample(4))
        with pytest.raises(ParameterError, match="number must keep bandwidths within range"):
            weight_family("neighbors", q, k).weights(number)
