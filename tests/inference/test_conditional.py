"""Conditional moments, and the agreement of the conditional and the plain route."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

from nwsim.exceptions import ParameterError
from nwsim.inference import (
    ConditionalMoments,
    conditional_moments,
    decompose,
    decompose_conditional,
    design_moments,
)
from nwsim.smoothing import NadarayaWatson


class Design(NamedTuple):
    X: np.ndarray
    f: np.ndarray
    noise_variance: np.ndarray


@dataclass
class TwoHeads:
    """Gaussian smoothing on each of two coordinates: the slow, obvious kind."""

    X: np.ndarray
    bandwidth: float = 0.3
    bandwidth_uses_y: bool = False
    seen: dict = field(default_factory=dict)

    def weights(self, X_query):
        scaled = (X_query[None, :, None, :] - self.X[None, None, :, :]) / self.bandwidth
        kernel = np.exp(-0.5 * np.moveaxis(scaled, 3, 0)[:, 0] ** 2)
        return kernel / kernel.sum(axis=2, keepdims=True)  # (H, m, n)

    def head_moments(self, X_query, values, noise_variance):
        self.seen = {"values": values, "noise_variance": noise_variance}
        w = self.weights(X_query)
        mean = np.einsum("hmi,ip->mhp", w, values)
        return mean, np.einsum("hmi,kmi,i->mhk", w, w, noise_variance), 3


def target(X):
    return np.sin(3.0 * X[:, 0]) + X[:, 1]


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(0).uniform(size=(5, 2))


def test_moments_are_those_of_the_weights(queries):
    X = np.random.default_rng(1).uniform(size=(20, 2))
    variances = np.linspace(0.1, 2.0, 20)
    smoother = TwoHeads(X)
    found = conditional_moments(smoother, queries, target(X), target(queries), variances)
    w = smoother.weights(queries)
    assert found.mean == pytest.approx((w @ target(X)).T)
    assert found.bias == pytest.approx(found.mean - target(queries)[:, None])
    assert found.noise_covariance.shape == (5, 2, 2)
    assert found.noise_covariance[:, 0, 1] == pytest.approx((w[0] * w[1]) @ variances)
    assert found.n_empty == 3
    assert smoother.seen["values"].shape == (20, 1)


def test_a_scalar_noise_variance_is_the_same_for_all(queries):
    X = np.random.default_rng(1).uniform(size=(20, 2))
    scalar, vector = (
        conditional_moments(TwoHeads(X), queries, target(X), target(queries), noise)
        for noise in (0.25, np.full(20, 0.25))
    )
    assert np.array_equal(scalar.noise_covariance, vector.noise_covariance)


def both_routes(queries, factor=1.0, n_designs=400):
    """Decompose over random designs with exact noise moments, and with drawn noise."""
    rng = np.random.default_rng(12)
    means, covariances, plain = [], [], []
    for _ in range(n_designs):
        X = rng.uniform(size=(30, 2))
        smoother = TwoHeads(X)
        found = conditional_moments(smoother, queries, target(X), target(queries), 0.25 * factor)
        means.append(found.mean)
        covariances.append(found.noise_covariance)
        plain.append((smoother.weights(queries) @ (target(X) + 0.5 * rng.normal(size=30))).T)
    truth = target(queries)
    return (
        decompose(means, truth, noise_covariance=covariances),
        decompose(plain, truth),
    )


def z_scores(conditional, plain):
    names = ("bias2", "variance", "head_covariance", "mse")
    return [
        abs(getattr(conditional, name) - getattr(plain, name))
        / math.hypot(getattr(conditional, f"{name}_mcse"), getattr(plain, f"{name}_mcse"))
        for name in names
    ]


def test_both_routes_agree_and_the_conditional_one_is_more_precise(queries):
    # Four scores below 4: false alarm below 3e-4. They share designs, so that the true level
    # is lower still; the negative control below shows what a wrong noise variance does.
    conditional, plain = both_routes(queries)
    assert max(z_scores(conditional, plain)) < 4
    for name in ("bias2", "variance", "head_covariance", "mse"):
        assert getattr(conditional, f"{name}_mcse") < getattr(plain, f"{name}_mcse")


def test_routes_with_different_noise_are_told_apart(queries):
    assert max(z_scores(*both_routes(queries, factor=2.0))) > 4


def test_a_bandwidth_chosen_on_the_responses_is_refused(queries):
    X = np.random.default_rng(1).uniform(size=(20, 2))
    smoother = TwoHeads(X, bandwidth_uses_y=True)
    with pytest.raises(ParameterError, match="bandwidth"):
        conditional_moments(smoother, queries, target(X), target(queries), 1.0)


def test_an_unfitted_or_foreign_estimator_is_named(queries):
    with pytest.raises(ParameterError, match="estimator"):
        conditional_moments(object(), queries, np.zeros(3), np.zeros(5), 1.0)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"noise_variance": math.nan}, "noise_variance"),
        ({"noise_variance": "large"}, "noise_variance"),
        ({"noise_variance": np.ones(19)}, "noise_variance"),
        ({"noise_variance": -np.ones(20)}, "noise_variance"),
        ({"noise_variance": np.ones((20, 1))}, "noise_variance"),
        ({"f_train": np.full(20, math.nan)}, "f_train"),
        ({"f_train": np.zeros((20, 1))}, "f_train"),
        ({"f_query": np.zeros(4)}, "f_query"),
        ({"X_query": np.zeros((0, 2))}, "X_query"),
    ],
)
def test_bad_input_is_named(queries, change, name):
    X = np.random.default_rng(1).uniform(size=(20, 2))
    arguments = {
        "X_query": queries,
        "f_train": target(X),
        "f_query": target(queries),
        "noise_variance": 1.0,
    }
    with pytest.raises(ParameterError, match=name):
        conditional_moments(TwoHeads(X), **(arguments | change))


def test_designs_decompose_as_their_stacked_moments():
    rng = np.random.default_rng(3)
    moments = [
        ConditionalMoments(
            mean=rng.normal(size=(5, 2)),
            bias=np.zeros((5, 2)),
            noise_covariance=np.tile(np.eye(2), (5, 1, 1)) * scale,
            n_empty=0,
        )
        for scale in (1.0, 2.0, 3.0)
    ]
    truth, weights = rng.normal(size=5), [0.3, 0.7]
    ours = decompose_conditional(moments, truth, head_weights=weights)
    expected = decompose(
        np.stack([m.mean for m in moments]),
        truth,
        weights,
        np.stack([m.noise_covariance for m in moments]),
    )
    assert ours == expected
    with pytest.raises(ParameterError, match="per_design must hold"):
        decompose_conditional([], truth)


def test_moments_over_designs_are_those_of_each():
    rng = np.random.default_rng(9)
    samples = [Design(*(rng.random((20, 1)), rng.random(20), rng.random(20))) for _ in range(3)]
    queries, truth = rng.random((4, 1)), rng.random(4)
    found = design_moments(NadarayaWatson(0.3).fit, samples, queries, truth)
    for sample, one in zip(samples, found, strict=True):
        model = NadarayaWatson(0.3).fit(sample.X, sample.f)
        alone = conditional_moments(model, queries, sample.f, truth, sample.noise_variance)
        np.testing.assert_array_equal(one.mean, alone.mean)
        np.testing.assert_array_equal(one.noise_covariance, alone.noise_covariance)
    with pytest.raises(ParameterError, match="bandwidth"):
        design_moments(lambda X, y: TwoHeads(X, bandwidth_uses_y=True), samples, queries, truth)
