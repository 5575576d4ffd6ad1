"""Moment sums of every sample point's window, for a whole path of bandwidths at once.

A compact kernel is a polynomial in w = |u|^step on its window, sum_k c_k w^k. A pair of
points enters the window at the first bandwidth of an ascending path that reaches it, and
stays. So each pair is added once, to the powers of w collected for that bandwidth, and
running sums over the path give every window: O(n) a point for the path in place of O(n) a
point and bandwidth (in one dimension compare Seifert, Brockmann, Engel & Gasser 1994,
"Fast algorithms for nonparametric curve estimation"). Running sums are kept in units of
the current bandwidth, so that nothing over- or underflows.

The Laplace kernel in one dimension factorises over the gaps between sorted points, which
gives recursions from both ends.
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    FLAG,
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
from nwsim.numerics.exponential import LOG2_E, exp2_nonpositive
from nwsim.numerics.tiles import TILE

# Squared distances this close to a squared bandwidth, relatively, are decided by the rule
# of squared_distances; the others by comparison of squares.
EDGE = 1e-12
# Entries by octave in the table that finds a squared distance's place on the path.
TABLE_BITS = 6


@compiled()
def shrinkages(bandwidths, step):  # type: ignore[no-untyped-def]
    """Return by how much w shrinks from each bandwidth's predecessor to it, (B,)."""
    out = np.ones(bandwidths.shape[0])
    for b in range(1, bandwidths.shape[0]):
        out[b] = (bandwidths[b - 1] / bandwidths[b]) ** step
    return out


@compiled()
def read_off(entering, shrinkage, coefficients, j, weight, cross, bound):  # type: ignore[no-untyped-def]
    """Turn what enters at each bandwidth into the kernel sums of point j's windows.

    entering : (B, K, 1 + p) sums of prior w^k (1, values), w in units of that bandwidth
    """
    n_powers, n_columns = entering.shape[1:]
    running = np.zeros((n_powers, n_columns))
    for b in range(shrinkage.shape[0]):
        factor = 1.0
        size = 0.0
        for k in range(n_powers):
            for c in range(n_columns):
                running[k, c] = running[k, c] * factor + entering[b, k, c]
            size += abs(coefficients[k]) * running[k, 0]
            factor *= shrinkage[b]
        bound[b, j] = size
        for c in range(n_columns):
            s = 0.0
            for k in range(n_powers):
                s += coefficients[k] * running[k, c]
            if c == 0:
                weight[b, j] = s
            else:
                cross[b, j, c - 1] = s


@compiled()
def add_run(x, q, h, step, prior, values, start, stop, entering, w, g):  # type: ignore[no-untyped-def]
    """Add the points ``start:stop`` to ``entering`` (K, 1 + p); w, g are workspace."""
    n_powers = entering.shape[0]
    per_h = 1.0 / h
    for base in range(start, stop, TILE):
        width = min(TILE, stop - base)
        # Slices, as an index that could be negative keeps a loop from vectorising.
        near = x[base : base + width]
        mass = prior[base : base + width]
        if step == 1:
            for i in range(width):
                w[i] = abs(near[i] - q) * per_h
        elif step == 2:
            for i in range(width):
                u = (near[i] - q) * per_h
                w[i] = u * u
        else:
            for i in range(width):
                u = abs(near[i] - q) * per_h
                w[i] = u * u * u
        for i in range(width):
            g[i] = mass[i]
        for k in range(n_powers):
            y = values[0, base : base + width]
            s = 0.0
            t = 0.0
            for i in range(width):
                s += g[i]
                t += g[i] * y[i]
            entering[k, 0] += s
            entering[k, 1] += t
            for c in range(1, values.shape[0]):
                y = values[c, base : base + width]
                t = 0.0
                for i in range(width):
                    t += g[i] * y[i]
                entering[k, c + 1] += t
            if k + 1 < n_powers:
                for i in range(width):
                    g[i] = g[i] * w[i]


