"""A run from its name to its results folder: plan, compute, summarise, write."""

from __future__ import annotations

import contextlib
import datetime
import json
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nwsim._files import MANIFEST, write_atomic
from nwsim._validation import check_integer
from nwsim.exceptions import ParameterError, PrecisionWarning, StoreError, StudyError
from nwsim.seeding import digest
from nwsim.study.cells import Cell, plan_cells
from nwsim.study.checkpoint_file import CHECKPOINT, remove_checkpoint
from nwsim.study.deadlines import check_block_timeout
from nwsim.study.derived import check_derived
from nwsim.study.events import Progress, logged_run
from nwsim.study.executors import ExecutorFactory, check_worker_count, local_executor
from nwsim.study.interrupts import heard
from nwsim.study.locks import locked
from nwsim.study.precision import (
    PILOT,
    Need,
    PrecisionTarget,
    check_feasible,
    fresh_cells,
    needs_of,
    reached,
)
from nwsim.study.provenance import identity_of, manifest_of, manifest_text, run_record
from nwsim.study.replicate import Outcome, ReplicateTask
from nwsim.study.results import Results, read_results, results_folder, table_digests
from nwsim.study.runner import (
    Block,
    make_blocks,
    progress_bar,
    run_blocks,
    single_threaded,
)
from nwsim.study.specification import Study, StudyLike, load_study
from nwsim.study.store import Store
from nwsim.study.summarise import summarise


class UnsoundRunError(StudyError):
    """Something is wrong with a run whose tables are written all the same.

    Attributes
    ----------
    results : Results
        What stands.
    """

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


class FailureShareError(UnsoundRunError):
    """Too many replicates failed; the tables say how many."""


class MissingReplicatesError(UnsoundRunError):
    """Replicates are missing because their workers died; the tables are of the others."""


def run_study(
    name_or_study: StudyLike,
    profile: str = "quick",
    workers: int = 1,
    out: str | Path | None = None,
    *,
    n_sim: int | None = None,
    target: PrecisionTarget | None = None,
    replace: bool = False,
    studies_dir: str | Path = "studies",
    executor: ExecutorFactory | None = None,
    block_size: int | None = None,
    block_timeout: float | None = None,
) -> Results:
    """Run a study, or what is missing of it, and write its tables.

    Parameters
    ----------
    name_or_study : str, Path or Study
        Name in ``studies_dir``, path of a study file, or the study itself.
    profile : str
        How much is run.
    workers : int
        Processes; 1 computes in this one. Any number gives the same bytes.
    out : str or Path, optional
        Results go to ``out/<study>``; by default to ``results/<study>`` for the profile
        "standard", to ``build/<profile>/<study>`` for others, and with ``n_sim`` to
        ``build/<profile>-<n_sim>/<study>`` and with ``target`` to
        ``build/<profile>-target-<mcse>/<study>``.
    n_sim : int, optional
        Replicates a condition in place of the profile's number.
    target : PrecisionTarget, optional
        A Monte Carlo error to reach, in place of a number of replicates.
    replace : bool
        Start over, whatever the folder's checkpoint holds.
    studies_dir : str or Path
        Folder of study files.
    executor : callable, optional
        Factory of ``concurrent.futures`` executors in place of the local ones.
    block_size : int, optional
        Replicates a block; it decides what an interruption loses and nothing else.
    block_timeout : float, optional
        Seconds for which a worker process of this machine may hold a block; then it is
        ended, and the block's replicates are missing. One worker, too, is a process then.

    Returns
    -------
    Results

    Raises
    ------
    ParameterError
        On an unknown profile, a number out of range, or a time-out for another executor.
    StudyError
        If the study cannot be found or is inconsistent, or if no worker survives.
    StoreError
        If the folder cannot be written, another run is at work in it, or its checkpoint
        belongs to something else.
    MissingReplicatesError
        After writing the tables of what stands, if replicates stay missing because their
        workers died or took too long; the finished ones are kept, and a rerun tries the
        others again.
    FailureShareError
        After writing, if more replicates failed than the study allows.

    Warns
    -----
    PrecisionWarning
        If a condition has one replicate: estimates then have no MCSE.
    """
    started, clock = datetime.datetime.now(datetime.UTC).isoformat(), time.perf_counter()
    check_worker_count(workers)
    if block_timeout is not None:
        check_block_timeout(block_timeout)
        if executor is not None:
            raise ParameterError("block_timeout needs executor 'local'; another was given")
    factory = executor or local_executor(workers, in_place=block_timeout is None)
    study = load_study(name_or_study, studies_dir)
    if target is not None:
        target.chosen(study)
    cells = plan_cells(study, profile, n_sim if target is None else target.pilot)
    check_derived(study)
    # Once, before any work: the files may change while a long run lasts.
    identity = identity_of(study)
    # Absolute: a method may change the working directory.
    folder = results_folder(
        study.name, profile, out, n_sim, None if target is None else target.text
    ).absolute()
    check_writable(folder)
    needs: list[Need] = []
    with logged_run(study.name, profile, workers, folder), locked(folder):
        if replace:
            remove_checkpoint(folder)
            remove_checkpoint(folder, PILOT)
        how = Resources(factory, workers, block_size, block_timeout)
        with single_threaded():
            if target is not None:
                cells, needs = _decide(study, cells, folder / PILOT, identity, target, how)
            with Store(folder / CHECKPOINT, identity) as store:
                store.register(cells)
                computed, lost = compute(study, cells, store, how)
                summary = summarise(study, cells, store)
                share, condition_id, method = summary.worst_failure
                example = None
                if share > study.max_failure_share:
                    worst = next(cell for cell in cells if cell.condition_id == condition_id)
                    example = store.first_failure(worst, method)
        manifest = manifest_of(
            study,
            profile,
            cells,
            n_sim,
            identity,
            summary.failures,
            summary.cautions,
            summary.missing,
        )
        if target is not None:
            manifest["rule_for_n_sim"] = target.rule
            met = reached(needs, summary.estimates)
            manifest["precision"] = {**target.record(study), "reached": met}
        manifest["tables"] = table_digests(summary.tables)
        record = run_record(started, time.perf_counter() - clock, workers, computed, profile)
        for name, text in summary.tables.items():
            write_atomic(folder / name, text)
        write_atomic(folder / MANIFEST, manifest_text(manifest))
        _append_run(folder / "run.json", record, fresh=replace)
        results = read_results(folder)
    if any(cell.n_sim == 1 for cell in cells):
        warnings.warn(
            "a condition with one replicate has no Monte Carlo standard error",
            PrecisionWarning,
            stacklevel=2,
        )
    if lost:
        block, reason = next(iter(lost.items()))
        raise MissingReplicatesError(
            f"{sum(summary.missing.values())} replicates are missing: {reason}, first in "
            f"condition {block.cell.condition_id}, replicates {block.reps[0]} to "
            f"{block.reps[-1]}; the tables are of those that are finished, and a rerun tries "
            "the others again",
            results,
        )
    if example is not None:
        rep, kind, message = example
        raise FailureShareError(
            f"{share:.1%} of the replicates of method {method!r} failed in condition "
            f"{condition_id}, more than max_failure_share allows "
            f"({study.max_failure_share:.1%}); first there: replicate {rep}, {kind}: {message}",
            results,
        )
    return results


