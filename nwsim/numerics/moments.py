"""Kernel-weighted moment sums over lists of index ranges.

Every engine says the same thing about a query: "these contiguous ranges of the (possibly
re-ordered) sample hold all points of its window". One loop then serves them all: tiles of
a range pass through distance, kernel and accumulation while they sit in the first-level
cache, so no m x n array exists.

Kernel families (``family``), with v = |u|^2 and P a polynomial with ``coefficients``:

- ``COMPACT``: K(u) = (1 - |u|^power)^exponent P(v) on |u| <= 1
- ``GAUSSIAN``: K(u) = exp(-v / 2) P(v)
- ``LAPLACE``: K(u) = exp(-|u|) P(v)
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_MASK,
    OUT_MATRIX,
    OUT_STACK,
    OUT_VECTOR,
    PAIR,
    REAL,
    STRICT,
    VECTOR,
    compiled,
)
from nwsim.numerics.exponential import exp_nonpositive

COMPACT, GAUSSIAN, LAPLACE = 0, 1, 2
TILE = 512
OUTSIDE = 2.0  # any squared distance above 1 marks a point outside a compact window


# STRICT: who belongs to a window is decided by plainly rounded float64 arithmetic, the
# same in every engine; a fused multiply-add would move points across the edge.
@compiled(
    NOTHING(MATRIX, MATRIX, INTEGER, VECTOR, INTEGER, INTEGER, INTEGER, OUT_VECTOR), fastmath=STRICT
)
def squared_distances(X, Q, j, bandwidth, family, start, width, out):  # type: ignore[no-untyped-def]
    """Fill ``out[:width]`` with |(q_j - x_i) / h|^2 for i from ``start``."""
    h = bandwidth[0]
    q = Q[j, 0]
    if X.shape[0] == 1 and family == COMPACT:
        for i in range(width):
            distance = abs(q - X[0, start + i])
            u = distance / h
            out[i] = u * u if distance <= h else OUTSIDE
        return
    for i in range(width):
        u = (q - X[0, start + i]) / h
        out[i] = u * u
    for a in range(1, X.shape[0]):
        h = bandwidth[a]
        q = Q[j, a]
        for i in range(width):
            u = (q - X[a, start + i]) / h
            out[i] = out[i] + u * u


@compiled(NOTHING(INTEGER, INTEGER, INTEGER, VECTOR, VECTOR, REAL, INTEGER, OUT_VECTOR))
def kernel_values(family, power, exponent, coefficients, v, shift, width, out):  # type: ignore[no-untyped-def]
    """Fill ``out[:width]`` with K at squared distances ``v``, times exp(``shift``)."""
    if family == COMPACT:
        if power == 1:
            for i in range(width):
                out[i] = 1.0 - np.sqrt(v[i])
        elif power == 2:
            for i in range(width):
                out[i] = 1.0 - v[i]
        else:
            for i in range(width):
                out[i] = 1.0 - v[i] * np.sqrt(v[i])
        if exponent == 1:
            for i in range(width):
                out[i] = out[i] if v[i] <= 1.0 else 0.0
        elif exponent == 0:
            for i in range(width):
                out[i] = 1.0 if v[i] <= 1.0 else 0.0
        elif exponent == 2:
            for i in range(width):
                out[i] = out[i] * out[i] if v[i] <= 1.0 else 0.0
        else:
            for i in range(width):
                out[i] = out[i] * out[i] * out[i] if v[i] <= 1.0 else 0.0
    elif family == GAUSSIAN:
        for i in range(width):
            out[i] = exp_nonpositive(shift - 0.5 * v[i])
    else:
        for i in range(width):
            out[i] = exp_nonpositive(shift - np.sqrt(v[i]))
    degree = coefficients.shape[0] - 1
    if degree == 1:
        for i in range(width):
            out[i] = out[i] * (coefficients[0] + coefficients[1] * v[i])
    elif degree > 1:
        for i in range(width):
            p = coefficients[degree]
            for c in range(degree - 1, -1, -1):
                p = p * v[i] + coefficients[c]
            out[i] = out[i] * p
    elif coefficients[0] != 1.0:
        for i in range(width):
            out[i] = out[i] * coefficients[0]


@compiled(REAL(VECTOR, INTEGER))
def total(k, width):  # type: ignore[no-untyped-def]
    """Return the sum of ``k[:width]``."""
    s = 0.0
    for i in range(width):
        s += k[i]
    return s


@compiled(REAL(VECTOR, INTEGER))
def absolute_total(k, width):  # type: ignore[no-untyped-def]
    """Return the sum of ``|k[:width]|``."""
    s = 0.0
    for i in range(width):
        s += abs(k[i])
    return s


@compiled(REAL(VECTOR, MATRIX, INTEGER, INTEGER, INTEGER))
def inner(k, values, row, start, width):  # type: ignore[no-untyped-def]
    """Return sum_i k_i values[row, start + i]."""
    s = 0.0
    for i in range(width):
        s += k[i] * values[row, start + i]
    return s


@compiled(PAIR(VECTOR, MATRIX, INTEGER, INTEGER))
def weight_and_first(k, values, start, width):  # type: ignore[no-untyped-def]
    """Return sum_i k_i and sum_i k_i values[0, start + i] in one pass."""
    s = 0.0
    t = 0.0
    for i in range(width):
        s += k[i]
        t += k[i] * values[0, start + i]
    return s, t


@compiled(REAL(VECTOR, VECTOR, INTEGER, INTEGER))
def squared_inner(k, noise, start, width):  # type: ignore[no-untyped-def]
    """Return sum_i k_i^2 noise[start + i]."""
    s = 0.0
    for i in range(width):
        s += k[i] * k[i] * noise[start + i]
    return s


@compiled(
    NOTHING(
        MATRIX,
        MATRIX,
        VECTOR,
        INTEGER,
        INTEGER,
        INTEGER,
        VECTOR,
        VECTOR,
        MATRIX,
        VECTOR,
        INDICES,
        INDICES,
        INDICES,
        INDICES,
        VECTOR,
        OUT_STACK,
        OUT_STACK,
        OUT_STACK,
        OUT_VECTOR,
    )
)
def moment_sums(  # type: ignore[no-untyped-def]
    X,
    Q,
    bandwidth,
    family,
    power,
    exponent,
    coefficients,
    prior,
    values,
    noise,
    offsets,
    starts,
    stops,
    exclude,
    shift,
    gram,
    noise_gram,
    cross,
    absolute,
):
    """Add up the moments of every query's window.

    With features phi = (1) or, where ``gram`` has 1 + d of them, phi = (1, (x - q) / h),
    and weights w_i = prior_i K_i exp(shift_j), query j receives

    - ``gram[j]``       = sum_i w_i phi_i phi_i'                  (F, F)
    - ``noise_gram[j]`` = sum_i w_i^2 noise_i phi_i phi_i'        (F, F), if noise is not empty
    - ``cross[j]``      = sum_i w_i phi_i values_i'               (F, p)
    - ``absolute[j]``   = sum_i |w_i|                             if not empty

    Parameters
    ----------
    X : (d, n) sample; Q : (m, d) queries; bandwidth : (d,)
    prior : (n,); values : (p, n); noise : (n,) or (0,)
    offsets : (m + 1,), starts, stops : ranges ``offsets[j]:offsets[j+1]`` belong to query j
    exclude : (m,) index of a sample point to leave out, or -1
    shift : (m,) added to the exponent of an exponential kernel
    gram, noise_gram : (m, F, F); cross : (m, F, p); absolute : (m,) or (0,); all added to
    """
    d = X.shape[0]
    n_features = gram.shape[1]
    n_values = values.shape[0]
    with_noise = noise.shape[0] > 0
    with_absolute = absolute.shape[0] > 0
    v = np.empty(TILE)
    k = np.empty(TILE)
    g = np.empty(TILE)
    k2 = np.empty(TILE)
    phi = np.empty((n_features, TILE))
    for j in range(Q.shape[0]):
        left_out = exclude[j]
        for r in range(offsets[j], offsets[j + 1]):
            for start in range(starts[r], stops[r], TILE):
                width = min(TILE, stops[r] - start)
                squared_distances(X, Q, j, bandwidth, family, start, width, v)
                kernel_values(family, power, exponent, coefficients, v, shift[j], width, k)
                for i in range(width):
                    k[i] = k[i] * prior[start + i]
                if start <= left_out < start + width:
                    k[left_out - start] = 0.0
                if n_values > 0:
                    s, t = weight_and_first(k, values, start, width)
                    gram[j, 0, 0] += s
                    cross[j, 0, 0] += t
                else:
                    gram[j, 0, 0] += total(k, width)
                for c in range(1, n_values):
                    cross[j, 0, c] += inner(k, values, c, start, width)
                if with_absolute:
                    absolute[j] += absolute_total(k, width)
                if with_noise:
                    noise_gram[j, 0, 0] += squared_inner(k, noise, start, width)
                if n_features == 1:
                    continue
                if with_noise:
                    for i in range(width):
                        k2[i] = k[i] * k[i] * noise[start + i]
                for a in range(d):
                    for i in range(width):
                        phi[a, i] = (X[a, start + i] - Q[j, a]) / bandwidth[a]
                for a in range(d):
                    for i in range(width):
                        g[i] = k[i] * phi[a, i]
                    gram[j, 0, a + 1] += total(g, width)
                    for c in range(n_values):
                        cross[j, a + 1, c] += inner(g, values, c, start, width)
                    for b in range(a, d):
                        gram[j, a + 1, b + 1] += inner(g, phi, b, 0, width)
                    if with_noise:
                        for i in range(width):
                            g[i] = k2[i] * phi[a, i]
                        noise_gram[j, 0, a + 1] += total(g, width)
                        for b in range(a, d):
                            noise_gram[j, a + 1, b + 1] += inner(g, phi, b, 0, width)
        for a in range(n_features):
            for b in range(a):
                gram[j, a, b] = gram[j, b, a]
                noise_gram[j, a, b] = noise_gram[j, b, a]


@compiled(
    NOTHING(
        MATRIX,
        MATRIX,
        VECTOR,
        INTEGER,
        INTEGER,
        INTEGER,
        VECTOR,
        VECTOR,
        INDICES,
        INDICES,
        INDICES,
        INDICES,
        VECTOR,
        OUT_MATRIX,
    )
)
def weight_rows(  # type: ignore[no-untyped-def]
    X,
    Q,
    bandwidth,
    family,
    power,
    exponent,
    coefficients,
    prior,
    offsets,
    starts,
    stops,
    order,
    shift,
    out,
):
    """Fill row j of ``out`` (m, n) with prior_i K_i exp(shift_j), in the caller's order."""
    v = np.empty(TILE)
    k = np.empty(TILE)
    for j in range(Q.shape[0]):
        for r in range(offsets[j], offsets[j + 1]):
            for start in range(starts[r], stops[r], TILE):
                width = min(TILE, stops[r] - start)
                squared_distances(X, Q, j, bandwidth, family, start, width, v)
                kernel_values(family, power, exponent, coefficients, v, shift[j], width, k)
                for i in range(width):
                    out[j, order[start + i]] = k[i] * prior[start + i]


