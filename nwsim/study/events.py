"""What happens in a run, one line an event, for those who look at it from elsewhere.

Only the parent process writes; nothing of it reaches a result.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nwsim.exceptions import StoreError
from nwsim.seeding import canonical
from nwsim.study.cells import Cell
from nwsim.study.replicate import Outcome

LOGGER = logging.getLogger("nwsim.study")
# Without one, Python would print warnings of a run that nobody asked to log.
LOGGER.addHandler(logging.NullHandler())


@contextlib.contextmanager
def log_file(path: str | Path | None) -> Iterator[None]:
    """Append the events of this process to a file while the context lasts.

    Parameters
    ----------
    path : str, Path or None
        None logs nothing.

    Raises
    ------
    StoreError
        If the file cannot be written.
    """
    if path is None:
        yield
        return
    try:
        handler = _Lines(path, mode="a", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write the log file {path}: {error.strerror or error}") from None
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        with contextlib.suppress(OSError):
            handler.close()


class _Lines(logging.FileHandler):
    """Writes an event as one line with its time (UTC), at once."""

    complained = False

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an event."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = " ".join(record.getMessage().split())
        return f"{moment}.{int(record.msecs):03d}Z {record.levelname} {message}"

    def handleError(self, record: logging.LogRecord) -> None:
        """Say once that the log is incomplete; a full disk must not end the run by it."""
        if not self.complained:
            self.complained = True
            print(f"nwsim: warning: cannot write the log: {sys.exc_info()[1]}", file=sys.stderr)


@contextlib.contextmanager
def logged_run(study: str, profile: str, workers: int, folder: Path) -> Iterator[None]:
    """Log the start of a run and how it ends."""
    clock = time.perf_counter()
    LOGGER.info(f"start: study {study}, profile {profile}, workers {workers}, folder {folder}")
    try:
        yield
    except KeyboardInterrupt:
        seconds = time.perf_counter() - clock
        LOGGER.warning(f"end: interrupted after {seconds:.1f} s; what is finished is kept")
        raise
    except BaseException as error:
        seconds = time.perf_counter() - clock
        LOGGER.error(f"end: after {seconds:.1f} s by {type(error).__name__}: {error}")
        raise
    LOGGER.info(f"end: tables written after {time.perf_counter() - clock:.1f} s")


class Progress:
    """Follows the blocks of a run.

    Parameters
    ----------
    what : str
        What is computed, for the line at its beginning.
    cells : sequence of Cell
    finished : mapping of str to collection
        Replicates that were finished before, by condition_id.
    """

    def __init__(self, what: str, cells: Sequence[Cell], finished: Mapping[str, Any]) -> None:
        self.left = {c.condition_id: c.n_sim - len(finished[c.condition_id]) for c in cells}
        self.failed: Counter[str] = Counter()
        total, missing = sum(cell.n_sim for cell in cells), sum(self.left.values())
        LOGGER.info(f"{what}: {len(cells)} cells, {total} replicates, {missing} of them missing")

    def block(self, cell: Cell, outcomes: Sequence[Outcome]) -> None:
        """Log what failed in a block, and its cell if that is now finished."""
        key = cell.condition_id
        failures = [(o.rep, *failure) for o in outcomes for failure in o.failures]
        if failures:
            rep, method, kind, message = failures[0]
            self.failed[key] += len(failures)
            LOGGER.warning(
                f"failures: {len(failures)} in replicates {outcomes[0].rep} to "
                f"{outcomes[-1].rep} of cell {key}, first replicate {rep}, method {method}, "
                f"{kind}: {message}"
            )
        self.left[key] -= len(outcomes)
        if self.left[key] == 0:
            LOGGER.info(
                f"cell finished: {key} {canonical(cell.factors)}, {cell.n_sim} replicates, "
                f"{self.failed[key]} failures in this run"
            )

    @staticmethod
    def lost(cell: Cell, reps: Sequence[int], reason: str) -> None:
        """Log a block that was given up."""
        LOGGER.error(
            f"block lost: replicates {reps[0]} to {reps[-1]} of cell {cell.condition_id} "
            f"{canonical(cell.factors)}: {reason}"
        )
