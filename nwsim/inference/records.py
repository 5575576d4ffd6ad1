"""The record that every Monte Carlo summary is returned in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A Monte Carlo estimate, never without its precision.

    Attributes
    ----------
    estimate : float
        The estimated performance measure, in the unit of the measure.
    mcse : float
        Its Monte Carlo standard error, in the same unit; NaN where undefined.
    n_sim : int
        Number of replicates that it rests on.
    """

    estimate: float
    mcse: float
    n_sim: int
