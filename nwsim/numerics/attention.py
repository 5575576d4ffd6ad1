"""Softmax attention of one tile of queries: products, running maximum, weights, sums.

Scores stand with one key a row and one query a lane (a column), so every pass is a loop
over neighbouring lanes and nothing is summed across them. Both products of attention are
then one operation, out = A B with A packed: scores K Q^T, and sums V^T E.

Keys come in tiles; sums over earlier keys are rescaled when a later one raises the maximum
(Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"; Rabe & Staats 2021,
"Self-attention does not need O(n^2) memory"). Scores are in units of log 2.

Arrays are flat, with rows of ``LANES`` elements: as the compiler knows how far apart rows
are, no loop has to test whether they overlap. Lanes are counted unsigned: an index that
might be negative for all the compiler knows turns loads into gathers.
"""

from __future__ import annotations

import numpy as np
from numba import types

from nwsim.numerics._compile import FLAG, INTEGER, NOTHING, compiled
from nwsim.numerics.exponential import exp2_nonpositive

# A tile of scores, KEYS x LANES, stays in the second-level cache.
LANES, KEYS = 256, 256
_WHOLE = np.uint64(LANES)
_ROW1, _ROW2, _ROW3 = np.uint64(LANES), np.uint64(2 * LANES), np.uint64(3 * LANES)

# Rows are taken four at a time; their counts are multiples of it, filled up with zeros.
BLOCK = 4

# A weight below 2**-100 of the largest is zero: it is lost in rounding in either precision,
# and sums of such weights would be subnormal.
_NEGLIGIBLE = np.float32(-100.0)

# As in numerics.exponential, for 24 bits: adding 1.5 * 2**23 rounds to an integer.
_ROUND = np.float32(12582912.0)
_MANTISSA = np.int32(23)
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
# mpmath.chebyfit(lambda r: mpf(2)**r, [-0.5000001, 0.5000001], 7), in 40 digits.
_C1, _C2, _C3 = np.float32(0.693147206702864), np.float32(0.24022650922289), np.float32(0.055503272)
_C4, _C5, _C6 = np.float32(0.0096180567), np.float32(0.0013400428), np.float32(0.00015461444)

_CONTRACT = frozenset({"contract"})
_LANES = types.uint64
_REALS = (types.float32, types.float64)
_IN = {real: types.Array(real, 1, "C", readonly=True) for real in _REALS}
_OUT = {real: types.Array(real, 1, "C") for real in _REALS}
_SEEN = types.Array(types.boolean, 2, "C", readonly=True)


# Not SUMS: reassociation would cancel the rounding.
@compiled(fastmath=_CONTRACT, inline=True)
def exp2_single(t):  # type: ignore[no-untyped-def]
    """Return 2**t in float32 for -126 <= t <= 0, to about one ulp."""
    shifted = t + _ROUND
    r = t - (shifted - _ROUND)
    r2 = r * r
    p = (_ONE + _C1 * r) + r2 * ((_C2 + _C3 * r) + r2 * ((_C4 + _C5 * r) + r2 * _C6))
    bits = np.float32(p).view(np.int32) + (np.float32(shifted).view(np.int32) << _MANTISSA)
    return np.int32(bits).view(np.float32)


@compiled(fastmath=_CONTRACT, inline=True)
def weight_single(t):  # type: ignore[no-untyped-def]
    """Return 2**t in float32 for t <= 0, and zero where it is negligible."""
    return exp2_single(max(t, _NEGLIGIBLE)) if t >= _NEGLIGIBLE else _ZERO


@compiled(fastmath=_CONTRACT, inline=True)
def weight_double(t):  # type: ignore[no-untyped-def]
    """Return 2**t in float64 for t <= 0, and zero where it is negligible."""
    return exp2_nonpositive(t) if t >= _NEGLIGIBLE else 0.0


