"""Temperatures that change over the steps of a fit."""

from __future__ import annotations

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_choice, check_integer, check_real
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
        Number of steps S, at least 1.
    initial, final : float
        Temperatures at step 0 and at step ``n_steps``; > 0. "constant" ignores ``final``.
    schedule : {"constant", "linear", "cosine"}
        With r = s / S: ``initial``; ``(1 - r) initial + r final``; or the same with
        (1 - cos(pi r)) / 2 for r (Loshchilov and Hutter 2017, equation 5, without restarts).

    Returns
    -------
    float, or ndarray of the shape of ``step``
        Exactly ``initial`` at the first step and, unless constant, ``final`` at the last.

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
    check_integer("n_steps", n_steps, minimum=1)
    check_real("initial", initial, above=0.0)
    check_real("final", final, above=0.0)
    try:
        steps = np.asarray(step, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"step must be a number or an array of numbers: {error}") from None
    if not ((steps >= 0) & (steps <= n_steps)).all():
        raise ParameterError(f"step must lie within 0 and n_steps = {n_steps}; got {step!r}")
    ratio = steps / n_steps
    if schedule == "constant":
        found = np.full(steps.shape, float(initial))
    else:
        # cos(pi) is -1 exactly, and so the ends are exact.
        share = ratio if schedule == "linear" else (1.0 - np.cos(np.pi * ratio)) / 2.0
        found = (1.0 - share) * initial + share * final
    return found if steps.ndim else float(found)
