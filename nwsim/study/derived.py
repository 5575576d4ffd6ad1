"""Rows that are derived from finished replicates: verdicts, curves, paired contrasts.

No verdict is typed by hand: a claim has one for every setting, by a named rule.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from nwsim._files import level_text, setting_text
from nwsim.exceptions import NwsimError, PrecisionWarning, StudyError
from nwsim.inference import Estimate, difference, precision_gain, ratio
from nwsim.inference.verdicts import REFUTED, Z95, undecided
from nwsim.seeding import digest
from nwsim.study.cells import Cell, Series, series_over
from nwsim.study.parts import Over, applies, factors_of
from nwsim.study.points import Column, CurvePoint, Points
from nwsim.study.replicate import declared_outputs
from nwsim.study.results import Row
from nwsim.study.rules import CLAIM_RULES, CURVE_RULES, ClaimRule, CurveRule
from nwsim.study.specification import Study
from nwsim.study.statements import Claim, Contrast, Curve, check_statement

Pair: TypeAlias = tuple[Cell, str, Cell, str]
"""Cell and method of a contrast's level, cell and method of its baseline."""

_COMPARE = {"difference": difference, "ratio": ratio, "precision": precision_gain}

_UNDEFINED = CurvePoint(math.nan, math.nan, math.nan)


class Sample(Protocol):
    """What rows are derived from: the finished replicates of a run."""

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        """Return the mean of a measure over the replicates that stand."""

    def column(self, cell: Cell, method: str, measure: str) -> Column:
        """Return the replicates that stand and the measure in each."""


def points_of(
    series: Series,
    over: Over | None,
    measure: str,
    sample: Sample,
    tail: int | None = None,
    shared: Sequence[str] = (),
) -> Points:
    """Return the points of a series, its ``tail`` largest levels only if given."""
    cells = series.cells if tail is None else series.cells[-tail:]
    along = factors_of(over)
    levels = [[cell.factors[factor] for factor in along] or [math.nan] for cell in cells]
    found = [sample.estimate(cell, series.method, measure) for cell in cells]
    return Points(
        levels=np.array(levels if len(along) == 2 else [row[0] for row in levels], float),
        estimates=np.array([estimate.estimate for estimate in found], dtype=np.float64),
        mcse=np.array([estimate.mcse for estimate in found], dtype=np.float64),
        n_sim=np.array([estimate.n_sim for estimate in found], dtype=np.int64),
        n_planned=np.array([cell.n_sim for cell in cells], dtype=np.int64),
        paired=along[-1:] != () and along[-1] in shared,
        short=tail is not None and len(cells) < tail,
        setting=series.setting,
        measure=measure,
        columns=lambda: [sample.column(cell, series.method, measure) for cell in cells],
    )


