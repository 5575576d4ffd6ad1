"""The checkpoint: every finished replicate of a run, in one SQLite file.

The parent process alone writes it, one transaction a block, so that an interruption
loses at most the blocks in flight. A checkpoint belongs to exactly one specification and
one state of the sources; it is refused by name otherwise and never mixed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from nwsim._files import replacing
from nwsim._typing import FloatArray, IntArray
from nwsim.exceptions import NwsimError, StoreError
from nwsim.seeding import canonical
from nwsim.study.cells import Cell
from nwsim.study.replicate import Outcome

P = ParamSpec("P")
T = TypeVar("T")

CHECKPOINT = "replications.sqlite"
_APPLICATION_ID = 0x6E77736D  # "nwsm"
_FORMAT = 1
_SCHEMA = """
CREATE TABLE identity (field TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cells (
    cell INTEGER PRIMARY KEY, condition_id TEXT UNIQUE NOT NULL,
    factors TEXT NOT NULL, outputs TEXT NOT NULL);
CREATE TABLE replicates (cell INTEGER, rep INTEGER, PRIMARY KEY (cell, rep)) WITHOUT ROWID;
CREATE TABLE scalars (
    cell INTEGER, method TEXT, measure TEXT, rep INTEGER, value REAL NOT NULL,
    PRIMARY KEY (cell, method, measure, rep)) WITHOUT ROWID;
CREATE TABLE failures (
    cell INTEGER, method TEXT, rep INTEGER, type TEXT NOT NULL, message TEXT NOT NULL,
    PRIMARY KEY (cell, method, rep)) WITHOUT ROWID;
CREATE TABLE cautions (
    cell INTEGER, role TEXT, rep INTEGER, category TEXT,
    PRIMARY KEY (cell, role, rep, category)) WITHOUT ROWID;
"""
# Faults of the disk or the folder, not of the file.
_ELSEWHERE = tuple(
    f"SQLITE_{name}" for name in ("FULL", "IOERR", "CANTOPEN", "READONLY", "BUSY", "LOCKED", "PERM")
)
_BESIDE = ("-wal", "-shm", "-journal")
_TABLES = ("identity", "cells", "replicates", "scalars", "failures", "cautions")


def _reads(method: Callable[P, T]) -> Callable[P, T]:
    """Name the file if a method meets in it what no run writes."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        path: Path = args[0].path  # type: ignore[attr-defined]
        try:
            return method(*args, **kwargs)
        except sqlite3.Error as error:
            raise _trouble(path, error) from None
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, NwsimError):
                raise
            raise StoreError(
                f"{path} holds what no run writes ({error}); use --replace to start over"
            ) from None

    return guarded


