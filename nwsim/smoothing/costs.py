"""What a sum costs by each engine, for ``engine="auto"``.

Constants are seconds for a unit of work, measured by ``make bench`` and shipped in costs.json,
so that the choice is the same on every machine. They need not be exact: engines differ by
factors where the choice matters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from nwsim._typing import FloatArray
from nwsim.smoothing.kernels import Kernel


class Task(NamedTuple):
    """Sums that are asked for.

    Attributes
    ----------
    kernel : Kernel
    n, m, n_columns : numbers of points, queries and columns
    bandwidth, span : (d,) bandwidth and extent of the sample by coordinate
    tol : tolerance of the engines that approximate
    """

    kernel: Kernel
    n: int
    m: int
    n_columns: int
    bandwidth: FloatArray
    span: FloatArray
    tol: float

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.span.size

    @property
    def share(self) -> float:
        """Part of the sample that a window's box holds, if the sample were uniform."""
        reach = 2.0 * self.kernel.support * self.bandwidth
        return float(np.prod(reach / (self.span + reach)))


@cache
def constants() -> dict[str, float]:
    """Return the constants shipped with the package, in seconds."""
    text = files("nwsim.smoothing").joinpath("costs.json").read_text(encoding="utf-8")
    return {name: float(value) for name, value in json.loads(text).items()}


def _pair(task: Task) -> float:
    c, family = constants(), task.kernel.family
    extra = c["pair_column"] * max(0, task.n_columns - 2)
    return c[f"pair_{family}"] + c["pair_coordinate"] * (task.dim - 1) + extra


def _direct(task: Task) -> float:
    return task.m * task.n * _pair(task)


def _window(task: Task) -> float:
    return task.m * (constants()["query"] + task.n * task.share * _pair(task))


def _cells(task: Task) -> float:
    # As many runs of cells a query as the window is cells wide in all but one direction.
    per_axis = max(1.0, (task.n / 4.0) ** (1.0 / task.dim))
    wide = np.ones_like(task.span)
    np.divide(task.bandwidth, 0.5 * task.span, out=wide, where=task.bandwidth < 0.5 * task.span)
    runs = float(np.prod(np.minimum(per_axis, 1.0 + wide[:-1] * per_axis)))
    points = min(1.0, 1.2 * task.share) * task.n
    return task.m * (constants()["query"] + runs * constants()["run"] + points * _pair(task))


def _prefix(task: Task) -> float:
    from nwsim.smoothing.fast import sweep_plan

    kernel, even, extent = sweep_plan(task.kernel)
    powers, halves, c = kernel.size, 1 if even else 2, constants()
    # Points within a window of a group of queries are walked through once for each group;
    # where groups are as wide as they can be, twice altogether, which the constant includes.
    again = 0.5 + 1.0 / (halves * extent)
    touched = min(task.n * again, task.m * task.n * task.share)
    sums = powers * task.n_columns
    return halves * (
        touched * sums * c["prefix_sum"]
        + task.m * (c["sweep_query"] + (sums + powers * powers) * c["prefix_sum"])
    )


def _recursive(task: Task) -> float:
    c = constants()
    return (
        task.n * (c["pair_laplace"] + c["recursive_point"] * task.n_columns)
        + task.m * (c["sweep_query"])
    )


def expansion_cost(n: int, m: int, n_columns: int, cells: float, terms: int) -> float:
    """Return the cost of moments of n points and of series of that many cells a query."""
    c = constants()
    points = n * (c["expansion_point"] + n_columns * terms * c["expansion_moment"])
    series = cells * (c["expansion_cell"] + n_columns * terms * c["expansion_term"])
    return points + m * (c["query"] + series)


def _expansion(task: Task) -> float:
    from nwsim.smoothing.expansion import is_sparse, make_plan

    span, h = float(task.span[0]), float(task.bandwidth[0])
    plan = make_plan(task.n, task.m, task.n_columns, span, h, task.tol)
    if plan is None:
        return np.inf
    cells = min(span, 2.0 * plan.reach * h) / plan.width + 1.0
    # Sparse samples pay for sorting the cells that they have.
    sparse = constants()["expansion_sparse"] if is_sparse(task.n, span, plan.width) else 0.0
    cost = expansion_cost(task.n, task.m, task.n_columns, cells, plan.terms)
    return constants()["expansion_start"] + cost + task.n * sparse


def _nufft(task: Task) -> float:
    from nwsim.smoothing import fourier

    where = (task.span, task.bandwidth, task.tol)
    if fourier.most_modes(*where) > fourier.MOST_MODES:
        return np.inf
    eps = fourier.precision(*where)
    _, count = fourier.modes(task.span, task.bandwidth, eps)
    total = float(np.prod(count))
    c = constants()
    spread = (1.0 - np.log10(eps)) ** task.dim
    pairs = (task.n_columns + 1) // 2
    per_point = c["nufft_point"] + pairs * spread * c["nufft_spread"]
    grid = pairs * total * 2.0**task.dim * np.log2(total + 2.0) * c["nufft_grid"]
    transforms = 2.0 * c["nufft_start"] + (task.n + task.m) * per_point + 2.0 * grid
    # Where the sample is too thin for the tolerance windows are summed directly. How often is
    # for the sample to say; the guess is as often as it is thin.
    return transforms + min(1.0, fourier.thinnest(*where)) * _direct(task)


COSTS: dict[str, Callable[[Task], float]] = {
    "direct": _direct,
    "window": _window,
    "cells": _cells,
    "prefix": _prefix,
    "recursive": _recursive,
    "expansion": _expansion,
    "nufft": _nufft,
}


def cheapest(engines: Iterable[str], task: Task) -> str:
    """Return the engine of least cost, the first of equals."""
    return min(engines, key=lambda name: COSTS[name](task))
