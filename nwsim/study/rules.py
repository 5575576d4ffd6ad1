"""Rules: how a claim is judged and how a curve is derived, each under a name.

A rule sees the :class:`~nwsim.study.points.Points` of one setting. New rules are registered
here or by a study; nothing else has to change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nwsim.exceptions import ParameterError
from nwsim.study import judging
from nwsim.study.parts import check_callable, check_name
from nwsim.study.points import CurvePoint, Points

if TYPE_CHECKING:
    from nwsim.inference import Verdict


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
        Whether one condition is judged: each, or if a claim runs along a factor that of the
        largest level (all levels, if the rule is universal).
    paired : bool
        Whether levels must share their random numbers: those of the factor that the rule
        runs along, or of the second of two.
    n_factors : {1, 2}
        How many factors the rule runs along.
    one_sided : bool
        Whether the margin may be 0.
    reads_replicates : bool
        Whether single replicates are judged, which contrasts do not have.
    universal : bool
        Whether the claim is about every replicate at every level: one that runs along a factor
        is judged at all levels at once, and "refuted" stands however few replicates do, since
        a counterexample does.
    """

    name: str
    judge: Callable[[Points, float, float], Verdict]
    over: str | None = None
    slope: bool = False
    single: bool = False
    paired: bool = False
    n_factors: int = 1
    one_sided: bool = False
    reads_replicates: bool = False
    universal: bool = False

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
    slope, paired, n_factors
        As in :class:`ClaimRule`.
    """

    name: str
    derive: Callable[[Points], Sequence[CurvePoint]]
    slope: bool = False
    paired: bool = False
    n_factors: int = 1

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("rule name", self.name)
        check_callable(f"derive of rule {self.name!r}", self.derive)


Rule = TypeVar("Rule", ClaimRule, CurveRule)


_COUNTS: dict[str, Any] = {"single": True, "one_sided": True, "reads_replicates": True}
CLAIM_RULES: dict[str, ClaimRule] = {
    rule.name: rule
    for rule in (
        ClaimRule("rate", judging.judge_rate, over="n_obs", slope=True),
        ClaimRule("rate_of_log", judging.judge_rate_of_log, over="n_obs", slope=True),
        ClaimRule("falls_as", judging.judge_falls_as, slope=True, one_sided=True),
        ClaimRule("equivalence", judging.judge_equivalence, single=True),
        ClaimRule("not_above", judging.judge_not_above, single=True, one_sided=True),
        ClaimRule("refutes_above", judging.judge_refutes_above, single=True, one_sided=True),
        ClaimRule("share_at_most", judging.judge_share_at_most, **_COUNTS),
        ClaimRule("share_at_least", judging.judge_share_at_least, **_COUNTS),
        ClaimRule("never_above", judging.judge_never_above, universal=True, **_COUNTS),
        ClaimRule("never_rises", judging.judge_never_rises, paired=True),
        ClaimRule("no_rise_at_all", judging.judge_no_rise_at_all, paired=True),
        ClaimRule("straight_line", judging.judge_straight_line, paired=True),
        ClaimRule("falls_in_logs", judging.judge_falls_in_logs, paired=True, one_sided=True),
        ClaimRule("ends", judging.judge_ends, paired=True, one_sided=True),
        ClaimRule("interior_optimum", judging.judge_interior_optimum, paired=True, one_sided=True),
    )
}
CURVE_RULES: dict[str, CurveRule] = {
    rule.name: rule
    for rule in (
        CurveRule("local_slope", judging.local_slope, slope=True),
        CurveRule("tail_slope", judging.tail_slope, slope=True),
        CurveRule("steps", judging.steps, paired=True),
        CurveRule("departure", judging.departure, paired=True),
        CurveRule("lack_of_fit", judging.lack_of_fit, paired=True),
        CurveRule("line_slope", judging.line_slope, paired=True),
        CurveRule("log_log_slope", judging.log_log_slope, paired=True),
        CurveRule("crossing", judging.crossing, paired=True),
        CurveRule("best_level", judging.best_level, paired=True),
        CurveRule("best_share", judging.best_share, paired=True),
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
