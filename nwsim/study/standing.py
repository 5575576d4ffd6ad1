"""How far a study is, seen from outside: what its checkpoints say, and whether it runs now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nwsim._files import MANIFEST
from nwsim.study.cells import Cell, plan_cells
from nwsim.study.checkpoint_file import CHECKPOINT, foreign_field, progress_of
from nwsim.study.locks import is_locked
from nwsim.study.precision import PILOT, PrecisionTarget, fresh_cells, needs_of
from nwsim.study.provenance import identity_of
from nwsim.study.specification import Study
from nwsim.study.store import Store


@dataclass(frozen=True)
class Standing:
    """What is finished of a run.

    Attributes
    ----------
    part : str
        "run", or "pilot" while the pilot of a precision target is not whole.
    finished, planned : int
        Replicates of all cells together; None where there is no checkpoint.
    failures : int
        Methods that failed in them.
    running : bool
        Whether a process is at work in the folder now.
    has_tables : bool
    foreign : str or None
        What the checkpoint was made with another of, such as "sources": the run would refuse it.
    """

    part: str
    finished: int | None
    planned: int
    failures: int
    running: bool
    has_tables: bool
    foreign: str | None = None

    @property
    def text(self) -> str:
        """The standing in words."""
        what = "" if self.part == "run" else f"{self.part}: "
        tables = "tables written" if self.has_tables else "no tables yet"
        now = ", running now" if self.running else ""
        if self.finished is None:
            return f"{what}{self.planned} replicates planned, no checkpoint, {tables}{now}"
        other = f", made with another {self.foreign}: --replace starts over" if self.foreign else ""
        return (
            f"{what}{self.finished} of {self.planned} replicates finished, "
            f"{self.failures} failures, {tables}{now}{other}"
        )


def standing_of(
    study: Study,
    profile: str,
    folder: Path,
    n_sim: int | None = None,
    target: PrecisionTarget | None = None,
) -> Standing:
    """Return how far a run is.

    Parameters
    ----------
    study : Study
    profile : str
    folder : Path
        Its results folder.
    n_sim : int, optional
        Replicates a condition, if not the profile's.
    target : PrecisionTarget, optional
        A target in place of a number; how many replicates that takes is known once the pilot
        is whole.

    Raises
    ------
    ParameterError
        If the target is for what is no measure of the study.
    StoreError
        If a file in the place of a checkpoint is none.
    """
    cells = plan_cells(study, profile, n_sim if target is None else target.pilot)
    if target is not None:
        target.chosen(study)
        pilot = _standing("pilot", study, cells, folder, PILOT)
        if pilot.finished is None or pilot.finished < pilot.planned or pilot.foreign:
            return pilot
        with Store(folder / PILOT, identity_of(study)) as store:
            store.register(cells)
            cells = fresh_cells(study, cells, needs_of(study, cells, store, target), target)
    return _standing("run", study, cells, folder, CHECKPOINT)


def _standing(
    part: str, study: Study, cells: Sequence[Cell], folder: Path, checkpoint: str
) -> Standing:
    planned, has_tables = sum(cell.n_sim for cell in cells), (folder / MANIFEST).is_file()
    running = is_locked(folder)
    path = folder / checkpoint
    # An empty file is one that a run would begin.
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return Standing(part, None, planned, 0, running, has_tables)
    finished, failures = progress_of(path, cells)
    foreign = foreign_field(path, identity_of(study))
    return Standing(part, finished, planned, failures, running, has_tables, foreign)
