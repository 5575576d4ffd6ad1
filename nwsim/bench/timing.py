"""Times by turns: each case in a process of its own, asked one after the other, by rounds.

A machine's speed drifts. Calls of one round are close in time, so a ratio is taken within
each round and its median over the rounds, and it is the ratios that can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nwsim.bench.cases import ACCURACY, Case, absent
from nwsim.bench.served import EndedError, Served
from nwsim.bench.workloads import Workload, cached_reference

COLUMNS = (
    *("workload", "competitor", "kind", "accuracy_class", "threads", "n_rounds"),
    *("median_s", "q25_s", "q75_s", "ratio", "ratio_q25", "ratio_q75", "relative_to"),
    *("error", "memory_mb", "first_call_s", "scaled", "status", "message"),
)
"""Columns of ``timings.csv``."""

STATUSES = ("ok", "wrong", "failed", "timeout", "skipped")
"""Right; an answer misses its class; no answer; none in time; it cannot run here."""


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes
    ----------
    n_rounds : int
        Calls of a case, after its first.
    budget_s : float
        A case is asked at least once, and no more when its calls would pass so many seconds.
    timeout_s : float
        A call that takes longer ends its case.
    first_timeout_s : float
        The same for the first call, which may compile.
    slow : bool
        Whether slow cases take part.
    """

    n_rounds: int = 15
    budget_s: float = 4.0
    timeout_s: float = 60.0
    first_timeout_s: float = 300.0
    slow: bool = True


QUICK = Plan(n_rounds=3, budget_s=1.0, timeout_s=20.0, slow=False)
"""The plan of a quick look."""


@dataclass
class Run:
    """What was seen of a case: seconds by round, the error of every answer, how it ended."""

    case: Case
    seconds: dict[int, float] = field(default_factory=dict)
    errors: list[float] = field(default_factory=list)
    first: float = float("nan")
    memory: float = float("nan")
    status: str = "ok"
    message: str = ""

    @property
    def error(self) -> float:
        """Largest error of an answer; NaN if one was not a number, or there was none."""
        return float(np.max(self.errors)) if self.errors else float("nan")


def measure(
    workload: Workload,
    cases: Mapping[str, Sequence[Case]],
    plan: Plan,
    cache: Path,
    say: Callable[[str], None] = print,
) -> list[Run]:
    """Time the cases of one workload by turns.

    Parameters
    ----------
    workload : Workload
    cases : mapping
        Cases by the module that holds them as ``CASES``.
    plan : Plan
    cache : Path
        Folder of the references.
    say : callable
        Takes one line for each case that is left out or goes wrong.

    Returns
    -------
    list of Run
        One a case, whatever came of it.
    """
    reference = cached_reference(workload, cache)
    chosen = [
        (module, case)
        for module, entries in cases.items()
        for case in entries
        if case.workload == workload.name and (plan.slow or not case.slow)
    ]
    turns = [_Turn(case, module, reference, plan, say) for module, case in chosen]
    try:
        for turn in turns:
            turn.start()
        for number in range(plan.n_rounds):
            # In an order that changes, so that no case always follows the same other.
            for position in np.random.default_rng(number).permutation(len(turns)):
                turns[position].take(number)
    finally:
        for turn in turns:
            turn.end()
    return [turn.run for turn in turns]


class _Turn:
    """One case and its process; all that goes wrong ends in the record of the run."""

    def __init__(
        self, case: Case, module: str, reference: Path, plan: Plan, say: Callable[[str], None]
    ) -> None:
        self.run = Run(case)
        self._module, self._reference = module, reference
        self._plan, self._say = plan, say
        self._served: Served | None = None
        self._used = 0.0
        self._last = 0.0

    def start(self) -> None:
        """Start the process, which makes a first call; it counts for no time."""
        case = self.run.case
        missing = absent(case.packages)
        if missing:
            self._note("skipped", f"{', '.join(missing)} is not installed")
            return
        self._served = Served(self._module, case.workload, case.competitor, self._reference)
        try:
            answer = self._served.answer(self._plan.first_timeout_s)
        except EndedError as ended:
            self._stop(ended)
            return
        self.run.first, self.run.memory = answer["first"], answer["memory"]
        self._judge(answer)

    def take(self, number: int) -> None:
        """Make the call of a round, if the case lives and its budget is not used up."""
        spent = self._used + self._last > self._plan.budget_s
        if self._served is None or (self.run.seconds and spent):
            return
        try:
            answer = self._served.ask(self._plan.timeout_s)
        except EndedError as ended:
            self._stop(ended)
            return
        self.run.seconds[number] = answer["seconds"]
        self._last = answer["wall"]
        self._used += answer["wall"]
        self._judge(answer)

    def end(self) -> None:
        """End the process."""
        if self._served is not None:
            self._served.end()
            self._served = None

    def _stop(self, ended: EndedError) -> None:
        self.end()
        self._note(ended.status, str(ended))

    def _judge(self, answer: dict[str, Any]) -> None:
        if answer["error"] is None:
            return
        self.run.errors.append(float(answer["error"]))
        bound = ACCURACY[self.run.case.accuracy]
        if not self.run.error <= bound and self.run.status == "ok":
            self._note("wrong", f"error {self.run.error:.1e} is above {bound:g}, its class")

    def _note(self, status: str, message: str) -> None:
        self.run.status, self.run.message = status, message
        self._say(f"{self.run.case.workload} {self.run.case.competitor}: {status}, {message}")


def table_of(
    runs: Sequence[Run], relative_to: Callable[[Case], str | None]
) -> list[dict[str, Any]]:
    """Return the rows of ``timings.csv`` of one workload.

    Parameters
    ----------
    runs : sequence of Run
    relative_to : callable
        The competitor that a case is compared with; None for no comparison.
    """
    by_name = {run.case.competitor: run.seconds for run in runs}
    rows = []
    for run in runs:
        name = relative_to(run.case)
        others = by_name.get(name, {}) if name is not None else {}
        ratios = [run.seconds[k] / others[k] for k in run.seconds if k in others]
        low, middle, high = quartiles(list(run.seconds.values()))
        ratio_low, ratio, ratio_high = quartiles(ratios)
        row = (
            *(run.case.workload, run.case.competitor, run.case.kind, run.case.accuracy, 1),
            *(len(run.seconds), middle, low, high, ratio, ratio_low, ratio_high),
            *(name if ratios else None, run.error, run.memory, run.first),
            *(run.case.part is not None, run.status, run.message),
        )
        rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile; NaN for no values."""
    if not values:
        return (float("nan"), float("nan"), float("nan"))
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)
