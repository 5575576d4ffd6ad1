"""Calls timed in turn, so that a machine that slows down slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_integer, check_real
from nwsim.exceptions import ParameterError


def interleaved(
    calls: Sequence[Callable[[], Any]], budget: float, *, least: int = 3, most: int = 15
) -> FloatArray:
    """Time each call once a round, in an order that turns round from one round to the next.

    Parameters
    ----------
    calls : sequence of callable
        Each is called once before, which is not timed: it may compile.
    budget : float
        Seconds after which no further round begins, > 0.
    least, most : int
        Rounds that are run whatever they take, and those that are enough.

    Returns
    -------
    ndarray, shape (n_rounds, len(calls))
        Seconds.

    Raises
    ------
    ParameterError
        If there are no calls, or a number is out of range.
    """
    if not calls:
        raise ParameterError("calls must hold at least one callable")
    check_real("budget", budget, above=0.0)
    check_integer("least", least, minimum=1)
    check_integer("most", most, minimum=least)
    for call in calls:
        call()
    rounds: list[FloatArray] = []
    begun = time.perf_counter()
    while len(rounds) < least or (len(rounds) < most and time.perf_counter() - begun < budget):
        seconds = np.empty(len(calls))
        order = range(len(calls)) if len(rounds) % 2 == 0 else reversed(range(len(calls)))
        for index in order:
            start = time.perf_counter()
            calls[index]()
            seconds[index] = time.perf_counter() - start
        rounds.append(seconds)
    return np.stack(rounds)


def quartiles(values: FloatArray) -> tuple[float, float, float]:
    """Return median, lower and upper quartile of values, shape (n_rounds,)."""
    q25, median, q75 = np.quantile(values, (0.25, 0.5, 0.75))
    return float(median), float(q25), float(q75)
