"""The estimates of a measure along a factor: what claims and curves are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nwsim._typing import FloatArray

if TYPE_CHECKING:
    from nwsim.inference import Estimate
    from nwsim.study.cells import Series

Estimates: TypeAlias = "Mapping[tuple[str, str, str], Estimate]"
"""Estimates of the measures of kind "mean" by condition_id, method and measure."""


@dataclass(frozen=True)
class Points:
    """Estimates along a factor, by increasing level.

    Attributes
    ----------
    levels, estimates, mcse : ndarray, shape (k,)
    """

    levels: FloatArray
    estimates: FloatArray
    mcse: FloatArray

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


def points_of(
    series: Series, over: str | None, measure: str, estimates: Estimates, tail: int | None = None
) -> Points:
    """Return the points of a series, its ``tail`` largest levels only if given."""
    cells = series.cells if tail is None else series.cells[-tail:]
    found = [estimates[cell.condition_id, series.method, measure] for cell in cells]
    levels = [0.0 if over is None else _number(cell.factors[over]) for cell in cells]
    return Points(
        np.array(levels, dtype=np.float64),
        np.array([estimate.estimate for estimate in found], dtype=np.float64),
        np.array([estimate.mcse for estimate in found], dtype=np.float64),
    )


def _number(level: str | int | float | bool) -> float:
    # Equivalence claims may run over a factor of names, whose size has no meaning.
    return float("nan") if isinstance(level, str) else float(level)
