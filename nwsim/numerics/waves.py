"""Sums of random waves ``sum_k w_k S(<u_k, x> + phase_k)`` of one shape S.

Every shape here has period 1, is even, and is odd about its zero at a quarter turn.
With ``s = 1/4 - |t - round(t)|`` in [-1/4, 1/4] it is therefore ``s P(s^2)`` (the
cosine, the triangle, the cubic Euler spline) or ``s P(|s|)`` (the quadratic one), and one
compiled loop serves them all.
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import STRICT, compiled

N_COEFFICIENTS = 8
COSINE = (
    6.283185307179585,
    -41.341702240398284,
    81.60524927557977,
    -76.70585968962867,
    42.05868995395094,
    -15.09450614073429,
    3.817365633469135,
    -0.6925067010720717,
)
"""cos(2 pi t) = s P(s^2): P interpolates sin(2 pi s)/s at the Chebyshev points of s^2 in
[0, 1/16]; its own error is below 3e-16, so rounding decides."""

# Adding and taking away 1.5 * 2^52 rounds to the nearest integer, in two additions that
# vectorise everywhere, for |t| < 2^51.
_ROUND = 6755399441055744.0
_BLOCK = 1024
_READ_1D = "Array(float64, 1, 'C', readonly=True)"
_READ_2D = "Array(float64, 2, 'C', readonly=True)"


# STRICT throughout: reassociation would cancel the rounding constant, and contraction
# would make high frequencies (and so the last digits of f) depend on the processor, on
# the place of a point in its block, and on whether the loop is compiled.
@compiled(
    f"void({_READ_2D}, {_READ_2D}, {_READ_1D}, {_READ_1D}, {_READ_1D}, boolean, float64[::1])",
    fastmath=STRICT,
)
def wave_sum(points, frequencies, phases, weights, coefficients, absolute, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the sum of waves at each point.

    Parameters
    ----------
    points : (n, d) array
        C-contiguous float64; NaN and infinity come out as NaN.
    frequencies : (k, d) array
        Wave vectors u_k, in turns per unit length.
    phases : (k,) array
        Phases, in turns. |<u_k, x> + phase_k| must stay below 2^51.
    weights : (k,) array
        Weights w_k.
    coefficients : (8,) array
        Coefficients of P, lowest power first.
    absolute : bool
        P takes |s| if true, s^2 if false.
    out : (n,) array
        Overwritten. Terms are added in the order of k at every point, so that a value
        does not depend on the other points of the call.
    """
    n, dim = points.shape
    count = frequencies.shape[0]
    c0, c1, c2, c3 = coefficients[0], coefficients[1], coefficients[2], coefficients[3]
    c4, c5, c6, c7 = coefficients[4], coefficients[5], coefficients[6], coefficients[7]
    columns = np.empty((dim, _BLOCK))
    turns = np.empty(_BLOCK)
    total = np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        for i in range(size):
            total[i] = 0.0
            for j in range(dim):
                columns[j, i] = points[start + i, j]
        for k in range(count):
            phase = phases[k]
            weight = weights[k]
            frequency = frequencies[k, 0]
            for i in range(size):
                turns[i] = frequency * columns[0, i] + phase
            for j in range(1, dim):
                frequency = frequencies[k, j]
                for i in range(size):
                    turns[i] += frequency * columns[j, i]
            if absolute:
                for i in range(size):
                    t = turns[i]
                    s = 0.25 - abs(t - ((t + _ROUND) - _ROUND))
                    z = abs(s)
                    total[i] += weight * (s * (c0 + z * (c1 + z * (c2 + z * c3))))
            else:
                for i in range(size):
                    t = turns[i]
                    s = 0.25 - abs(t - ((t + _ROUND) - _ROUND))
                    z = s * s
                    p = c4 + z * (c5 + z * (c6 + z * c7))
                    p = c0 + z * (c1 + z * (c2 + z * (c3 + z * p)))
                    total[i] += weight * (s * p)
        for i in range(size):
            out[start + i] = total[i]
