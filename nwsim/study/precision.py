"""How many replicates a target Monte Carlo standard error takes, decided by a pilot.

Adding replicates until the error looks small enough stops too soon in the samples whose
spread happens to be small; where mean and spread go together, as for squared errors, the
estimate is then too low. Here the number of replicates is a function of a pilot alone, and
estimates come from other, fresh replicates: whatever the pilot says, their mean is unbiased
(Stein 1945).

The pilot is replicates 0, ..., N - 1 of each cell, in a checkpoint of its own; the tables are
of replicates N, ..., N + n_sim - 1. Streams belong to replicates, so that both can be resumed,
replayed and spread over workers like any other, and the pilot is the same whichever target
it decides on.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nwsim._validation import check_choice, check_real
from nwsim.exceptions import ParameterError, PrecisionWarning, StudyError
from nwsim.inference import Estimate, empirical_se, mean
from nwsim.seeding import canonical
from nwsim.study.cells import Cell
from nwsim.study.parts import check_kind, check_replicates
from nwsim.study.points import MIN_REPLICATES
from nwsim.study.specification import Study
from nwsim.study.store import Store

PILOT = "pilot.sqlite"
"""Checkpoint of the pilot in a results folder."""

MOST_FRESH = 1_000_000
"""A run that would need more fresh replicates a cell is refused: a target that is too small by
a factor of ten costs a hundred times the work, and is a slip more often than a wish."""

FLOOR = 0.1
"""A relative target takes no mean as nearer to zero than this share of the standard deviation
over replicates: the number of replicates would grow without bound there."""


@dataclass(frozen=True)
class PrecisionTarget:
    """A Monte Carlo standard error to reach.

    Parameters
    ----------
    mcse : float
        What the error of each estimate should be; if ``relative``, as a share of it.
    measures : sequence of str
        The measures that count; all of kind "mean" if empty.
    relative : bool
        Whether the target is ``mcse * max(|estimate|, FLOOR * sd)`` in place of ``mcse``, with
        estimate and standard deviation as the pilot has them.
    pilot : int
        Replicates a cell that decide, at least 2.

    Raises
    ------
    ParameterError
        On a target that is not positive, or a pilot without a standard deviation.
    """

    mcse: float
    measures: tuple[str, ...] = ()
    relative: bool = False
    pilot: int = MIN_REPLICATES

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "mcse", check_real("target_mcse", self.mcse, above=0.0))
        object.__setattr__(self, "measures", check_kind("measures", self.measures, str))
        object.__setattr__(self, "pilot", check_replicates("pilot", self.pilot, minimum=2))

    @property
    def text(self) -> str:
        """The target as part of a folder's name."""
        return f"target-{self.mcse!r}{'-relative' if self.relative else ''}"

    @property
    def rule(self) -> str:
        """How the numbers of replicates come about, for the manifest."""
        goal = f"{self.mcse!r} max(|estimate|, {FLOOR!r} sd)" if self.relative else f"{self.mcse!r}"
        return (
            f"a pilot of {self.pilot} replicates a condition decides once, estimates are of fresh "
            f"replicates: n_sim = (sd / target)^2 over the share that stands, target {goal}, the "
            "largest over measures, methods and conditions that share random numbers, at least "
            f"{MIN_REPLICATES}"
        )

    def record(self, study: Study) -> dict[str, Any]:
        """Return what the manifest says of the target."""
        return {
            "target_mcse": self.mcse,
            "relative": self.relative,
            "measures": list(self.chosen(study)),
            "pilot_replicates": self.pilot,
            "looks": 1,
            "first_rep": self.pilot,
        }

    def chosen(self, study: Study) -> tuple[str, ...]:
        """Return the measures that count.

        Raises
        ------
        ParameterError
            If one is no measure of the study, or has no replicates whose mean it is.
        """
        kinds = {measure.name: measure.kind for measure in study.measures}
        means = tuple(name for name, kind in kinds.items() if kind == "mean")
        for name in self.measures:
            why = ""
            if kinds.get(name) == "count":
                why = "a count is a sum, whose error grows with the replicates"
            elif name in {contrast.name for contrast in study.contrasts}:
                why = "a contrast is derived from means: give its measure"
            if why:
                listed = ", ".join(map(repr, means)) or "none"
                raise ParameterError(f"measure {name!r} cannot have a target: {why}; can: {listed}")
            check_choice("measure", name, means)
        if not means:
            raise ParameterError(
                f"target_mcse needs a measure that is a mean over replicates; "
                f"study {study.name!r} has none"
            )
        return tuple(dict.fromkeys(self.measures)) or means


class Need(NamedTuple):
    """What one measure of one method takes in one cell.

    ``estimate`` and ``sd`` are of the replicates of the pilot that stand; ``target`` is the
    error to reach; ``n_sim`` is None if fewer than two stand.
    """

    cell: Cell
    method: str
    measure: str
    estimate: float
    sd: Estimate
    target: float
    n_sim: int | None