@compiled(inline=True)
def multiply_block(k, x, fresh, lanes, o):  # type: ignore[no-untyped-def]
    """Add a block times four rows ``x`` to the four rows ``o``, or start them if ``fresh``."""
    k00, k01, k02, k03 = k[0], k[1], k[2], k[3]
    k10, k11, k12, k13 = k[4], k[5], k[6], k[7]
    k20, k21, k22, k23 = k[8], k[9], k[10], k[11]
    k30, k31, k32, k33 = k[12], k[13], k[14], k[15]
    if fresh:
        for i in range(lanes):
            x0, x1, x2, x3 = x[i], x[_ROW1 + i], x[_ROW2 + i], x[_ROW3 + i]
            o[i] = k00 * x0 + k01 * x1 + k02 * x2 + k03 * x3
            o[_ROW1 + i] = k10 * x0 + k11 * x1 + k12 * x2 + k13 * x3
            o[_ROW2 + i] = k20 * x0 + k21 * x1 + k22 * x2 + k23 * x3
            o[_ROW3 + i] = k30 * x0 + k31 * x1 + k32 * x2 + k33 * x3
    else:
        for i in range(lanes):
            x0, x1, x2, x3 = x[i], x[_ROW1 + i], x[_ROW2 + i], x[_ROW3 + i]
            o[i] += k00 * x0 + k01 * x1 + k02 * x2 + k03 * x3
            o[_ROW1 + i] += k10 * x0 + k11 * x1 + k12 * x2 + k13 * x3
            o[_ROW2 + i] += k20 * x0 + k21 * x1 + k22 * x2 + k23 * x3
            o[_ROW3 + i] += k30 * x0 + k31 * x1 + k32 * x2 + k33 * x3