class Store:
    """An open checkpoint; use it as a context manager.

    Parameters
    ----------
    path : Path
        The SQLite file; made if absent or empty.
    identity : mapping of str to str
        What a checkpoint must agree in, by field; the first field that differs is named
        when it is refused.

    Raises
    ------
    StoreError
        If the file is not a checkpoint, is damaged, or belongs to something else.
    """

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        self.path = path
        self._numbers: dict[str, int] = {}
        try:
            if not path.exists() or path.stat().st_size == 0:
                _create(path, identity)
            _check_header(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            try:
                self._check(identity)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise _trouble(path, error) from None

    def __enter__(self) -> Store:
        """Return the open checkpoint."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._connection.close()

    def _check(self, identity: Mapping[str, str]) -> None:
        run = self._connection.execute
        if run("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise StoreError(f"{self.path} is not a checkpoint of nwsim; use --replace")
        if run("PRAGMA user_version").fetchone()[0] != _FORMAT:
            raise StoreError(f"{self.path} has another checkpoint format; use --replace")
        state = run("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise StoreError(f"{self.path} is damaged ({state}); use --replace to start over")
        present = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in _TABLES:
            if table not in present:
                raise StoreError(f"{self.path} lacks its table {table!r}; use --replace")
        run("PRAGMA journal_mode=WAL")
        # Whole and complete whichever process is killed. To wait for the disk at every block
        # costs more than a short block does; a power cut loses what the system still held.
        run("PRAGMA synchronous=NORMAL")
        stored = dict(run("SELECT field, value FROM identity").fetchall())
        for field in _foreign(stored, identity):
            raise StoreError(
                f"{self.path} was made with another {field}: "
                f"{stored.get(field)} then, {identity.get(field)} now; "
                "use --replace to start over"
            )

    @_reads
    def register(self, cells: Sequence[Cell]) -> None:
        """Enter the cells of a run; cells that it has already must be the same.

        Raises
        ------
        StoreError
            If the checkpoint has a cell that the run lacks, or one whose methods or
            measures differ. The message names the factor and level, or the field.
        """
        stored = {
            condition_id: (number, json.loads(factors), outputs)
            for number, condition_id, factors, outputs in self._connection.execute(
                "SELECT cell, condition_id, factors, outputs FROM cells ORDER BY cell"
            )
        }
        planned = {cell.condition_id: cell for cell in cells}
        for condition_id, (_, factors, outputs) in stored.items():
            if condition_id not in planned:
                raise StoreError(
                    f"{self.path} holds {_odd_level(factors, cells)}, which this run lacks; "
                    "use --replace to start over"
                )
            now = _outputs_text(planned[condition_id])
            if outputs != now:
                raise StoreError(
                    f"{self.path} was made with other methods or measures at "
                    f"{canonical(factors)}: {outputs} then, {now} now; "
                    "use --replace to start over"
                )
        number = 1 + max((entry[0] for entry in stored.values()), default=0)
        with self._transaction():
            for cell in cells:
                if cell.condition_id in stored:
                    self._numbers[cell.condition_id] = stored[cell.condition_id][0]
                    continue
                self._connection.execute(
                    "INSERT INTO cells VALUES (?, ?, ?, ?)",
                    (number, cell.condition_id, canonical(cell.factors), _outputs_text(cell)),
                )
                self._numbers[cell.condition_id] = number
                number += 1

    @_reads
    def finished(self, cells: Sequence[Cell]) -> dict[str, set[int]]:
        """Return those of the replicates asked for that are finished, by condition_id.

        Raises
        ------
        StoreError
            If a finished replicate lacks a scalar: every method leaves all its measures
            or a failure.
        """
        for cell in cells:
            self._check_whole(cell)
        return {
            cell.condition_id: {
                rep
                for (rep,) in self._connection.execute(
                    "SELECT rep FROM replicates WHERE cell = ? AND rep >= ? AND rep < ?",
                    self._bounds(cell),
                )
            }
            for cell in cells
        }

    def _check_whole(self, cell: Cell) -> None:
        number, run = self._numbers[cell.condition_id], self._connection.execute
        count = "SELECT COUNT(*) FROM replicates WHERE cell = ?"
        (total,) = run(count, (number,)).fetchone()
        columns = "SELECT method, measure, COUNT(*) FROM scalars WHERE cell = ?"
        columns += " GROUP BY method, measure"
        stored = {(method, name): n for method, name, n in run(columns, (number,))}
        lost = "SELECT method, COUNT(*) FROM failures WHERE cell = ? GROUP BY method"
        failed = dict(run(lost, (number,)).fetchall())
        for method, measures in cell.outputs.items():
            for name in measures:
                standing = total - failed.get(method, 0)
                if stored.get((method, name), 0) != standing:
                    raise StoreError(
                        f"{self.path} holds {stored.get((method, name), 0)} values of "
                        f"{name!r} of method {method!r} at {canonical(cell.factors)} for "
                        f"{standing} replicates; use --replace to start over"
                    )

    def add(self, cell: Cell, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a block, all or none of them."""
        number = self._numbers[cell.condition_id]
        scalars, failures, cautions = [], [], []
        for outcome in outcomes:
            for method, values in outcome.scalars.items():
                scalars += [(number, method, name, outcome.rep, x) for name, x in values.items()]
            for method, kind, message in outcome.failures:
                failures.append((number, method, outcome.rep, kind, message))
            for role, category in outcome.cautions:
                cautions.append((number, role, outcome.rep, category))
        with self._transaction():
            many = self._connection.executemany
            many("INSERT INTO replicates VALUES (?, ?)", [(number, o.rep) for o in outcomes])
            many("INSERT INTO scalars VALUES (?, ?, ?, ?, ?)", scalars)
            many("INSERT INTO failures VALUES (?, ?, ?, ?, ?)", failures)
            many("INSERT INTO cautions VALUES (?, ?, ?, ?)", cautions)

    @_reads
    def values(self, cell: Cell) -> dict[str, dict[str, FloatArray]]:
        """Return the scalars of a cell by method and measure, in order of replicate.

        Every method of the cell has every one of its measures; arrays of one method
        have the same replicates: those that are finished and did not fail.
        """
        found: dict[str, dict[str, list[float]]] = {
            method: {measure: [] for measure in measures}
            for method, measures in cell.outputs.items()
        }
        for method, measure, value in self._connection.execute(
            "SELECT method, measure, value FROM scalars WHERE cell = ? AND rep >= ? AND rep < ? "
            "ORDER BY method, measure, rep",
            self._bounds(cell),
        ):
            found[method][measure].append(value)
        return {
            method: {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
            for method, columns in found.items()
        }

    @_reads
    def column(self, cell: Cell, method: str, measure: str) -> tuple[IntArray, FloatArray]:
        """Return the replicates in which a measure stands, in order, and its values."""
        rows = self._connection.execute(
            "SELECT rep, value FROM scalars WHERE cell = ? AND rep >= ? AND rep < ? AND method = ? "
            "AND measure = ? ORDER BY rep",
            (*self._bounds(cell), method, measure),
        ).fetchall()
        return (
            np.array([rep for rep, _ in rows], dtype=np.int64),
            np.array([value for _, value in rows], dtype=np.float64),
        )

    @_reads
    def failed(self, cell: Cell) -> dict[str, dict[int, str]]:
        """Return the type of each failure by method and replicate."""
        found: dict[str, dict[int, str]] = {method: {} for method in cell.outputs}
        for method, rep, kind in self._connection.execute(
            "SELECT method, rep, type FROM failures WHERE cell = ? AND rep >= ? AND rep < ? "
            "ORDER BY method, rep",
            self._bounds(cell),
        ):
            found[method][rep] = kind
        return found

    @_reads
    def first_failure(self, cell: Cell, method: str) -> tuple[int, str, str] | None:
        """Return the first failure of a method in a cell as (rep, type, message)."""
        found: tuple[int, str, str] | None = self._connection.execute(
            "SELECT rep, type, message FROM failures WHERE cell = ? AND rep >= ? AND rep < ? "
            "AND method = ? ORDER BY rep LIMIT 1",
            (*self._bounds(cell), method),
        ).fetchone()
        return found

    @_reads
    def cautions(self, cell: Cell) -> dict[tuple[str, str], int]:
        """Return the number of replicates that warned, by role and warning category."""
        return {
            (role, category): count
            for role, category, count in self._connection.execute(
                "SELECT role, category, COUNT(*) FROM cautions WHERE cell = ? AND rep >= ? "
                "AND rep < ? GROUP BY role, category ORDER BY role, category",
                self._bounds(cell),
            )
        }

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all of it or nothing."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _trouble(self.path, error) from None

    def _bounds(self, cell: Cell) -> tuple[int, int, int]:
        return self._numbers[cell.condition_id], cell.reps.start, cell.reps.stop


def _create(path: Path, identity: Mapping[str, str]) -> None:
    """Make an empty checkpoint, under another name until it is whole."""
    # What SQLite kept beside an earlier file of this name would be read into the new one.
    _remove(path, _BESIDE)
    with replacing(path) as temporary:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.executescript(
                f"PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={_FORMAT};"
                f"BEGIN;{_SCHEMA}COMMIT;"
            )
            connection.executemany("INSERT INTO identity VALUES (?, ?)", list(identity.items()))
        finally:
            connection.close()


def remove_checkpoint(folder: Path, checkpoint: str = CHECKPOINT) -> None:
    """Remove a checkpoint of a results folder and what SQLite keeps beside it.

    Raises
    ------
    StoreError
        If one of them cannot be removed, as if it is a folder.
    """
    _remove(folder / checkpoint, ("", *_BESIDE))


def _remove(path: Path, suffixes: Sequence[str]) -> None:
    for suffix in suffixes:
        one = path.with_name(f"{path.name}{suffix}")
        try:
            one.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot remove {one}: {error.strerror or error}") from None


def progress_of(path: Path, cells: Sequence[Cell]) -> tuple[int, int]:
    """Return how many of the replicates of cells are finished, and how many methods failed.

    Raises
    ------
    StoreError
        If the file is absent or is not a checkpoint.
    """
    with _reading(path) as connection:
        total = [0, 0]
        for cell in cells:
            for i, table in enumerate(("replicates", "failures")):
                (count,) = connection.execute(
                    f"SELECT COUNT(*) FROM cells JOIN {table} USING (cell) "
                    "WHERE condition_id = ? AND rep >= ? AND rep < ?",
                    (cell.condition_id, cell.reps.start, cell.reps.stop),
                ).fetchone()
                total[i] += count
        return total[0], total[1]


def foreign_field(path: Path, identity: Mapping[str, str]) -> str | None:
    """Return the first field of an identity in which a checkpoint differs, or None.

    Raises
    ------
    StoreError
        If the file is absent or is not a checkpoint.
    """
    with _reading(path) as connection:
        stored = dict(connection.execute("SELECT field, value FROM identity").fetchall())
    return next(_foreign(stored, identity), None)


def _foreign(stored: Mapping[str, str], identity: Mapping[str, str]) -> Iterator[str]:
    """Yield the fields in which an identity stored is another."""
    for field in (*identity, *(name for name in stored if name not in identity)):
        if stored.get(field) != identity.get(field):
            yield field


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a checkpoint that another process may be writing."""
    if not path.exists():
        raise StoreError(f"there is no checkpoint at {path}")
    _check_header(path)
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30.0)
        try:
            run = connection.execute
            if run("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
                raise StoreError(f"{path} is not a checkpoint of nwsim")
            if run("PRAGMA user_version").fetchone()[0] != _FORMAT:
                raise StoreError(f"{path} has another checkpoint format")
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _trouble(path, error) from None


def _trouble(path: Path, error: sqlite3.Error | OSError) -> StoreError:
    """Return what to tell of an error: a whole file on a full disk must not be thrown away."""
    name = getattr(error, "sqlite_errorname", "")
    if isinstance(error, OSError) or name.startswith(_ELSEWHERE):
        return StoreError(
            f"cannot use the checkpoint {path}: {error}; is the disk full, the folder not "
            "writable, or another run at work in it?"
        )
    if isinstance(error, sqlite3.IntegrityError):
        return StoreError(
            f"another process has written to the checkpoint {path} during this run ({error})"
        )
    return StoreError(f"{path} is not a usable checkpoint ({error}); use --replace to start over")


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(16)
    except OSError as error:
        raise StoreError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    if header != b"SQLite format 3\x00":
        raise StoreError(f"{path} is not a checkpoint of nwsim; use --replace to start over")


def _outputs_text(cell: Cell) -> str:
    return json.dumps({method: list(names) for method, names in cell.outputs.items()})


def _odd_level(factors: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    for name, level in factors.items():
        if all(cell.factors[name] != level for cell in cells):
            return f"level {level!r} of factor {name!r}"
    return f"the condition {canonical(factors)}"
