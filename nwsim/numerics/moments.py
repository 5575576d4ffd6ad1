"""Kernel-weighted moment sums over lists of index ranges.

Every engine says the same thing about a query: "these contiguous ranges of the (possibly
re-ordered) sample hold all points of its window". One loop then serves them all: tiles of
a range pass through distance, kernel and accumulation while they sit in the first-level
cache, so no m x n array exists.
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_INDICES,
    OUT_MASK,
    OUT_MATRIX,
    OUT_STACK,
    OUT_VECTOR,
    REAL,
    STRICT,
    VECTOR,
    compiled,
)
from nwsim.numerics.tiles import (
    GAUSSIAN,
    LEAN_TILE,
    TILE,
    absolute_inner,
    base_two,
    exponential_values,
    inner,
    kernel_values,
    lean_sums,
    offsets_from,
    scale,
    squared_distances,
    squared_inner,
    total,
    two_inner,
)


@compiled(
    NOTHING(
        MATRIX, MATRIX, INTEGER, VECTOR, MATRIX, VECTOR, INTEGER, INTEGER, OUT_MATRIX, OUT_STACK,
        OUT_STACK, OUT_STACK,
    )
)  # fmt: skip
def add_linear_moments(  # type: ignore[no-untyped-def]
    X, Q, j, bandwidth, columns, squares, start, stop, buffers, gram, noise_gram, cross
):
    """Add one tile's moments of the features beyond the constant, upper triangles alone.

    ``buffers[1]`` holds the tile's kernel values; the rows from 2 on are for this function.
    """
    d = X.shape[0]
    width = stop - start
    k, k2, g = buffers[1, :width], buffers[2, :width], buffers[3, :width]
    with_noise = squares.shape[0] > 0
    if with_noise:
        k2[:] = k
        scale(k2, k)
        scale(k2, squares[start:stop])
    for a in range(d):
        offsets_from(X[a, start:stop], Q[j, a], bandwidth[a], buffers[4 + a, :width])
    for a in range(d):
        g[:] = k
        scale(g, buffers[4 + a, :width])
        for c in range(1, columns.shape[0]):
            cross[j, a + 1, c - 1] += inner(g, columns[c, start:stop])
        scale(g, columns[0, start:stop])
        gram[j, 0, a + 1] += total(g)
        for b in range(a, d):
            gram[j, a + 1, b + 1] += inner(g, buffers[4 + b, :width])
        if with_noise:
            g[:] = k2
            scale(g, buffers[4 + a, :width])
            noise_gram[j, 0, a + 1] += total(g)
            for b in range(a, d):
                noise_gram[j, a + 1, b + 1] += inner(g, buffers[4 + b, :width])


@compiled(
    NOTHING(
        MATRIX, MATRIX, VECTOR, INTEGER, INTEGER, INTEGER, VECTOR, MATRIX, VECTOR, INDICES, INDICES,
        INDICES, INDICES, VECTOR, OUT_STACK, OUT_STACK, OUT_STACK, OUT_VECTOR,
    )
)  # fmt: skip
def moment_sums(  # type: ignore[no-untyped-def]
    X,
    Q,
    bandwidth,
    family,
    power,
    exponent,
    coefficients,
    columns,
    squares,
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
    and kernel values k_i = K_i exp(shift_j), query j receives

    - ``gram[j]``       = sum_i k_i columns_0i phi_i phi_i'       (F, F)
    - ``cross[j]``      = sum_i k_i phi_i columns_ci, c > 0       (F, p)
    - ``noise_gram[j]`` = sum_i k_i^2 squares_i phi_i phi_i'      (F, F), if squares is not empty
    - ``absolute[j]``   = sum_i |k_i| columns_0i                  if not empty

    Parameters
    ----------
    X : (d, n) sample; Q : (m, d) queries; bandwidth : (d,)
    columns : (1 + p, n) prior weights, then prior weights times values
    squares : (n,) squared prior weights times noise variances, or (0,)
    offsets : (m + 1,), starts, stops : ranges ``offsets[j]:offsets[j+1]`` belong to query j
    exclude : (m,) index of a sample point to leave out, or -1
    shift : (m,) added to the exponent of an exponential kernel
    gram, noise_gram : (m, F, F); cross : (m, F, p); absolute : (m,) or (0,); all added to
    """
    n_columns = columns.shape[0]
    with_noise = squares.shape[0] > 0
    with_absolute = absolute.shape[0] > 0
    n_features = gram.shape[1]
    buffers = np.empty((4 + n_features, TILE))
    rate = base_two(family, bandwidth[0])
    one_width = np.all(bandwidth == bandwidth[0])
    plain = rate > 0.0 and one_width and coefficients.shape[0] == 1 and coefficients[0] == 1.0
    only_sums = not (with_noise or with_absolute) and n_features == 1 and n_columns <= 2
    lean = plain and family == GAUSSIAN and X.shape[0] <= 3 and only_sums
    for j in range(Q.shape[0]):
        left_out = exclude[j]
        if lean and shift[j] == 0.0 and left_out < 0:
            mass, cross_sum = 0.0, 0.0
            for r in range(offsets[j], offsets[j + 1]):
                for start in range(starts[r], stops[r], LEAN_TILE):
                    stop = min(start + LEAN_TILE, stops[r])
                    a, b = columns[0, start:stop], columns[n_columns - 1, start:stop]
                    s, t = lean_sums(X, Q[j], rate, start, stop, a, b)
                    mass += s
                    cross_sum += t
            gram[j, 0, 0] += mass
            if n_columns > 1:
                cross[j, 0, 0] += cross_sum
            continue
        for r in range(offsets[j], offsets[j + 1]):
            for start in range(starts[r], stops[r], TILE):
                stop = min(start + TILE, stops[r])
                width = stop - start
                v, k = buffers[0, :width], buffers[1, :width]
                # A shift must cancel the nearest point's exponent exactly, as it may be
                # huge; so it goes with the distances that it was made from.
                if plain and shift[j] == 0.0:
                    exponential_values(X, 0, X.shape[0], Q[j], rate, family, start, stop, k)
                else:
                    squared_distances(X, Q, j, bandwidth, family, start, width, v)
                    kernel_values(family, power, exponent, coefficients, v, shift[j], width, k)
                if start <= left_out < stop:
                    k[left_out - start] = 0.0
                if n_columns > 1:
                    s, t = two_inner(k, columns[0, start:stop], columns[1, start:stop])
                    gram[j, 0, 0] += s
                    cross[j, 0, 0] += t
                else:
                    gram[j, 0, 0] += inner(k, columns[0, start:stop])
                for c in range(2, n_columns):
                    cross[j, 0, c - 1] += inner(k, columns[c, start:stop])
                if with_absolute:
                    absolute[j] += absolute_inner(k, columns[0, start:stop])
                if with_noise:
                    noise_gram[j, 0, 0] += squared_inner(k, squares[start:stop])
                if n_features > 1:
                    add_linear_moments(
                        X,
                        Q,
                        j,
                        bandwidth,
                        columns,
                        squares,
                        start,
                        stop,
                        buffers,
                        gram,
                        noise_gram,
                        cross,
                    )
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


