"""Curves: values derived along a factor, by a named rule."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nwsim.exceptions import PrecisionWarning
from nwsim.study.cells import Cell, series_over
from nwsim.study.points import Estimates, Points, points_of
from nwsim.study.tables import Row

if TYPE_CHECKING:
    from nwsim.study.derived import Curve


class CurvePoint(NamedTuple):
    """A derived value at ``x``; NaN as ``x`` means the value belongs to the whole series."""

    x: float
    estimate: float
    mcse: float


def _local_slope(points: Points) -> list[CurvePoint]:
    """Log-log slope between neighbouring levels, at their geometric mean."""
    from nwsim.inference import local_slopes

    found = []
    for low in range(points.levels.size - 1):
        pair = slice(low, low + 2)
        two = Points(points.levels[pair], points.estimates[pair], points.mcse[pair])
        middle = math.sqrt(two.levels[0] * two.levels[1])
        if (two.estimates > 0).all():
            slope = local_slopes(two.levels, two.estimates, two.mcse)[0]
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


_RULES: Mapping[str, Callable[[Points], list[CurvePoint]]] = {
    "local_slope": _local_slope,
    "tail_slope": _tail_slope,
}


def curve_rule_names() -> tuple[str, ...]:
    """Names of the rules that a curve can be derived by."""
    return tuple(_RULES)


def derive(curve: Curve, cells: Sequence[Cell], estimates: Estimates) -> list[Row]:
    """Return the rows of ``curves.csv`` of one curve, without the column ``study``."""
    rows: list[Row] = []
    for series in series_over(cells, curve.over, curve.measure, curve.where):
        points = points_of(series, curve.over, curve.measure, estimates, curve.tail)
        for point in _RULES[curve.rule](points):
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
