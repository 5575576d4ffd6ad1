"""Moments of an ensemble of heads without the covariance between every two of them."""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_MATRIX,
    OUT_VECTOR,
    REAL,
    VECTOR,
    compiled,
)
from nwsim.numerics.tiles import (
    GAUSSIAN,
    TILE,
    inner,
    kernel_values,
    scale,
    squared_inner,
    total,
)


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def add_squares(x, q, per_h, out):  # type: ignore[no-untyped-def]
    """Add ((q - x_i) per_h)^2 to ``out``."""
    for i in range(x.shape[0]):
        u = (q - x[i]) * per_h
        out[i] += u * u


@compiled(REAL(VECTOR))
def least(v):  # type: ignore[no-untyped-def]
    """Return the least v_i."""
    found = np.inf
    for i in range(v.shape[0]):
        found = min(found, v[i])
    return found


@compiled(NOTHING(VECTOR, REAL, OUT_VECTOR))
def add_multiple(w, factor, out):  # type: ignore[no-untyped-def]
    """Add factor w_i to ``out``."""
    for i in range(w.shape[0]):
        out[i] += factor * w[i]


@compiled(
    NOTHING(
        MATRIX, MATRIX, INDICES, VECTOR, INTEGER, VECTOR, VECTOR, VECTOR, VECTOR,
        OUT_MATRIX, OUT_MATRIX, OUT_VECTOR,
    )
)  # fmt: skip
def ensemble_sums(  # type: ignore[no-untyped-def]
    Z,
    Q,
    rows,
    bandwidth,
    family,
    prior,
    values,
    noise,
    head_weights,
    mean,
    own_noise,
    noise_of_mean,
):
    """Smooth with every head and add up the noise of their weighted mean.

    With normalised weights w_h,i query j receives ``mean[j, h]`` = sum_i w_h,i values_i,
    ``own_noise[j, h]`` = sum_i noise_i w_h,i^2 and, with the head weights a,
    ``noise_of_mean[j]`` = sum_i noise_i (sum_h a_h w_h,i)^2. The last needs O(H n) operations
    a query, where the covariance of every two heads needs O(H^2 n).

    Parameters
    ----------
    Z : (D, n) the projected sample, the coordinates of one head after those of another
    Q : (m, D) the projected queries
    rows : (H + 1,) coordinates ``rows[h]:rows[h + 1]`` belong to head h
    bandwidth : (H,)
    family : GAUSSIAN or LAPLACE, without a polynomial
    prior : (n,) positive; values, noise : (n,); head_weights : (H,)
    mean, own_noise : (m, H) and noise_of_mean : (m,) zeros, filled here
    """
    n = Z.shape[1]
    n_heads = rows.shape[0] - 1
    one = np.ones(1)
    weights = np.empty((n_heads, n))
    v = np.empty(n)
    share = np.empty(n_heads)
    combined = np.empty(TILE)
    for j in range(Q.shape[0]):
        for h in range(n_heads):
            per_h = 1.0 / bandwidth[h]
            nearest = np.inf
            for start in range(0, n, TILE):
                stop = min(start + TILE, n)
                v[start:stop] = 0.0
                for a in range(rows[h], rows[h + 1]):
                    add_squares(Z[a, start:stop], Q[j, a], per_h, v[start:stop])
                nearest = min(nearest, least(v[start:stop]))
            # The nearest point's kernel value becomes 1: sums neither vanish nor overflow.
            shift = 0.5 * nearest if family == GAUSSIAN else np.sqrt(nearest)
            mass = 0.0
            cross = 0.0
            square = 0.0
            for start in range(0, n, TILE):
                stop = min(start + TILE, n)
                w = weights[h, start:stop]
                kernel_values(family, 0, 0, one, v[start:stop], shift, stop - start, w)
                scale(w, prior[start:stop])
                mass += total(w)
                cross += inner(w, values[start:stop])
                square += squared_inner(w, noise[start:stop])
            mean[j, h] = cross / mass
            own_noise[j, h] = square / mass / mass
            share[h] = head_weights[h] / mass
        for start in range(0, n, TILE):
            stop = min(start + TILE, n)
            together = combined[: stop - start]
            together[:] = 0.0
            for h in range(n_heads):
                add_multiple(weights[h, start:stop], share[h], together)
            noise_of_mean[j] += squared_inner(together, noise[start:stop])
