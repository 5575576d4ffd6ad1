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

from nwsim._typing import FloatArray, IntArray
from nwsim.exceptions import NwsimError, StoreError
from nwsim.seeding import canonical
from nwsim.study.cells import Cell
from nwsim.study.checkpoint_file import (
    APPLICATION_ID,
    FORMAT,
    TABLES,
    check_header,
    create,
    foreign_fields,
    trouble,
)
from nwsim.study.replicate import Outcome

P = ParamSpec("P")
T = TypeVar("T")


def _reads(method: Callable[P, T]) -> Callable[P, T]:
    """Name the file if a method meets in it what no run writes."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        path: Path = args[0].path  # type: ignore[attr-defined]
        try:
            return method(*args, **kwargs)
        except sqlite3.Error as error:
            raise trouble(path, error) from None
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
                create(path, identity)
            check_header(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            try:
                self._check(identity)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise trouble(path, error) from None

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
        if run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreError(f"{self.path} is not a checkpoint of nwsim; use --replace")
        if run("PRAGMA user_version").fetchone()[0] != FORMAT:
            raise StoreError(f"{self.path} has another checkpoint format; use --replace")
        state = run("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise StoreError(f"{self.path} is damaged ({state}); use --replace to start over")
        present = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in TABLES:
            if table not in present:
                raise StoreError(f"{self.path} lacks its table {table!r}; use --replace")
        run("PRAGMA journal_mode=WAL")
        # Whole and complete whichever process is killed. To wait for the disk at every block
        # costs more than a short block does; a power cut loses what the system still held.
        run("PRAGMA synchronous=NORMAL")
        stored = dict(run("SELECT field, value FROM identity").fetchall())
        for field in foreign_fields(stored, identity):
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
            raise trouble(self.path, error) from None

    def _bounds(self, cell: Cell) -> tuple[int, int, int]:
        return self._numbers[cell.condition_id], cell.reps.start, cell.reps.stop


def _outputs_text(cell: Cell) -> str:
    return json.dumps({method: list(names) for method, names in cell.outputs.items()})


def _odd_level(factors: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    for name, level in factors.items():
        if all(cell.factors[name] != level for cell in cells):
            return f"level {level!r} of factor {name!r}"
    return f"the condition {canonical(factors)}"
