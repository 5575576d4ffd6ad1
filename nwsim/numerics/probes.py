"""Loops that measure the machine: exponentials and multiply-adds as compiled code does them."""

from __future__ import annotations

from nwsim.numerics._compile import INTEGER, NOTHING, OUT_VECTOR, VECTOR, compiled
from nwsim.numerics.exponential import exp2_nonpositive

MULTIPLY_ADDS = 64
"""Multiply-adds of an element in a round of :func:`multiply_adds`."""


@compiled(NOTHING(VECTOR, INTEGER, OUT_VECTOR))
def exponentials(t, rounds, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with 2**t, over and over; ``t`` (n,) at most 0."""
    for _ in range(rounds):
        for i in range(t.shape[0]):
            out[i] = exp2_nonpositive(t[i])


@compiled(fastmath=frozenset({"contract"}), inline=True)
def _four(p, x):  # type: ignore[no-untyped-def]
    return (((p * x + 0.5) * x + 0.25) * x + 0.125) * x + 1.0


@compiled(fastmath=frozenset({"contract"}), inline=True)
def _sixteen(p, x):  # type: ignore[no-untyped-def]
    return _four(_four(_four(_four(p, x), x), x), x)


@compiled(NOTHING(VECTOR, INTEGER, OUT_VECTOR))
def multiply_adds(x, rounds, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with a polynomial of degree 64 in ``x`` (n,), over and over."""
    for _ in range(rounds):
        for i in range(x.shape[0]):
            out[i] = _sixteen(_sixteen(_sixteen(_sixteen(1.0, x[i]), x[i]), x[i]), x[i])
