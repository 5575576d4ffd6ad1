"""The worlds of claim H2, and queries that come from the design."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim.dgp import HEAD_WORLDS, head_mechanism, projected_mean
from nwsim.exceptions import ParameterError
from nwsim.heads import diversity_path

PATH = diversity_path(4, 10, 2)


@pytest.mark.parametrize("name", HEAD_WORLDS)
def test_draws_a_replicate_with_queries_of_the_design(name):
    data = head_mechanism(name, 10, PATH).draw(np.random.default_rng(1), 50, 2, 2000, None)
    design = head_mechanism(name, 10, PATH).design
    assert data.queries.shape == (2000, 10)
    np.testing.assert_allclose(
        np.cov(data.queries.T), design.covariance, atol=0.6 if name == "nongaussian" else 0.15
    )
    np.testing.assert_array_equal(data.truth, data.function(data.queries))


@pytest.mark.parametrize("name", HEAD_WORLDS)
def test_functions_have_standard_deviation_one_over_their_draw(name):
    # Half the mean squared difference between two points far apart, where constants cancel.
    # 800 draws leave a relative standard error below 8%; the bound is four of them, so a
    # false alarm is rarer than one in ten thousand.
    mechanism = head_mechanism(name, 10, PATH)
    rng = np.random.default_rng(2)
    X = np.stack([np.zeros(10), np.full(10, 30.0)])
    values = np.array([mechanism.world.draw(rng)(X) for _ in range(800)])
    half = 0.5 * np.mean(np.diff(values, axis=1) ** 2)
    assert half == pytest.approx(1.0, abs=0.3)


def test_the_index_lies_where_the_name_says():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 10))
    shared = head_mechanism("index_shared", 10, PATH).world.draw(rng)
    np.testing.assert_allclose(
        projected_mean(shared, PATH.shared, np.eye(10), X), shared(X), atol=1e-12
    )
    private = head_mechanism("index_private", 10, PATH).world.draw(rng)
    constant = projected_mean(private, PATH.shared, np.eye(10), X)
    np.testing.assert_allclose(constant, constant[0], atol=1e-12)
    spans = np.hstack(list(PATH.private))
    np.testing.assert_allclose(
        projected_mean(private, spans, np.eye(10), X), private(X), atol=1e-12
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("flat", 10, PATH), "name"),
        (("index_shared", 10), "path"),
        (("index_private", 8, PATH), "path"),
        (("isotropic", 1), "dim"),
    ],
)
def test_names_what_is_wrong(arguments, named):
    with pytest.raises(ParameterError, match=named):
        head_mechanism(*arguments)


def test_noise_must_be_positive():
    with pytest.raises(ParameterError, match="noise"):
        head_mechanism("isotropic", 4, noise=0.0)


def test_a_function_and_queries_may_be_given():
    mechanism = head_mechanism("isotropic", 4)
    function = mechanism.world.draw(np.random.default_rng(1))
    queries = np.random.default_rng(2).standard_normal((5, 4))
    draws = [
        mechanism.draw(
            np.random.default_rng(seed), 20, 2, 5, None, function=function, queries=queries
        )
        for seed in (3, 4)
    ]
    for data in draws:
        np.testing.assert_array_equal(data.queries, queries)
        np.testing.assert_array_equal(data.truth, function(queries))
    assert not np.array_equal(draws[0].samples[0].X, draws[1].samples[0].X)
    # What is given does not move what is drawn.
    free = mechanism.draw(np.random.default_rng(3), 20, 2, 5, None)
    np.testing.assert_array_equal(free.samples[1].X, draws[0].samples[1].X)
    noise = [data.responses(0) - data.samples[0].f for data in (free, draws[0])]
    np.testing.assert_allclose(*noise, atol=1e-12)


def test_what_is_given_must_fit():
    mechanism = head_mechanism("isotropic", 4)
    other = head_mechanism("isotropic", 3).world.draw(np.random.default_rng(1))
    rng = np.random.default_rng(1)
    with pytest.raises(ParameterError, match="function must be a RegressionFunction of dim 4"):
        mechanism.draw(rng, 20, 2, 5, None, function=other)
    with pytest.raises(ParameterError, match="queries must have n_queries = 5"):
        mechanism.draw(rng, 20, 2, 5, None, queries=np.zeros((4, 4)))
    with pytest.raises(ParameterError, match="queries"):
        mechanism.draw(rng, 20, 2, 5, None, queries=np.zeros((5, 3)))
