"""Which law for the best level predicts groups of replicates that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nwsim._typing import ArrayLike, BoolArray, FloatArray
from nwsim._validation import check_choice, check_integer, check_real
from nwsim.exceptions import ParameterError
from nwsim.inference.optima import N_BOOT, Draws, check_groups, half_gaps
from nwsim.inference.trends import LEVEL
from nwsim.inference.verdicts import INCONCLUSIVE, REFUTED, SUPPORTED, Verdict, undecided

FREE_POWER = "free_power"
"""The power law whose exponent is fitted too: a reference, no rival."""


@dataclass(frozen=True)
class LawScore:
    """How well one law predicts the best level at the largest x.

    Attributes
    ----------
    log_error : float
        Root mean squared log of best level over prediction, over the held-out x.
    log_error_ci : tuple of float
        Central 95% of its bootstrap draws, as every interval here.
    miss : float
        The same, but a prediction within the best level's cell (nearer in log to it than to
        its neighbours; beyond the last level all is one cell) counts as right.
    miss_ci : tuple of float
    regret : float
        Mean over the held-out x of the mean value at the level nearest in log to the
        prediction, over the least mean, minus 1. The least of several means flatters itself,
        so even the true law has some regret; it is the same burden for all.
    regret_ci : tuple of float
    rival : str
        The other named law of least `log_error`, by the data; "" if there is none.
    difference, difference_se : float
        `log_error` minus the rival's, with the standard deviation of its bootstrap draws.
    difference_ci : tuple of float
    predictions : ndarray, shape (n_test,)
        Predicted best levels.
    fitted : ndarray, shape (g,)
        The law at every x, training and held out, with the constant of the data.
    """

    log_error: float
    log_error_ci: tuple[float, float]
    miss: float
    miss_ci: tuple[float, float]
    regret: float
    regret_ci: tuple[float, float]
    rival: str
    difference: float
    difference_se: float
    difference_ci: tuple[float, float]
    predictions: FloatArray
    fitted: FloatArray


@dataclass(frozen=True)
class LawComparison:
    """Laws for the best level, fitted at small x and scored at large x.

    Attributes
    ----------
    scores : mapping of str to LawScore
        One a law in the order given, then "free_power".
    x_train, x_test : ndarray
        Increasing.
    best_train, best_test : ndarray
        Best level at each.
    at_edge : ndarray of bool, shape (n_test,)
        Whether the best level is the first or last of its grid.
    miss_draws : mapping of str to ndarray, shape (n_boot + 1,)
        Misses by law: of the data first, then of the bootstrap draws.
    fit_shares : mapping of str to float
        By named law the share of bootstrap draws in which some constant puts it into the best
        level's cell at every x, training or held out. A constant that is fitted to best
        levels of a coarse grid carries their rounding with it, and the law may then miss at
        larger x although it is true; such a law fits. NaN without a spread.
    """

    scores: Mapping[str, LawScore]
    x_train: FloatArray
    x_test: FloatArray
    best_train: FloatArray
    best_test: FloatArray
    at_edge: BoolArray
    miss_draws: Mapping[str, FloatArray]
    fit_shares: Mapping[str, float]

    def verdict(self, name: str, margin: float = 0.0) -> Verdict:
        """Decide whether a named law predicts better than all its rivals.

        Parameters
        ----------
        name : str
            One of the laws given.
        margin : float
            >= 0: a difference in `miss`, in log, that does not count.

        Returns
        -------
        Verdict
            Its estimate is the law's miss minus the least of the rivals', with the
            bootstrap's standard deviation and 95% interval; theory 0. "supported" iff against
            every rival the one-sided 95% bootstrap bound of the difference is below
            ``-margin``; "refuted" iff against some rival it exceeds ``margin`` (at 5% over
            all rivals, Bonferroni); else "inconclusive". Two laws whose predictions fall
            into the same cells have equal misses: a grid that cannot tell them apart stays
            inconclusive, however many replicates there are.

        Raises
        ------
        ParameterError
            If there is no such law, or no rival, or the margin is negative.
        """
        rivals = [law for law in self.miss_draws if law not in (name, FREE_POWER)]
        check_choice("name", name, [law for law in self.miss_draws if law != FREE_POWER])
        margin = check_real("margin", margin, minimum=0.0)
        if not rivals:
            raise ParameterError(f"name must have a rival among the laws; {name!r} has none")
        others = np.stack([self.miss_draws[law] for law in rivals])
        differences = self.miss_draws[name] - others
        if not np.isfinite(differences).all():
            return undecided(0.0, margin)
        closest = differences[int(np.argmin(others[:, 0]))]
        upper = np.quantile(differences[:, 1:], 1.0 - LEVEL, axis=1)
        lower = np.quantile(differences[:, 1:], LEVEL / len(rivals), axis=1)
        word = INCONCLUSIVE
        if (upper < -margin).all():
            word = SUPPORTED
        elif (lower > margin).any():
            word = REFUTED
        low, high = interval(closest)
        return Verdict(float(closest[0]), deviation(closest), 0.0, margin, low, high, word)


def held_out_laws(
    x: ArrayLike,
    levels: Sequence[ArrayLike],
    values: Sequence[ArrayLike],
    laws: Mapping[str, Callable[[FloatArray], FloatArray]],
    n_test: int,
    rng: np.random.Generator,
    n_boot: int = N_BOOT,
) -> LawComparison:
    """Fit laws for the best level at small x and score them at large x.

    Parameters
    ----------
    x : array_like, shape (g,)
        > 0 and distinct, one a group.
    levels : sequence of g array_like, shapes (k_g,)
        Levels > 0 in each group, distinct.
    values : sequence of g array_like, shapes (R_g, k_g)
        Replicates of each group. Groups are independent of each other, so that those a law is
        fitted to and those that score it share nothing.
    laws : mapping of str to callable
        By name the shape of a law: takes x (g,) and returns positive numbers (g,). Its
        constant factor is fitted.
    n_test : int
        Number of largest x that are held out; at least two others must be left.
    rng : Generator
        Draws the bootstrap, in every group on its own.
    n_boot : int
        Bootstrap draws; everything (best levels, constants, scores) is found anew in each.

    Returns
    -------
    LawComparison
        NaN where a group has no replicate, no precision where one has a single one, and no
        regret where the least mean is not > 0.

    Raises
    ------
    ParameterError
        On NaN, infinity, x or levels that are not > 0 or not distinct, lengths that do not
        match, no laws, a law named "free_power" or one that does not return positive numbers.

    Notes
    -----
    A law g has ``log best = c + log g(x)``, c the mean of ``log best - log g`` over the
    training x. "free_power" is ``c x^b`` with both fitted there by least squares.
    """
    at, groups = check_groups(x, levels, values, rng, n_boot)
    if np.unique(at).size < at.size:
        raise ParameterError("x must be distinct")
    n_test = check_integer("n_test", n_test, minimum=1, maximum=at.size - 2)
    order = np.argsort(at)
    at, groups = at[order], [groups[g] for g in order]
    shapes = _check_laws(laws, at)
    n_train = at.size - n_test
    log_best = np.log(np.column_stack([group.best for group in groups]))
    held_out = groups[n_train:]

    fitted = {
        name: (log_best[:, :n_train] - shape[:n_train]).mean(axis=1)[:, np.newaxis] + shape
        for name, shape in shapes.items()
    }
    fitted[FREE_POWER] = _free_power(np.log(at), log_best[:, :n_train])
    predicted = {name: law[:, n_train:] for name, law in fitted.items()}
    errors = {
        name: _root_mean_square(log_best[:, n_train:] - guess) for name, guess in predicted.items()
    }
    misses = {name: _misses(guess, held_out) for name, guess in predicted.items()}
    scores = {}
    for name, guess in predicted.items():
        rivals = [law for law in laws if law != name]
        rival = min(rivals, key=lambda law: errors[law][0], default="")
        gap = errors[name] - errors[rival] if rival else np.full(n_boot + 1, math.nan)
        regret = _regret(guess, held_out)
        scores[name] = LawScore(
            log_error=float(errors[name][0]),
            log_error_ci=interval(errors[name]),
            miss=float(misses[name][0]),
            miss_ci=interval(misses[name]),
            regret=float(regret[0]),
            regret_ci=interval(regret),
            rival=rival,
            difference=float(gap[0]),
            difference_se=deviation(gap),
            difference_ci=interval(gap),
            predictions=np.exp(guess[0]),
            fitted=np.exp(fitted[name][0]),
        )
    best = np.array([group.best[0] for group in groups])
    return LawComparison(
        scores=scores,
        x_train=at[:n_train],
        x_test=at[n_train:],
        best_train=best[:n_train],
        best_test=best[n_train:],
        at_edge=np.array([group.at_edge for group in held_out]),
        miss_draws=misses,
        fit_shares={name: _fit_share(shape, groups) for name, shape in shapes.items()},
    )


def interval(draws: FloatArray) -> tuple[float, float]:
    """Return the central 95% of draws (n_boot + 1,), the first of which is the data's."""
    low, high = np.quantile(draws[1:], (0.025, 0.975))
    return float(low), float(high)