def judge(
    claim: Claim,
    cells: Sequence[Cell],
    sample: Sample,
    shared: Sequence[str] = (),
    contrasts: Sequence[Contrast] = (),
) -> list[Row]:
    """Return one row of ``claims.csv`` for each setting of a claim.

    Parameters
    ----------
    claim : Claim
    cells : sequence of Cell
        The conditions that were run.
    sample : Sample
    shared : sequence of str
        Factors whose levels share random numbers.
    contrasts : sequence of Contrast
        Those of the study, which a claim may be about.
    """
    rule = CLAIM_RULES[claim.rule]
    contrast = _contrast_of(claim, contrasts)
    rows = []
    for setting, found in _settings(claim, cells, contrast):
        if contrast is None:
            assert isinstance(found, Series)
            points = points_of(found, claim.over, claim.quantity, sample, claim.tail, shared)
        else:
            points = _points_of_pair(contrast, setting, found, sample)
        theory, margin = _value(claim, "theory", setting), _value(claim, "margin", setting)
        if _too_few(points, rule):
            verdict = undecided(theory, margin)
        else:
            with _naming(f"rule {rule.name!r} of claim {claim.id!r}", setting):
                verdict = rule.judge(points, theory, margin)
        if not points.decidable and not (rule.universal and verdict.verdict == REFUTED):
            verdict = dataclasses.replace(verdict, verdict="inconclusive")
        rows.append(
            {
                "claim": claim.id,
                "setting": setting_text(setting),
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


def _too_few(points: Points, rule: ClaimRule | CurveRule) -> bool:
    """Return whether a small profile left fewer levels than asked for, or none to compare."""
    return points.short or (rule.paired and points.levels.shape[0] < 2)


@contextlib.contextmanager
def _naming(what: str, setting: Mapping[str, Any]) -> Iterator[None]:
    """Say where a registered rule fails; the replicates are kept, and a rerun is quick."""
    try:
        yield
    except Exception as error:
        raise StudyError(
            f"{what} fails at {setting_text(setting)}: {type(error).__name__}: {error}"
        ) from error


def _contrast_of(claim: Claim, contrasts: Sequence[Contrast]) -> Contrast | None:
    return next((contrast for contrast in contrasts if contrast.name == claim.quantity), None)


def _points_of_pair(
    contrast: Contrast, setting: Mapping[str, Any], pair: Pair, sample: Sample
) -> Points:
    """Return a contrast as the one point that a rule judges."""
    found = _compare(contrast, pair, sample)
    return Points(
        levels=np.array([math.nan]),
        estimates=np.array([found.estimate]),
        mcse=np.array([found.mcse]),
        n_sim=np.array([found.n_sim]),
        n_planned=np.array([min(pair[0].n_sim, pair[2].n_sim)]),
        setting=setting,
        measure=contrast.name,
    )


def _settings(
    claim: Claim, cells: Sequence[Cell], contrast: Contrast | None
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield each setting of a claim with the cells, or the pair, that it is judged from."""
    if contrast is not None:
        for pair in contrast_pairs(contrast, cells):
            position = {**pair[0].factors, "method": pair[1]}
            if claim.method in (None, pair[1]) and applies(claim.where, position):
                yield position, pair
        return
    rule = CLAIM_RULES[claim.rule]
    for series in series_over(cells, claim.over, claim.quantity, claim.where, claim.method):
        along = factors_of(claim.over)
        if along and rule.single and not rule.universal:
            # One level is judged, and the setting says which.
            last = series.cells[-1]
            judged = {factor: last.factors[factor] for factor in along}
            yield {**series.setting, **judged}, dataclasses.replace(series, cells=(last,))
        else:
            yield dict(series.setting), series


def expectations(
    claim: Claim, cells: Sequence[Cell], contrasts: Sequence[Contrast] = ()
) -> list[tuple[str, float, float]]:
    """Return (setting, theory, margin) of every setting of a claim, without any result."""
    return [
        (setting_text(setting), _value(claim, "theory", setting), _value(claim, "margin", setting))
        for setting, _ in _settings(claim, cells, _contrast_of(claim, contrasts))
    ]


def _value(claim: Claim, field: str, setting: Mapping[str, Any]) -> float:
    value = getattr(claim, field)
    number = value(dict(setting)) if callable(value) else value
    where = f"{field} of claim {claim.id!r} at {setting_text(setting)}"
    return check_statement(where, field, number, CLAIM_RULES[claim.rule])


def derive(
    curve: Curve, cells: Sequence[Cell], sample: Sample, shared: Sequence[str] = ()
) -> list[Row]:
    """Return the rows of ``curves.csv`` of one curve, without the column ``study``."""
    rows: list[Row] = []
    for series in series_over(cells, curve.over, curve.measure, curve.where):
        points = points_of(series, curve.over, curve.measure, sample, curve.tail, shared)
        found: Sequence[CurvePoint] = [_UNDEFINED]
        if not _too_few(points, CURVE_RULES[curve.rule]):
            with _naming(f"rule {curve.rule!r} of curve {curve.name!r}", series.setting):
                found = CURVE_RULES[curve.rule].derive(points)
        for point in found:
            half = Z95 * point.mcse
            rows.append(
                {
                    "curve": curve.name,
                    **series.setting,
                    "measure": curve.measure,
                    "over": ";".join(factors_of(curve.over)),
                    "x": point.x,
                    "estimate": point.estimate,
                    "mcse": point.mcse,
                    "ci_low": point.estimate - half if point.ci_low is None else point.ci_low,
                    "ci_high": point.estimate + half if point.ci_high is None else point.ci_high,
                }
            )
    return rows


def compare(contrast: Contrast, cells: Sequence[Cell], sample: Sample) -> Iterator[Row]:
    """Yield the rows of one contrast, each at the condition of its ``level``."""
    for pair in contrast_pairs(contrast, cells):
        cell, method, _, _ = pair
        found = _compare(contrast, pair, sample)
        yield {
            "contrast": contrast.name,
            "condition_id": cell.condition_id,
            **cell.factors,
            "method": method,
            "measure": contrast.measure,
            "kind": contrast.kind,
            "factor": contrast.factor,
            "level": level_text(contrast.level),
            "baseline": level_text(contrast.baseline),
            "estimate": found.estimate,
            "mcse": found.mcse,
            "n_sim": found.n_sim,
        }


def _compare(contrast: Contrast, pair: Pair, sample: Sample) -> Estimate:
    cell, method, other, other_method = pair
    reps, values = sample.column(cell, method, contrast.measure)
    other_reps, other_values = sample.column(other, other_method, contrast.measure)
    common = np.intersect1d(reps, other_reps)
    first, second = values[np.isin(reps, common)], other_values[np.isin(other_reps, common)]
    # A contrast without pairs is undefined, and so is one over a baseline of 0 or of values
    # that do not vary.
    undefined = {
        "difference": lambda: False,
        "ratio": lambda: second.mean() == 0,
        "precision": lambda: common.size < 3 or np.ptp(first) == 0,
    }
    if not common.size or undefined[contrast.kind]():
        return Estimate(math.nan, math.nan, int(common.size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return defined(_COMPARE[contrast.kind](first, second))


def defined(found: Estimate) -> Estimate:
    """Return an estimate, undefined if finite values have a sum or spread beyond float64."""
    beyond = math.isinf(found.estimate) or (found.n_sim > 1 and not math.isfinite(found.mcse))
    return Estimate(math.nan, math.nan, found.n_sim) if beyond else found


def contrast_pairs(contrast: Contrast, cells: Sequence[Cell]) -> Iterator[Pair]:
    """Yield (cell, method) of the level with (cell, method) of its baseline."""
    by_id = {cell.condition_id: cell for cell in cells}
    for cell in cells:
        for method in cell.outputs:
            position: dict[str, Any] = {**cell.factors, "method": method}
            if position[contrast.factor] != contrast.level:
                continue
            if contrast.where is not None and not contrast.where(position):
                continue
            twin = {**position, contrast.factor: contrast.baseline}
            other_method = str(twin.pop("method"))
            other = by_id.get(digest(twin))
            if (
                other is not None
                and contrast.measure in cell.outputs[method]
                and contrast.measure in other.outputs.get(other_method, ())
            ):
                yield cell, method, other, other_method


def check_derived(study: Study) -> None:
    """Try every claim, curve and contrast on the study's conditions before any work.

    Raises
    ------
    StudyError
        If one selects no condition at all (a misspelt level in a filter would be a
        silently missing row), or if a function of it fails.
    """
    cells = tuple(
        Cell(digest(levels), levels, 1, declared_outputs(study.methods, study.measures, levels))
        for levels in study.conditions()
    )
    trials: list[tuple[str, Callable[[], Iterable[Any]]]] = []
    for claim in study.claims:
        trials.append((f"claim {claim.id!r}", partial(expectations, claim, cells, study.contrasts)))
    for curve in study.curves:
        along = partial(series_over, cells, curve.over, curve.measure, curve.where)
        trials.append((f"curve {curve.name!r}", along))
    for contrast in study.contrasts:
        trials.append((f"contrast {contrast.name!r}", partial(contrast_pairs, contrast, cells)))
    for what, select in trials:
        try:
            selected = list(select())
        except NwsimError:
            raise
        except Exception as error:
            raise StudyError(
                f"study {study.name!r}: a function of {what} fails: {type(error).__name__}: {error}"
            ) from error
        if not selected:
            raise StudyError(f"study {study.name!r}: {what} selects no condition of the study")
