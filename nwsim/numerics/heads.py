"""Moment sums of many heads in one pass over the sample."""

from __future__ import annotations

import numpy as np
from numba.core import types

from nwsim.numerics._compile import (
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_MATRIX,
    OUT_STACK,
    STRICT,
    VECTOR,
    compiled,
)
from nwsim.numerics.tiles import (
    COMPACT,
    TILE,
    absolute_inner,
    add_squared_distances,
    base_two,
    exponential_values,
    inner,
    kernel_values,
    product,
    two_inner,
)

QUADRUPLE = types.UniTuple(types.float64, 4)


# STRICT: a library's product of matrices rounds by the number of rows, and would let points
# on the edge of a window in or out by which queries are asked together.
@compiled(NOTHING(MATRIX, MATRIX, OUT_MATRIX), fastmath=STRICT)
def project(X, P, out):  # type: ignore[no-untyped-def]
    """Add X P to ``out``, each row as it would be on its own.

    X : (n, d); P : (d, D); out : (n, D) zeros
    """
    for i in range(X.shape[0]):
        row = out[i]
        for a in range(X.shape[1]):
            x = X[i, a]
            for b in range(P.shape[1]):
                row[b] = row[b] + x * P[a, b]


@compiled(QUADRUPLE(VECTOR, VECTOR, VECTOR, VECTOR))
def two_by_two(a, b, c, d):  # type: ignore[no-untyped-def]
    """Return the inner products a c, a d, b c and b d: twice as much work a number read."""
    s = 0.0
    t = 0.0
    u = 0.0
    v = 0.0
    for i in range(a.shape[0]):
        s += a[i] * c[i]
        t += a[i] * d[i]
        u += b[i] * c[i]
        v += b[i] * d[i]
    return s, t, u, v


@compiled(NOTHING(MATRIX, VECTOR, OUT_MATRIX, OUT_MATRIX))
def add_products(k, squares, scaled, gram):  # type: ignore[no-untyped-def]
    """Add sum_i k_hi k_li squares_i to ``gram[h, l]`` for l <= h.

    k : (H, at least width); squares : (width,); scaled : (2, at least width) workspace
    """
    n_heads, width = k.shape[0], squares.shape[0]
    a, b = scaled[0, :width], scaled[1, :width]
    for h in range(0, n_heads - 1, 2):
        product(k[h, :width], squares, a)
        product(k[h + 1, :width], squares, b)
        for other in range(0, h + 1, 2):
            s, t, u, v = two_by_two(a, b, k[other, :width], k[other + 1, :width])
            gram[h, other] += s
            gram[h + 1, other] += u
            gram[h + 1, other + 1] += v
            if other < h:
                gram[h, other + 1] += t
    if n_heads % 2 == 1:
        h = n_heads - 1
        product(k[h, :width], squares, a)
        for other in range(n_heads):
            gram[h, other] += inner(a, k[other, :width])


@compiled(
    NOTHING(
        MATRIX, MATRIX, INDICES, VECTOR, INTEGER, INTEGER, INTEGER, MATRIX, MATRIX, VECTOR,
        OUT_MATRIX, OUT_MATRIX, OUT_STACK, OUT_STACK,
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
    columns,
    squares,
    sums,
    absolute,
    cross,
    noise_gram,
):
    """Add up, for every query, the kernel values of all heads and their products.

    With k_h,i = K((z_h,i - q_h) / h_h) query j receives ``sums[j, h]`` = sum_i k_h,i columns_0i,
    ``cross[j, h]`` = sum_i k_h,i columns_ci for c > 0 and, if they are not empty,
    ``absolute[j, h]`` = sum_i |k_h,i| columns_0i and ``noise_gram[j, h, l]`` = sum_i k_h,i k_l,i
    squares_i.

    Parameters
    ----------
    Z : (D, n) the projected sample, the coordinates of one head after those of another
    Q : (m, D) the projected queries
    rows : (H + 1,) coordinates ``rows[h]:rows[h + 1]`` belong to head h
    bandwidth : (H,)
    coefficients : (H, k) of the kernel's polynomial, padded with zeros
    columns : (1 + p, n) prior weights, then prior weights times values
    squares : (n,) squared prior weights times noise variances, or (0,)
    absolute : (m, H) or (0, H)
    """
    n = Z.shape[1]
    n_heads = rows.shape[0] - 1
    n_columns = columns.shape[0]
    with_noise = squares.shape[0] > 0
    with_absolute = absolute.shape[0] > 0
    rates = np.empty(n_heads)
    for h in range(n_heads):
        rates[h] = base_two(family, bandwidth[h])
    plain = np.all(rates > 0.0) and coefficients.shape[1] == 1 and np.all(coefficients == 1.0)
    weights = np.empty((n_heads, TILE))
    scaled = np.empty((2, TILE))
    v = np.empty(TILE)
    # Tiles outside, queries inside: a tile of all heads stays in the second-level cache.
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        width = stop - start
        for j in range(Q.shape[0]):
            for h in range(n_heads):
                first, last = rows[h], rows[h + 1]
                k = weights[h, :width]
                if plain:
                    exponential_values(Z, first, last, Q[j], rates[h], family, start, stop, k)
                else:
                    sharp = family == COMPACT and last - first == 1
                    for a in range(first, last):
                        add_squared_distances(
                            Z[a, start:stop], Q[j, a], bandwidth[h], sharp, a == first, v[:width]
                        )
                    kernel_values(
                        family, power, exponent, coefficients[h], v[:width], 0.0, width, k
                    )
                if n_columns > 1:
                    s, t = two_inner(k, columns[0, start:stop], columns[1, start:stop])
                    sums[j, h] += s
                    cross[j, h, 0] += t
                else:
                    sums[j, h] += inner(k, columns[0, start:stop])
                for c in range(2, n_columns):
                    cross[j, h, c - 1] += inner(k, columns[c, start:stop])
                if with_absolute:
                    absolute[j, h] += absolute_inner(k, columns[0, start:stop])
            if with_noise:
                add_products(weights, squares[start:stop], scaled, noise_gram[j])
    for j in range(Q.shape[0]):
        for h in range(n_heads):
            for other in range(h):
                noise_gram[j, other, h] = noise_gram[j, h, other]
