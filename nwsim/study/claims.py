"""Claims: a verdict for every setting, by a named rule. No verdict is typed by hand."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nwsim._validation import check_real
from nwsim.exceptions import PrecisionWarning
from nwsim.study.cells import Cell, series_over
from nwsim.study.points import Estimates, Points, points_of
from nwsim.study.tables import Row, level_text

if TYPE_CHECKING:
    from nwsim.inference import Verdict
    from nwsim.study.derived import Claim


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
    """Judge the quantity itself at the largest level."""
    from nwsim.inference import equivalence

    return equivalence(float(points.estimates[-1]), float(points.mcse[-1]), theory, margin)


_RULES: Mapping[str, Callable[[Points, float, float], Verdict]] = {
    "rate": _judge_rate,
    "equivalence": _judge_equivalence,
}


def rule_names() -> tuple[str, ...]:
    """Names of the rules that a claim can be judged by."""
    return tuple(_RULES)


def judge(claim: Claim, cells: Sequence[Cell], estimates: Estimates) -> list[Row]:
    """Return one row of ``claims.csv`` for each setting of a claim.

    Parameters
    ----------
    claim : Claim
    cells : sequence of Cell
        The conditions that were run.
    estimates : mapping
        :class:`~nwsim.inference.Estimate` by (condition_id, method, measure).
    """
    rows = []
    for series in series_over(cells, claim.over, claim.quantity, claim.where, claim.method):
        points = points_of(series, claim.over, claim.quantity, estimates, claim.tail)
        theory = _value(claim, "theory", series.setting)
        margin = _value(claim, "margin", series.setting)
        verdict = _RULES[claim.rule](points, theory, margin)
        rows.append(
            {
                "claim": claim.id,
                "setting": setting_text(series.setting),
                "quantity": claim.quantity,
                "theory": verdict.theory,
                "estimate": verdict.estimate,
                "mcse": verdict.mcse,
                "ci_low": verdict.ci_low,
                "ci_high": verdict.ci_high,
                "margin": verdict.margin,
                "rule": claim.rule,
                "verdict": verdict.verdict,
            }
        )
    return rows


def expectations(claim: Claim, cells: Sequence[Cell]) -> list[tuple[str, float, float]]:
    """Return (setting, theory, margin) of every setting of a claim, without any result."""
    return [
        (
            setting_text(series.setting),
            _value(claim, "theory", series.setting),
            _value(claim, "margin", series.setting),
        )
        for series in series_over(cells, claim.over, claim.quantity, claim.where, claim.method)
    ]


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return a setting as ``name=level`` pairs, sorted by name and joined by ``;``."""
    return ";".join(f"{name}={level_text(setting[name])}" for name in sorted(setting))


def _value(claim: Claim, field: str, setting: Mapping[str, Any]) -> float:
    value = getattr(claim, field)
    number = value(dict(setting)) if callable(value) else value
    above = 0.0 if field == "margin" else -math.inf
    where = f"{field} of claim {claim.id!r} at {setting_text(setting)}"
    return check_real(where, number, above=above)
