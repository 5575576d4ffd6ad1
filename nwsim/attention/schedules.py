"""Temperatures that change over the steps of a fit."""

from __future__ import annotations

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import as_float64, as_real, check_choice, check_integer, check_real
from nwsim.exceptions import ParameterError

SCHEDULES = ("constant", "linear", "cosine")


def temperature_at(
    step: ArrayLike,
    n_steps: int,
    initial: float,
    final: float,
    schedule: str = "constant",
) -> float | FloatArray:
    """Return the temperature at a step of a schedule.

    Parameters
    ----------
    step : float or array_like
        Position(s) s, within 0 and ``n_steps``.
    n_steps : int
        Number of steps S, from 1 to 2^53.
    initial, final : float
        Temperatures at step 0 and at step ``n_steps``; > 0. "constant" ignores ``final``.
    schedule : {"constant", "linear", "cosine"}
        With r = s / S: ``initial``; ``(1 - r) initial + r final``; or the same with
        (1 - cos(pi r)) / 2 for r (Loshchilov and Hutter 2017, equation 5, without restarts).

    Returns
    -------
    float, or ndarray of the shape of ``step``
        Exactly ``initial`` at the first step and, unless constant, ``final`` at the last; never
        outside the two.

    Raises
    ------
    ParameterError
        If an argument is outside what is described.

    Examples
    --------
    >>> from nwsim.attention.schedules import temperature_at
    >>> temperature_at([0, 50, 100], 100, 1.0, 0.1, "linear")
    array([1.  , 0.55, 0.1 ])
    """
    check_choice("schedule", schedule, SCHEDULES)
    n_steps = check_integer("n_steps", n_steps, minimum=1, maximum=2**53)
    first = check_real("initial", initial, above=0.0)
    last = check_real("final", final, above=0.0)
    steps = as_float64(as_real("step", step))
    if not ((steps >= 0) & (steps <= n_steps)).all():
        raise ParameterError(f"step must lie within 0 and n_steps = {n_steps}; got {step!r}")
    ratio = steps / n_steps
    if schedule == "constant":
        found = np.full(steps.shape, first)
    else:
        # Each half from its own end: exact there, and no digit lost where ends differ greatly.
        near_start = ratio <= 0.5
        share = np.where(near_start, ratio, 1.0 - ratio)
        if schedule == "cosine":
            share = np.sin(np.pi / 2.0 * share) ** 2
        way = last - first
        found = np.where(near_start, first + share * way, last - share * way)
        # Where halves meet, rounding must not make a step back.
        middle = first + 0.5 * way
        before, after = (np.minimum, np.maximum) if way > 0.0 else (np.maximum, np.minimum)
        found = np.where(near_start, before(found, middle), after(found, middle))
    return found if steps.ndim else float(found)
