"""Rules: how a claim is judged and how a curve is derived, each under a name.

A rule sees the points of one setting: the estimates of a measure along a factor, with
their standard errors and, on request, the replicates behind them. New rules are
registered here or by a study; nothing else has to change.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from nwsim._typing import FloatArray, IntArray
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.study.parts import check_callable, check_name

if TYPE_CHECKING:
    from nwsim.inference import Verdict

MIN_REPLICATES = 20
"""A verdict needs this many at every point used: below, a standard error is itself uncertain
by more than 1/sqrt(2 * 19) = 16%, and a normal interval covers less than it says."""

MAX_LOST_SHARE = 0.01
"""A verdict needs all but this share of the replicates at every point used: what fails is
rarely typical, and the mean of the survivors is then not the mean of the claim."""

Column: TypeAlias = tuple[IntArray, FloatArray]
"""Replicates in which a measure stands, increasing, and its values in them."""


def _no_columns() -> Sequence[Column]:
    raise ParameterError("these points carry no replicates")


@dataclass(frozen=True)
class Points:
    """Estimates of a measure along a factor, by increasing level.

    Attributes
    ----------
    levels, estimates, mcse : ndarray, shape (k,)
        NaN as the level where a single condition is judged.
    n_sim, n_planned : ndarray of int, shape (k,)
        Replicates that an estimate comes from, and those that the run asked for.
    paired : bool
        Whether the levels share random numbers, so that rows of :meth:`matrix` are pairs.
    short : bool
        Whether fewer levels were run than the claim or curve asks for.
    columns : callable
        Reads the replicates: one :data:`Column` a level.
    """

    levels: FloatArray
    estimates: FloatArray
    mcse: FloatArray
    n_sim: IntArray
    n_planned: IntArray
    paired: bool = False
    short: bool = False
    columns: Callable[[], Sequence[Column]] = _no_columns

    def replicates(self) -> list[FloatArray]:
        """Return the values behind each estimate, one vector a level, in order of replicate."""
        return [values for _, values in self.columns()]

    def matrix(self) -> FloatArray:
        """Return the replicates that stand at every level, shape (R, k), in their order."""
        columns = self.columns()
        common = reduce(np.intersect1d, (reps for reps, _ in columns))
        return np.column_stack([values[np.isin(reps, common)] for reps, values in columns])

    @property
    def decidable(self) -> bool:
        """Whether enough replicates stand at every point for a verdict."""
        return bool(
            not self.short
            and (self.n_sim >= MIN_REPLICATES).all()
            and (self.n_planned - self.n_sim <= MAX_LOST_SHARE * self.n_planned).all()
        )

    @property
    def has_slope(self) -> bool:
        """Whether log(estimate) has a slope: two points or more, positive and finite.

        A corrected squared bias may be negative, and a cell may have lost every
        replicate; then no slope exists, and a claim about it is inconclusive. So is it
        when some points have a known precision and others have none.
        """
        known = np.isfinite(self.mcse)
        return bool(
            self.levels.size >= 2
            and np.isfinite(self.estimates).all()
            and (self.estimates > 0).all()
            and known.all() == known.any()
            and (self.mcse == 0).all() == (self.mcse == 0).any()
        )


class CurvePoint(NamedTuple):
    """A derived value at ``x``; NaN as ``x`` means the value belongs to the whole series."""

    x: float
    estimate: float
    mcse: float


@dataclass(frozen=True)
class ClaimRule:
    """A way to judge claims.

    Parameters
    ----------
    name : str
    judge : callable
        ``judge(points, theory, margin)`` returns a :class:`~nwsim.inference.Verdict`.
    over : str or None
        The factor that claims run along unless they say otherwise.
    slope : bool
        Whether levels must be positive and have independent random numbers.
    single : bool
        Whether one condition is judged: that of the largest level if a claim runs along a
        factor, else each.
    """

    name: str
    judge: Callable[[Points, float, float], Verdict]
    over: str | None = None
    slope: bool = False
    single: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("rule name", self.name)
        check_callable(f"judge of rule {self.name!r}", self.judge)


@dataclass(frozen=True)
class CurveRule:
    """A way to derive curves.

    Parameters
    ----------
    name : str
    derive : callable
        ``derive(points)`` returns a list of :class:`CurvePoint`.
    slope : bool
        Whether levels must be positive and have independent random numbers.
    """

    name: str
    derive: Callable[[Points], Sequence[CurvePoint]]
    slope: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("rule name", self.name)
        check_callable(f"derive of rule {self.name!r}", self.derive)


Rule = TypeVar("Rule", ClaimRule, CurveRule)


def _judge_rate(points: Points, theory: float, margin: float) -> Verdict:
    """Judge the slope of log quantity against log level."""
    from nwsim.inference import equivalence, fit_rate

    if not points.has_slope:
        return equivalence(math.nan, math.nan, theory, margin)
    with warnings.catch_warnings():
        # One replicate gives no standard error; the run says so once.
        warnings.simplefilter("ignore", PrecisionWarning)
        return fit_rate(points.levels, points.estimates, points.mcse).compare(theory, margin)


def _judge_equivalence(points: Points, theory: float, margin: float) -> Verdict:
    """Judge the quantity itself."""
    from nwsim.inference import equivalence

    return equivalence(float(points.estimates[-1]), float(points.mcse[-1]), theory, margin)


def _local_slope(points: Points) -> list[CurvePoint]:
    """Log-log slope between neighbouring levels, at their geometric mean."""
    from nwsim.inference import local_slopes

    found = []
    for low in range(points.levels.size - 1):
        pair = slice(low, low + 2)
        levels, estimates = points.levels[pair], points.estimates[pair]
        middle = math.sqrt(levels[0] * levels[1])
        if (estimates > 0).all():
            slope = local_slopes(levels, estimates, points.mcse[pair])[0]
            found.append(CurvePoint(middle, slope.slope, slope.slope_se))
        else:
            found.append(CurvePoint(middle, math.nan, math.nan))
    return found


def _tail_slope(points: Points) -> list[CurvePoint]:
    """One log-log slope over all the levels given."""
    from nwsim.inference import fit_rate

    if not points.has_slope:
        return [CurvePoint(math.nan, math.nan, math.nan)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        fit = fit_rate(points.levels, points.estimates, points.mcse)
    return [CurvePoint(math.nan, fit.slope, fit.slope_se)]


CLAIM_RULES: dict[str, ClaimRule] = {
    rule.name: rule
    for rule in (
        ClaimRule("rate", _judge_rate, over="n_obs", slope=True),
        ClaimRule("equivalence", _judge_equivalence, single=True),
    )
}
CURVE_RULES: dict[str, CurveRule] = {
    rule.name: rule
    for rule in (
        CurveRule("local_slope", _local_slope, slope=True),
        CurveRule("tail_slope", _tail_slope, slope=True),
    )
}


def register_rule(rule: ClaimRule | CurveRule) -> None:
    """Let claims or curves name a rule, once it is registered.

    Raises
    ------
    ParameterError
        If the name is taken by a rule from elsewhere. Loading a study file again may
        register the same rule again.
    """
    if isinstance(rule, ClaimRule):
        _register(CLAIM_RULES, rule, lambda known: known.judge)
    elif isinstance(rule, CurveRule):
        _register(CURVE_RULES, rule, lambda known: known.derive)
    else:
        raise ParameterError(f"rule must be a ClaimRule or a CurveRule; got {rule!r}")


def _register(
    known: dict[str, Rule], rule: Rule, function: Callable[[Rule], Callable[..., object]]
) -> None:
    old = known.get(rule.name)
    if old is not None and _origin(function(old)) != _origin(function(rule)):
        raise ParameterError(f"rule name {rule.name!r} is taken; registered: {', '.join(known)}")
    known[rule.name] = rule


def _origin(function: Callable[..., object]) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", function)
