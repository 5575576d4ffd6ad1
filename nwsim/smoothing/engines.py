"""Engines: how the points of a window are found.

An engine lays the sample out once, independently of the bandwidth, and then lists for
each query the contiguous ranges that hold its window. All engines share one compiled
loop over those ranges, so they differ in which points they look at and never in what
they compute from a point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nwsim._typing import FloatArray, IntArray
from nwsim._validation import check_choice
from nwsim.exceptions import ParameterError
from nwsim.smoothing.kernels import Kernel

_POINTS_PER_CELL = 4.0
_ULPS = 8 * np.finfo(float).eps


class Ranges(NamedTuple):
    """Ranges ``offsets[j]:offsets[j+1]`` of (starts, stops) belong to query j."""

    offsets: IntArray
    starts: IntArray
    stops: IntArray


@dataclass(frozen=True)
class Engine:
    """What an engine can serve."""

    name: str
    compact_only: bool
    max_dim: int | None

    def serves(self, kernel: Kernel, dim: int) -> bool:
        """Return whether the engine can smooth with this kernel in this dimension."""
        fits = self.max_dim is None or dim <= self.max_dim
        return fits and (not self.compact_only or kernel.support < np.inf)


# In order of preference: "auto" takes the first that serves.
ENGINES = {
    engine.name: engine
    for engine in (
        Engine("window", compact_only=True, max_dim=1),
        Engine("cells", compact_only=True, max_dim=3),
        Engine("direct", compact_only=False, max_dim=None),
    )
}


def choose_engine(engine: str, kernel: Kernel, dim: int) -> str:
    """Return the engine's name, resolving ``auto``; refuse one that cannot serve."""
    check_choice("engine", engine, ("auto", *ENGINES))
    able = [name for name, candidate in ENGINES.items() if candidate.serves(kernel, dim)]
    if engine == "auto":
        return able[0]
    if engine not in able:
        raise ParameterError(
            f"engine {engine!r} cannot serve kernel {kernel.name!r} in {dim} dimensions; "
            f"use one of {', '.join(able)}"
        )
    return engine


@dataclass(frozen=True)
class Layout:
    """A sample in an engine's order.

    Attributes
    ----------
    engine : str
    X : (d, n) the sample, re-ordered, one row a coordinate
    order : (n,) position in the caller's sample of each re-ordered point
    grid : the cell grid, or None
    """

    engine: str
    X: FloatArray
    order: IntArray
    grid: Grid | None = None

    def arrange(self, per_sample: FloatArray) -> FloatArray:
        """Return ``per_sample`` (..., n) in this layout's order, contiguous."""
        if self.engine == "direct":
            return np.array(per_sample, order="C")
        return np.ascontiguousarray(np.take(per_sample, self.order, axis=-1))

    def positions(self) -> IntArray:
        """Return the re-ordered position of each point of the caller's sample, (n,)."""
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(self.order.size)
        return inverse

    def ranges(self, Q: FloatArray, reach: FloatArray) -> Ranges:
        """Return the ranges that hold each query's window.

        Parameters
        ----------
        Q : (m, d) queries
        reach : (d,) half-width of the window along each coordinate
        """
        m, n = Q.shape[0], self.X.shape[1]
        if self.engine == "direct":
            return Ranges(np.arange(m + 1), np.zeros(m, np.int64), np.full(m, n, np.int64))
        if self.grid is not None:
            return self.grid.ranges(Q, reach)
        # A few ulps wider than the window: membership itself is decided by the loop.
        q, x, h = Q[:, 0], self.X[0], reach[0]
        slack = _ULPS * (np.abs(q) + h)
        starts = np.searchsorted(x, q - h - slack, side="left").astype(np.int64)
        stops = np.searchsorted(x, q + h + slack, side="right").astype(np.int64)
        return Ranges(np.arange(m + 1), starts, stops)


@dataclass(frozen=True)
class Grid:
    """A regular grid of cells over the sample, padded in front to three axes."""

    low: FloatArray
    per_unit: FloatArray
    counts: IntArray
    first: IntArray

    def ranges(self, Q: FloatArray, reach: FloatArray) -> Ranges:
        """Return the runs of cells that each query's ellipsoid touches."""
        from nwsim.numerics.cells import window_ranges

        padded = np.ones(3)
        padded[3 - reach.size :] = reach
        nothing = np.empty(0, np.int64)
        where = (Q, padded, self.low, self.per_unit, self.counts, self.first)
        used = window_ranges(*where, nothing, nothing, nothing, False)
        offsets = np.empty(Q.shape[0] + 1, np.int64)
        starts, stops = np.empty(used, np.int64), np.empty(used, np.int64)
        window_ranges(*where, offsets, starts, stops, True)
        return Ranges(offsets, starts, stops)


def lay_out(X: FloatArray, engine: str) -> Layout:
    """Put the sample X (n, d) in the order of an engine (a resolved name)."""
    n, d = X.shape
    columns = np.array(X.T, order="C")  # a copy: the caller's array stays the caller's
    if engine == "direct":
        return Layout(engine, columns, np.arange(n))
    if engine == "window":
        order = np.argsort(columns[0]).astype(np.int64)
        return Layout(engine, np.ascontiguousarray(columns[:, order]), order)
    from nwsim.numerics.cells import fill_cells

    low, high = columns.min(axis=1), columns.max(axis=1)
    span = np.where(high > low, high - low, 1.0)
    per_axis = max(1, int((n / _POINTS_PER_CELL) ** (1 / d)))
    counts = np.ones(3, np.int64)
    counts[3 - d :] = np.where(high > low, per_axis, 1)
    padded_low, per_unit = np.zeros(3), np.ones(3)
    padded_low[3 - d :] = low
    per_unit[3 - d :] = counts[3 - d :] / span
    first = np.zeros(int(counts.prod()) + 1, np.int64)
    order = np.empty(n, np.int64)
    fill_cells(columns, padded_low, per_unit, counts, first, order)
    grid = Grid(padded_low, per_unit, counts, first)
    return Layout(engine, np.ascontiguousarray(columns[:, order]), order, grid)
