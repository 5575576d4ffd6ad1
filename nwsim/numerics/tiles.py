"""Passes over one tile of a sample: distances, kernel values, weighted sums.

A tile is short enough for its buffers to stay in the first-level cache; every pass is a
plain loop that vectorises.

Kernel families (``family``), with v = |u|^2 and P a polynomial with ``coefficients``:

- ``COMPACT``: K(u) = (1 - |u|^power)^exponent P(v) on |u| <= 1
- ``GAUSSIAN``: K(u) = exp(-v / 2) P(v)
- ``LAPLACE``: K(u) = exp(-|u|) P(v)

Tiles are handed on as slices: an index such as ``start + i`` might be negative for all the
compiler knows, and its wrap-around turns loads into gathers.
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    FLAG,
    INTEGER,
    MATRIX,
    NOTHING,
    OUT_VECTOR,
    PAIR,
    REAL,
    STRICT,
    VECTOR,
    compiled,
)
from nwsim.numerics.exponential import LOG2_E, exp2_nonpositive

COMPACT, GAUSSIAN, LAPLACE = 0, 1, 2
TILE = 512
# Where no buffer is needed tiles are longer; not without end, as plain sums round with length.
LEAN_TILE = 4096
OUTSIDE = 2.0  # any squared distance above 1 marks a point outside a compact window


# STRICT: who belongs to a window is decided by plainly rounded float64 arithmetic, the
# same in every engine; a fused multiply-add would move points across the edge.
@compiled(NOTHING(VECTOR, REAL, REAL, FLAG, FLAG, OUT_VECTOR), fastmath=STRICT)
def add_squared_distances(x, q, h, sharp, first, out):  # type: ignore[no-untyped-def]
    """Add ((q - x_i) / h)^2 to ``out``, or start it if ``first``.

    ``sharp`` asks for abs(q - x_i) <= h as the rule of membership (compact kernels in one
    dimension), where the rounded quotient could say otherwise.
    """
    n = x.shape[0]
    if sharp:
        for i in range(n):
            distance = abs(q - x[i])
            u = distance / h
            out[i] = u * u if distance <= h else OUTSIDE
    elif first:
        for i in range(n):
            u = (q - x[i]) / h
            out[i] = u * u
    else:
        for i in range(n):
            u = (q - x[i]) / h
            out[i] = out[i] + u * u


@compiled(NOTHING(MATRIX, MATRIX, INTEGER, VECTOR, INTEGER, INTEGER, INTEGER, OUT_VECTOR))
def squared_distances(X, Q, j, bandwidth, family, start, width, out):  # type: ignore[no-untyped-def]
    """Fill ``out[:width]`` with |(q_j - x_i) / h|^2 for i from ``start``."""
    sharp = X.shape[0] == 1 and family == COMPACT
    for a in range(X.shape[0]):
        x = X[a, start : start + width]
        add_squared_distances(x, Q[j, a], bandwidth[a], sharp, a == 0, out)


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
            # A point of no prior weight may be nearer than the one that made the shift.
            out[i] = exp2_nonpositive(min(shift - 0.5 * v[i], 0.0) * LOG2_E)
    else:
        for i in range(width):
            out[i] = exp2_nonpositive(min(shift - np.sqrt(v[i]), 0.0) * LOG2_E)
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


@compiled(NOTHING(VECTOR, REAL, FLAG, OUT_VECTOR))
def add_squares(x, q, first, out):  # type: ignore[no-untyped-def]
    """Add (q - x_i)^2 to ``out``, or start it if ``first``."""
    if first:
        for i in range(x.shape[0]):
            u = q - x[i]
            out[i] = u * u
    else:
        for i in range(x.shape[0]):
            u = q - x[i]
            out[i] = out[i] + u * u


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def gaussian_1(x, q, rate, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with 2**(-rate (q - x_i)^2)."""
    for i in range(x.shape[0]):
        u = q - x[i]
        out[i] = exp2_nonpositive(-rate * (u * u))


@compiled(NOTHING(VECTOR, VECTOR, REAL, REAL, REAL, FLAG, OUT_VECTOR))
def gaussian_2(x0, x1, q0, q1, rate, more, out):  # type: ignore[no-untyped-def]
    """As :func:`gaussian_1`, in two coordinates; with ``more``, ``out`` has others' squares."""
    for i in range(x0.shape[0]):
        u = q0 - x0[i]
        v = q1 - x1[i]
        squares = u * u + v * v
        if more:
            squares += out[i]
        out[i] = exp2_nonpositive(-rate * squares)


