"""Engines: how a sample is laid out, and how the points of a window are found.

Three engines look at every point of a window. They lay the sample out once, independently
of the bandwidth, list for each query the contiguous ranges that hold its window, and share
one compiled loop over those ranges: they differ in which points they look at and never in
what they compute from a point. The others compute the same sums from fewer operations
(:mod:`nwsim.smoothing.fast`), to a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
    """What an engine can serve.

    Attributes
    ----------
    name : str
    layout : {"plain", "line", "cells"}
        The order it wants the sample in: as it came, sorted, or by cells of a grid.
    families : tuple of str
        Kernel families.
    max_dim : int or None
    ranges : bool
        Whether it sums over every point of a window. The others serve local constant fits,
        and of exponential kernels those without a polynomial factor.
    """

    name: str
    layout: str
    families: tuple[str, ...]
    max_dim: int | None
    ranges: bool = True

    def serves(self, kernel: Kernel, dim: int, degree: int = 0) -> bool:
        """Return whether the engine can fit a local polynomial with this kernel."""
        if kernel.family not in self.families or (self.max_dim or dim) < dim:
            return False
        if self.ranges:
            return True
        factor = kernel.polynomial(dim).tolist() != [1.0]
        return degree == 0 and (kernel.family == "compact" or not factor)


_ALL = ("compact", "gaussian", "laplace")
ENGINES = {
    engine.name: engine
    for engine in (
        Engine("direct", "plain", _ALL, None),
        Engine("window", "line", ("compact",), 1),
        Engine("cells", "cells", ("compact",), 3),
        Engine("prefix", "line", ("compact",), 1, ranges=False),
        Engine("recursive", "line", ("laplace",), 1, ranges=False),
        Engine("expansion", "plain", ("gaussian",), 1, ranges=False),
        Engine("nufft", "plain", ("gaussian",), 3, ranges=False),
    )
}


def able_engines(kernel: Kernel, dim: int, degree: int) -> list[str]:
    """Return the names of the engines that serve."""
    return [name for name, engine in ENGINES.items() if engine.serves(kernel, dim, degree)]


def in_words(dim: int) -> str:
    """Return a number of dimensions as a message says it."""
    return f"{dim} dimension" if dim == 1 else f"{dim} dimensions"


def check_engine(engine: str, kernel: Kernel, dim: int, degree: int) -> str:
    """Return the engine's name, or ``auto``; refuse one that cannot serve."""
    check_choice("engine", engine, ("auto", *ENGINES))
    able = able_engines(kernel, dim, degree)
    if engine != "auto" and engine not in able:
        fit = "a local linear fit with " if degree else ""
        raise ParameterError(
            f"engine {engine!r} cannot serve {fit}kernel {kernel.name!r} in {in_words(dim)}; "
            f"use one of {', '.join(able)}"
        )
    return engine


def layout_for(engine: str, kernel: Kernel, dim: int, degree: int) -> str:
    """Return the layout that an engine wants; for ``auto``, one that most of those able do."""
    if engine != "auto":
        return ENGINES[engine].layout
    wanted = [ENGINES[name].layout for name in able_engines(kernel, dim, degree)]
    return next((kind for kind in ("line", "cells") if kind in wanted), "plain")


@dataclass(frozen=True)
class Layout:
    """A sample in some order.

    Attributes
    ----------
    kind : {"plain", "line", "cells"}
    X : (d, n) the sample, re-ordered, one row a coordinate
    sorted_by : (n,) position in the caller's sample of each re-ordered point, or None for the
        order it came in
    grid : the cell grid, or None
    """

    kind: str
    X: FloatArray
    sorted_by: IntArray | None = None
    grid: Grid | None = None

    @cached_property
    def order(self) -> IntArray:
        """Position in the caller's sample of each re-ordered point, (n,)."""
        return np.arange(self.X.shape[1]) if self.sorted_by is None else self.sorted_by

    def arrange(self, per_sample: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return ``per_sample`` (..., n) in this layout's order, contiguous, a copy."""
        out = np.empty(per_sample.shape, per_sample.dtype) if out is None else out
        if self.sorted_by is None:
            out[...] = per_sample
        else:  # no index is out of range; "clip" spares a buffer
            np.take(per_sample, self.sorted_by, axis=-1, out=out, mode="clip")
        return out

    @cached_property
    def span(self) -> FloatArray:
        """Extent of the sample along each coordinate, (d,)."""
        return np.asarray(np.ptp(self.X, axis=1))

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
        reach : (d,) half-width of the window along each coordinate, may be infinite
        """
        m, n = Q.shape[0], self.X.shape[1]
        if self.kind == "plain" or not np.isfinite(reach).all():
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


def sort_line(x: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the numbers x (n,) in ascending order, and where they stood; equals keep order."""
    from nwsim.numerics.sorting import AVERAGE, bucket_sort

    ends = (float(x.min()), float(x.max())) if x.size > AVERAGE else (0.0, 0.0)
    # A span whose reciprocal is a number, too.
    if 1e-290 < ends[1] - ends[0] < 1e290:
        out, order = np.empty(x.size), np.empty(x.size, np.int64)
        if bucket_sort(x, *ends, x.size // AVERAGE, out, order):
            return out, order
    order = np.argsort(x, kind="stable").astype(np.int64)
    return x[order], order


def lay_out(X: FloatArray, kind: str) -> Layout:
    """Put the sample X (n, d) in order."""
    n, d = X.shape
    columns = np.array(X.T, order="C")  # a copy: the caller's array stays the caller's
    if kind == "plain":
        return Layout(kind, columns)
    if kind == "line":
        x, order = sort_line(columns[0])
        return Layout(kind, x[None], order)
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
    return Layout(kind, np.ascontiguousarray(columns[:, order]), order, grid)