def deviation(draws: FloatArray) -> float:
    """Return the standard deviation of draws (n_boot + 1,), without the data's."""
    return float(draws[1:].std())


def _check_laws(
    laws: Mapping[str, Callable[[FloatArray], FloatArray]], x: FloatArray
) -> dict[str, FloatArray]:
    """Return the log of each law at x."""
    if not laws:
        raise ParameterError("laws must hold at least one law; got none")
    if FREE_POWER in laws:
        raise ParameterError(f"laws must not hold {FREE_POWER!r}: it is always fitted")
    shapes = {}
    for name, law in laws.items():
        try:
            found = np.broadcast_to(np.asarray(law(x.copy()), dtype=np.float64), x.shape)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"law {name!r} must return one number an x: {error}") from None
        if not (np.isfinite(found) & (found > 0)).all():
            raise ParameterError(f"law {name!r} must be finite and > 0 at every x; got {found}")
        shapes[name] = np.log(found)
    return shapes


def _free_power(log_x: FloatArray, log_best: FloatArray) -> FloatArray:
    """Values at all x of a line through log_best (n_boot + 1, n_train)."""
    n_train = log_best.shape[1]
    centre = log_x[:n_train].mean()
    spread = log_x[:n_train] - centre
    slope = np.einsum("bg,g->b", log_best, spread) / float(np.square(spread).sum())
    level = log_best.mean(axis=1)
    return np.asarray(level[:, np.newaxis] + slope[:, np.newaxis] * (log_x - centre))


