"""Gaussian sums on the line from moments of cells.

About the centre c of a cell, with z = (x - c) / h and delta = (q - c) / h,

    exp(-(q - x)^2 / 2h^2) = exp(-delta^2 / 2) exp(-z^2 / 2) exp(delta z),

and exp(delta z) is its Taylor series: a cell gives a query exp(-delta^2 / 2) times a polynomial
in delta whose coefficients are moments of the cell's points (the fast Gauss transform of
Greengard & Strain 1991, in the form of Yang, Duraiswami & Davis 2005).
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_INDICES,
    OUT_MATRIX,
    OUT_STACK,
    OUT_VECTOR,
    REAL,
    STACK,
    VECTOR,
    compiled,
)
from nwsim.numerics.exponential import LOG2_E, ROUND, ROUND_BITS, exp2_nonpositive
from nwsim.numerics.tiles import TILE, inner

# Points of a cell that are added up before they join its total, so that rounding does not grow
# with their number.
RUN = 2048
HALF_LOG2_E = 0.5 * LOG2_E


# As in exponential.py, SUMS would cancel the rounding to an integer.
@compiled(
    NOTHING(VECTOR, REAL, REAL, REAL, OUT_INDICES, OUT_VECTOR, OUT_VECTOR),
    fastmath=frozenset({"contract"}),
)
def place(x, low, width, h, cell, z, factor):  # type: ignore[no-untyped-def]
    """Fill in each point's cell, z from the cell's centre, and exp(-z^2 / 2).

    Widths are powers of two and numbers below 2**51, so that products with them are exact; and
    |z| is at most 1/4 but for rounding, for which the series is made.
    """
    per_width = 1.0 / width
    per_h = 1.0 / h
    for i in range(x.shape[0]):
        shifted = ((x[i] - low) * per_width - 0.5) + ROUND
        number = shifted - ROUND
        cell[i] = np.float64(shifted).view(np.int64) - ROUND_BITS
        u = (x[i] - (low + (number + 0.5) * width)) * per_h
        z[i] = u
        # exp(w) by its series, exact to rounding for |z| <= 1/4 and a little more.
        w = -0.5 * (u * u)
        p = w * (1.0 / 40320) + 1.0 / 5040
        p = p * w + 1.0 / 720
        p = p * w + 1.0 / 120
        p = p * w + 1.0 / 24
        p = p * w + 1.0 / 6
        p = p * w + 0.5
        p = p * w + 1.0
        factor[i] = p * w + 1.0


@compiled(NOTHING(INDICES, VECTOR, VECTOR, VECTOR, INTEGER, OUT_STACK))
def scatter(cell, z, factor, column, c, moments):  # type: ignore[no-untyped-def]
    """Add factor_i column_i z_i^k to ``moments[cell_i, c, k]``; their number is 4, 8, ..."""
    for i in range(z.shape[0]):
        u = z[i]
        u2 = u * u
        u4 = u2 * u2
        t0 = factor[i] * column[i]
        t1 = t0 * u
        t2 = t0 * u2
        t3 = t1 * u2
        at = cell[i]
        for k in range(0, moments.shape[2], 4):
            moments[at, c, k] += t0
            moments[at, c, k + 1] += t1
            moments[at, c, k + 2] += t2
            moments[at, c, k + 3] += t3
            t0 *= u4
            t1 *= u4
            t2 *= u4
            t3 *= u4


@compiled(NOTHING(INDICES, VECTOR, VECTOR, VECTOR, VECTOR, INTEGER, OUT_STACK))
def scatter_two(cell, z, factor, a, b, c, moments):  # type: ignore[no-untyped-def]
    """As :func:`scatter` for the columns c and c + 1, whose powers of z are the same."""
    for i in range(z.shape[0]):
        u = z[i]
        u2 = u * u
        u4 = u2 * u2
        t0 = factor[i]
        t1 = t0 * u
        t2 = t0 * u2
        t3 = t1 * u2
        first = a[i]
        second = b[i]
        at = cell[i]
        for k in range(0, moments.shape[2], 4):
            moments[at, c, k] += t0 * first
            moments[at, c, k + 1] += t1 * first
            moments[at, c, k + 2] += t2 * first
            moments[at, c, k + 3] += t3 * first
            moments[at, c + 1, k] += t0 * second
            moments[at, c + 1, k + 1] += t1 * second
            moments[at, c + 1, k + 2] += t2 * second
            moments[at, c + 1, k + 3] += t3 * second
            t0 *= u4
            t1 *= u4
            t2 *= u4
            t3 *= u4


@compiled(NOTHING(INDICES, OUT_INDICES, OUT_STACK, OUT_STACK))
def settle(cell, held, runs, moments):  # type: ignore[no-untyped-def]
    """Count a tile's points by cell; the runs of cells that hold ``RUN`` join their totals."""
    for i in range(cell.shape[0]):
        held[cell[i]] += 1
    for i in range(cell.shape[0]):
        at = cell[i]
        if held[at] >= RUN:
            held[at] = 0
            for c in range(moments.shape[1]):
                for k in range(moments.shape[2]):
                    moments[at, c, k] += runs[at, c, k]
                    runs[at, c, k] = 0.0


