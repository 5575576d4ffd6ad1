"""The best level between the levels of a coarse grid, and how it moves along a factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nwsim._typing import ArrayLike, FloatArray, IntArray
from nwsim.exceptions import ParameterError
from nwsim.inference.optima import N_BOOT, Draws, check_groups
from nwsim.inference.verdicts import INCONCLUSIVE, REFUTED, SUPPORTED, Verdict, undecided


@dataclass(frozen=True)
class OptimumSlope:
    """Slope of the log of an interpolated best level on log x.

    Attributes
    ----------
    draws : ndarray, shape (n_boot + 1,)
        Least-squares slopes: of the data first, then of bootstrap draws.
    slack : float
        By how much the slope may be off because optima between levels are interpolated: half
        of what interpolation moves each optimum, all in the worst direction.
    ends : ndarray of int, shape (g,)
        1 where the best level of the data is the last of its grid, -1 the first, else 0.
    """

    draws: FloatArray
    slack: float
    ends: IntArray

    def complement(self) -> OptimumSlope:
        """Return the slope of x over the best level: 1 less that of the best level."""
        return replace(self, draws=1.0 - self.draws)

    def verdict(self, theory: float, margin: float) -> Verdict:
        """Compare the slope with a theory by bootstrap intervals that are widened by `slack`.

        Parameters
        ----------
        theory, margin : float

        Returns
        -------
        Verdict
            "supported" iff the widened 90% interval lies within ``theory ± margin``, "refuted"
            iff it lies outside, else "inconclusive". The stated interval is the widened 95%
            one, the standard error the bootstrap's. It is left to the caller what `ends` mean.
        """
        if not np.isfinite(self.draws).all():
            return undecided(theory, margin)
        low, lower, upper, high = np.quantile(self.draws[1:], (0.025, 0.05, 0.95, 0.975))
        low, lower, upper, high = (
            *(low - self.slack, lower - self.slack),
            *(upper + self.slack, high + self.slack),
        )
        word = INCONCLUSIVE
        if theory - margin <= lower and upper <= theory + margin:
            word = SUPPORTED
        elif upper < theory - margin or lower > theory + margin:
            word = REFUTED
        spread = float(self.draws[1:].std())
        return Verdict(float(self.draws[0]), spread, theory, margin, float(low), float(high), word)


def optimum_slope(
    x: ArrayLike,
    levels: Sequence[ArrayLike],
    values: Sequence[ArrayLike],
    rng: np.random.Generator,
    n_boot: int = N_BOOT,
) -> OptimumSlope:
    """Slope of the log of the interpolated best level on log x, over groups of replicates.

    Parameters
    ----------
    x : array_like, shape (g,)
        > 0, one a group, at least two distinct.
    levels : sequence of g array_like, shapes (k_g,)
        Levels > 0 in each group, distinct, three or more.
    values : sequence of g array_like, shapes (R_g, k_g)
        Replicates of each group; groups are independent of each other.
    rng : Generator
        Draws the bootstrap, in every group on its own.
    n_boot : int
        Bootstrap draws.

    Returns
    -------
    OptimumSlope

    Raises
    ------
    ParameterError
        On NaN, infinity, x or levels that are not > 0 or not distinct, fewer than three
        levels, or lengths that do not match.

    Notes
    -----
    The bootstrap covers replicates alone. That a mean is a parabola between three levels is
    an assumption, which no number of replicates makes truer: hence `slack`.
    """
    at, groups = check_groups(x, levels, values, rng, n_boot)
    if np.unique(at).size < 2:
        raise ParameterError("x must hold at least two distinct values")
    centred = np.log(at) - np.log(at).mean()
    weights = centred / float(np.square(centred).sum())
    best = np.column_stack([interpolated_optimum(group) for group in groups])
    moved = best[0] - np.log([group.best[0] for group in groups])
    last = np.array([group.position[0] == group.levels.size - 1 for group in groups])
    first = np.array([group.position[0] == 0 for group in groups])
    return OptimumSlope(
        draws=np.einsum("bg,g->b", best, weights),
        slack=0.5 * float(np.abs(weights * moved).sum()),
        ends=last.astype(np.int64) - first.astype(np.int64),
    )


def interpolated_optimum(draws: Draws) -> FloatArray:
    """Log of where the mean is least, between levels: shape (n_boot + 1,), the data first.

    It is the vertex of the parabola, in log level, through the least mean and its two
    neighbours, and is nearer to the best level than to those. A best level at an end of the
    grid stays; without replicates it is NaN.

    Parameters
    ----------
    draws : Draws
        Of at least three levels > 0.

    Raises
    ------
    ParameterError
        On fewer levels, or one that has no logarithm.

    Notes
    -----
    One step of successive parabolic interpolation (Brent 1973, chapter 5).

    References
    ----------
    Brent, R. P. (1973). Algorithms for Minimization without Derivatives. Prentice-Hall.
    """
    if draws.levels.size < 3 or draws.levels[0] <= 0:
        raise ParameterError(f"levels must be three or more, > 0; got {draws.levels.tolist()}")
    x, best = np.log(draws.levels), draws.position
    inner = np.clip(best, 1, x.size - 2)
    beside = inner[:, np.newaxis] + np.arange(-1, 2)
    at, rise = x[beside], np.diff(np.take_along_axis(draws.means, beside, axis=1), axis=1)
    slope = rise / np.diff(at, axis=1)
    middle = (at[:, :-1] + at[:, 1:]) / 2.0
    bend = (np.diff(slope, axis=1) / np.diff(middle, axis=1))[:, 0]
    # Three equal means have no vertex: the level stays.
    curved = (best == inner) & (bend > 0)
    vertex = middle[:, 0] - slope[:, 0] / np.where(curved, bend, 1.0)
    found = np.where(curved, vertex, x[best])
    return np.asarray(np.where(np.isnan(draws.best), math.nan, found))
