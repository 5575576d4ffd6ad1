"""What a rule sees: the estimates of one setting along a factor, or along two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nwsim._typing import FloatArray, IntArray
from nwsim.exceptions import ParameterError
from nwsim.seeding import stream

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


class CurvePoint(NamedTuple):
    """A derived value at ``x``; NaN as ``x`` means the value belongs to the whole series.

    Without an interval of its own a point gets the normal 95% one.
    """

    x: float
    estimate: float
    mcse: float
    ci_low: float | None = None
    ci_high: float | None = None


class Group(NamedTuple):
    """The points of one level of the first of two factors.

    ``levels`` (k,) of the second factor and ``values`` (R, k), the paired replicates.
    """

    level: float
    levels: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class Points:
    """Estimates of a measure along a factor, by increasing level.

    Attributes
    ----------
    levels : ndarray, shape (k,) or (k, 2)
        Two columns along two factors. NaN where a single condition is judged.
    estimates, mcse : ndarray, shape (k,)
    n_sim, n_planned : ndarray of int, shape (k,)
        Replicates that an estimate comes from, and those that the run asked for.
    paired : bool
        Whether the levels (along two factors, those of the second) share random numbers, so
        that rows of :meth:`matrix` are pairs.
    short : bool
        Whether fewer levels were run than the claim or curve asks for.
    setting : mapping
        The factors that are the same at all points, and ``method``.
    measure : str
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
    setting: Mapping[str, Any] = field(default_factory=dict)
    measure: str = ""
    columns: Callable[[], Sequence[Column]] = _no_columns

    def replicates(self) -> list[FloatArray]:
        """Return the values behind each estimate, one vector a level, in order of replicate."""
        return [values for _, values in self.columns()]

    def matrix(self) -> FloatArray:
        """Return the replicates that stand at every level, shape (R, k), in their order."""
        return _common(self.columns())

    def groups(self) -> Iterator[Group]:
        """Yield the points along two factors, one group a level of the first."""
        if not self._wide:
            raise ParameterError("over must name two factors for points to have groups")
        columns = self.columns()
        for own in self._groups():
            values = _common([columns[i] for i in own])
            yield Group(float(self.levels[own[0], 0]), self.levels[own, 1], values)

    def _groups(self) -> list[IntArray]:
        """Return the positions of the points of each level of the first of two factors."""
        first = self.levels[:, 0]
        return [np.flatnonzero(first == level) for level in np.unique(first)]

    def rng(self) -> np.random.Generator:
        """Return a Generator for a bootstrap: the same for these points in every run."""
        return stream(0, self.setting, 0, f"bootstrap:{self.measure}")

    @property
    def decidable(self) -> bool:
        """Whether enough replicates stand at every point for a verdict.

        Where levels are paired, they must stand at all levels at once.
        """
        standing, planned = self.n_sim, self.n_planned
        if self.paired and not self.short:
            columns = self.columns()
            together = self._groups() if self._wide else [np.arange(len(columns))]
            standing = np.array([len(_common([columns[i] for i in own])) for own in together])
            # As many as every level of a group was planned to have.
            planned = np.array([self.n_planned[own].min() for own in together])
        return bool(
            not self.short
            and (standing >= MIN_REPLICATES).all()
            and (planned - standing <= MAX_LOST_SHARE * planned).all()
        )

    @property
    def _wide(self) -> bool:
        return self.levels.ndim == 2

    @property
    def has_slope(self) -> bool:
        """Whether log(estimate) has a slope: two points or more, positive and finite.

        A corrected squared bias may be negative, and a cell may have lost every
        replicate; then no slope exists, and a claim about it is inconclusive. So is it
        when some points have a known precision and others have none.
        """
        known = np.isfinite(self.mcse)
        return bool(
            self.levels.shape[0] >= 2
            and np.isfinite(self.estimates).all()
            and (self.estimates > 0).all()
            and known.all() == known.any()
            and (self.mcse == 0).all() == (self.mcse == 0).any()
        )


def _common(columns: Sequence[Column]) -> FloatArray:
    shared = reduce(np.intersect1d, (reps for reps, _ in columns))
    return np.column_stack([values[np.isin(reps, shared)] for reps, values in columns])
