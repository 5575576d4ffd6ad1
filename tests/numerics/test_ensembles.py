"""Moments of an ensemble: compiled code against its interpreted twin and dense weights."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim.numerics.ensembles import ensemble_sums
from nwsim.numerics.tiles import GAUSSIAN, LAPLACE


def _arguments(rng, family, sizes, n, m):
    dim, n_heads = sum(sizes), len(sizes)
    return (
        rng.normal(size=(dim, n)),
        rng.normal(size=(m, dim)),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        rng.uniform(0.2, 2.0, n_heads),
        family,
        rng.uniform(0.1, 2.0, n),
        rng.normal(size=n),
        rng.uniform(0.0, 2.0, n),
        rng.dirichlet(np.ones(n_heads)),
        np.zeros((m, n_heads)),
        np.zeros((m, n_heads)),
        np.zeros(m),
    )


@pytest.mark.parametrize("family", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("sizes", [(1,), (2, 2), (1, 3, 2)])
@pytest.mark.parametrize(("n", "m"), [(1, 2), (7, 0), (600, 2)])
def test_twin_and_dense_weights(family, sizes, n, m):
    compiled = _arguments(np.random.default_rng(n + m + len(sizes)), family, sizes, n, m)
    twin = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in compiled)
    ensemble_sums(*compiled)
    ensemble_sums.py_func(*twin)
    for ours, other in zip(compiled[-3:], twin[-3:], strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-12, atol=1e-13)
    Z, Q, rows, h, _, prior, values, noise, a, mean, own, total = compiled
    W = np.empty((len(sizes), m, n))
    for k in range(len(sizes)):
        part = slice(rows[k], rows[k + 1])
        u = np.linalg.norm(Q[:, part, None] - Z[None, part], axis=1) / h[k]
        K = prior * np.exp(-u if family == LAPLACE else -0.5 * u**2)
        W[k] = K / K.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mean, (W @ values).T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(own, (W**2 @ noise).T, rtol=1e-10)
    np.testing.assert_allclose(total, np.einsum("h,hmi->mi", a, W) ** 2 @ noise, rtol=1e-10)


def test_far_queries_and_tiny_windows_give_the_nearest_point():
    arguments = _arguments(np.random.default_rng(0), GAUSSIAN, (2, 2), 30, 3)
    arguments[1][:] *= 1e3
    arguments[3][:] = 1e-4
    ensemble_sums(*arguments)
    Z, Q, values, mean = arguments[0], arguments[1], arguments[6], arguments[9]
    for k, part in enumerate((slice(0, 2), slice(2, 4))):
        nearest = np.argmin(((Q[:, part, None] - Z[None, part]) ** 2).sum(axis=1), axis=1)
        np.testing.assert_allclose(mean[:, k], values[nearest])


def test_nan_does_not_turn_into_a_number():
    arguments = _arguments(np.random.default_rng(1), GAUSSIAN, (1, 1), 9, 2)
    arguments[6][3] = np.nan
    ensemble_sums(*arguments)
    assert np.isnan(arguments[9]).all()
