"""What a study simulates: grids of factor levels, methods, measures, profiles."""

from __future__ import annotations

import itertools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from nwsim._typing import Factors
from nwsim._validation import check_choice, check_integer
from nwsim.exceptions import ParameterError
from nwsim.study.results import RESERVED

MOST_REPLICATES = 10_000_000
"""A condition may have no more: it would not end, and each is kept in the checkpoint."""


def check_replicates(name: str, value: Any, minimum: int = 1) -> int:
    """Return a number of replicates if it is one."""
    return check_integer(name, value, minimum=minimum, maximum=MOST_REPLICATES)


@dataclass(frozen=True)
class Grid:
    """A full crossing of factor levels.

    Parameters
    ----------
    levels : mapping of str to sequence
        Levels by factor name, in the order in which rows appear in the tables. The
        levels of a factor share one type: str, int, float or bool.
    """

    levels: Mapping[str, Sequence[Level]]

    def __post_init__(self) -> None:
        """Check names and levels and freeze the mapping."""
        if not isinstance(self.levels, Mapping) or not self.levels:
            raise ParameterError(
                f"levels must map factor names to their levels; got {self.levels!r}"
            )
        frozen: dict[str, tuple[Level, ...]] = {}
        for factor, values in self.levels.items():
            check_name("factor", factor)
            if factor in RESERVED:
                raise ParameterError(f"factor {factor!r} is a column of the tables; rename it")
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise ParameterError(f"factor {factor!r} must have a tuple of levels")
            levels = tuple(plain_level(factor, value) for value in values)
            if not levels:
                raise ParameterError(f"factor {factor!r} must have at least one level")
            if len(set(levels)) < len(levels):
                raise ParameterError(f"factor {factor!r} must have distinct levels; got {levels}")
            level_type(factor, levels)
            frozen[factor] = levels
        object.__setattr__(self, "levels", MappingProxyType(frozen))

    def conditions(self) -> Iterable[dict[str, Level]]:
        """Yield every combination, the last factor running fastest."""
        for combination in itertools.product(*self.levels.values()):
            yield dict(zip(self.levels, combination, strict=True))


@dataclass(frozen=True)
class Method:
    """One way of turning the data of a replicate into named scalars.

    Parameters
    ----------
    name : str
        Value of the column ``method``; part of the key of the method's random stream.
    function : callable
        ``function(condition, data, rng)`` returns a mapping of measure name to float. It
        must leave ``data`` as it is: the other methods get the same object, whose arrays
        are read-only.
    where : callable, optional
        ``where(condition)``: whether the method is run there; None means everywhere.
    """

    name: str
    function: MethodFunction
    where: Where | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("method name", self.name)
        check_callable(f"function of method {self.name!r}", self.function)
        check_callable(f"where of method {self.name!r}", self.where, optional=True)


@dataclass(frozen=True)
class Measure:
    """A scalar that methods return for a replicate.

    Parameters
    ----------
    name : str
        Key in the mapping that a method returns. The reserved name ``n_empty`` (kind
        "count") fills the column ``n_empty`` instead of having rows of its own.
    label : str
        Text for figures.
    unit : str
        Unit of the scalar; empty for a pure number.
    kind : {"mean", "count"}
        "mean": the estimate is the mean over replicates with MCSE sd / sqrt(R).
        "count": whole numbers; the estimate is their sum with MCSE sd * sqrt(R).
    where : callable, optional
        ``where(condition)``: whether the measure is declared there.
    methods : sequence of str, optional
        The methods that return it; None means all.
    """

    name: str
    label: str
    unit: str = ""
    kind: str = "mean"
    where: Where | None = None
    methods: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("measure name", self.name)
        check_label(f"label of measure {self.name!r}", self.label)
        check_choice(f"kind of measure {self.name!r}", self.kind, ("mean", "count"))
        check_callable(f"where of measure {self.name!r}", self.where, optional=True)
        if self.methods is not None:
            methods = check_kind(f"methods of measure {self.name!r}", self.methods, str)
            object.__setattr__(self, "methods", methods)
        if self.name == "n_empty" and self.kind != "count":
            raise ParameterError("kind of measure 'n_empty' must be 'count'")


@dataclass(frozen=True)
class Profile:
    """How much of a study is run.

    Parameters
    ----------
    n_sim : int or callable
        Replicates a condition; ``n_sim(condition)`` when it depends on it.
    keep : callable, optional
        ``keep(condition)``: whether the profile includes the condition.
    rule : str
        Why this many replicates, for the manifest.
    """

    n_sim: int | Callable[[Factors], int]
    keep: Where | None = None
    rule: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        if not callable(self.n_sim):
            object.__setattr__(self, "n_sim", check_replicates("n_sim", self.n_sim))
        check_callable("keep", self.keep, optional=True)
        check_label("rule of a profile (why this many replicates)", self.rule)

    def replicates(self, condition: Factors) -> int:
        """Return the number of replicates of one condition."""
        if callable(self.n_sim):
            return check_replicates("n_sim(condition)", self.n_sim(condition))
        return self.n_sim


Level: TypeAlias = str | int | float | bool
Draw: TypeAlias = Callable[[Factors, np.random.Generator], Any]
MethodFunction: TypeAlias = Callable[[Factors, Any, np.random.Generator], Mapping[str, float]]
Where: TypeAlias = Callable[[Factors], bool]
Over: TypeAlias = str | tuple[str, str]
"""What a rule runs along: a factor, or two."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
BUILDER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def factors_of(over: Over | None) -> tuple[str, ...]:
    """Return the factors that a rule runs along as a tuple."""
    if over is None or isinstance(over, str):
        return () if over is None else (over,)
    return over


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
