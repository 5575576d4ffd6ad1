"""The bandwidth that minimises a known risk: an oracle, not a rule that data could follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from nwsim._validation import check_integer, check_real
from nwsim.exceptions import ParameterError


class OracleBandwidth(NamedTuple):
    """A bandwidth that minimises a risk over a range.

    Attributes
    ----------
    bandwidth, risk : float
    at_edge : bool
        Whether it lies within the tolerance, in log h, of an end of the range.
    """

    bandwidth: float
    risk: float
    at_edge: bool


def oracle_bandwidth(
    risk: Callable[[float], float],
    low: float,
    high: float,
    *,
    tolerance: float = 0.1,
    n_grid: int = 7,
) -> OracleBandwidth:
    """Minimise a risk over bandwidths, on a grid first and then between its best neighbours.

    Parameters
    ----------
    risk : callable
        ``risk(h)`` is a number.
    low, high : float
        Ends of the range, 0 < low < high.
    tolerance : float, default 0.1
        In log h. A risk is flat about its minimum.
    n_grid : int, default 7
        Places of the grid, even in log h. Without a grid a search may end in the lesser of two
        minima: one where windows follow f, and one where they average all of it away.

    Raises
    ------
    ParameterError
        If the range is none, or the risk is not finite somewhere.
    """
    low = check_real("low", low, above=0.0)
    high = check_real("high", high, above=low)
    tolerance = check_real("tolerance", tolerance, above=0.0)
    check_integer("n_grid", n_grid, minimum=3)

    def at(log_h: float) -> float:
        value = float(risk(math.exp(log_h)))
        if not math.isfinite(value):
            raise ParameterError(f"risk must be finite; got {value!r} at h = {math.exp(log_h)!r}")
        return value

    grid = np.linspace(math.log(low), math.log(high), n_grid)
    values = [at(place) for place in grid]
    best = int(np.argmin(values))
    between = (grid[max(best - 1, 0)], grid[min(best + 1, n_grid - 1)])
    found = minimize_scalar(at, bounds=between, method="bounded", options={"xatol": tolerance})
    log_h, value = min((float(found.fun), float(found.x)), (values[best], float(grid[best])))[::-1]
    at_edge = min(log_h - grid[0], grid[-1] - log_h) <= tolerance
    return OracleBandwidth(math.exp(log_h), value, bool(at_edge))