@compiled(NOTHING(MATRIX, MATRIX, VECTOR, VECTOR, INDICES, OUT_VECTOR))
def nearest_squared(X, Q, bandwidth, prior, exclude, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (m,) with the least |(q - x) / h|^2 among points of positive prior."""
    v = np.empty(TILE)
    n = X.shape[1]
    for j in range(Q.shape[0]):
        least = np.inf
        for start in range(0, n, TILE):
            width = min(TILE, n - start)
            squared_distances(X, Q, j, bandwidth, GAUSSIAN, start, width, v)
            for i in range(width):
                if v[i] < least and prior[start + i] > 0.0 and start + i != exclude[j]:
                    least = v[i]
        out[j] = least


@compiled(NOTHING(MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, OUT_MASK))
def nearest_members(X, Q, bandwidth, prior, least, out):  # type: ignore[no-untyped-def]
    """Mark in ``out`` (m, n) the points of positive prior at the least distance (ties)."""
    v = np.empty(TILE)
    n = X.shape[1]
    for j in range(Q.shape[0]):
        for start in range(0, n, TILE):
            width = min(TILE, n - start)
            squared_distances(X, Q, j, bandwidth, GAUSSIAN, start, width, v)
            for i in range(width):
                out[j, start + i] = v[i] <= least[j] and prior[start + i] > 0.0
