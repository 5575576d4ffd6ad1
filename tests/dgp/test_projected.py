"""The mean of a function given a projection: quadrature, identities, bad input."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from nwsim.dgp import make_world, projected_errors, projected_mean
from nwsim.exceptions import ParameterError
from nwsim.heads import random_frames

WORLDS = {
    "matern": make_world("matern", alpha=2.5, dim=3, length_scale=3.0, highest=0.6, n_features=32),
    "analytic": make_world("analytic", alpha=2.0, dim=3, lowest=0.05, highest=0.3),
    "additive": make_world(
        "additive",
        alpha=2.0,
        dim=3,
        inner="analytic",
        inner_options={"lowest": 0.1, "highest": 0.3},
    ),
    "single_index": make_world(
        "single_index",
        alpha=2.0,
        dim=3,
        inner="analytic",
        inner_options={"lowest": 0.1, "highest": 0.3},
    ),
}
COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 0.7]])


def by_quadrature(function, frame, covariance, x):
    """Integrate f over the normal law of the rest by Gauss-Hermite, 60 nodes an axis."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / math.sqrt(2.0 * math.pi)
    M = covariance @ frame @ np.linalg.inv(frame.T @ covariance @ frame) @ frame.T
    values, vectors = np.linalg.eigh(covariance - M @ covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    root = root[:, values > 1e-12]
    axes = np.meshgrid(*[nodes] * root.shape[1], indexing="ij")
    mass = np.ones(1)
    for _ in range(root.shape[1]):
        mass = np.multiply.outer(mass, weights).ravel()
    grid = np.stack([a.ravel() for a in axes], axis=1)
    return float(mass @ function(M @ x + grid @ root.T))


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("d_k", [1, 2])
def test_equals_quadrature_over_the_rest(name, d_k):
    # 60 nodes follow waves of up to 4 radians a standard deviation to rounding.
    rng = np.random.default_rng(5)
    function = WORLDS[name].draw(rng)
    frame = random_frames(1, 3, d_k, rng)[0]
    X = rng.standard_normal((3, 3))
    found = projected_mean(function, frame, COVARIANCE, X)
    expected = [by_quadrature(function, frame, COVARIANCE, x) for x in X]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_a_full_frame_gives_the_function_itself(name):
    rng = np.random.default_rng(6)
    function = WORLDS[name].draw(rng)
    X = rng.standard_normal((5, 3))
    frame = rng.standard_normal((3, 3))
    np.testing.assert_allclose(
        projected_mean(function, frame, COVARIANCE, X), function(X), atol=1e-9
    )


def test_depends_on_the_range_of_the_frame_alone():
    rng = np.random.default_rng(7)
    function = WORLDS["matern"].draw(rng)
    frame = rng.standard_normal((3, 2))
    X = rng.standard_normal((5, 3))
    np.testing.assert_allclose(
        projected_mean(function, frame @ np.array([[2.0, 1.0], [0.0, 3.0]]), COVARIANCE, X),
        projected_mean(function, frame, COVARIANCE, X),
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"frame": np.ones((2, 1))}, "frame"),
        ({"frame": np.ones((3, 2))}, "frame"),
        ({"frame": np.full((3, 1), np.nan)}, "frame"),
        ({"covariance": np.eye(2)}, "covariance"),
        ({"covariance": -np.eye(3)}, "covariance"),
        ({"covariance": np.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]])}, "covariance"),
        ({"X": np.ones((4, 2))}, "X"),
        ({"function": make_world("c2", dim=3).draw(np.random.default_rng(0))}, "function"),
    ],
)
def test_names_what_is_wrong(change, named):
    arguments = {
        "function": WORLDS["matern"].draw(np.random.default_rng(0)),
        "frame": np.eye(3)[:, :1],
        "covariance": np.eye(3),
        "X": np.zeros((2, 3)),
        **change,
    }
    with pytest.raises(ParameterError, match=named):
        projected_mean(**arguments)


def test_a_copy_of_a_function_is_the_same_function():
    rng = np.random.default_rng(6)
    function = WORLDS["matern"].draw(rng)
    frame, X = random_frames(1, 3, 1, rng)[0], rng.standard_normal((2, 3))
    copied = pickle.loads(pickle.dumps(function))
    np.testing.assert_array_equal(
        projected_mean(copied, frame, COVARIANCE, X), projected_mean(function, frame, COVARIANCE, X)
    )


def test_errors_of_heads_are_means_less_the_function():
    rng = np.random.default_rng(8)
    function = WORLDS["additive"].draw(rng)
    frames, X = random_frames(3, 3, 1, rng), rng.standard_normal((4, 3))
    errors = projected_errors(function, frames, COVARIANCE, X)
    assert errors.shape == (4, 3)
    for k in range(3):
        expected = projected_mean(function, frames[k], COVARIANCE, X) - function(X)
        np.testing.assert_array_equal(errors[:, k], expected)
    with pytest.raises(ParameterError, match="frames"):
        projected_errors(function, [], COVARIANCE, X)


@pytest.mark.parametrize("angle", [1e-2, 1e-4, 1e-6])
def test_nearly_parallel_columns_lose_no_digits_beyond_their_angle(angle):
    function = WORLDS["analytic"].draw(np.random.default_rng(9))
    X = np.random.default_rng(10).standard_normal((4, 3))
    plane = np.eye(3)[:, :2]
    skewed = np.column_stack(
        [plane[:, 0], np.cos(angle) * plane[:, 0] + np.sin(angle) * plane[:, 1]]
    )
    np.testing.assert_allclose(
        projected_mean(function, skewed, COVARIANCE, X),
        projected_mean(function, plane, COVARIANCE, X),
        atol=1e-14 / angle,
    )
    np.testing.assert_allclose(
        projected_mean(function, plane * [1.0, 1e-20], COVARIANCE, X),
        projected_mean(function, plane, COVARIANCE, X),
        atol=1e-12,
    )


def test_what_is_no_function_is_refused():
    with pytest.raises(ParameterError, match="function must be a sum"):
        projected_mean(np.sin, np.eye(3)[:, :1], np.eye(3), np.zeros((1, 3)))
