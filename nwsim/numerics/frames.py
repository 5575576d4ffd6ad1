"""Risk of an ensemble of Gaussian heads, and how it moves with the heads' projections."""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    FLAG,
    MATRIX,
    NOTHING,
    OUT_STACK,
    OUT_VECTOR,
    REAL,
    VECTOR,
    compiled,
)
from nwsim.numerics.exponential import LOG2_E, exp2_nonpositive
from nwsim.numerics.tiles import inner, product, squared_inner


@compiled(NOTHING(VECTOR, REAL, OUT_VECTOR))
def differences(x, q, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with q - x_i."""
    for i in range(x.shape[0]):
        out[i] = q - x[i]


@compiled(NOTHING(VECTOR, OUT_VECTOR))
def add_own_squares(t, out):  # type: ignore[no-untyped-def]
    """Add t_i^2 to ``out``."""
    for i in range(t.shape[0]):
        out[i] = out[i] + t[i] * t[i]


@compiled(NOTHING(REAL, VECTOR, OUT_VECTOR))
def add_scaled(factor, x, out):  # type: ignore[no-untyped-def]
    """Add ``factor`` times x_i to ``out``."""
    for i in range(x.shape[0]):
        out[i] = out[i] + factor * x[i]


@compiled(NOTHING(OUT_VECTOR, REAL))
def normal_weights(v, rate):  # type: ignore[no-untyped-def]
    """Turn squared distances into weights that sum to one, ``w_i ~ exp(-rate v_i)``.

    Exponents are taken from the largest one, so the nearest point always has a weight.
    """
    nearest = v[0]
    for i in range(v.shape[0]):
        nearest = min(nearest, v[i])
    total = 0.0
    rate = rate * LOG2_E
    for i in range(v.shape[0]):
        v[i] = exp2_nonpositive(rate * (nearest - v[i]))
        total += v[i]
    scale = 1.0 / total
    for i in range(v.shape[0]):
        v[i] = v[i] * scale


@compiled(NOTHING(REAL, VECTOR, VECTOR, VECTOR, OUT_VECTOR))
def slopes_in_weights(error, f, noise, joint, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the derivatives of a query's risk in the ensemble's weights, halved."""
    for i in range(f.shape[0]):
        out[i] = error * f[i] + noise[i] * joint[i]


@compiled(NOTHING(VECTOR, VECTOR, REAL, OUT_VECTOR))
def centred_product(w, c, mean, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with w_i (c_i - mean)."""
    for i in range(w.shape[0]):
        out[i] = w[i] * (c[i] - mean)


@compiled(
    NOTHING(
        MATRIX, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, FLAG,
        OUT_VECTOR, OUT_STACK,
    )
)  # fmt: skip
def ensemble_risk(  # type: ignore[no-untyped-def]
    X, Z, queries, projected, f, truth, noise, bandwidth, weights, with_gradient, risk, gradient
):
    """Fill in the risk of every query and add up its gradient in the projections.

    Query j receives ``risk[j]`` = e^2 + sum_i noise_i u_i^2 with u_i = sum_k weights_k w_ki
    and e = sum_i u_i f_i - truth_j, where w_ki is the normalised Gaussian weight of head k.
    ``gradient[k]`` gains the sum over queries of d risk / d P_k; it starts at what it holds.

    Parameters
    ----------
    X : (d, n) the sample; Z : (H d_k, n) the same, projected, head after head
    queries : (m, d); projected : (m, H d_k)
    f, noise : (n,) function and noise variance at the sample; truth : (m,)
    bandwidth, weights : (H,)
    risk : (m,); gradient : (H, d, d_k)

    Notes
    -----
    Memory is O((H d_k + d) n): nothing is kept from one query to the next.
    """
    d, n = X.shape
    n_heads, _, d_k = gradient.shape
    w = np.empty((n_heads, n))
    t = np.empty((n_heads * d_k, n))
    away = np.empty((d, n))
    joint = np.empty(n)
    c = np.empty(n)
    g = np.empty(n)
    for j in range(queries.shape[0]):
        joint[:] = 0.0
        for k in range(n_heads):
            w[k, :] = 0.0
            for b in range(k * d_k, (k + 1) * d_k):
                differences(Z[b], projected[j, b], t[b])
                add_own_squares(t[b], w[k])
            normal_weights(w[k], 0.5 / (bandwidth[k] * bandwidth[k]))
            add_scaled(weights[k], w[k], joint)
        error = inner(joint, f) - truth[j]
        risk[j] = error * error + squared_inner(joint, noise)
        if not with_gradient:
            continue
        for a in range(d):
            differences(X[a], queries[j, a], away[a])
        slopes_in_weights(error, f, noise, joint, c)
        for k in range(n_heads):
            # d risk / d log w_ki, and log w_ki falls by |P_k'(x - X_i)|^2 / (2 h^2).
            centred_product(w[k], c, inner(w[k], c), g)
            factor = -2.0 * weights[k] / (bandwidth[k] * bandwidth[k])
            for b in range(d_k):
                product(g, t[k * d_k + b], w[k])
                for a in range(d):
                    gradient[k, a, b] += factor * inner(w[k], away[a])
