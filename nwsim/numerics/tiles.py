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
            out[i] = exp2_nonpositive((shift - 0.5 * v[i]) * LOG2_E)
    else:
        for i in range(width):
            out[i] = exp2_nonpositive((shift - np.sqrt(v[i])) * LOG2_E)
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


@compiled(NOTHING(VECTOR, REAL, REAL, FLAG, OUT_VECTOR))
def add_scaled_squares(x, q, scale, first, out):  # type: ignore[no-untyped-def]
    """Add ((q - x_i) scale)^2 to ``out``, or start it if ``first``."""
    if first:
        for i in range(x.shape[0]):
            u = (q - x[i]) * scale
            out[i] = u * u
    else:
        for i in range(x.shape[0]):
            u = (q - x[i]) * scale
            out[i] = out[i] + u * u


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def gaussian_1(x, q, scale, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with 2**(-u^2), u = (q - x_i) scale."""
    for i in range(x.shape[0]):
        u = (q - x[i]) * scale
        out[i] = exp2_nonpositive(-u * u)


@compiled(NOTHING(VECTOR, VECTOR, REAL, REAL, REAL, REAL, OUT_VECTOR))
def gaussian_2(x0, x1, q0, q1, scale0, scale1, out):  # type: ignore[no-untyped-def]
    """As :func:`gaussian_1`, in two coordinates."""
    for i in range(x0.shape[0]):
        u = (q0 - x0[i]) * scale0
        v = (q1 - x1[i]) * scale1
        out[i] = exp2_nonpositive(-(u * u + v * v))


@compiled(NOTHING(VECTOR, VECTOR, REAL, REAL, REAL, REAL, OUT_VECTOR))
def gaussian_more(x0, x1, q0, q1, scale0, scale1, out):  # type: ignore[no-untyped-def]
    """As :func:`gaussian_2`; ``out`` comes with the squares of other coordinates."""
    for i in range(x0.shape[0]):
        u = (q0 - x0[i]) * scale0
        v = (q1 - x1[i]) * scale1
        out[i] = exp2_nonpositive(-(out[i] + u * u + v * v))


@compiled(NOTHING(VECTOR, REAL, REAL, OUT_VECTOR))
def laplace_1(x, q, scale, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with 2**(-|u|), u = (q - x_i) scale."""
    for i in range(x.shape[0]):
        out[i] = exp2_nonpositive(-abs((q - x[i]) * scale))


@compiled(NOTHING(OUT_VECTOR))
def laplace_of_squares(out):  # type: ignore[no-untyped-def]
    """Turn squares v into 2**(-sqrt(v)), in place."""
    for i in range(out.shape[0]):
        out[i] = exp2_nonpositive(-np.sqrt(out[i]))


@compiled(REAL(INTEGER, REAL))
def base_two(family, h):  # type: ignore[no-untyped-def]
    """Return the factor of distances that turns the kernel into a power of two.

    exp(-u^2 / 2) = 2**-(u c)^2 with c^2 = log2(e) / 2, and exp(-|u|) = 2**-|u c| with
    c = log2(e). Bandwidths too small for their reciprocal have the largest one there is.
    """
    c = np.sqrt(0.5 * LOG2_E) if family == GAUSSIAN else LOG2_E
    return min(c / h, 1.7e308)


@compiled(NOTHING(MATRIX, INTEGER, INTEGER, VECTOR, VECTOR, INTEGER, INTEGER, INTEGER, OUT_VECTOR))
def exponential_values(X, first, last, q, scale, family, start, stop, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the kernel at points ``start:stop``, coordinates ``first:last``.

    One pass from differences to powers of two, for kernels without a polynomial factor.

    Parameters
    ----------
    X : (D, n); q : (D,); scale : (D,) from :func:`base_two`; family : GAUSSIAN or LAPLACE
    """
    a, b = last - 2, last - 1
    if last - first == 1:
        if family == GAUSSIAN:
            gaussian_1(X[b, start:stop], q[b], scale[b], out)
        else:
            laplace_1(X[b, start:stop], q[b], scale[b], out)
        return
    for c in range(first, a if family == GAUSSIAN else last):
        add_scaled_squares(X[c, start:stop], q[c], scale[c], c == first, out)
    if family == LAPLACE:
        laplace_of_squares(out)
    elif a == first:
        gaussian_2(X[a, start:stop], X[b, start:stop], q[a], q[b], scale[a], scale[b], out)
    else:
        gaussian_more(X[a, start:stop], X[b, start:stop], q[a], q[b], scale[a], scale[b], out)


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
