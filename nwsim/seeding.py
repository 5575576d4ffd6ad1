"""Random streams that belong to what is simulated.

A stream is keyed by the study's seed, the condition, the replicate and the role that
the numbers play in it; never by when or where it runs. Any subset of replicates, in any
order, on any number of workers, therefore draws the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from typing import Any

import numpy as np

from nwsim._typing import Factors
from nwsim._validation import check_integer
from nwsim.exceptions import ParameterError

_WORD = 2**32


def _plain(name: str, value: Any) -> str | int | float | bool | None:
    """Return the level as a JSON scalar, so that numpy and Python scalars digest alike."""
    if value is None or isinstance(value, (str, bool, np.bool_)):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and np.isfinite(float(value)):
        return float(value) + 0.0  # -0.0 and 0.0 are one level
    raise ParameterError(
        f"factor {name!r} must have a string, bool or finite number as level; got {value!r}"
    )


def canonical(factors: Factors) -> str:
    """Return the factors as JSON with sorted keys: one text for one condition."""
    plain = {name: _plain(name, value) for name, value in factors.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(factors: Factors) -> str:
    """Return 16 hexadecimal digits that identify a condition."""
    return hashlib.sha256(canonical(factors).encode()).hexdigest()[:16]


def words(text: str, count: int = 4) -> tuple[int, ...]:
    """Return ``count`` 32-bit words of a text's SHA-256.

    Every word stays below 2**32: numpy splits a larger component of a spawn key into
    several, and two different keys could then meet.
    """
    raw = hashlib.sha256(text.encode()).digest()
    return tuple(int.from_bytes(raw[4 * i : 4 * i + 4], "little") for i in range(count))


def stream(seed: int, factors: Factors, rep: int, role: str) -> np.random.Generator:
    """Return the Generator of one role in one replicate of one condition.

    Parameters
    ----------
    seed : int
        The study's seed, at least 0 and below 2**64 (numpy would split a longer one into words
        that could meet those of the key).
    factors : mapping
        The factors that own the stream; factors whose levels share random numbers are
        left out by the caller.
    rep : int
        Replicate, from 0; any replicate is reached directly.
    role : str
        What the numbers are for, such as ``"data"`` or a method's name.

    Returns
    -------
    numpy.random.Generator
        PCG64 seeded by ``SeedSequence(seed, spawn_key=(condition, rep, role))``. Its
        ``spawn`` gives children for the parts of a draw.
    """
    seed = check_integer("seed", seed, maximum=2**64 - 1)
    rep = check_integer("rep", rep, maximum=_WORD - 1)
    key = (*words(canonical(factors)), rep, *words(role, 2))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
