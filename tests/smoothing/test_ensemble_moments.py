"""Moments of an ensemble against those of all its heads."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim import MultiHeadNadarayaWatson
from nwsim.exceptions import ParameterError
from nwsim.heads import random_frames

N, DIM = 90, 6


def _model(kernel="gaussian", h=0.4, **options):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(N, DIM)), rng.normal(size=N)
    prior = np.where(rng.random(N) < 0.2, 0.0, rng.uniform(0.1, 2.0, N))
    frames = random_frames(3, DIM, [1, 2, 3], rng)
    model = MultiHeadNadarayaWatson(frames, h, kernel, head_weights=[0.2, 0.3, 0.5], **options)
    return model.fit(X, y, sample_weight=prior), rng.normal(size=(8, DIM)), y, rng.random(N)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("h", [1e-3, 0.4, 3.0])
def test_same_numbers_as_from_the_covariance_of_the_heads(kernel, h):
    model, Q, y, s2 = _model(kernel, h)
    Q[0] = 50.0  # far away, where weights underflow
    mean, covariance, _ = model.head_moments(Q, y, s2)
    found = model.ensemble_moments(Q, y, s2)
    a = model.head_weights_
    np.testing.assert_allclose(found.heads, mean[:, :, 0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.own_noise, np.einsum("mkk->mk", covariance), rtol=1e-10)
    np.testing.assert_allclose(found.noise, np.einsum("mkl,k,l->m", covariance, a, a), rtol=1e-10)


def test_another_bandwidth_is_that_of_another_fit():
    model, Q, y, s2 = _model(h=0.4)
    for h in (0.9, [0.3, 0.5, 1.1]):
        again = _model(h=h)[0].ensemble_moments(Q, y, s2)
        for ours, theirs in zip(model.ensemble_moments(Q, y, s2, h), again, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert np.all(model.bandwidth_ == 0.4)


def test_bad_input_is_named():
    model, Q, y, _ = _model("epanechnikov")
    with pytest.raises(ParameterError, match="kernel must be 'gaussian' or 'laplace'"):
        model.ensemble_moments(Q, y, 1.0)
    with pytest.raises(ParameterError, match="kernel"):
        _model("gaussian4")[0].ensemble_moments(Q, y, 1.0)
    model = _model()[0]
    with pytest.raises(ParameterError, match="values must be one column"):
        model.ensemble_moments(Q, np.column_stack([y, y]), 1.0)
    with pytest.raises(ParameterError, match="bandwidth must be a positive number or 3"):
        model.ensemble_moments(Q, y, 1.0, bandwidth=[1.0, 2.0])
    with pytest.raises(ParameterError, match="noise_variance"):
        model.ensemble_moments(Q, y, np.ones(3))


def test_a_bandwidth_that_leaves_the_range_of_floats_is_refused():
    rng = np.random.default_rng(4)
    model = MultiHeadNadarayaWatson(np.eye(2)[None]).fit(
        rng.normal(size=(5, 2)), rng.normal(size=5)
    )
    with pytest.raises(ParameterError, match="bandwidth is so small"):
        model.ensemble_moments(rng.normal(size=(3, 2)), np.ones(5), 1.0, bandwidth=1e-160)
