"""Gaussian sums on the line from the moments of cells: how wide cells are, how many moments.

With cells of width 2 zeta h a series of K terms in delta z, |z| <= zeta, is off by at most
|delta zeta|^K / K! exp(|delta| zeta) where the cell's weight is exp(-delta^2 / 2), so that the
error of a query's sum is at most the largest product of the two times the weight of the sample.

Widths are powers of two. Products with them are exact, so that compiled code, which may fuse a
product with a sum, and numpy find the same cells with the same centres.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from nwsim._typing import FloatArray, IntArray
from nwsim.smoothing.engines import Layout, sort_line

# Powers of two from which the width is chosen, down from the largest with zeta <= 1/4, which the
# compiled loops rely on, and K, of which they want multiples of four.
_N_WIDTHS = 6
_TERMS = (4, 8, 12, 16, 20, 24, 28)
# Queries where the sample is this much thinner than on average still meet the tolerance.
_MARGIN = 1e-3
# Beyond this many cells, or this part of the number of points, only cells with points are kept,
# and the moments of as many cells as this are made at a time.
_BLOCK = 4096
_DENSE = 1 / 16
# Numbers of cells are exact, and so are bandwidths' reciprocals and squares of distances.
_MOST_CELLS = 2.0**48
_LEAST_SCALE, _MOST_SCALE = 1e-150, 1e150
_ROUNDING = 64 * np.finfo(float).eps


class Plan(NamedTuple):
    """How the sums are expanded.

    Attributes
    ----------
    width : of a cell, a power of two
    half_width : how far points lie from the centre of their cell, in bandwidths
    terms : of the series
    reach : how far cells count, in bandwidths
    truncation : error of a unit weight whose cell counts
    """

    width: float
    half_width: float
    terms: int
    reach: float
    truncation: float


def truncation(half_width: float, terms: int) -> float:
    """Return the largest exp(-delta^2 / 2) (delta zeta)^K / K! exp(delta zeta), delta > 0."""
    # Where the derivative -delta + K / delta + zeta of its logarithm is zero.
    delta = 0.5 * (half_width + math.sqrt(half_width**2 + 4.0 * terms))
    x = delta * half_width
    return math.exp(-0.5 * delta**2 + terms * math.log(x) - math.lgamma(terms + 1.0) + x)


# Asked for twice at every prediction: for the cost and for the work.
@lru_cache(maxsize=1024)
def make_plan(
    n: int, m: int, n_columns: int, span: float, h: float, tol: float, largest: float = 0.0
) -> Plan | None:
    """Return the plan that costs least, or None if none meets the tolerance.

    Parameters
    ----------
    n, m, n_columns : numbers of points, queries and columns
    span : extent of the sample; h : bandwidth
    tol : error of a sum as a part of the sum of weights, met where the sample is up to a
        thousand times thinner than on average
    largest : absolute value of a point, by which the rounding of centres is known
    """
    from nwsim.smoothing.costs import expansion_cost

    if not _LEAST_SCALE < h < _MOST_SCALE or max(span, largest) >= _MOST_SCALE:
        return None
    ratio = span / h
    typical = min(1.0, math.sqrt(2.0 * math.pi) / ratio) if ratio > 0.0 else 1.0
    allowed = min(max(tol * typical * _MARGIN, 1e-300) / 2.0, 1e-3)
    off_centre = 2.0 * np.finfo(float).eps * largest / h
    best, least = None, np.inf
    for k in range(_N_WIDTHS):
        width = math.ldexp(1.0, math.frexp(h)[1] - 2 - k)
        if span / width > _MOST_CELLS or 8.0 * off_centre * h > width:
            break
        half_width = 0.5 * width / h + off_centre
        terms = next((t for t in _TERMS if truncation(half_width, t) <= allowed), None)
        if terms is None:
            continue
        reach = math.sqrt(-2.0 * math.log(allowed)) + half_width
        cells = min(span, 2.0 * reach * h) / width + 1.0
        cost = expansion_cost(n, m, n_columns, cells, terms)
        if cost < least:
            best = Plan(width, half_width, terms, reach, truncation(half_width, terms))
            least = cost
    return best


def is_sparse(n: int, span: float, width: float) -> bool:
    """Return whether only cells that hold points are kept."""
    return span / width > max(_BLOCK, _DENSE * n)


def expansion_sums(
    layout: Layout, Q: FloatArray, bandwidth: FloatArray, columns: FloatArray, tol: float
) -> tuple[FloatArray, FloatArray]:
    """Return Gaussian sums (m, C) of columns (C, n) and a bound (m,) on the first's error.

    The bound is infinite where no plan meets the tolerance.
    """
    from nwsim.numerics.expansion import cell_moments, expanded_sums

    x, q, h = layout.X[0], np.ascontiguousarray(Q[:, 0]), float(bandwidth[0])
    low, high, span = float(x.min()), float(x.max()), float(layout.span[0])
    n_columns, m = columns.shape[0], q.size
    sums = np.zeros((m, n_columns))
    plan = make_plan(x.size, m, n_columns, span, h, tol, max(abs(low), abs(high)))
    if plan is None:
        return sums, np.full(m, np.inf)
    # The first moment is the cell's weight but for a factor between this and 1.
    factor = math.exp(0.5 * plan.half_width**2)
    factorials = np.exp(gammaln(np.arange(plan.terms) + 1.0))
    inside, everything = np.zeros(m), 0.0
    for numbers, places, some_x, some_columns in _blocks(x, columns, low, span, plan.width):
        moments = np.zeros((numbers.size, n_columns, plan.terms))
        cell_moments(some_x, places, some_columns, low, plan.width, h, moments)
        series = np.ascontiguousarray((moments / factorials).transpose(1, 2, 0))
        centres = low + (numbers + 0.5) * plan.width
        first = np.searchsorted(centres, q - plan.reach * h).astype(np.int64)
        last = np.searchsorted(centres, q + plan.reach * h, side="right").astype(np.int64)
        expanded_sums(q, centres, h, series, first, last, sums)
        weight = np.concatenate([[0.0], np.cumsum(moments[:, 0, 0])]) * factor
        inside += weight[last] - weight[first]
        everything += weight[-1]
    beyond = math.exp(-0.5 * (plan.reach - plan.half_width) ** 2)
    bound = plan.truncation * inside + beyond * (everything - inside)
    return sums, bound + _ROUNDING * np.abs(sums[:, 0])


def _blocks(
    x: FloatArray, columns: FloatArray, low: float, span: float, width: float
) -> Iterator[tuple[FloatArray, IntArray, FloatArray, FloatArray]]:
    """Yield numbers of cells, their points' places among them, and the points with columns.

    Cells are all in one block, places then being (0,), or those with points, some at a time.
    """
    if not is_sparse(x.size, span, width):
        numbers = np.arange(math.floor(span / width) + 2.0)
        yield numbers, np.empty(0, np.int64), x, columns
        return
    x, order = sort_line(x)
    # As the compiled loop numbers them.
    number = np.rint((x - low) * (1.0 / width) - 0.5)
    starts = np.flatnonzero(np.diff(number, prepend=-1.0))
    edges = np.append(starts, x.size)
    for a in range(0, starts.size, _BLOCK):
        some = edges[a : a + _BLOCK + 1]
        points = slice(some[0], some[-1])
        places = np.repeat(np.arange(some.size - 1), np.diff(some))
        in_block = np.ascontiguousarray(columns[:, order[points]])
        yield number[some[:-1]], places, x[points], in_block