@dataclass(frozen=True)
class Resources:
    """What replicates are computed with; none of it reaches a number.

    ``factory`` makes executors; the others are as for :func:`run_study`.
    """

    factory: ExecutorFactory
    workers: int = 1
    block_size: int | None = None
    block_timeout: float | None = None


def compute(
    study: Study, cells: Sequence[Cell], store: Store, how: Resources, what: str = "run"
) -> tuple[int, dict[Block, str]]:
    """Run the missing replicates; return how many were computed, and what was given up."""
    finished = store.finished(cells)
    blocks = make_blocks(cells, finished, how.workers, how.block_size)
    total = sum(cell.n_sim for cell in cells)
    missing = sum(len(block.reps) for block in blocks)
    progress = Progress(what, cells, finished)
    label = study.name if what == "run" else f"{study.name} ({what})"
    with progress_bar(label, total, total - missing) as advance, heard() as end_if_asked:

        def keep(block: Block, outcomes: list[Outcome]) -> None:
            end_if_asked()
            store.add(block.cell, outcomes)
            progress.block(block.cell, outcomes)
            advance(len(outcomes))

        def lose(block: Block, reason: str) -> None:
            progress.lost(block.cell, block.reps, reason)

        payload = ReplicateTask.of(study).pack()
        lost = run_blocks(blocks, payload, how.factory, keep, how.block_timeout, lose)
    return missing - sum(len(block.reps) for block in lost), lost


def _decide(
    study: Study,
    cells: Sequence[Cell],
    path: Path,
    identity: Mapping[str, str],
    target: PrecisionTarget,
    how: Resources,
) -> tuple[tuple[Cell, ...], list[Need]]:
    """Return the cells with the numbers of fresh replicates that a whole pilot asks for."""
    with Store(path, identity) as pilot:
        pilot.register(cells)
        _, lost = compute(study, cells, pilot, how, "pilot")
        if lost:
            block, reason = next(iter(lost.items()))
            raise StudyError(
                f"the pilot is not whole: {reason}, first in condition "
                f"{block.cell.condition_id}, replicates {block.reps[0]} to {block.reps[-1]}; "
                "a rerun tries them again"
            )
        needs = needs_of(study, cells, pilot, target)
    fresh = fresh_cells(study, cells, needs, target)
    check_feasible(fresh, needs)
    return fresh, needs


def check_writable(folder: Path) -> None:
    """Make the results folder, or say now rather than after hours that it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StoreError(f"cannot write results to {folder}: {error.strerror}") from None


def _append_run(path: Path, record: dict[str, Any], fresh: bool) -> None:
    """Add a run to the folder's record: a study may take several to finish."""
    runs: list[Any] = []
    if not fresh and path.is_file():
        # A record that cannot be read is of no use to anyone and is begun again.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            runs = list(json.loads(path.read_text(encoding="utf-8"))["runs"])
    write_atomic(path, json.dumps({"runs": [*runs, record]}, indent=2) + "\n")


def replay(study: Study, condition_id: str, rep: int) -> Outcome:
    """Compute one replicate of one condition again, from nothing but its own key.

    Raises
    ------
    ParameterError
        If the study has no such condition, or ``rep`` is negative.
    """
    check_integer("rep", rep)
    for condition in study.conditions():
        if digest(condition) == condition_id:
            return ReplicateTask.of(study).run(condition, rep)
    raise ParameterError(
        f"condition must be a condition_id of study {study.name!r}, as in its "
        f"performance.csv; got {condition_id!r}"
    )
