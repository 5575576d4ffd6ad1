"""A run from its name to its results folder: plan, compute, summarise, write."""

from __future__ import annotations

import contextlib
import datetime
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nwsim._validation import check_integer
from nwsim.exceptions import NwsimError, PrecisionWarning, StoreError, StudyError
from nwsim.seeding import digest
from nwsim.study.cells import Cell, plan_cells, series_over
from nwsim.study.claims import expectations
from nwsim.study.executors import ExecutorFactory, local_executor, single_threaded
from nwsim.study.loading import StudyLike, load_study
from nwsim.study.progress import progress_bar
from nwsim.study.provenance import identity_of, manifest_of, manifest_text, run_record
from nwsim.study.replicate import Outcome, ReplicateTask, declared_outputs
from nwsim.study.results import MANIFEST, Results, read_results, results_folder
from nwsim.study.runner import Block, make_blocks, run_blocks
from nwsim.study.specification import Study
from nwsim.study.store import CHECKPOINT, Store, remove_checkpoint
from nwsim.study.summarise import contrast_pairs, summarise
from nwsim.study.tables import write_text


class FailureShareError(StudyError):
    """Too many replicates failed; the tables are written and say how many."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


def run_study(
    name_or_study: StudyLike,
    profile: str = "quick",
    workers: int = 1,
    out: str | Path | None = None,
    *,
    n_sim: int | None = None,
    replace: bool = False,
    studies_dir: str | Path = "studies",
    executor: ExecutorFactory | None = None,
    block_size: int | None = None,
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
        "standard" and to ``build/<profile>/<study>`` for others.
    n_sim : int, optional
        Replicates a condition in place of the profile's number.
    replace : bool
        Start over, whatever the folder's checkpoint holds.
    studies_dir : str or Path
        Folder of study files.
    executor : callable, optional
        Factory of ``concurrent.futures`` executors in place of the local ones.
    block_size : int, optional
        Replicates a block; it decides what an interruption loses and nothing else.

    Returns
    -------
    Results

    Raises
    ------
    ParameterError
        On an unknown profile or a number out of range.
    StudyError
        If the study cannot be found or is inconsistent, or if blocks stay missing
        because their workers died; finished replicates are kept.
    StoreError
        If the folder cannot be written, or its checkpoint belongs to something else.
    FailureShareError
        After writing, if more replicates failed than the study allows.

    Warns
    -----
    PrecisionWarning
        If a condition has one replicate: estimates then have no MCSE.
    """
    started, clock = datetime.datetime.now(datetime.UTC).isoformat(), time.perf_counter()
    check_integer("workers", workers, minimum=1)
    study = load_study(name_or_study, studies_dir)
    cells = plan_cells(study, profile, n_sim)
    check_derived(study)
    # Once, before any work: the files may change while a long run lasts.
    identity = identity_of(study)
    folder = results_folder(study.name, profile, out)
    _check_writable(folder)
    if replace:
        remove_checkpoint(folder)
    with single_threaded(), Store(folder / CHECKPOINT, identity) as store:
        store.register(cells)
        computed = _compute(
            study, cells, store, executor or local_executor(workers), workers, block_size
        )
        summary = summarise(study, cells, store)
        share, condition_id, method = summary.worst_failure
        example = None
        if share > study.max_failure_share:
            worst = next(cell for cell in cells if cell.condition_id == condition_id)
            example = store.first_failure(worst, method)
    manifest = manifest_of(
        study, profile, cells, n_sim, identity, summary.failures, summary.cautions
    )
    record = run_record(started, time.perf_counter() - clock, workers, computed, profile)
    for name, text in summary.tables.items():
        write_text(folder / name, text)
    write_text(folder / MANIFEST, manifest_text(manifest))
    _append_run(folder / "run.json", record, fresh=replace)
    results = read_results(folder)
    if any(cell.n_sim == 1 for cell in cells):
        warnings.warn(
            "a condition with one replicate has no Monte Carlo standard error",
            PrecisionWarning,
            stacklevel=2,
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


def _compute(
    study: Study,
    cells: Sequence[Cell],
    store: Store,
    factory: ExecutorFactory,
    workers: int,
    block_size: int | None,
) -> int:
    """Run the missing replicates; return how many there were."""
    finished = store.finished(cells)
    blocks = make_blocks(cells, finished, workers, block_size)
    total = sum(cell.n_sim for cell in cells)
    missing = sum(len(block.reps) for block in blocks)
    with progress_bar(study.name, total, total - missing) as advance:

        def keep(block: Block, outcomes: list[Outcome]) -> None:
            store.add(block.cell, outcomes)
            advance(len(outcomes))

        # One block waits for each worker, so that none idles between two.
        window = 1 if workers == 1 else 2 * workers
        lost = run_blocks(blocks, ReplicateTask.of(study).pack(), factory, keep, window)
    if lost:
        count = sum(len(block.reps) for block in lost)
        raise StudyError(
            f"{count} replicates are missing: their worker died three times, first in "
            f"condition {lost[0].cell.condition_id}, replicates {lost[0].reps[0]} to "
            f"{lost[0].reps[-1]}; the finished ones are kept, and a rerun tries again"
        )
    return missing


def check_derived(study: Study) -> None:
    """Try every claim, curve and contrast on the study's conditions before any work.

    Raises
    ------
    StudyError
        If one selects no condition at all (a misspelt level in a filter would be a
        silently missing row), or if a function of it fails.
    """
    cells = tuple(
        Cell(digest(levels), levels, 1, declared_outputs(study.methods, study.measures, levels))
        for levels in study.conditions()
    )
    trials: list[tuple[str, Callable[[], Iterable[Any]]]] = []
    for claim in study.claims:
        trials.append((f"claim {claim.id!r}", partial(expectations, claim, cells)))
    for curve in study.curves:
        along = partial(series_over, cells, curve.over, curve.measure, curve.where)
        trials.append((f"curve {curve.name!r}", along))
    for contrast in study.contrasts:
        trials.append((f"contrast {contrast.name!r}", partial(contrast_pairs, contrast, cells)))
    for what, select in trials:
        try:
            selected = list(select())
        except NwsimError:
            raise
        except Exception as error:
            raise StudyError(
                f"study {study.name!r}: a function of {what} fails: {type(error).__name__}: {error}"
            ) from error
        if not selected:
            raise StudyError(f"study {study.name!r}: {what} selects no condition of the study")


def _check_writable(folder: Path) -> None:
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
    write_text(path, json.dumps({"runs": [*runs, record]}, indent=2) + "\n")