def needs_of(
    study: Study, cells: Sequence[Cell], pilot: Store, target: PrecisionTarget
) -> list[Need]:
    """Return what every measure that counts takes, by cell and method.

    Parameters
    ----------
    study : Study
    cells : sequence of Cell
        With the pilot's number of replicates.
    pilot : Store
        Holds them.
    target : PrecisionTarget

    Raises
    ------
    ParameterError
        If the target is beyond the number of replicates that have streams.
    """
    chosen = target.chosen(study)
    needs = []
    for cell in cells:
        values = pilot.values(cell)
        for method, measures in cell.outputs.items():
            for measure in measures:
                if measure in chosen:
                    column = values[method][measure]
                    needs.append(_need(cell, method, measure, column, target))
    return needs


def _need(cell: Cell, method: str, measure: str, column: Any, target: PrecisionTarget) -> Need:
    if column.size < 2:
        nothing = Estimate(math.nan, math.nan, int(column.size))
        average = float(column[0]) if column.size else math.nan
        return Need(cell, method, measure, average, nothing, math.nan, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        average, sd = mean(column).estimate, empirical_se(column)
    goal = target.mcse
    if target.relative:
        goal *= max(abs(average), FLOOR * sd.estimate)
    # A constant needs none, whatever the target.
    ratio = sd.estimate / goal if sd.estimate > 0 else 0.0
    count = ratio * ratio * cell.n_sim / column.size
    if not count < 2**32 - target.pilot:
        raise ParameterError(
            f"target_mcse {target.mcse!r} would take {count:.2g} replicates for measure "
            f"{measure!r} of method {method!r} at {canonical(cell.factors)}, more than have "
            "streams; give a larger one"
        )
    return Need(cell, method, measure, average, sd, goal, max(MIN_REPLICATES, math.ceil(count)))


def fresh_cells(
    study: Study, cells: Sequence[Cell], needs: Sequence[Need], target: PrecisionTarget
) -> tuple[Cell, ...]:
    """Return the cells with the fresh replicates that their tables are made of.

    Cells that share random numbers get the same number, since contrasts pair their
    replicates. One without a measure that counts gets the least number.

    Parameters
    ----------
    study : Study
    cells : sequence of Cell
    needs : sequence of Need
        Those of the cells; one without a number leaves its cell to the others.
    target : PrecisionTarget
    """
    largest: dict[str, int] = {}
    for need in needs:
        key = _owner(study, need.cell)
        largest[key] = max(largest.get(key, 0), need.n_sim or 0)
    return tuple(
        dataclasses.replace(
            cell, n_sim=max(MIN_REPLICATES, largest.get(_owner(study, cell), 0)), first=target.pilot
        )
        for cell in cells
    )


def reached(
    needs: Sequence[Need], estimates: Mapping[tuple[str, str, str], Estimate]
) -> dict[str, Any]:
    """Return how far the errors of a run are from its target.

    The target is met on average over pilots; whether this one's standard deviations were small
    by chance shows in the fresh replicates alone.

    Parameters
    ----------
    needs : sequence of Need
    estimates : mapping of (condition_id, method, measure) to Estimate
        Of the fresh replicates.

    Returns
    -------
    dict
        ``estimates`` that have a target, ``above`` it, and the ``largest_ratio`` of an error
        to its target.
    """
    ratios = []
    for need in needs:
        found = estimates.get((need.cell.condition_id, need.method, need.measure))
        if found is not None and need.target > 0 and math.isfinite(found.mcse):
            ratios.append(found.mcse / need.target)
    return {
        "estimates": len(ratios),
        "above": sum(ratio > 1.0 for ratio in ratios),
        "largest_ratio": max(ratios, default=0.0),
    }


def check_feasible(cells: Sequence[Cell], needs: Sequence[Need]) -> None:
    """Refuse a run whose pilot says too little, or asks for too much.

    Raises
    ------
    StudyError
        Naming the condition, method and measure at fault.
    """
    for need in needs:
        if need.n_sim is None:
            raise StudyError(
                f"the pilot cannot decide: {need.sd.n_sim} of {need.cell.n_sim} replicates of "
                f"method {need.method!r} stand at {canonical(need.cell.factors)}, and a standard "
                "deviation takes 2; give a larger pilot or n_sim"
            )
    worst = max(cells, key=lambda cell: cell.n_sim)
    if worst.n_sim > MOST_FRESH:
        raise StudyError(
            f"target_mcse would take {worst.n_sim} replicates at {canonical(worst.factors)}, more "
            f"than {MOST_FRESH}; give a larger one, or name the measures that count"
        )


def _owner(study: Study, cell: Cell) -> str:
    """Return what the random numbers of a cell belong to."""
    return canonical({k: v for k, v in cell.factors.items() if k not in study.shared_streams})