@compiled(NOTHING(VECTOR, INDICES, MATRIX, REAL, REAL, REAL, OUT_STACK))
def cell_moments(x, places, columns, low, width, h, moments):  # type: ignore[no-untyped-def]
    """Add up the moments of every cell.

    Parameters
    ----------
    x : (n,); columns : (C, n)
    places : (n,) row of ``moments`` for each point, or (0,): then it is the cell's number
    low, width : cell k is [low + k width, low + (k + 1) width); width a power of two, at most
        h / 2, and numbers of cells below 2**51, see :func:`place`
    moments : (cells, C, K) receives sum column exp(-z^2 / 2) z^k; K a multiple of 4
    """
    n = x.shape[0]
    cell = np.empty(TILE, dtype=np.int64)
    z = np.empty(TILE)
    factor = np.empty(TILE)
    crowded = n > RUN
    target = np.zeros_like(moments) if crowded else moments
    held = np.zeros(moments.shape[0] if crowded else 0, dtype=np.int64)
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        size = stop - start
        place(x[start:stop], low, width, h, cell[:size], z[:size], factor[:size])
        if places.shape[0] > 0:
            cell[:size] = places[start:stop]
        where, u, e = cell[:size], z[:size], factor[:size]
        for c in range(0, columns.shape[0] - 1, 2):
            first, second = columns[c, start:stop], columns[c + 1, start:stop]
            scatter_two(where, u, e, first, second, c, target)
        if columns.shape[0] % 2 == 1:
            c = columns.shape[0] - 1
            scatter(where, u, e, columns[c, start:stop], c, target)
        if crowded:
            settle(where, held, target, moments)
    if crowded:
        moments += target


@compiled(NOTHING(VECTOR, VECTOR, OUT_VECTOR))
def horner_step(delta, coefficient, out):  # type: ignore[no-untyped-def]
    """Replace ``out`` by out delta + coefficient."""
    for i in range(out.shape[0]):
        out[i] = out[i] * delta[i] + coefficient[i]


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR, OUT_VECTOR))
def deltas(centres, q, per_h, delta, weight):  # type: ignore[no-untyped-def]
    """Fill in delta and exp(-delta^2 / 2) for every cell."""
    for i in range(centres.shape[0]):
        u = (q - centres[i]) * per_h
        delta[i] = u
        weight[i] = exp2_nonpositive(-HALF_LOG2_E * (u * u))


@compiled(NOTHING(VECTOR, VECTOR, REAL, STACK, INDICES, INDICES, OUT_MATRIX))
def expanded_sums(q, centres, h, series, first, last, out):  # type: ignore[no-untyped-def]
    """Sum the cells' series at every query.

    q : (m,); centres : (cells,); series : (C, K, cells) moments over k!; first, last : (m,) the
    cells that count for a query; out : (m, C) added to
    """
    delta = np.empty(TILE)
    weight = np.empty(TILE)
    value = np.empty(TILE)
    n_terms = series.shape[1]
    per_h = 1.0 / h
    for j in range(q.shape[0]):
        for start in range(first[j], last[j], TILE):
            stop = min(start + TILE, last[j])
            d, w, v = delta[: stop - start], weight[: stop - start], value[: stop - start]
            deltas(centres[start:stop], q[j], per_h, d, w)
            for c in range(series.shape[0]):
                v[:] = series[c, n_terms - 1, start:stop]
                for k in range(n_terms - 2, -1, -1):
                    horner_step(d, series[c, k, start:stop], v)
                out[j, c] += inner(w, v)
