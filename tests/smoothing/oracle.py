"""A slow, obvious smoother: dense weights in plain numpy, for tests alone."""

from __future__ import annotations

import numpy as np

from nwsim.smoothing import get_kernel


def dense_weights(X, Q, bandwidth, kernel, prior=None):
    """Return prior_i K((q - x_i) / h) as an (m, n) matrix."""
    u2 = np.sum(((Q[:, None, :] - X[None, :, :]) / bandwidth) ** 2, axis=-1)
    weights = get_kernel(kernel)(np.sqrt(u2), X.shape[1])
    return weights if prior is None else weights * prior


def local_constant(X, y, Q, bandwidth, kernel, prior=None):
    weights = dense_weights(X, Q, bandwidth, kernel, prior)
    return weights @ y / weights.sum(axis=1)


def local_linear(X, y, Q, bandwidth, kernel, prior=None):
    weights = dense_weights(X, Q, bandwidth, kernel, prior)
    fitted = np.empty(Q.shape[0])
    for j, q in enumerate(Q):
        design = np.column_stack([np.ones(len(X)), X - q])
        gram = design.T @ (weights[j][:, None] * design)
        fitted[j] = np.linalg.solve(gram, design.T @ (weights[j] * y))[0]
    return fitted
