"""Cell lists: a regular grid over the sample, for windows in up to three dimensions.

The sample is put in order by a counting sort on cell numbers, the last axis running
fastest. The window of a query then is a few runs of consecutive cells, one for each
column of cells that its ball or ellipsoid touches. Axes that the data lack have one cell.
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    FLAG,
    INDICES,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_INDICES,
    STRICT,
    VECTOR,
    compiled,
)

SLACK = 1e-9  # of a cell: ranges may hold a point too many, never one too few


@compiled(inline=True, fastmath=STRICT)
def cell_of(x, low, per_unit, count):  # type: ignore[no-untyped-def]
    """Return the cell of coordinate x, clipped to the grid; monotone in x."""
    position = (x - low) * per_unit
    if position <= 0.0:
        return np.int64(0)
    if position >= count:
        return np.int64(count - 1)
    return np.int64(position)


@compiled(NOTHING(MATRIX, VECTOR, VECTOR, INDICES, OUT_INDICES, OUT_INDICES), fastmath=STRICT)
def fill_cells(X, low, per_unit, counts, first, order):  # type: ignore[no-untyped-def]
    """Sort the sample by cell.

    X : (d, n), d <= 3; low, per_unit : (3,); counts : (3,) cells by axis, padded in front.
    first : (prod(counts) + 1,) zeros, becomes the first position of each cell;
    order : (n,) becomes the permutation (stable).
    """
    d, n = X.shape
    cell = np.empty(n, dtype=np.int64)
    for i in range(n):
        number = 0
        for a in range(d):
            axis = 3 - d + a
            number = number * counts[axis] + cell_of(
                X[a, i], low[axis], per_unit[axis], counts[axis]
            )
        cell[i] = number
        first[number + 1] += 1
    for c in range(first.shape[0] - 1):
        first[c + 1] += first[c]
    cursor = first.copy()
    for i in range(n):
        order[cursor[cell[i]]] = i
        cursor[cell[i]] += 1


@compiled(
    INTEGER(
        MATRIX,
        VECTOR,
        VECTOR,
        VECTOR,
        INDICES,
        INDICES,
        OUT_INDICES,
        OUT_INDICES,
        OUT_INDICES,
        FLAG,
    ),
    fastmath=STRICT,
)
def window_ranges(Q, reach, low, per_unit, counts, first, offsets, starts, stops, fill):  # type: ignore[no-untyped-def]
    """List, for each query, the runs of points whose cells its window touches.

    Q : (m, d); reach : (3,) half-widths of the window by (padded) axis.
    With ``fill`` false only the number of runs is returned; with true, ``offsets`` (m + 1,),
    ``starts`` and ``stops`` are filled.
    """
    d = Q.shape[1]
    q = np.zeros(3)
    lowest = np.zeros(3, dtype=np.int64)
    highest = np.zeros(3, dtype=np.int64)
    used = 0
    for j in range(Q.shape[0]):
        if fill:
            offsets[j] = used
        for axis in range(3):
            if axis >= 3 - d:
                q[axis] = Q[j, axis - 3 + d]
                slack = SLACK / per_unit[axis]
                lowest[axis] = cell_of(
                    q[axis] - reach[axis] - slack, low[axis], per_unit[axis], counts[axis]
                )
                highest[axis] = cell_of(
                    q[axis] + reach[axis] + slack, low[axis], per_unit[axis], counts[axis]
                )
        for c0 in range(lowest[0], highest[0] + 1):
            for c1 in range(lowest[1], highest[1] + 1):
                # Squared distance, in units of the window, from the query to this column.
                gap2 = 0.0
                for axis in range(3 - d, 2):
                    c = c0 if axis == 0 else c1
                    edge = low[axis] + (c - SLACK) / per_unit[axis]
                    other = low[axis] + (c + 1 + SLACK) / per_unit[axis]
                    gap = 0.0
                    # The outermost cells also hold what lies beyond the grid.
                    if q[axis] < edge and c > 0:
                        gap = (edge - q[axis]) / reach[axis]
                    elif q[axis] > other and c < counts[axis] - 1:
                        gap = (q[axis] - other) / reach[axis]
                    gap2 += gap * gap
                if gap2 > 1.0:
                    continue
                half = reach[2] * np.sqrt(1.0 - gap2) + SLACK / per_unit[2]
                base = (c0 * counts[1] + c1) * counts[2]
                a = base + cell_of(q[2] - half, low[2], per_unit[2], counts[2])
                b = base + cell_of(q[2] + half, low[2], per_unit[2], counts[2])
                if first[a] == first[b + 1]:
                    continue
                if fill:
                    starts[used] = first[a]
                    stops[used] = first[b + 1]
                used += 1
    if fill:
        offsets[Q.shape[0]] = used
    return used
