"""What single families promise: amplitudes, covariances, supports, structure.

Statistical tests here use a bound of 5 standard errors: a false-alarm rate below 1e-6
for each, at fixed seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from nwsim.dgp import make_world
from tests.dgp.cases import draw


def z_score(sample, expected):
    return abs(np.mean(sample) - expected) / (np.std(sample, ddof=1) / math.sqrt(len(sample)))


def mean_squares(world, n_sim=1500):
    rng = np.random.default_rng(11)
    return np.array(
        [np.mean(world.draw(rng)(rng.random((8, world.dim))) ** 2) for _ in range(n_sim)]
    )


@pytest.mark.parametrize("name", ["lacunary", "takagi", "matern", "analytic", "c2", "c11"])
@pytest.mark.parametrize("dim", [1, 2])
def test_amplitude_is_the_standard_deviation_over_the_draw(name, dim):
    sample = mean_squares(make_world(name, dim=dim, amplitude=1.5))
    # The Matérn share is normalised on the midpoints of its strata: within 1%.
    assert z_score(sample, 2.25) < (7.0 if name == "matern" else 5.0)
    assert z_score(sample, 1.2 * 2.25) > 5.0


@pytest.mark.parametrize("dim", [1, 2])
def test_matern_one_half_has_the_exponential_covariance(dim):
    world = make_world("matern", alpha=0.5, dim=dim, length_scale=0.2)
    rng = np.random.default_rng(12)
    lag = np.zeros(dim)
    lag[0] = 0.15
    products = []
    for _ in range(1500):
        function, X = world.draw(rng), 3.0 * rng.random((16, dim))
        products.append(np.mean(function(X) * function(X + lag)))
    assert z_score(products, math.exp(-0.75)) < 5.0
    assert z_score(products, 1.25 * math.exp(-0.75)) > 5.0


def test_lacunary_options_shape_the_spectrum():
    world = make_world("lacunary", dim=2, base=2.0, lowest=0.5, highest=2.0**20)
    function = draw(world)
    norms = np.linalg.norm(function.frequencies, axis=1)
    assert world.n_terms == len(norms) == 21
    assert 0.5 <= norms[0] <= 1.0
    assert norms[-1] <= 2.0**20
    np.testing.assert_allclose(norms[1:] / norms[:-1], 2.0)
    np.testing.assert_allclose(
        function.weights * norms**world.alpha, function.weights[0] * norms[0] ** world.alpha
    )


def test_random_scale_differs_between_functions():
    world = make_world("lacunary")
    rng = np.random.default_rng(13)
    scales = [abs(world.draw(rng).frequencies[0, 0]) for _ in range(50)]
    assert len(set(scales)) == 50
    assert max(scales) / min(scales) > 1.3


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_torus_wave_vectors_are_whole_and_not_zero(dim):
    for seed in range(20):
        function = draw(make_world("lacunary", dim=dim, domain="torus"), seed)
        np.testing.assert_array_equal(function.frequencies, np.rint(function.frequencies))
        assert function.frequencies.any(axis=1).all()


@pytest.mark.parametrize("domain", ["cube", "torus"])
def test_bumps_are_symmetric_disjoint_and_of_random_sign(domain):
    world = make_world("bumps", alpha=0.5, dim=2, domain=domain, scale=0.1, amplitude=3.0)
    function = draw(world)
    middles = (
        np.stack(np.meshgrid(*[np.arange(10)] * 2, indexing="ij"), -1).reshape(-1, 2) + 0.5
    ) / 10
    tops = function(middles)
    np.testing.assert_allclose(np.abs(tops), 3.0 * 0.1**0.5)
    assert 25 < (tops > 0).sum() < 75
    np.testing.assert_allclose(function(middles + 0.05), 0.0, atol=1e-12)
    outside = function(np.array([[1.05, 0.45], [-0.05, 0.45]]))
    assert (outside == 0.0).all() == (domain == "cube")


def test_additive_is_a_sum_of_centred_functions_of_single_coordinates():
    for inner, tolerance in (("analytic", 1e-12), ("takagi", 1e-3), ("c2", 1e-6)):
        for domain in ("cube", "torus"):
            world = make_world("additive", alpha=1.0, dim=3, domain=domain, inner=inner)
            function = draw(world)
            grid = (np.arange(2**14) + 0.5) / 2**14
            base = np.full((2**14, 3), 0.3)
            for j in range(3):
                X = base.copy()
                X[:, j] = grid
                rest = sum(
                    function.parts[k](np.array([0.3]))[0] - function.means[k]
                    for k in range(3)
                    if k != j
                )
                assert np.mean(function(X) - rest) == pytest.approx(0.0, abs=max(tolerance, 1e-6))


def test_single_index_is_constant_across_its_direction():
    world = make_world("single_index", dim=3, direction=(2.0, -1.0, 0.0))
    function = draw(world)
    np.testing.assert_allclose(np.linalg.norm(function.direction), 1.0)
    X = np.random.default_rng(14).random((50, 3))
    across = np.array([1.0, 2.0, 5.0]) * 0.125
    # The index of X and of X + across differ in the last bit only; f is rough.
    np.testing.assert_allclose(function(X + across), function(X), atol=1e-5)
    assert np.abs(function(X + np.array([0.1, 0.0, 0.0])) - function(X)).max() > 0.01
    random = [draw(make_world("single_index", dim=3), seed).direction for seed in range(3)]
    assert not np.allclose(random[0], random[1])


def test_world_options_reach_the_inner_world():
    options = {"base": 2.0, "highest": 64.0}
    world = make_world("additive", dim=2, inner_options=options)
    assert world.inner_world.base == 2.0
    assert len(draw(world).parts[0].weights) == 8
    assert hash(world) == hash(make_world("additive", dim=2, inner_options=options))
