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
# Lanes are filled up to whole vectors, whose remainders would be computed one by one.
VECTOR = 16
_SQUARE = 64

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
_TABLE = {real: types.Array(real, 2, "C", readonly=True) for real in _REALS}
_OUT_TABLE = {real: types.Array(real, 2, "C") for real in _REALS}
_OUT_SEEN = types.Array(types.boolean, 1, "C")
_SEEN = types.Array(types.boolean, 2, "C", readonly=True)


@compiled(inline=True)
def whole(count, unit):  # type: ignore[no-untyped-def]
    """Return ``count`` rounded up to a multiple of ``unit``."""
    return (count + unit - 1) // unit * unit


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


@compiled([NOTHING(_TABLE[real], FLAG, _OUT[real]) for real in _REALS])
def pack(a, transposed, out):  # type: ignore[no-untyped-def]
    """Fill ``out``, zero before, with ``a`` (rows, columns) in blocks of 4 x 4.

    Blocks of one four of rows follow each other; ``transposed`` turns each block, not
    their order.
    """
    rows, columns = a.shape
    size = BLOCK * BLOCK
    width = whole(columns, BLOCK) * BLOCK
    row_step, column_step = (1, BLOCK) if transposed else (BLOCK, 1)
    for i in range(rows):
        row = a[i]
        fours = out[i // BLOCK * width + i % BLOCK * row_step :]
        for b in range(columns // BLOCK):
            four, block = row[BLOCK * b : BLOCK * (b + 1)], fours[size * b :]
            for j in range(BLOCK):
                block[j * column_step] = four[j]
        for j in range(columns // BLOCK * BLOCK, columns):
            fours[j // BLOCK * size + j % BLOCK * column_step] = row[j]


@compiled([NOTHING(_TABLE[real], real, _OUT[real]) for real in _REALS])
def spread(q, scale, out):  # type: ignore[no-untyped-def]
    """Fill a lane of ``out`` with each row of ``q``, times ``scale``."""
    for j in range(q.shape[1]):
        o = out[j * LANES : (j + 1) * LANES]
        for i in range(q.shape[0]):
            o[i] = q[i, j] * scale


@compiled([NOTHING(_IN[real], _IN[real], _OUT_TABLE[real]) for real in _REALS])
def collect(sums, total, out):  # type: ignore[no-untyped-def]
    """Fill each row of ``out`` with a lane of ``sums`` over ``total``."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = sums[j * LANES + i] / total[i]


@compiled(INTEGER(_SEEN, INTEGER, INTEGER))
def count_seen(seen, start, keys):  # type: ignore[no-untyped-def]
    """Return how many entries of ``seen`` are True, of ``keys`` columns from ``start``."""
    count = 0
    for i in range(seen.shape[0]):
        row = seen[i, start : start + keys]
        for j in range(keys):
            count += row[j]
    return count


@compiled(
    [NOTHING(_OUT[real], _SEEN, INTEGER, INTEGER, INTEGER, real, _OUT_SEEN) for real in _REALS]
)
def hide(s, seen, start, keys, count, hidden, turned):  # type: ignore[no-untyped-def]
    """Set scores of ``count`` lanes to ``hidden`` where ``seen`` is False.

    ``seen`` (count or 1, n) tells of the keys from ``start``; ``turned`` (KEYS * LANES,) is
    working space.
    """
    shared = seen.shape[0] == 1
    # Squares of 64 x 64 stay in the first-level cache, read by rows and written by columns.
    for key in range(0, keys, _SQUARE):
        width = min(_SQUARE, keys - key)
        for lane in range(0, count, _SQUARE):
            square = turned[key * LANES + lane :]
            for i in range(min(_SQUARE, count - lane)):
                row = seen[0 if shared else lane + i, start + key : start + key + width]
                for j in range(width):
                    square[j * LANES + i] = row[j]
    for j in range(keys):
        o = s[j * LANES : (j + 1) * LANES]
        kept = turned[j * LANES : (j + 1) * LANES]
        for i in range(count):
            o[i] = o[i] if kept[i] else hidden


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
    [NOTHING(*[_TABLE[real]] * 3, _SEEN, FLAG, real, real, _OUT_TABLE[real]) for real in _REALS]
)
def attend(q, k, v, seen, masked, scale, hidden, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (m, p) with softmax averages of the values.

    Parameters
    ----------
    q, k, v : (m, d), (n, d) and (n, p) arrays
        Queries, keys and values; n at least 1.
    seen : (m, n) or (1, n) array of bool
        Which query attends to which key; unused unless ``masked``.
    masked : bool
        Whether ``seen`` counts.
    scale : float
        log2(e) over the temperature.
    hidden : float
        A score so low that its weight is zero beside any score above a quarter of it.
    out : (m, p) array
        Filled; a query that attends to nothing gets NaN.
    """
    m, n = q.shape[0], k.shape[0]
    d, p = whole(q.shape[1], BLOCK), whole(v.shape[1], BLOCK)
    packed_keys = np.zeros(whole(n, BLOCK) * d, q.dtype)
    packed_values = np.zeros(whole(n, BLOCK) * p, q.dtype)
    pack(k, False, packed_keys)
    pack(v, True, packed_values)
    lane_q = np.zeros(d * LANES, q.dtype)
    s = np.empty(min(KEYS, whole(n, BLOCK)) * LANES, q.dtype)
    turned = np.empty(KEYS * LANES if masked else 0, np.bool_)
    sums, new = np.empty(p * LANES, q.dtype), np.empty(p * LANES, q.dtype)
    total, new_total = np.empty(LANES, q.dtype), np.empty(LANES, q.dtype)
    top, factor = np.empty(LANES, q.dtype), np.empty(LANES, q.dtype)
    for first in range(0, m, LANES):
        count = min(LANES, m - first)
        # Lanes beyond the last query are computed and not used.
        lanes = whole(count, VECTOR)
        spread(q[first : first + count], scale, lane_q)
        tile_seen = seen[first : first + count] if seen.shape[0] > 1 else seen
        sums[:] = 0.0
        total[:] = 0.0
        # Above hidden scores, so that these have no weight where there is no other.
        top[:] = hidden / 2
        for start in range(0, n, KEYS):
            keys = min(KEYS, n - start)
            rows = whole(keys, BLOCK)
            n_seen = count_seen(tile_seen, start, keys) if masked else 1
            if n_seen == 0:
                continue
            multiply(packed_keys[start * d :], BLOCK * d, BLOCK * BLOCK, lane_q, rows, d, lanes, s)
            s[keys * LANES : rows * LANES] = hidden
            if masked and n_seen < keys * tile_seen.shape[0]:
                hide(s, tile_seen, start, keys, count, hidden, turned)
            raise_maximum(s, rows, lanes, top, factor)
            weigh(s, rows, lanes, top, new_total)
            multiply(packed_values[start * p :], BLOCK * BLOCK, BLOCK * p, s, p, rows, lanes, new)
            merge(total, factor, new_total, 1, lanes)
            merge(sums, factor, new, p, lanes)
        collect(sums, total, out[first : first + count])
