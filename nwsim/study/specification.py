"""The declarative specification of a study: frozen values, checked on construction.

A study file builds one :class:`Study` and does nothing else. Everything a run needs to
know is in it; everything a reader needs to judge it is in the file's docstring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nwsim._validation import check_choice, check_integer, check_real
from nwsim.exceptions import ParameterError
from nwsim.seeding import digest
from nwsim.study.checking import check_study
from nwsim.study.derived import Claim, Contrast, Curve, Figure
from nwsim.study.fields import (
    Draw,
    Level,
    check_callable,
    check_kind,
    check_label,
    check_name,
    level_type,
)
from nwsim.study.parts import Grid, Measure, Method, Profile


@dataclass(frozen=True)
class Study:
    """A Monte Carlo study.

    Parameters
    ----------
    name : str
        Stem of the study's file.
    label : str
        Title for figures and lists.
    seed : int
        Seed of every stream of the study.
    factors : tuple of Grid
        The conditions are the union of the grids, which name the same factors.
    draw : callable
        ``draw(condition, rng)`` returns the data of a replicate.
    methods : tuple of Method
    measures : tuple of Measure
    claims, curves, contrasts, figures : tuples
    profiles : mapping of str to Profile
    shared_streams : tuple of str
        Factors whose levels share random numbers, so that contrasts are paired.
    max_failure_share : float
        A run whose share of failed replicates exceeds this in any condition and method
        ends with an error after its tables are written.

    Attributes
    ----------
    namespace : mapping or None
        Names of the study's file, set by :func:`~nwsim.study.load_study`.
    source : bytes or None
        What that file held when it was executed.

    Raises
    ------
    ParameterError
        Naming the field at fault and what would be accepted.
    """

    name: str
    label: str
    seed: int
    factors: tuple[Grid, ...]
    draw: Draw
    methods: tuple[Method, ...]
    measures: tuple[Measure, ...]
    claims: tuple[Claim, ...] = ()
    curves: tuple[Curve, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    figures: tuple[Figure, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    shared_streams: tuple[str, ...] = ()
    max_failure_share: float = 0.05
    namespace: Mapping[str, Any] | None = field(default=None, init=False, repr=False, compare=False)
    source: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields and how they refer to each other; freeze the containers."""
        for name, kind in (
            ("factors", Grid), ("methods", Method), ("measures", Measure), ("claims", Claim),
            ("curves", Curve), ("contrasts", Contrast), ("figures", Figure),
            ("shared_streams", str),
        ):  # fmt: skip
            object.__setattr__(self, name, check_kind(name, getattr(self, name), kind))
        check_name("study name", self.name)
        check_label("label of the study", self.label)
        check_integer("seed", self.seed)
        check_real("max_failure_share", self.max_failure_share, minimum=0.0, maximum=1.0)
        check_callable("draw", self.draw)
        if not isinstance(self.profiles, Mapping) or not self.profiles:
            raise ParameterError("profiles must map at least one name to a Profile")
        for profile, value in self.profiles.items():
            check_name("profile name", profile)
            check_kind(f"profiles[{profile!r}]", (value,), Profile)
        object.__setattr__(self, "profiles", MappingProxyType(dict(self.profiles)))
        check_study(self)

    @property
    def factor_types(self) -> dict[str, str]:
        """Type name of the levels by factor, in column order."""
        return {
            name: level_type(name, [level for grid in self.factors for level in grid.levels[name]])
            for name in self.factors[0].levels
        }

    @property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """Levels by factor over all grids, in order of appearance."""
        return {
            name: tuple(
                dict.fromkeys(level for grid in self.factors for level in grid.levels[name])
            )
            for name in self.factors[0].levels
        }

    def conditions(self) -> tuple[dict[str, Level], ...]:
        """Return every condition once, in order of first appearance."""
        names = tuple(self.factors[0].levels)
        found: dict[str, dict[str, Level]] = {}
        for grid in self.factors:
            for condition in grid.conditions():
                ordered = {name: condition[name] for name in names}
                found.setdefault(digest(ordered), ordered)
        return tuple(found.values())

    def profile(self, name: str) -> Profile:
        """Return the profile of that name, or raise with the known ones listed."""
        return self.profiles[check_choice("profile", name, tuple(self.profiles))]
