"""Checks at the door: each raises :class:`~nwsim.exceptions.ParameterError` by name."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from typing import Any

import numpy as np

from nwsim._typing import FloatArray
from nwsim.exceptions import ParameterError

_NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # which call themselves Integral
_NUMBERS = frozenset((float, int, bool, np.float64, np.int64))


def check_choice(name: str, value: Any, accepted: Collection[str]) -> str:
    """Return ``value`` if it is one of the ``accepted`` names."""
    if not isinstance(value, str) or value not in accepted:
        listed = ", ".join(repr(choice) for choice in accepted)
        raise ParameterError(f"{name} must be one of {listed}; got {shown(value)}")
    return value


def check_integer(name: str, value: Any, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Return ``value`` as an int if it is a whole number within the bounds."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, _NO_NUMBERS)
    if not whole or value < minimum or (maximum is not None and value > maximum):
        upper = "" if maximum is None else f" and at most {maximum}"
        raise ParameterError(
            f"{name} must be a whole number of at least {minimum}{upper}; got {shown(value)}"
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
    real = isinstance(value, numbers.Real) and not isinstance(value, _NO_NUMBERS)
    try:
        number = float(value) if real else math.nan
    except OverflowError:  # a whole number or a fraction beyond float64
        number = math.nan
    if not (math.isfinite(number) and number > above and minimum <= number <= maximum):
        bounds = ["finite"]
        if above > -math.inf:
            bounds.append(f"> {above:g}")
        if minimum > -math.inf:
            bounds.append(f">= {minimum:g}")
        if maximum < math.inf:
            bounds.append(f"<= {maximum:g}")
        raise ParameterError(f"{name} must be a number, {' and '.join(bounds)}; got {shown(value)}")
    return number


def as_real(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return ``value`` as an array of whole numbers, bools or floats, of any shape.

    Objects that are real numbers (``Fraction``, ``Decimal``, large ``int``) become float64. Text,
    complex numbers, dates and masked arrays are refused: as floats they would lose what they say.
    """
    # A type of its own is asked for first: most arrays that come here are plain.
    if type(value) is not np.ndarray and _is_masked(value):
        raise ParameterError(f"{name} must not be a masked array: fill or drop what is masked")
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            if any(isinstance(entry, (str, bytes, bytearray)) for entry in array.flat):
                raise TypeError("it holds text")
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"{name} must be an array of real numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ParameterError(f"{name} must be an array of real numbers; got dtype {array.dtype}")
    return array


def as_float64(array: np.ndarray[Any, Any]) -> FloatArray:
    """Return a real array in float64; what is beyond its range becomes infinite."""
    if array.dtype.itemsize <= 8:
        return array.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):  # of extended precision
        return array.astype(np.float64)


def check_array(
    name: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...],
    allow_nan: bool = False,
    minimum_rows: int = 1,
) -> FloatArray:
    """Return ``value`` as a contiguous float64 array of the stated number of axes."""
    given = as_real(name, value)
    axes = (ndim,) if isinstance(ndim, int) else ndim
    if given.ndim not in axes:
        wanted = " or ".join(str(axis) for axis in axes)
        raise ParameterError(f"{name} must have {wanted} axes; got shape {given.shape}")
    array = np.ascontiguousarray(as_float64(given))
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


def _is_masked(value: Any) -> bool:
    """Whether a value is a masked array, or a list that holds one."""
    if isinstance(value, (list, tuple)):
        # Rows of plain numbers have few types, and need no walk.
        return not _NUMBERS.issuperset(map(type, value)) and any(map(_is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def shown(value: Any) -> str:
    """Return how a value is shown in a message."""
    try:
        return repr(value)
    except ValueError:  # Python does not print whole numbers of thousands of digits
        return f"a value of type {type(value).__name__}"