@compiled(
    NOTHING(
        VECTOR, VECTOR, VECTOR, VECTOR, REAL, REAL, REAL, REAL, REAL, FLAG, OUT_VECTOR,
    )
)  # fmt: skip
def gaussian_4(x0, x1, x2, x3, q0, q1, q2, q3, rate, more, out):  # type: ignore[no-untyped-def]
    """As :func:`gaussian_2`, in four coordinates."""
    for i in range(x0.shape[0]):
        u = q0 - x0[i]
        v = q1 - x1[i]
        w = q2 - x2[i]
        z = q3 - x3[i]
        squares = u * u + v * v + (w * w + z * z)
        if more:
            squares += out[i]
        out[i] = exp2_nonpositive(-rate * squares)


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def laplace_1(x, q, rate, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with 2**(-sqrt(rate) |q - x_i|)."""
    scale = np.sqrt(rate)
    for i in range(x.shape[0]):
        out[i] = exp2_nonpositive(-scale * abs(q - x[i]))


@compiled(NOTHING(OUT_VECTOR, REAL))
def laplace_of_squares(out, rate):  # type: ignore[no-untyped-def]
    """Turn squares v into 2**(-sqrt(rate v)), in place."""
    for i in range(out.shape[0]):
        out[i] = exp2_nonpositive(-np.sqrt(rate * out[i]))


@compiled(REAL(INTEGER, REAL))
def base_two(family, h):  # type: ignore[no-untyped-def]
    """Return the factor of squared distances that turns a kernel into a power of two.

    exp(-u^2 / 2) = 2**(-rate (q - x)^2) with rate = log2(e) / 2h^2, and exp(-|u|) =
    2**(-sqrt(rate (q - x)^2)) with rate = (log2(e) / h)^2. NaN where squares of distances
    could leave floating point before they meet the factor, and for compact kernels.
    """
    if family == COMPACT or not 1e-100 < h < 1e100:
        return np.nan
    return LOG2_E / h * (0.5 / h if family == GAUSSIAN else LOG2_E / h)


@compiled(NOTHING(MATRIX, INTEGER, INTEGER, VECTOR, REAL, INTEGER, INTEGER, INTEGER, OUT_VECTOR))
def exponential_values(X, first, last, q, rate, family, start, stop, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the kernel at points ``start:stop``, coordinates ``first:last``.

    As few passes as there are fours of coordinates, for kernels without a polynomial factor
    and one bandwidth for all coordinates.

    Parameters
    ----------
    X : (D, n); q : (D,); rate : from :func:`base_two`; family : GAUSSIAN or LAPLACE
    """
    n = last - first
    if family == LAPLACE and n == 1:
        laplace_1(X[first, start:stop], q[first], rate, out)
        return
    fused = 0
    if family == GAUSSIAN:
        fused = 4 if n >= 4 else min(n, 2)
    done = last - fused
    for c in range(first, done):
        add_squares(X[c, start:stop], q[c], c == first, out)
    if fused == 0:
        laplace_of_squares(out, rate)
        return
    a, b = done, done + 1
    x0 = X[a, start:stop]
    if fused == 1:
        gaussian_1(x0, q[a], rate, out)
        return
    x1 = X[b, start:stop]
    if fused == 2:
        gaussian_2(x0, x1, q[a], q[b], rate, n > 2, out)
        return
    c, d = done + 2, done + 3
    x2, x3 = X[c, start:stop], X[d, start:stop]
    gaussian_4(x0, x1, x2, x3, q[a], q[b], q[c], q[d], rate, n > 4, out)


@compiled(PAIR(VECTOR, REAL, REAL, VECTOR, VECTOR))
def lean_1(x, q, rate, a, b):  # type: ignore[no-untyped-def]
    """Return the inner products of 2**(-rate (q - x_i)^2) with a and b."""
    s = 0.0
    t = 0.0
    for i in range(x.shape[0]):
        u = q - x[i]
        k = exp2_nonpositive(-rate * (u * u))
        s += k * a[i]
        t += k * b[i]
    return s, t


@compiled(PAIR(VECTOR, VECTOR, REAL, REAL, REAL, VECTOR, VECTOR))
def lean_2(x0, x1, q0, q1, rate, a, b):  # type: ignore[no-untyped-def]
    """As :func:`lean_1`, in two coordinates."""
    s = 0.0
    t = 0.0
    for i in range(x0.shape[0]):
        u = q0 - x0[i]
        v = q1 - x1[i]
        k = exp2_nonpositive(-rate * (u * u + v * v))
        s += k * a[i]
        t += k * b[i]
    return s, t


@compiled(PAIR(VECTOR, VECTOR, VECTOR, REAL, REAL, REAL, REAL, VECTOR, VECTOR))
def lean_3(x0, x1, x2, q0, q1, q2, rate, a, b):  # type: ignore[no-untyped-def]
    """As :func:`lean_1`, in three coordinates."""
    s = 0.0
    t = 0.0
    for i in range(x0.shape[0]):
        u = q0 - x0[i]
        v = q1 - x1[i]
        w = q2 - x2[i]
        k = exp2_nonpositive(-rate * (u * u + v * v + w * w))
        s += k * a[i]
        t += k * b[i]
    return s, t


@compiled(PAIR(MATRIX, VECTOR, REAL, INTEGER, INTEGER, VECTOR, VECTOR))
def lean_sums(X, q, rate, start, stop, a, b):  # type: ignore[no-untyped-def]
    """Return the inner products of a Gaussian with two columns, and keep nothing.

    What most predictions ask for, faster than by way of the kernel's values.

    Parameters
    ----------
    X : (d, n), d <= 3; q : (d,); rate : from :func:`base_two`
    a, b : (stop - start,)
    """
    d = X.shape[0]
    if d == 1:
        return lean_1(X[0, start:stop], q[0], rate, a, b)
    x0, x1 = X[0, start:stop], X[1, start:stop]
    if d == 2:
        return lean_2(x0, x1, q[0], q[1], rate, a, b)
    return lean_3(x0, x1, X[2, start:stop], q[0], q[1], q[2], rate, a, b)


@compiled(REAL(VECTOR))
def total(k):  # type: ignore[no-untyped-def]
    """Return sum_i k_i."""
    s = 0.0
    for i in range(k.shape[0]):
        s += k[i]
    return s


@compiled(REAL(VECTOR, VECTOR))
def absolute_inner(k, prior):  # type: ignore[no-untyped-def]
    """Return sum_i |k_i| prior_i."""
    s = 0.0
    for i in range(k.shape[0]):
        s += abs(k[i]) * prior[i]
    return s


@compiled(REAL(VECTOR, VECTOR))
def inner(k, values):  # type: ignore[no-untyped-def]
    """Return sum_i k_i values_i."""
    s = 0.0
    for i in range(k.shape[0]):
        s += k[i] * values[i]
    return s


@compiled(PAIR(VECTOR, VECTOR, VECTOR))
def two_inner(k, a, b):  # type: ignore[no-untyped-def]
    """Return sum_i k_i a_i and sum_i k_i b_i in one pass."""
    s = 0.0
    t = 0.0
    for i in range(k.shape[0]):
        s += k[i] * a[i]
        t += k[i] * b[i]
    return s, t


@compiled(REAL(VECTOR, VECTOR))
def squared_inner(k, noise):  # type: ignore[no-untyped-def]
    """Return sum_i k_i^2 noise_i."""
    s = 0.0
    for i in range(k.shape[0]):
        s += k[i] * k[i] * noise[i]
    return s


@compiled(NOTHING(VECTOR, VECTOR, OUT_VECTOR))
def product(a, b, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with a_i b_i."""
    for i in range(a.shape[0]):
        out[i] = a[i] * b[i]


@compiled(NOTHING(OUT_VECTOR, VECTOR))
def scale(k, factor):  # type: ignore[no-untyped-def]
    """Multiply ``k`` by ``factor`` in place."""
    for i in range(k.shape[0]):
        k[i] = k[i] * factor[i]


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def offsets_from(x, q, h, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with (x_i - q) / h."""
    for i in range(x.shape[0]):
        out[i] = (x[i] - q) / h