def _misses(guess: FloatArray, groups: Sequence[Draws]) -> FloatArray:
    """Root mean squared log distance (n_boot + 1,) from predictions to the best level's cell."""
    found = np.empty_like(guess)
    for j, group in enumerate(groups):
        below, above = half_gaps(group.levels)
        # Nothing is known of levels that the grid does not hold.
        below[0] = above[-1] = math.inf
        beyond = guess[:, j] - np.log(group.best)
        position = group.position
        found[:, j] = np.maximum(beyond - above[position], -beyond - below[position])
    return _root_mean_square(np.maximum(found, 0.0))


def _fit_share(shape: FloatArray, groups: Sequence[Draws]) -> float:
    """Share of bootstrap draws in which shape (g,) plus a constant lies in the cells of all."""
    low, high = np.array([[-math.inf], [math.inf]])
    for group, height in zip(groups, shape.tolist(), strict=True):
        if not group.known.all() or np.isnan(group.means).any():
            return math.nan
        below, above = half_gaps(group.levels)
        below[0] = above[-1] = math.inf
        best = np.log(group.best) - height
        low = np.maximum(low, best - below[group.position])
        high = np.minimum(high, best + above[group.position])
    return float(np.mean((low <= high)[1:]))


def _regret(guess: FloatArray, groups: Sequence[Draws]) -> FloatArray:
    """Mean over groups of the value at the level next to a prediction, over the least, less 1."""
    found = np.empty_like(guess)
    for j, group in enumerate(groups):
        away = np.abs(np.log(group.levels) - guess[:, j, np.newaxis])
        # Unknown predictions have an unknown regret, whatever argmin makes of them.
        nearest = np.argmin(away, axis=1)
        rows = np.arange(nearest.size)
        least = group.means[rows, group.position]
        least = np.where(least > 0, least, math.nan)
        found[:, j] = group.means[rows, nearest] / least - 1.0
    return np.where(np.isnan(guess).any(axis=1), math.nan, found.mean(axis=1))


def _root_mean_square(errors: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.square(errors).mean(axis=1)))
