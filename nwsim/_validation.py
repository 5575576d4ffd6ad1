"""Checks at the door: each raises :class:`~nwsim.exceptions.ParameterError` by name."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from typing import Any

import numpy as np

from nwsim._typing import FloatArray
from nwsim.exceptions import ParameterError


def check_choice(name: str, value: Any, accepted: Collection[str]) -> str:
    """Return ``value`` if it is one of the ``accepted`` names."""
    if not isinstance(value, str) or value not in accepted:
        listed = ", ".join(repr(choice) for choice in accepted)
        raise ParameterError(f"{name} must be one of {listed}; got {value!r}")
    return value


def check_integer(name: str, value: Any, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Return ``value`` as an int if it is a whole number within the bounds."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < minimum or (maximum is not None and value > maximum):
        upper = "" if maximum is None else f" and at most {maximum}"
        raise ParameterError(
            f"{name} must be a whole number of at least {minimum}{upper}; got {value!r}"
        )
    return int(value)


def check_real(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    minimum: float = -math.inf,
    maximum: float = math.inf,
) -> float:
    """Return ``value`` as a finite float within ``(above, maximum]`` and ``>= minimum``."""
    real = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    number = float(value) if real else math.nan
    if not (math.isfinite(number) and number > above and minimum <= number <= maximum):
        bounds = ["finite"]
        if above > -math.inf:
            bounds.append(f"> {above:g}")
        if minimum > -math.inf:
            bounds.append(f">= {minimum:g}")
        if maximum < math.inf:
            bounds.append(f"<= {maximum:g}")
        raise ParameterError(f"{name} must be a number, {' and '.join(bounds)}; got {value!r}")
    return number


def check_array(
    name: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...],
    allow_nan: bool = False,
    minimum_rows: int = 1,
) -> FloatArray:
    """Return ``value`` as a contiguous float64 array of the stated number of axes."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must be an array of real numbers: {error}") from None
    # ascontiguousarray lifts a scalar to one axis; the caller's own shape decides.
    axes = (ndim,) if isinstance(ndim, int) else ndim
    if np.ndim(value) not in axes:
        wanted = " or ".join(str(axis) for axis in axes)
        raise ParameterError(f"{name} must have {wanted} axes; got shape {np.shape(value)}")
    if array.ndim and array.shape[0] < minimum_rows:
        raise ParameterError(
            f"{name} must have at least {minimum_rows} rows; got shape {array.shape}"
        )
    if not allow_nan and not np.isfinite(array).all():
        raise ParameterError(f"{name} must be finite; it holds NaN or infinity")
    return array


def check_same_length(**arrays: np.ndarray[Any, Any]) -> None:
    """Raise unless all named arrays agree in their first axis."""
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ParameterError(f"lengths must agree: {listed}")
