"""What a study says about its numbers: claims, curves, contrasts, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nwsim._typing import Factors
from nwsim._validation import check_choice, check_integer, check_real
from nwsim.exceptions import ParameterError
from nwsim.study.parts import (
    BUILDER,
    FILE_NAME,
    Level,
    Over,
    Where,
    check_callable,
    check_label,
    check_name,
    plain_level,
)
from nwsim.study.rules import CLAIM_RULES, CURVE_RULES, ClaimRule, CurveRule


def check_factors(what: str, over: Any, rule: ClaimRule | CurveRule) -> Over | None:
    """Return what a rule runs along as a name or a pair of names."""
    if over is None or (isinstance(over, str) and rule.n_factors == 1):
        return over
    names = tuple(over) if isinstance(over, (tuple, list)) else (over,)
    wanted = "a factor" if rule.n_factors == 1 else "two different factors"
    if not all(isinstance(name, str) for name in names) or len(set(names)) != rule.n_factors:
        raise ParameterError(
            f"over of {what} must be {wanted} for rule {rule.name!r}; got {over!r}"
        )
    return names[0] if len(names) == 1 else names


def check_statement(where: str, parameter: str, value: Any, rule: ClaimRule) -> float:
    """Return the theory or the margin of a claim; a margin of 0 leaves no room for equality."""
    if parameter == "theory":
        return check_real(where, value)
    return (
        check_real(where, value, minimum=0.0)
        if rule.one_sided
        else check_real(where, value, above=0.0)
    )


@dataclass(frozen=True)
class Claim:
    """A statement with a verdict in every setting.

    Parameters
    ----------
    id, statement : str
        Short name and the sentence that is judged.
    quantity : str
        A measure of kind "mean"; or a contrast of the study, for rules that judge single
        conditions.
    theory, margin : float or callable
        Predicted value and the half-width of the equivalence region; callables take the
        setting: the factors and ``method``, without ``over`` where a rule runs along it.
    rule : str
        A registered name: "rate": slope of log(quantity) on log(over); "rate_of_log": the same
        of a mean of logs; "falls_as": the slope of "rate" is at most the theory; "equivalence":
        the quantity itself; "not_above": the same, one-sided; "refutes_above": the same, but
        never supported; "never_above": every replicate of it; "share_at_most",
        "share_at_least": a share of replicates; "never_rises", "no_rise_at_all",
        "straight_line", "falls_in_logs", "ends", "interior_optimum": see
        ``docs/statistics.md``.
    over : str or pair of str, optional
        The factor, or the two, that the rule runs along, with numbers as levels; for "rate" by
        default n_obs. "equivalence", "not_above" and "refutes_above" judge every condition;
        with ``over`` only that of the largest level that was run, which the setting then names.
        "never_above" judges every condition; with ``over`` all levels at once.
    tail : int, optional
        Use the ``tail`` largest levels of ``over`` only. A setting with fewer levels, as a
        small profile may leave, is inconclusive.
    where : callable, optional
        Filter on the condition, which here holds ``method`` too.
    method : str, optional
        The one method judged; None means each.

    Notes
    -----
    Whatever the rule says, the verdict is "inconclusive" where fewer than
    :data:`~nwsim.study.points.MIN_REPLICATES` replicates stand at a point used, or where more
    than :data:`~nwsim.study.points.MAX_LOST_SHARE` of them failed or are missing; but a
    counterexample to a claim about every replicate ("never_above") refutes all the same.
    """

    id: str
    statement: str
    quantity: str
    theory: float | Callable[[Factors], float]
    margin: float | Callable[[Factors], float]
    rule: str
    over: Over | None = None
    tail: int | None = None
    where: Where | None = None
    method: str | None = None

    def __post_init__(self) -> None:
        """Check the fields that need no study."""
        check_name("claim id", self.id)
        check_label(f"statement of claim {self.id!r}", self.statement)
        check_choice(f"rule of claim {self.id!r}", self.rule, tuple(CLAIM_RULES))
        rule = CLAIM_RULES[self.rule]
        for parameter in ("theory", "margin"):
            value = getattr(self, parameter)
            if not callable(value):
                check_statement(f"{parameter} of claim {self.id!r}", parameter, value, rule)
        if self.over is None:
            object.__setattr__(self, "over", rule.over)
        object.__setattr__(self, "over", check_factors(f"claim {self.id!r}", self.over, rule))
        if self.over is None and not rule.single:
            raise ParameterError(
                f"over of claim {self.id!r} must be the factor that rule {rule.name!r} runs along"
            )
        if self.tail is not None:
            if rule.single:
                raise ParameterError(
                    f"tail of claim {self.id!r} must be None: "
                    f"rule {rule.name!r} judges one condition"
                )
            check_integer(f"tail of claim {self.id!r}", self.tail, minimum=1)
        if rule.slope and self.tail == 1:
            raise ParameterError(f"claim {self.id!r} must fit its slope over 2 levels or more")
        check_callable(f"where of claim {self.id!r}", self.where, optional=True)


@dataclass(frozen=True)
class Curve:
    """A series of derived values along a factor, for ``curves.csv``.

    Parameters
    ----------
    name, measure : str
        Name in the table and the measure it is derived from.
    rule : str
        A registered name: "local_slope": log-log slope between neighbouring levels;
        "tail_slope": one slope over the ``tail`` largest; "steps", "departure", "lack_of_fit",
        "log_log_slope", "crossing", "best_level", "best_share": see ``docs/statistics.md``.
    over : str or pair of str
        The factor it runs along, or the two, with numbers as levels.
    where : callable, optional
        Filter on the condition, which here holds ``method`` too.
    tail : int, optional
        Use the ``tail`` largest levels only; None means all. Where fewer were run the
        value is undefined.
    """

    name: str
    measure: str
    rule: str
    over: Over = "n_obs"
    where: Where | None = None
    tail: int | None = None

    def __post_init__(self) -> None:
        """Check the fields that need no study."""
        check_name("curve name", self.name)
        check_choice(f"rule of curve {self.name!r}", self.rule, tuple(CURVE_RULES))
        over = check_factors(f"curve {self.name!r}", self.over, CURVE_RULES[self.rule])
        object.__setattr__(self, "over", over)
        check_callable(f"where of curve {self.name!r}", self.where, optional=True)
        if self.tail is not None:
            check_integer(f"tail of curve {self.name!r}", self.tail, minimum=2)


@dataclass(frozen=True)
class Contrast:
    """A comparison of two levels of a factor, paired by replicate.

    Parameters
    ----------
    name, measure : str
        Name in the table and the measure compared.
    factor : str
        A factor of ``shared_streams``, or "method": only these share their random numbers.
    level, baseline : level of the factor
        The contrast is ``level - baseline`` or ``level / baseline``.
    kind : {"difference", "ratio", "precision"}
        Difference of means; ratio of means (delta method); or how many replicates of the
        baseline are worth one of the level, the ratio of their variances (jackknife).
    where : callable, optional
        Filter on the condition of ``level``, which here holds ``method`` too.
    """

    name: str
    measure: str
    factor: str
    level: Level
    baseline: Level
    kind: str = "difference"
    where: Where | None = None

    def __post_init__(self) -> None:
        """Check the fields that need no study."""
        check_name("contrast name", self.name)
        check_choice(
            f"kind of contrast {self.name!r}", self.kind, ("difference", "ratio", "precision")
        )
        check_callable(f"where of contrast {self.name!r}", self.where, optional=True)
        for parameter in ("level", "baseline"):
            plain = plain_level(self.factor, getattr(self, parameter))
            object.__setattr__(self, parameter, plain)
        if self.level == self.baseline:
            raise ParameterError(
                f"baseline of contrast {self.name!r} must differ from its level {self.level!r}"
            )


@dataclass(frozen=True)
class Figure:
    """A figure drawn from the tables alone.

    Parameters
    ----------
    name : str
        File stem.
    builder : str or callable
        ``"package.module:function"``, or ``"<study name>:function"`` for a function of
        the study's file; called as ``builder(results, **options)``.
    options : mapping
        Keyword arguments of the builder.
    """

    name: str
    builder: str | Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields."""
        check_name("figure name", self.name, FILE_NAME)
        if not callable(self.builder) and not (
            isinstance(self.builder, str) and BUILDER.match(self.builder)
        ):
            raise ParameterError(
                f"builder of figure {self.name!r} must read 'module:function'; got {self.builder!r}"
            )
        if not isinstance(self.options, Mapping):
            raise ParameterError(f"options of figure {self.name!r} must be a mapping")
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
