"""Types of a specification's fields and the checks of a single one."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from nwsim._typing import Factors
from nwsim.exceptions import ParameterError

Level: TypeAlias = str | int | float | bool
Draw: TypeAlias = Callable[[Factors, np.random.Generator], Any]
MethodFunction: TypeAlias = Callable[[Factors, Any, np.random.Generator], Mapping[str, float]]
Where: TypeAlias = Callable[[Factors], bool]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
BUILDER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
RESERVED = frozenset(
    (
        *("study", "condition_id", "method", "measure", "estimate", "mcse"),
        *("n_sim", "n_failed", "n_empty", "rep"),
        *("curve", "contrast", "claim", "over", "x", "kind", "factor", "level", "baseline"),
        *("setting", "quantity", "theory", "ci_low", "ci_high", "margin", "rule", "verdict"),
    )
)
"""Columns of the tables, which no factor may be named like."""


def check_name(parameter: str, value: Any, pattern: re.Pattern[str] = _NAME) -> str:
    """Return ``value`` if it matches the pattern of names."""
    if not isinstance(value, str) or not pattern.match(value):
        raise ParameterError(
            f"{parameter} must be letters, digits and underscores, a letter first; got {value!r}"
        )
    return value


def check_label(parameter: str, value: Any) -> None:
    """Raise unless the value is a non-empty text."""
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{parameter} must be a non-empty text; got {value!r}")


def check_callable(parameter: str, value: Any, *, optional: bool = False) -> None:
    """Raise unless the value can be called."""
    if not (callable(value) or (optional and value is None)):
        raise ParameterError(
            f"{parameter} must be a function{' or None' if optional else ''}; got {value!r}"
        )


def check_kind(parameter: str, values: Any, kind: type) -> tuple[Any, ...]:
    """Return ``values`` as a tuple if each is a ``kind``; a single one counts as a tuple."""
    items = (values,) if isinstance(values, kind) else values
    if isinstance(items, (str, Mapping)) or not isinstance(items, Iterable):
        raise ParameterError(f"{parameter} must be a tuple of {kind.__name__}; got {values!r}")
    items = tuple(items)
    for item in items:
        if not isinstance(item, kind):
            raise ParameterError(f"{parameter} must hold {kind.__name__} only; got {item!r}")
    return items


def plain_level(factor: str, value: Any) -> Level:
    """Return a factor level as a plain str, int, float or bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        # Levels appear in CSV fields and, as name=level;name=level, in settings.
        if not value or not value.isprintable() or ";" in value or "=" in value:
            raise ParameterError(
                f"factor {factor!r} must have printable texts without ';' or '=' as levels; "
                f"got {value!r}"
            )
        return str(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(float(value)):
        return float(value)
    raise ParameterError(
        f"factor {factor!r} must have texts, whole numbers, finite floats or bools as levels; "
        f"got {value!r}"
    )


def level_type(factor: str, levels: Iterable[Level]) -> str:
    """Return the one type that all levels of a factor share: str, int, float or bool."""
    kinds = sorted({type(level).__name__ for level in levels})
    if len(kinds) != 1:
        raise ParameterError(
            f"factor {factor!r} must have levels of one type; it mixes {' and '.join(kinds)} "
            "(write 1.0 among floats)"
        )
    return kinds[0]


def applies(where: Where | None, condition: Factors) -> bool:
    """Return whether a condition is selected; no filter selects every condition."""
    return where is None or bool(where(condition))
