"""Kernel sums on the line by sweeps along a sorted sample, for sorted queries.

Polynomial kernels. Queries are taken in groups so narrow that one cut b lies in all their
windows. With z = (x - b) / h and delta = (q - b) / h the kernel is a polynomial in z whose
coefficients depend on delta, so a window needs no more than power sums of its points on either
side of the cut. They are collected by walking away from the cut, in both directions: sums only
grow, nothing is subtracted (prefix sums over the whole sample would cancel instead), and a
kernel whose powers are those of |q - x| is summed over half windows, of one sign each.

Laplace kernel. About a cut, exp(-(q - x) / h) separates into exp(-(q - b) / h) and
exp((x - b) / h); what has been summed is carried on to the next cut by one factor.
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
    OUT_VECTOR,
    REAL,
    STRICT,
    VECTOR,
    compiled,
)
from nwsim.numerics.exponential import LOG2_E, exp2_nonpositive
from nwsim.numerics.tiles import TILE, inner

# Points added to a plain sum before it goes into a compensated one.
RUN = 64


@compiled(fastmath=STRICT, inline=True)
def beyond(x, q, h, what):  # type: ignore[no-untyped-def]
    """Return whether x lies in the window (0), from q on (1) or after the window (2)."""
    if what == 0:
        return q - x <= h
    if what == 1:
        return x >= q
    return x - q > h


@compiled(fastmath=STRICT)
def advance(x, start, q, h, what):  # type: ignore[no-untyped-def]
    """Return the first index from ``start`` on that is :func:`beyond`: steps, then halving."""
    n = x.shape[0]
    step = 1
    below = start
    while below < n and not beyond(x[below], q, h, what):
        ahead = below + step
        if ahead >= n or beyond(x[ahead], q, h, what):
            above = min(ahead, n)
            while above - below > 1:
                centre = (below + above) // 2
                if beyond(x[centre], q, h, what):
                    above = centre
                else:
                    below = centre
            return above
        below = ahead
        step *= 2
    return below


@compiled(NOTHING(VECTOR, VECTOR, REAL, OUT_INDICES, OUT_INDICES, OUT_INDICES), fastmath=STRICT)
def half_windows(x, q, h, low, middle, high):  # type: ignore[no-untyped-def]
    """Fill in where each window starts, passes its query and ends; x and q ascend.

    Membership is abs(q - x) <= h in plainly rounded arithmetic.
    """
    n = x.shape[0]
    a = 0
    b = 0
    c = 0
    for j in range(q.shape[0]):
        a = advance(x, a, q[j], h, 0)
        b = advance(x, max(a, b), q[j], h, 1)
        c = advance(x, max(b, c), q[j], h, 2)
        low[j] = a
        middle[j] = b
        high[j] = min(c, n)


@compiled(NOTHING(OUT_VECTOR, OUT_VECTOR, OUT_VECTOR), fastmath=STRICT)
def flush(run, total, lost):  # type: ignore[no-untyped-def]
    """Add ``run`` to ``total``, what rounding loses to ``lost``, and empty it (Knuth's sum)."""
    for k in range(run.shape[0]):
        s = total[k] + run[k]
        part = s - total[k]
        lost[k] += (total[k] - (s - part)) + (run[k] - part)
        total[k] = s
        run[k] = 0.0


@compiled(NOTHING(VECTOR, MATRIX, VECTOR, INTEGER, INTEGER, REAL, REAL, INTEGER, OUT_VECTOR))
def add_powers(x, columns, squares, start, stop, cut, per_h, degree, run):  # type: ignore[no-untyped-def]
    """Add column_i z_i^k, k <= degree, to ``run``; of squares_i the powers up to 2 degree."""
    n_powers = degree + 1
    n_columns = columns.shape[0]
    for i in range(start, stop):
        z = (x[i] - cut) * per_h
        at = 0
        for c in range(n_columns):
            t = columns[c, i]
            for _ in range(n_powers):
                run[at] += t
                t *= z
                at += 1
        if squares.shape[0] > 0:
            t = squares[i]
            for _ in range(2 * degree + 1):
                run[at] += t
                t *= z
                at += 1


@compiled(NOTHING(VECTOR, REAL, OUT_VECTOR, OUT_VECTOR))
def shifted(polynomial, delta, out, size):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the coefficients in z of a polynomial in delta - z.

    ``size`` receives what they would be without cancellation, for their rounding.
    """
    n = polynomial.shape[0]
    for k in range(n):
        out[k] = polynomial[k]
        size[k] = abs(polynomial[k])
    absolute = abs(delta)
    for k in range(n - 1):
        for r in range(n - 2, k - 1, -1):
            out[r] += delta * out[r + 1]
            size[r] += absolute * size[r + 1]
    for k in range(1, n, 2):
        out[k] = -out[k]


@compiled(
    NOTHING(
        VECTOR, VECTOR, VECTOR, VECTOR, REAL, INTEGER, OUT_MATRIX, OUT_MATRIX, OUT_VECTOR,
        OUT_MATRIX,
    )
)  # fmt: skip
def read_off(kernel, square, total, lost, delta, j, workspace, out, noise, bound):  # type: ignore[no-untyped-def]
    """Add query j's sums: its kernel's coefficients in z times the sums of powers of z."""
    n_powers = kernel.shape[0]
    coefficients, size = workspace[0, :n_powers], workspace[1, :n_powers]
    shifted(kernel, delta, coefficients, size)
    at = 0
    for c in range(out.shape[1]):
        for k in range(n_powers):
            moment = total[at] + lost[at]
            out[j, c] += coefficients[k] * moment
            if c == 0:
                bound[j, 0] += size[k] * abs(moment)
            at += 1
    if noise.shape[0] > 0:
        n_powers = square.shape[0]
        coefficients, size = workspace[0, :n_powers], workspace[1, :n_powers]
        shifted(square, delta, coefficients, size)
        for k in range(n_powers):
            moment = total[at] + lost[at]
            noise[j] += coefficients[k] * moment
            bound[j, 1] += size[k] * abs(moment)
            at += 1


@compiled(
    NOTHING(
        VECTOR, MATRIX, VECTOR, VECTOR, INDICES, INDICES, REAL, REAL, REAL, VECTOR, VECTOR,
        OUT_MATRIX, OUT_VECTOR, OUT_MATRIX,
    )
)  # fmt: skip
def polynomial_sweep(  # type: ignore[no-untyped-def]
    x, columns, squares, q, starts, stops, h, offset, extent, kernel, square, out, noise, bound
):
    """Sum a polynomial in (q - x) / h over each query's range of points.

    Parameters
    ----------
    x : (n,) ascending; columns : (C, n); squares : (n,) or (0,)
    q : (m,) ascending; starts, stops : (m,) the points ``starts[j]:stops[j]`` of query j
    offset, extent : queries from q_0 to q_0 + extent form a group, its cut is q_0 + offset
    kernel, square : (R,), (2 R - 1,) coefficients of the kernel and of its square
    out : (m, C), noise : (m,) or (0,) added to
    bound : (m, 2) receives the sums of the absolute terms that ``out[:, 0]`` and the noise
        would be made of without cancellation, and infinity where a range does not hold its
        cut, which only rounding can bring about
    """
    m = q.shape[0]
    degree = kernel.shape[0] - 1
    size = columns.shape[0] * (degree + 1) + (square.shape[0] if squares.shape[0] > 0 else 0)
    run = np.zeros(size)
    total = np.empty(size)
    lost = np.empty(size)
    workspace = np.empty((2, square.shape[0]))
    per_h = 1.0 / h
    first = 0
    at_cut = 0
    while first < m:
        cut = q[first] + offset
        last = first
        while last < m and q[last] <= q[first] + extent:
            last += 1
        at_cut = advance(x, at_cut, cut, h, 1)
        for j in range(first, last):
            if starts[j] > at_cut or stops[j] < at_cut:
                bound[j, 0] = np.inf
        total[:] = 0.0
        lost[:] = 0.0
        here = at_cut
        for j in range(first, last):
            while here < stops[j]:
                there = min(here + RUN, stops[j])
                add_powers(x, columns, squares, here, there, cut, per_h, degree, run)
                flush(run, total, lost)
                here = there
            read_off(
                kernel, square, total, lost, (q[j] - cut) * per_h, j, workspace, out, noise, bound
            )
        total[:] = 0.0
        lost[:] = 0.0
        here = at_cut
        for j in range(last - 1, first - 1, -1):
            while here > starts[j]:
                there = max(here - RUN, starts[j])
                add_powers(x, columns, squares, there, here, cut, per_h, degree, run)
                flush(run, total, lost)
                here = there
            read_off(
                kernel, square, total, lost, (q[j] - cut) * per_h, j, workspace, out, noise, bound
            )
        first = last


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def growing(x, cut, scale, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with 2**((x_i - cut) scale)."""
    for i in range(x.shape[0]):
        out[i] = exp2_nonpositive((x[i] - cut) * scale)


@compiled(NOTHING(OUT_VECTOR))
def square_in_place(v):  # type: ignore[no-untyped-def]
    """Square every entry."""
    for i in range(v.shape[0]):
        v[i] = v[i] * v[i]


@compiled(NOTHING(VECTOR, MATRIX, VECTOR, VECTOR, INDICES, REAL, OUT_MATRIX, OUT_VECTOR))
def laplace_sweep(x, columns, squares, q, stops, h, out, noise):  # type: ignore[no-untyped-def]
    """Sum exp(-(q - x_i) / h) over the points before ``stops[j]``, for each query.

    Parameters
    ----------
    x : (n,) ascending; columns : (C, n); squares : (n,) or (0,)
    q : (m,) ascending; stops : (m,) with x[stops[j] - 1] <= q[j]
    out : (m, C), noise : (m,) or (0,) added to
    """
    n_columns = columns.shape[0]
    with_noise = squares.shape[0] > 0
    run = np.zeros(n_columns + 1)
    total = np.zeros(n_columns + 1)
    lost = np.zeros(n_columns + 1)
    e = np.empty(TILE)
    scale = LOG2_E / h
    cut = q[0] if q.shape[0] > 0 else 0.0
    here = 0
    for j in range(q.shape[0]):
        if q[j] > cut + h:
            decay = exp2_nonpositive((cut - q[j]) * scale)
            for c in range(n_columns + 1):
                factor = decay if c < n_columns else decay * decay
                total[c] *= factor
                lost[c] *= factor
            cut = q[j]
        while here < stops[j]:
            there = min(here + TILE, stops[j])
            part = e[: there - here]
            growing(x[here:there], cut, scale, part)
            for c in range(n_columns):
                run[c] = inner(part, columns[c, here:there])
            if with_noise:
                square_in_place(part)
                run[n_columns] = inner(part, squares[here:there])
            flush(run, total, lost)
            here = there
        decay = exp2_nonpositive((cut - q[j]) * scale)
        for c in range(n_columns):
            out[j, c] += decay * (total[c] + lost[c])
        if with_noise:
            noise[j] += decay * decay * (total[n_columns] + lost[n_columns])
