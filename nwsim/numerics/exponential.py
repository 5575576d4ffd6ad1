"""Powers of two with a non-positive exponent, in a form that vectorises.

``math.exp`` is called element by element in compiled loops. This one is plain arithmetic
on floats and on their bit patterns, so the compiler turns the loop around it into vector
instructions, and its interpreted twin computes the same numbers.

Kernels are exponentials of what is known to rounding only, (x - q)^2 / 2h^2, so log2(e) is
folded into the bandwidth: exp(-a) = 2**(-a log2(e)). The exponent is split as ``t = k + r``
with k an integer and ``|r| <= 1/2``, which is exact; 2**r is a polynomial, and k is added to
the exponent bits (compare Muller 2016, "Elementary Functions", chapter 11).
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import compiled

LOG2_E = 1.4426950408889634
# Adding and subtracting 1.5 * 2**52 rounds to the nearest integer, and leaves that
# integer in the low bits of the sum.
ROUND = 6755399441055744.0
ROUND_BITS = int(np.float64(ROUND).view(np.int64))
# Below this the result would be subnormal, where arithmetic is ten times slower; the
# value there, 2e-308, is as good as nothing beside the largest weight.
LOWEST = -1022.0

# Chebyshev interpolation of 2**r on [-1/2, 1/2] with relative error below 4e-18:
# mpmath.chebyfit(lambda r: mpf(2)**r, [-0.5000001, 0.5000001], 12), in 50 digits.
_C1, _C2, _C3 = 0.6931471805599453, 0.24022650695910158, 0.055504108664821625
_C4, _C5, _C6 = 0.009618129107587256, 0.001333355814640647, 0.0001540353046372444
_C7, _C8, _C9 = 1.5252733841556817e-05, 1.3215432535868937e-06, 1.0178057087710788e-07
_C10, _C11 = 7.07419430501114e-09, 4.4558179124523303e-10


# Not SUMS: reassociation would cancel the rounding.
@compiled(fastmath=frozenset({"contract"}), inline=True)
def exp2_nonpositive(t):  # type: ignore[no-untyped-def]
    """Return 2**t for t <= 0 (a little above is fine), to one ulp; t may be -inf.

    Arguments below ``LOWEST`` give 2**``LOWEST``.
    """
    t = max(t, LOWEST)
    shifted = t + ROUND
    r = t - (shifted - ROUND)
    # Horner's scheme is a long chain, but the processor overlaps those of several points.
    p = _C11 * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + _C1
    p = p * r + 1.0
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)
