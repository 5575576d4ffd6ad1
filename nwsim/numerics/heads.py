"""Moment sums of many heads in one pass over the sample."""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_MATRIX,
    OUT_STACK,
    VECTOR,
    compiled,
)
from nwsim.numerics.tiles import (
    COMPACT,
    TILE,
    absolute_total,
    add_squared_distances,
    inner,
    kernel_values,
    scale,
    total,
)


@compiled(
    NOTHING(
        MATRIX, MATRIX, INDICES, VECTOR, INTEGER, INTEGER, INTEGER, MATRIX, VECTOR, MATRIX,
        VECTOR, OUT_MATRIX, OUT_MATRIX, OUT_STACK, OUT_STACK,
    )
)  # fmt: skip
def head_sums(  # type: ignore[no-untyped-def]
    Z,
    Q,
    rows,
    bandwidth,
    family,
    power,
    exponent,
    coefficients,
    prior,
    values,
    noise,
    sums,
    absolute,
    cross,
    noise_gram,
):
    """Add up, for every query, the weights of all heads and their products.

    With w_h,i = prior_i K((z_h,i - q_h) / h_h) query j receives ``sums[j, h]`` = sum_i w_h,i,
    ``absolute[j, h]`` = sum_i |w_h,i|, ``cross[j, h]`` = sum_i w_h,i values_i and, if noise is
    not empty, ``noise_gram[j, h, l]`` = sum_i noise_i w_h,i w_l,i.

    Parameters
    ----------
    Z : (D, n) the projected sample, the coordinates of one head after those of another
    Q : (m, D) the projected queries
    rows : (H + 1,) coordinates ``rows[h]:rows[h + 1]`` belong to head h
    bandwidth : (H,)
    coefficients : (H, k) of the kernel's polynomial, padded with zeros
    prior : (n,); values : (p, n); noise : (n,) or (0,)
    """
    n = Z.shape[1]
    n_heads = rows.shape[0] - 1
    with_noise = noise.shape[0] > 0
    weights = np.empty((n_heads, TILE))
    v = np.empty(TILE)
    g = np.empty(TILE)
    for j in range(Q.shape[0]):
        for start in range(0, n, TILE):
            stop = min(start + TILE, n)
            width = stop - start
            for h in range(n_heads):
                sharp = family == COMPACT and rows[h + 1] - rows[h] == 1
                for a in range(rows[h], rows[h + 1]):
                    add_squared_distances(
                        Z[a, start:stop], Q[j, a], bandwidth[h], sharp, a == rows[h], v[:width]
                    )
                w = weights[h, :width]
                kernel_values(family, power, exponent, coefficients[h], v[:width], 0.0, width, w)
                scale(w, prior[start:stop])
                sums[j, h] += total(w)
                absolute[j, h] += absolute_total(w)
                for c in range(values.shape[0]):
                    cross[j, h, c] += inner(w, values[c, start:stop])
                if with_noise:
                    g[:width] = w
                    scale(g[:width], noise[start:stop])
                    for other in range(h + 1):
                        noise_gram[j, h, other] += inner(g[:width], weights[other, :width])
        for h in range(n_heads):
            for other in range(h):
                noise_gram[j, other, h] = noise_gram[j, h, other]
