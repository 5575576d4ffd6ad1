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
from typing import Any, Protocol

import numpy as np

from nwsim._files import level_text, setting_text
from nwsim._validation import check_real
from nwsim.exceptions import NwsimError, PrecisionWarning, StudyError
from nwsim.inference import Estimate, difference, equivalence, ratio
from nwsim.seeding import digest
from nwsim.study.cells import Cell, Series, series_over
from nwsim.study.replicate import declared_outputs
from nwsim.study.results import Row
from nwsim.study.rules import CLAIM_RULES, CURVE_RULES, Column, CurvePoint, Points
from nwsim.study.specification import Study
from nwsim.study.statements import Claim, Contrast, Curve

_UNDEFINED = CurvePoint(math.nan, math.nan, math.nan)


class Sample(Protocol):
    """What rows are derived from: the finished replicates of a run."""

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        """Return the mean of a measure over the replicates that stand."""

    def column(self, cell: Cell, method: str, measure: str) -> Column:
        """Return the replicates that stand and the measure in each."""


def points_of(
    series: Series,
    over: str | None,
    measure: str,
    sample: Sample,
    tail: int | None = None,
    shared: Sequence[str] = (),
) -> Points:
    """Return the points of a series, its ``tail`` largest levels only if given."""
    cells = series.cells if tail is None else series.cells[-tail:]
    found = [sample.estimate(cell, series.method, measure) for cell in cells]
    return Points(
        levels=np.array(
            [math.nan if over is None else cell.factors[over] for cell in cells], float
        ),
        estimates=np.array([estimate.estimate for estimate in found], dtype=np.float64),
        mcse=np.array([estimate.mcse for estimate in found], dtype=np.float64),
        n_sim=np.array([estimate.n_sim for estimate in found], dtype=np.int64),
        n_planned=np.array([cell.n_sim for cell in cells], dtype=np.int64),
        paired=over in shared,
        short=tail is not None and len(cells) < tail,
        columns=lambda: [sample.column(cell, series.method, measure) for cell in cells],
    )


def judge(
    claim: Claim, cells: Sequence[Cell], sample: Sample, shared: Sequence[str] = ()
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
    """
    rule = CLAIM_RULES[claim.rule]
    rows = []
    for setting, series in _settings(claim, cells):
        points = points_of(series, claim.over, claim.quantity, sample, claim.tail, shared)
        theory, margin = _value(claim, "theory", setting), _value(claim, "margin", setting)
        if points.short:
            verdict = equivalence(math.nan, math.nan, theory, margin)
        else:
            with _naming(f"rule {rule.name!r} of claim {claim.id!r}", setting):
                verdict = rule.judge(points, theory, margin)
        if not points.decidable:
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


@contextlib.contextmanager
def _naming(what: str, setting: Mapping[str, Any]) -> Iterator[None]:
    """Say where a registered rule fails; the replicates are kept, and a rerun is quick."""
    try:
        yield
    except Exception as error:
        raise StudyError(
            f"{what} fails at {setting_text(setting)}: {type(error).__name__}: {error}"
        ) from error


def _settings(claim: Claim, cells: Sequence[Cell]) -> Iterator[tuple[dict[str, Any], Series]]:
    """Yield each setting of a claim with the cells that it is judged from."""
    for series in series_over(cells, claim.over, claim.quantity, claim.where, claim.method):
        if claim.over is not None and CLAIM_RULES[claim.rule].single:
            # One level is judged, and the setting says which.
            last = series.cells[-1]
            yield (
                {**series.setting, claim.over: last.factors[claim.over]},
                dataclasses.replace(series, cells=(last,)),
            )
        else:
            yield dict(series.setting), series


def expectations(claim: Claim, cells: Sequence[Cell]) -> list[tuple[str, float, float]]:
    """Return (setting, theory, margin) of every setting of a claim, without any result."""
    return [
        (setting_text(setting), _value(claim, "theory", setting), _value(claim, "margin", setting))
        for setting, _ in _settings(claim, cells)
    ]


def _value(claim: Claim, field: str, setting: Mapping[str, Any]) -> float:
    value = getattr(claim, field)
    number = value(dict(setting)) if callable(value) else value
    above = 0.0 if field == "margin" else -math.inf
    where = f"{field} of claim {claim.id!r} at {setting_text(setting)}"
    return check_real(where, number, above=above)


def derive(
    curve: Curve, cells: Sequence[Cell], sample: Sample, shared: Sequence[str] = ()
) -> list[Row]:
    """Return the rows of ``curves.csv`` of one curve, without the column ``study``."""
    rows: list[Row] = []
    for series in series_over(cells, curve.over, curve.measure, curve.where):
        points = points_of(series, curve.over, curve.measure, sample, curve.tail, shared)
        found: Sequence[CurvePoint] = [_UNDEFINED]
        if not points.short:
            with _naming(f"rule {curve.rule!r} of curve {curve.name!r}", series.setting):
                found = CURVE_RULES[curve.rule].derive(points)
        for point in found:
            rows.append(
                {
                    "curve": curve.name,
                    **series.setting,
                    "measure": curve.measure,
                    "over": curve.over,
                    "x": point.x,
                    "estimate": point.estimate,
                    "mcse": point.mcse,
                }
            )
    return rows


def compare(contrast: Contrast, cells: Sequence[Cell], sample: Sample) -> Iterator[Row]:
    """Yield the rows of one contrast, each at the condition of its ``level``."""
    for cell, method, other, other_method in contrast_pairs(contrast, cells):
        reps, values = sample.column(cell, method, contrast.measure)
        other_reps, other_values = sample.column(other, other_method, contrast.measure)
        common = np.intersect1d(reps, other_reps)
        first, second = values[np.isin(reps, common)], other_values[np.isin(other_reps, common)]
        # A contrast without pairs, or over a baseline of 0, is undefined.
        found = Estimate(math.nan, math.nan, int(common.size))
        if common.size and (contrast.kind == "difference" or second.mean() != 0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrecisionWarning)
                found = (difference if contrast.kind == "difference" else ratio)(first, second)
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


def contrast_pairs(
    contrast: Contrast, cells: Sequence[Cell]
) -> Iterator[tuple[Cell, str, Cell, str]]:
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
        trials.append((f"claim {claim.id!r}", partial(expectations, claim, cells)))
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