@compiled(REAL(REAL, REAL, REAL), fastmath=STRICT)
def squared_distance(q, x, h):  # type: ignore[no-untyped-def]
    """Return ((q - x) / h)^2, rounded as in every search."""
    u = (q - x) / h
    return u * u


@compiled(NOTHING(VECTOR, VECTOR, REAL, VECTOR, OUT_INDICES, OUT_INDICES))
def nearest_on_line(x, q, h, prior, starts, stops):  # type: ignore[no-untyped-def]
    """Fill in the range ``starts[j]:stops[j]`` of the points nearest to each query (ties).

    Distances grow to either side, also when rounded, so that what ties stands together. Points
    of no prior are not looked for, but may stand among the others.

    Parameters
    ----------
    x : (n,) ascending; q : (m,); prior : (n,), not all zero
    """
    n = x.shape[0]
    up_to = np.searchsorted(x, q)
    for j in range(q.shape[0]):
        left, right = up_to[j] - 1, up_to[j]
        while left >= 0 and not prior[left] > 0.0:
            left -= 1
        while right < n and not prior[right] > 0.0:
            right += 1
        least = np.inf
        if left >= 0:
            least = squared_distance(q[j], x[left], h)
        if right < n:
            least = min(least, squared_distance(q[j], x[right], h))
        starts[j] = right
        while left >= 0 and squared_distance(q[j], x[left], h) <= least:
            starts[j] = left
            left -= 1
        stops[j] = up_to[j]
        while right < n and squared_distance(q[j], x[right], h) <= least:
            right += 1
            stops[j] = right


@compiled(
    NOTHING(INDICES, INDICES, VECTOR, MATRIX, VECTOR, OUT_MATRIX, OUT_VECTOR), fastmath=STRICT
)
def range_means(starts, stops, prior, columns, squares, mean, variance):  # type: ignore[no-untyped-def]
    """Add to ``mean`` (m, p) and ``variance`` (m,) those of each range, weighted by the prior.

    columns : (1 + p, n) the prior, then prior times values
    squares : (n,) squared prior times noise variances, or (0,)
    """
    for j in range(starts.shape[0]):
        total = 0.0
        for i in range(starts[j], stops[j]):
            total += prior[i]
        for i in range(starts[j], stops[j]):
            if prior[i] > 0.0:
                weight = prior[i] / total * (1.0 / prior[i])
                for c in range(mean.shape[1]):
                    mean[j, c] += weight * columns[c + 1, i]
                if squares.shape[0] > 0:
                    variance[j] += weight * weight * squares[i]
