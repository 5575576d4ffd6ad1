"""The declarative specification of a study: frozen values, checked on construction, loaded.

A study file builds one :class:`Study` and does nothing else. Everything a run needs to
know is in it; everything a reader needs to judge it is in the file's docstring.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from nwsim._validation import check_choice, check_integer, check_real
from nwsim.exceptions import NwsimError, ParameterError, StudyError
from nwsim.seeding import digest
from nwsim.study.faults import error_text
from nwsim.study.parts import (
    FILE_NAME,
    Draw,
    Grid,
    Level,
    Measure,
    Method,
    Profile,
    check_callable,
    check_kind,
    check_label,
    check_name,
    factors_of,
    level_type,
)
from nwsim.study.rules import CLAIM_RULES, CURVE_RULES, ClaimRule, CurveRule
from nwsim.study.statements import Claim, Contrast, Curve, Figure


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
        _check_study(self)

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


def _check_study(study: Study) -> None:
    """Raise :class:`~nwsim.exceptions.ParameterError` at the first broken reference."""
    for name in ("factors", "methods", "measures"):
        if not getattr(study, name):
            raise ParameterError(f"{name} must hold at least one entry")
    for name in ("methods", "measures", "contrasts", "figures"):
        _check_distinct(name, [item.name for item in getattr(study, name)])
    # One claim may be tested on several quantities and methods, one curve drawn for
    # several measures.
    for index, claim in enumerate(study.claims):
        for other in study.claims[:index]:
            if (claim.id, claim.quantity) == (other.id, other.quantity) and (
                claim.method == other.method or None in (claim.method, other.method)
            ):
                raise ParameterError(
                    f"claims must differ in id, quantity or method: {claim.id!r} judges "
                    f"{claim.quantity!r} twice for "
                    f"{claim.method or other.method or 'every method'}"
                )
    _check_distinct("curves", [f"{c.name} {c.measure}" for c in study.curves])
    _check_distinct("shared_streams", list(study.shared_streams))
    _check_grids(study)
    factors = tuple(study.levels)
    methods = tuple(method.name for method in study.methods)
    for factor in study.shared_streams:
        check_choice("shared_streams", factor, factors)
    for measure in study.measures:
        for method in measure.methods or ():
            check_choice(f"methods of measure {measure.name!r}", method, methods)
    _check_derived(study, factors, methods)


def _check_distinct(field: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{field} must have distinct names; {name!r} occurs twice")


def _check_grids(study: Study) -> None:
    first = set(study.factors[0].levels)
    for grid in study.factors[1:]:
        if set(grid.levels) != first:
            odd = ", ".join(sorted(first.symmetric_difference(grid.levels)))
            raise ParameterError(f"factors must be the same in every grid; not in all: {odd}")
    # Levels of one type within a grid may still differ in type between grids.
    _ = study.factor_types


def _check_derived(study: Study, factors: tuple[str, ...], methods: tuple[str, ...]) -> None:
    means = tuple(measure.name for measure in study.measures if measure.kind == "mean")
    contrasts = tuple(contrast.name for contrast in study.contrasts)
    for name in contrasts:
        if name in means:
            raise ParameterError(f"contrasts must not be named like a measure; got {name!r}")
    for claim in study.claims:
        what = f"claim {claim.id!r}"
        check_choice(f"quantity of {what}", claim.quantity, (*means, *contrasts))
        rule = CLAIM_RULES[claim.rule]
        judges_pairs = rule.single and claim.over is None and not rule.reads_replicates
        if claim.quantity in contrasts and not judges_pairs:
            how = "" if rule.reads_replicates else " along a factor"
            raise ParameterError(
                f"quantity of {what} must be a measure: rule {rule.name!r}{how} "
                f"cannot judge the contrast {claim.quantity!r}"
            )
        _check_over(study, what, factors_of(claim.over), rule)
        if claim.method is not None:
            check_choice(f"method of {what}", claim.method, methods)
    for curve in study.curves:
        what = f"curve {curve.name!r}"
        check_choice(f"measure of {what}", curve.measure, means)
        _check_over(study, what, factors_of(curve.over), CURVE_RULES[curve.rule])
    for contrast in study.contrasts:
        what = f"contrast {contrast.name!r}"
        check_choice(f"measure of {what}", contrast.measure, means)
        # Other levels have random numbers of their own: their replicates are no pairs.
        check_choice(f"factor of {what}", contrast.factor, ("method", *study.shared_streams))
        levels = methods if contrast.factor == "method" else study.levels[contrast.factor]
        for parameter in ("level", "baseline"):
            value = getattr(contrast, parameter)
            if value not in levels:
                raise ParameterError(
                    f"{parameter} of {what} must be one of {', '.join(map(repr, levels))}; "
                    f"got {value!r}"
                )


def _check_over(
    study: Study, what: str, over: tuple[str, ...], rule: ClaimRule | CurveRule
) -> None:
    """Refuse to run along names, and along levels whose random numbers do not suit the rule."""
    for factor in over:
        check_choice(f"over of {what}", factor, tuple(study.levels))
        if study.factor_types[factor] not in ("int", "float"):
            raise ParameterError(f"over of {what} must be a factor with numbers as levels")
        if rule.slope and min(study.levels[factor]) <= 0:  # type: ignore[operator]
            raise ParameterError(f"over of {what} must be a factor with positive numbers as levels")
    # A fit takes its points as independent: common random numbers would make its standard
    # error wrong. Comparisons of levels need common ones. Of two factors, the levels of the
    # first are independent groups and those of the second are compared.
    independent = over if rule.slope else over[:-1]
    paired = over[-1:] if rule.paired or rule.n_factors == 2 else ()
    for factor in independent:
        if factor in study.shared_streams:
            why = "fits a slope over" if rule.slope else "takes as independent"
            raise ParameterError(
                f"shared_streams must not hold {factor!r}: {what} {why} its levels"
            )
    for factor in paired:
        if factor not in study.shared_streams:
            raise ParameterError(
                f"shared_streams must hold {factor!r}: {what} compares its levels by replicate"
            )


StudyLike: TypeAlias = "str | Path | Study"


def known_studies(studies_dir: str | Path = "studies") -> tuple[str, ...]:
    """Return the names of the studies in a folder, sorted; nothing is loaded."""
    return tuple(
        sorted(path.stem for path in Path(studies_dir).glob("*.py") if path.stem[0] not in "_.")
    )


def load_study(name_or_study: StudyLike, studies_dir: str | Path = "studies") -> Study:
    """Return a study by its name, by the path of its file, or as it is.

    Parameters
    ----------
    name_or_study : str, Path or Study
        A path ends in ``.py``.
    studies_dir : str or Path
        Folder that holds ``<name>.py``.

    Raises
    ------
    StudyError
        If there is no such study (the known ones are listed), its file fails, or it
        defines no ``STUDY`` of its own name.
    """
    if isinstance(name_or_study, Study):
        return name_or_study
    text = str(name_or_study)
    if text.endswith(".py"):
        path = Path(text)
        if not path.is_file():
            raise StudyError(f"there is no study file {path}")
    else:
        path = Path(studies_dir) / f"{text}.py"
        if not FILE_NAME.match(text) or not path.is_file():
            known = ", ".join(known_studies(studies_dir)) or "none"
            raise StudyError(f"no study {text!r} in {Path(studies_dir)}; known studies: {known}")
    return _execute(path)


def _execute(path: Path) -> Study:
    """Run a study file as a module that is importable only meanwhile.

    Once it is gone from ``sys.modules``, cloudpickle writes its functions by value, and
    worker processes need neither the file nor its folder.
    """
    module = types.ModuleType(f"nwsim_study_{path.stem}")
    module.__file__ = str(path.resolve())
    previous = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    source = b""
    try:
        source = path.read_bytes()
        exec(compile(source, module.__file__, "exec"), module.__dict__)
    except NwsimError as error:
        raise StudyError(f"study file {path}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Also SystemExit, as of a file that is a script: the caller goes on.
        text = f"{type(error).__name__}: {error_text(error)}"
        raise StudyError(f"study file {path} fails: {text}") from error
    finally:
        del sys.modules[module.__name__]
        if previous is not None:
            sys.modules[module.__name__] = previous
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise StudyError(f"study file {path} must define STUDY = Study(...)")
    if study.name != path.stem:
        raise StudyError(
            f"study file {path} defines the study {study.name!r}; its name must be {path.stem!r}"
        )
    object.__setattr__(study, "namespace", module.__dict__)
    object.__setattr__(study, "source", source)
    return study
