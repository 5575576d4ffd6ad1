"""Gaussian sums on the line from the moments of cells: how wide cells are, how many moments.

With cells of width 2 zeta h a series of K terms in delta z, |z| <= zeta, is off by at most
|delta zeta|^K / K! exp(|delta| zeta) where the cell's weight is exp(-delta^2 / 2), so that the
error of a query's sum is at most the largest product of the two times the weight of the sample.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from nwsim._typing import FloatArray
from nwsim.smoothing.engines import Layout

# Zeta and K from which a plan is chosen; the compiled loops want multiples of four.
_HALF_WIDTHS = (0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.35)
_TERMS = (4, 8, 12, 16, 20, 24, 28)
# Queries where the sample is this much thinner than on average still meet the tolerance.
_MARGIN = 1e-3
# Beyond this many cells for every point, only cells with points are kept.
_DENSE = 4
_ROUNDING = 64 * np.finfo(float).eps


class Plan(NamedTuple):
    """How the sums are expanded.

    Attributes
    ----------
    width : of a cell, in bandwidths
    terms : of the series
    reach : how far cells count, in bandwidths
    truncation : error of a unit weight whose cell counts
    """

    width: float
    terms: int
    reach: float
    truncation: float


@cache
def _truncation(half_width: float, terms: int) -> float:
    """Return the largest exp(-delta^2 / 2) (delta zeta)^K / K! exp(delta zeta)."""
    delta = np.linspace(0.0, 12.0, 1201)[1:]
    x = delta * half_width
    exponent = -0.5 * delta**2 + terms * np.log(x) - gammaln(terms + 1) + x
    return float(np.exp(exponent.max()))


def make_plan(n: int, m: int, n_columns: int, ratio: float, tol: float) -> Plan:
    """Return the plan that costs least.

    Parameters
    ----------
    n, m, n_columns : numbers of points, queries and columns
    ratio : extent of the sample over the bandwidth
    tol : error of a sum as a part of the sum of weights, met where the sample is up to a
        thousand times thinner than on average
    """
    from nwsim.smoothing.costs import expansion_cost

    typical = min(1.0, np.sqrt(2.0 * np.pi) / ratio) if ratio > 0.0 else 1.0
    allowed = max(tol * typical * _MARGIN, 1e-300) / 2.0
    best, least = None, np.inf
    for half_width in _HALF_WIDTHS:
        terms = next((k for k in _TERMS if _truncation(half_width, k) <= allowed), None)
        if terms is None:
            continue
        reach = float(np.sqrt(-2.0 * np.log(allowed)) + half_width)
        cells = min(ratio, 2.0 * reach) / (2.0 * half_width) + 1.0
        cost = expansion_cost(n, m, n_columns, cells, terms)
        if cost < least:
            best = Plan(2.0 * half_width, terms, reach, _truncation(half_width, terms))
            least = cost
    if best is None:  # no tolerance is met: the caller's bound will say so
        half_width, terms = _HALF_WIDTHS[0], _TERMS[-1]
        best = Plan(2.0 * half_width, terms, 40.0, _truncation(half_width, terms))
    return best


def expansion_sums(
    layout: Layout, Q: FloatArray, bandwidth: FloatArray, columns: FloatArray, tol: float
) -> tuple[FloatArray, FloatArray]:
    """Return Gaussian sums (m, C) of columns (C, n) and a bound (m,) on the first's error."""
    from nwsim.numerics.expansion import cell_moments, expanded_sums

    x, q, h = layout.X[0], np.ascontiguousarray(Q[:, 0]), float(bandwidth[0])
    low, span = float(x.min()), float(layout.span[0])
    plan = make_plan(x.size, q.size, columns.shape[0], span / h, tol)
    width = plan.width * h
    numbers, places = _cells(x, low, width, span)
    moments = np.zeros((numbers.size, columns.shape[0], plan.terms))
    cell_moments(x, places, columns, low, width, h, moments)
    factorials = np.exp(gammaln(np.arange(plan.terms) + 1.0))
    series = np.ascontiguousarray((moments / factorials).transpose(1, 2, 0))
    centres = low + (numbers + 0.5) * width
    first = np.searchsorted(centres, q - plan.reach * h).astype(np.int64)
    last = np.searchsorted(centres, q + plan.reach * h, side="right").astype(np.int64)
    sums = np.zeros((q.size, columns.shape[0]))
    expanded_sums(q, centres, h, series, first, last, sums)
    # The first moment is the cell's weight but for a factor between this and 1.
    factor = np.exp(0.125 * plan.width**2)
    weight = np.concatenate([[0.0], np.cumsum(moments[:, 0, 0])]) * factor
    inside = weight[last] - weight[first]
    beyond = np.exp(-0.5 * (plan.reach - 0.5 * plan.width) ** 2)
    bound = (
        plan.truncation * inside + beyond * (weight[-1] - inside) + _ROUNDING * np.abs(sums[:, 0])
    )
    return sums, bound


def _cells(x: FloatArray, low: float, width: float, span: float) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of the cells kept and each point's place among them, (0,) if all are."""
    if span / width <= _DENSE * x.size + 1024:
        return np.arange(np.floor(span / width) + 2.0), np.empty(0, np.int64)
    # As the compiled loop numbers them.
    number = np.rint((x - low) * (1.0 / width) - 0.5)
    kept, places = np.unique(number, return_inverse=True)
    return kept, places.astype(np.int64)