# Membership is |q - x| <= h in plainly rounded arithmetic, a difference and a comparison:
# nothing here that reordering could touch.
@compiled(
    NOTHING(
        VECTOR,
        VECTOR,
        MATRIX,
        VECTOR,
        VECTOR,
        INTEGER,
        FLAG,
        INTEGER,
        OUT_MATRIX,
        OUT_STACK,
        OUT_MATRIX,
    )
)
def line_path(  # type: ignore[no-untyped-def]
    x, prior, values, bandwidths, coefficients, step, leave_out, first, weight, cross, bound
):
    """Sum a compact kernel over the windows of sorted points on the line.

    Parameters
    ----------
    x : (n,) ascending; prior : (n,); values : (p, n), p >= 1
    bandwidths : (B,) ascending
    coefficients : (K,) of the kernel as a polynomial in w = |u|^step; step : 1, 2 or 3
    leave_out : whether a point is left out of its own window
    first : the points ``first:first + m`` are asked about
    weight : (B, m) becomes sum_i prior_i K_i
    cross : (B, m, p) becomes sum_i prior_i K_i values_i
    bound : (B, m) becomes sum_i prior_i sum_k |c_k| w_i^k, at least sum_i prior_i |K_i|
    """
    n = x.shape[0]
    n_bandwidths = bandwidths.shape[0]
    w = np.empty(TILE)
    g = np.empty(TILE)
    entering = np.empty((n_bandwidths, coefficients.shape[0], 1 + values.shape[0]))
    shrinkage = shrinkages(bandwidths, step)
    # Ends of each bandwidth's window, which only move to the right from point to point.
    lefts = np.zeros(n_bandwidths, dtype=np.int64)
    rights = np.zeros(n_bandwidths, dtype=np.int64)
    for j in range(weight.shape[1]):
        own = first + j
        q = x[own]
        entering[:] = 0.0
        inner_left = own if leave_out else own + 1
        inner_right = own + 1
        for b in range(n_bandwidths):
            h = bandwidths[b]
            left = lefts[b]
            while q - x[left] > h:
                left += 1
            right = max(rights[b], own + 1)
            while right < n and x[right] - q <= h:
                right += 1
            lefts[b] = left
            rights[b] = right
            if left < inner_left:
                add_run(x, q, h, step, prior, values, left, inner_left, entering[b], w, g)
                inner_left = left
            if inner_right < right:
                add_run(x, q, h, step, prior, values, inner_right, right, entering[b], w, g)
                inner_right = right
        read_off(entering, shrinkage, coefficients, j, weight, cross, bound)


@compiled(fastmath=STRICT)
def inside(X, i, j, h):  # type: ignore[no-untyped-def]
    """Return whether x_i is in the window of x_j, as squared_distances has it."""
    total = 0.0
    for a in range(X.shape[0]):
        u = (X[a, j] - X[a, i]) / h
        total = total + u * u
    return total <= 1.0


@compiled(inline=True)
def table_place(squared):  # type: ignore[no-untyped-def]
    """Return the sign-free leading bits of a float: piecewise linear in its logarithm."""
    return np.float64(squared).view(np.int64) >> (52 - TABLE_BITS)