@compiled(
    [
        NOTHING(_IN[real], INTEGER, INTEGER, _IN[real], INTEGER, INTEGER, _LANES, _OUT[real])
        for real in _REALS
    ]
)
def multiply(a, row_step, column_step, b, rows, columns, lanes, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows, lanes) with A (rows, columns) times ``b`` (columns, lanes).

    ``a`` holds blocks of 4 x 4, one after the other; ``row_step`` and ``column_step`` are
    the distances, in elements, to the next block of rows and of columns.
    """
    for r in range(rows // BLOCK):
        o = out[BLOCK * r * LANES : BLOCK * (r + 1) * LANES]
        for c in range(columns // BLOCK):
            x = b[BLOCK * c * LANES : BLOCK * (c + 1) * LANES]
            start = r * row_step + c * column_step
            k = a[start : start + BLOCK * BLOCK]
            # The length of whole rows is known when compiled: a third faster.
            if lanes == _WHOLE and c == 0:
                multiply_block(k, x, True, _WHOLE, o)
            elif lanes == _WHOLE:
                multiply_block(k, x, False, _WHOLE, o)
            else:
                multiply_block(k, x, c == 0, lanes, o)


@compiled([NOTHING(_OUT[real], INTEGER, _LANES, _SEEN, real) for real in _REALS])
def hide(s, keys, lanes, seen, hidden):  # type: ignore[no-untyped-def]
    """Set scores to ``hidden`` where ``seen`` (keys, lanes) is False."""
    for j in range(keys):
        o = s[j * LANES : (j + 1) * LANES]
        row = seen[j]
        for i in range(lanes):
            o[i] = o[i] if row[i] else hidden


@compiled(
    [NOTHING(_IN[real], INTEGER, _LANES, _OUT[real], _OUT[real]) for real in _REALS],
    fastmath=_CONTRACT,
)
def raise_maximum(s, rows, lanes, top, factor):  # type: ignore[no-untyped-def]
    """Raise ``top`` (lanes,) to the largest score, and fill ``factor`` with 2**(old - new)."""
    for i in range(lanes):
        factor[i] = top[i]
    for r in range(rows // BLOCK):
        o = s[BLOCK * r * LANES : BLOCK * (r + 1) * LANES]
        for i in range(lanes):
            first = max(o[i], o[_ROW1 + i])
            second = max(o[_ROW2 + i], o[_ROW3 + i])
            top[i] = max(top[i], max(first, second))
    # Known when compiled: one of the two branches is left.
    if s.itemsize == 4:
        for i in range(lanes):
            factor[i] = weight_single(factor[i] - top[i])
    else:
        for i in range(lanes):
            factor[i] = weight_double(factor[i] - top[i])


@compiled(
    [NOTHING(_OUT[real], INTEGER, _LANES, _IN[real], _OUT[real]) for real in _REALS],
    fastmath=_CONTRACT,
)
def weigh(s, rows, lanes, top, total):  # type: ignore[no-untyped-def]
    """Replace scores by weights 2**(s - top), and fill ``total`` (lanes,) with their sums."""
    for i in range(lanes):
        total[i] = 0.0
    for r in range(rows // BLOCK):
        o = s[BLOCK * r * LANES : BLOCK * (r + 1) * LANES]
        if s.itemsize == 4:
            for i in range(lanes):
                t = top[i]
                w0, w1 = weight_single(o[i] - t), weight_single(o[_ROW1 + i] - t)
                w2, w3 = weight_single(o[_ROW2 + i] - t), weight_single(o[_ROW3 + i] - t)
                o[i], o[_ROW1 + i], o[_ROW2 + i], o[_ROW3 + i] = w0, w1, w2, w3
                total[i] += (w0 + w1) + (w2 + w3)
        else:
            for i in range(lanes):
                t = top[i]
                z0, z1 = weight_double(o[i] - t), weight_double(o[_ROW1 + i] - t)
                z2, z3 = weight_double(o[_ROW2 + i] - t), weight_double(o[_ROW3 + i] - t)
                o[i], o[_ROW1 + i], o[_ROW2 + i], o[_ROW3 + i] = z0, z1, z2, z3
                total[i] += (z0 + z1) + (z2 + z3)


@compiled(
    [NOTHING(_OUT[real], _IN[real], _IN[real], INTEGER, _LANES) for real in _REALS],
)
def merge(sums, factor, new, rows, lanes):  # type: ignore[no-untyped-def]
    """Replace ``sums`` (rows, lanes) by ``sums * factor + new``, ``factor`` (lanes,)."""
    for r in range(rows):
        o = sums[r * LANES : (r + 1) * LANES]
        x = new[r * LANES : (r + 1) * LANES]
        for i in range(lanes):
            o[i] = o[i] * factor[i] + x[i]


@compiled(
    [
        NOTHING(
            _IN[real],
            _IN[real],
            _IN[real],
            _SEEN,
            FLAG,
            INTEGER,
            INTEGER,
            INTEGER,
            _LANES,
            real,
            _OUT[real],
        )
        for real in _REALS
    ]
)
def attend(q, k, v, seen, masked, n, d, p, lanes, hidden, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (p, lanes) with the softmax average of the values for each lane.

    Parameters
    ----------
    q : (d * LANES,) array
        Queries, one a lane, times log2(e) over the temperature.
    k : (n * d,) array
        Keys in blocks of 4 keys x 4 coordinates, blocks of coordinates next to each other;
        n here rounded up to a multiple of 4, as everywhere in packed arrays.
    v : (n * p,) array
        Values in blocks of 4 coordinates x 4 keys, blocks of coordinates next to each other.
    seen : (n, LANES) array of bool
        Which query attends to which key; unused unless ``masked``.
    masked : bool
        Whether ``seen`` counts.
    n : int
        Number of keys, at least 1.
    d, p : int
        Coordinates of keys and of values, multiples of 4.
    lanes : int
        Number of queries, at most ``LANES``.
    hidden : float
        A score so low that its weight is zero beside any score above a quarter of it.
    out : (p * LANES,) array
        Filled; a lane that attends to nothing gets NaN.
    """
    s = np.empty(KEYS * LANES, q.dtype)
    new = np.empty(p * LANES, q.dtype)
    new_total = np.empty(LANES, q.dtype)
    total = np.zeros(LANES, q.dtype)
    factor = np.empty(LANES, q.dtype)
    top = np.empty(LANES, q.dtype)
    # Above hidden scores, so that these have no weight where there is no other.
    top[:] = hidden / 2
    out[:] = 0.0
    for start in range(0, n, KEYS):
        keys = min(KEYS, n - start)
        if masked and not seen[start : start + keys].any():
            continue
        rows = (keys + BLOCK - 1) // BLOCK * BLOCK
        multiply(k[start * d :], BLOCK * d, BLOCK * BLOCK, q, rows, d, lanes, s)
        s[keys * LANES : rows * LANES] = hidden
        if masked:
            hide(s, keys, lanes, seen[start : start + keys], hidden)
        raise_maximum(s, rows, lanes, top, factor)
        weigh(s, rows, lanes, top, new_total)
        multiply(v[start * p :], BLOCK * BLOCK, BLOCK * p, s, p, rows, lanes, new)
        merge(total, factor, new_total, 1, lanes)
        merge(out, factor, new, p, lanes)
    for r in range(p):
        o = out[r * LANES : (r + 1) * LANES]
        for i in range(lanes):
            o[i] /= total[i]
