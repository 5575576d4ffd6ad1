"""What a target error would take, before it is run: a pilot, its spread and its times."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nwsim.exceptions import StoreError, StudyError
from nwsim.seeding import digest
from nwsim.study.cells import Cell, plan_cells
from nwsim.study.checkpoint_file import remove_checkpoint
from nwsim.study.executors import InlineExecutor
from nwsim.study.locks import locked
from nwsim.study.parts import Profile
from nwsim.study.pipeline import Resources, check_writable, compute
from nwsim.study.precision import Need, PrecisionTarget, check_feasible, fresh_cells, needs_of
from nwsim.study.provenance import identity_of
from nwsim.study.results import Row, table_text
from nwsim.study.runner import single_threaded
from nwsim.study.specification import Study, StudyLike, load_study
from nwsim.study.store import Store

PLAN = "plan.sqlite"
"""Checkpoint of a plan's pilot. It has the conditions of all profiles and one file of its own, so
that no run's checkpoint in the same folder is touched."""

TIMES = "plan_seconds.csv"
"""File of the pilot's times beside its checkpoint: one line a block."""

_BLOCKS = 4


@dataclass(frozen=True)
class Plan:
    """What a target takes.

    Attributes
    ----------
    table : str
        CSV, one row a condition, method and measure: ``estimate``, ``sd`` over replicates and
        its MCSE, the error ``target``, the ``n_sim`` this row needs and ``n_sim_cell`` which a
        run would use there, and the ``seconds_cell`` that takes on one worker.
    n_sim : int
        Replicates of all cells together, besides the pilot's.
    n_cells : int
    seconds : float
        What they take on one worker; cells without times are left out.
    untimed, undecided : int
        Cells without times, and rows for which too few replicates of the pilot stand.
    refusal : str or None
        Why a run with this target would be refused.
    folder : Path
        Where the pilot is kept.
    """

    table: str
    n_sim: int
    n_cells: int
    seconds: float
    untimed: int
    undecided: int
    refusal: str | None
    folder: Path


def plan_study(
    name_or_study: StudyLike,
    target: PrecisionTarget,
    profile: str = "quick",
    *,
    out: str | Path | None = None,
    replace: bool = False,
    studies_dir: str | Path = "studies",
) -> Plan:
    """Find from a pilot what a target error takes in every condition of a profile.

    Parameters
    ----------
    name_or_study : str, Path or Study
    target : PrecisionTarget
    profile : str
        Whose conditions are planned.
    out : str or Path, optional
        The pilot is kept in ``out/<study>``, by default ``build/plan/<study>``: that of one
        profile or size serves another.
    replace : bool
        Start the pilot over.
    studies_dir : str or Path

    Notes
    -----
    The pilot is computed in this process, one replicate after the other, so that its times
    are those of one worker. A cell's time is the median over some blocks: the first of a run
    also compiles. What workers share (memory, caches) is not in it.
    """
    study = load_study(name_or_study, studies_dir)
    cells = plan_cells(study, profile, target.pilot)
    target.chosen(study)
    identity = identity_of(study)
    folder = (Path(out or Path("build") / "plan") / study.name).absolute()
    check_writable(folder)
    with locked(folder):
        if replace:
            remove_checkpoint(folder, PLAN)
            (folder / TIMES).unlink(missing_ok=True)
        with single_threaded(), Store(folder / PLAN, identity) as pilot:
            pilot.register(_every_cell(study))
            size = max(1, target.pilot // _BLOCKS)
            how = Resources(lambda: _Timed(folder / TIMES), block_size=size)
            compute(study, cells, pilot, how, "pilot")
            needs = needs_of(study, cells, pilot, target)
    return _plan(study, fresh_cells(study, cells, needs, target), needs, folder)


def _every_cell(study: Study) -> tuple[Cell, ...]:
    """Return the cells of all conditions: a checkpoint refuses to lose some of its own."""
    whole = {"all": Profile(1, rule="every condition")}
    return plan_cells(dataclasses.replace(study, profiles=whole), "all")


def _plan(study: Study, cells: Sequence[Cell], needs: Sequence[Need], folder: Path) -> Plan:
    times = _read_times(folder / TIMES)
    seconds = {
        cell.condition_id: cell.n_sim * times[cell.condition_id]
        for cell in cells
        if cell.condition_id in times
    }
    n_sim = {cell.condition_id: cell.n_sim for cell in cells}
    rows: list[Row] = [
        {
            "study": study.name,
            "condition_id": need.cell.condition_id,
            **need.cell.factors,
            "method": need.method,
            "measure": need.measure,
            "estimate": need.estimate,
            "sd": need.sd.estimate,
            "sd_mcse": need.sd.mcse,
            "n_pilot": need.sd.n_sim,
            "target": need.target,
            "n_sim": need.n_sim,
            "n_sim_cell": n_sim[need.cell.condition_id],
            "seconds_cell": seconds.get(need.cell.condition_id),
        }
        for need in needs
    ]
    columns = (
        *("study", "condition_id", *study.levels, "method", "measure", "estimate", "sd"),
        *("sd_mcse", "n_pilot", "target", "n_sim", "n_sim_cell", "seconds_cell"),
    )
    return Plan(
        table=table_text(columns, rows),
        n_sim=sum(n_sim.values()),
        n_cells=len(cells),
        seconds=sum(seconds.values()),
        untimed=len(cells) - len(seconds),
        undecided=sum(need.n_sim is None for need in needs),
        refusal=_refusal(cells, needs),
        folder=folder,
    )


def _refusal(cells: Sequence[Cell], needs: Sequence[Need]) -> str | None:
    try:
        check_feasible(cells, needs)
    except StudyError as error:
        return str(error)
    return None


class _Timed(InlineExecutor):
    """Runs blocks in place and keeps what each took."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        clock = time.perf_counter()
        future = super().submit(fn, *args, **kwargs)
        seconds = time.perf_counter() - clock
        _, condition, reps = args
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{digest(condition)},{len(reps)},{seconds!r}\n")
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror}") from None
        return future


def _read_times(path: Path) -> dict[str, float]:
    """Return the seconds a replicate by condition_id; lines that are not whole are left out."""
    found: dict[str, list[float]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            condition_id, count, seconds = line.split(",")
            found.setdefault(condition_id, []).append(float(seconds) / int(count))
        except (ValueError, ZeroDivisionError):
            continue
    return {key: statistics.median(values) for key, values in found.items()}