@compiled(
    NOTHING(
        MATRIX,
        VECTOR,
        MATRIX,
        VECTOR,
        VECTOR,
        INTEGER,
        FLAG,
        INTEGER,
        INDICES,
        INDICES,
        INDICES,
        OUT_MATRIX,
        OUT_STACK,
        OUT_MATRIX,
    )
)
def ball_path(  # type: ignore[no-untyped-def]
    X,
    prior,
    values,
    bandwidths,
    coefficients,
    step,
    leave_out,
    first,
    offsets,
    starts,
    stops,
    weight,
    cross,
    bound,
):
    """Sum a compact kernel over the windows of points in any dimension.

    As :func:`line_path`, with X : (d, n) in any order; ranges ``offsets[j]:offsets[j+1]``
    of ``starts`` and ``stops`` hold the widest window of point ``first + j``.
    """
    n_bandwidths = bandwidths.shape[0]
    n_powers = coefficients.shape[0]
    n_values = values.shape[0]
    squares = bandwidths * bandwidths
    # Row B collects the pairs beyond the widest window.
    surely = np.append(squares * (1.0 - EDGE), np.inf)
    maybe = np.append(squares * (1.0 + EDGE), np.inf)
    lowest = table_place(maybe[0])
    table = np.empty(table_place(maybe[n_bandwidths - 1]) - lowest + 2, dtype=np.int64)
    b = 0
    for place in range(table.shape[0]):
        while b < n_bandwidths and table_place(maybe[b]) - lowest < place:
            b += 1
        table[place] = b
    entering = np.empty((n_bandwidths + 1, n_powers, 1 + n_values))
    shrinkage = shrinkages(bandwidths, step)
    v = np.empty(TILE)
    per_square = np.append(1.0 / squares, 0.0)
    for j in range(weight.shape[1]):
        own = first + j
        entering[:] = 0.0
        for r in range(offsets[j], offsets[j + 1]):
            for start in range(starts[r], stops[r], TILE):
                width = min(TILE, stops[r] - start)
                v[:width] = 0.0
                for a in range(X.shape[0]):
                    q = X[a, own]
                    x = X[a, start : start + width]
                    for i in range(width):
                        u = q - x[i]
                        v[i] = v[i] + u * u
                mass = prior[start : start + width]
                y = values[0, start : start + width]
                for i in range(width):
                    squared = v[i]
                    place = min(max(table_place(squared) - lowest, 0), table.shape[0] - 1)
                    b = table[place]
                    while squared > surely[b]:
                        if squared <= maybe[b] and inside(X, start + i, own, bandwidths[b]):
                            break
                        b += 1
                    if leave_out and start + i == own:
                        b = n_bandwidths
                    w = squared * per_square[b]
                    if step == 1:
                        w = np.sqrt(w)
                    elif step == 3:
                        w = w * np.sqrt(w)
                    g = mass[i]
                    for k in range(n_powers):
                        entering[b, k, 0] += g
                        entering[b, k, 1] += g * y[i]
                        for c in range(1, n_values):
                            entering[b, k, c + 1] += g * values[c, start + i]
                        g = g * w
        read_off(entering, shrinkage, coefficients, j, weight, cross, bound)


@compiled(NOTHING(VECTOR, VECTOR, MATRIX, VECTOR, FLAG, OUT_MATRIX, OUT_STACK))
def laplace_path(x, prior, values, bandwidths, leave_out, weight, cross):  # type: ignore[no-untyped-def]
    """Sum exp(-|q - x_i| / h) over sorted points on the line, for each point and bandwidth.

    Arguments as in :func:`line_path`, for all points. What lies to the left of a point is
    what lies to the left of its neighbour, the neighbour added, times exp(-gap / h).
    """
    n = x.shape[0]
    n_values = values.shape[0]
    decay = np.empty(n)
    sums = np.empty(1 + n_values)
    for b in range(bandwidths.shape[0]):
        h = bandwidths[b]
        decay[0] = 1.0
        for i in range(1, n):
            decay[i] = exp2_nonpositive((x[i - 1] - x[i]) / h * LOG2_E)
        sums[:] = 0.0
        for i in range(n):
            for c in range(1 + n_values):
                sums[c] *= decay[i]
            weight[b, i] = sums[0]
            sums[0] += prior[i]
            for c in range(n_values):
                cross[b, i, c] = sums[c + 1]
                sums[c + 1] += prior[i] * values[c, i]
        sums[:] = 0.0
        for i in range(n - 1, -1, -1):
            own = 0.0 if leave_out else prior[i]
            weight[b, i] += sums[0] + own
            for c in range(n_values):
                cross[b, i, c] += sums[c + 1] + own * values[c, i]
                sums[c + 1] = (sums[c + 1] + prior[i] * values[c, i]) * decay[i]
            sums[0] = (sums[0] + prior[i]) * decay[i]
