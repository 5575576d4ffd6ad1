"""Exponential of a non-positive argument that vectorises.

``math.exp`` is called element by element in compiled loops. This one is plain arithmetic
on floats and on their bit patterns, so the compiler turns the loop around it into vector
instructions, and its interpreted twin computes the same numbers.

The argument is split as ``x = k log 2 + r`` with ``|r| <= log(2)/2`` (two-step reduction,
Cody & Waite 1980, "Software Manual for the Elementary Functions"), ``exp(r)`` is a
polynomial, and ``2**k`` is added to the exponent bits.
"""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import compiled

# Adding and subtracting 1.5 * 2**52 rounds to the nearest integer, and leaves that
# integer in the low bits of the sum.
_ROUND = 6755399441055744.0
_LOG2_E = 1.4426950408889634
# log 2 in two parts: products of the first with |k| < 2**11 are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Below this the result would be subnormal, where arithmetic is ten times slower; the
# value there, 3e-308, is as good as nothing beside the largest weight.
LOWEST = -708.0

# Taylor coefficients 1/j!; at |r| <= 0.3466 the first one left out is below 2e-17.
_C2, _C3, _C4 = 1 / 2, 1 / 6, 1 / 24
_C5, _C6, _C7 = 1 / 120, 1 / 720, 1 / 5040
_C8, _C9, _C10 = 1 / 40320, 1 / 362880, 1 / 3628800
_C11, _C12, _C13 = 1 / 39916800, 1 / 479001600, 1 / 6227020800


# Not SUMS: reassociation would merge the two reduction steps and cancel the rounding.
@compiled(fastmath=frozenset({"contract"}), inline=True)
def exp_nonpositive(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for finite x <= 0 (a little above is fine), to about one ulp.

    Arguments below ``LOWEST`` give exp(``LOWEST``).
    """
    x = max(x, LOWEST)
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    # Estrin's scheme: short dependency chains, the loop is bound by latency.
    low = (1.0 + r) + r2 * (_C2 + _C3 * r)
    middle = (_C4 + _C5 * r) + r2 * (_C6 + _C7 * r)
    high = (_C8 + _C9 * r) + r2 * (_C10 + _C11 * r) + r4 * (_C12 + _C13 * r)
    p = low + r4 * (middle + r4 * high)
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)
