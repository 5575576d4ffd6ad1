"""Moments of an ensemble of heads without the covariance between every two of them."""

from __future__ import annotations

import numpy as np
from numba.core import types

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
from nwsim.numerics.tiles import GAUSSIAN, TILE, kernel_values, squared_inner

TRIPLE = types.UniTuple(types.float64, 3)


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def add_scaled_squares(x, q, per_h, out):  # type: ignore[no-untyped-def]
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


@compiled(TRIPLE(OUT_VECTOR, VECTOR, VECTOR, VECTOR))
def weigh(w, prior, values, noise):  # type: ignore[no-untyped-def]
    """Multiply ``w`` by ``prior``; return the sums of w, w values and w^2 noise."""
    mass = 0.0
    cross = 0.0
    square = 0.0
    for i in range(w.shape[0]):
        weight = w[i] * prior[i]
        w[i] = weight
        mass += weight
        cross += weight * values[i]
        square += weight * weight * noise[i]
    return mass, cross, square


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
    one = np.ones(1)
    v = np.empty(n)
    w = np.empty(n)
    together = np.empty(n)
    for j in range(Q.shape[0]):
        together[:] = 0.0
        for h in range(rows.shape[0] - 1):
            per_h = 1.0 / bandwidth[h]
            nearest = np.inf
            for start in range(0, n, TILE):
                stop = min(start + TILE, n)
                v[start:stop] = 0.0
                for a in range(rows[h], rows[h + 1]):
                    add_scaled_squares(Z[a, start:stop], Q[j, a], per_h, v[start:stop])
                nearest = min(nearest, least(v[start:stop]))
            # The nearest point's kernel value becomes 1: sums neither vanish nor overflow.
            shift = 0.5 * nearest if family == GAUSSIAN else np.sqrt(nearest)
            mass = 0.0
            cross = 0.0
            square = 0.0
            for start in range(0, n, TILE):
                stop = min(start + TILE, n)
                part = w[start:stop]
                kernel_values(family, 0, 0, one, v[start:stop], shift, stop - start, part)
                sums = weigh(part, prior[start:stop], values[start:stop], noise[start:stop])
                mass += sums[0]
                cross += sums[1]
                square += sums[2]
            mean[j, h] = cross / mass
            own_noise[j, h] = square / mass / mass
            add_multiple(w, head_weights[h] / mass, together)
        noise_of_mean[j] = squared_inner(together, noise)
