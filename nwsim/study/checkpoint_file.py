"""The file of a checkpoint: how it is made, opened by those who only look, and removed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nwsim._files import replacing
from nwsim.exceptions import StoreError
from nwsim.study.cells import Cell

CHECKPOINT = "replications.sqlite"
APPLICATION_ID = 0x6E77736D  # "nwsm"
FORMAT = 1
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
TABLES = ("identity", "cells", "replicates", "scalars", "failures", "cautions")


def create(path: Path, identity: Mapping[str, str]) -> None:
    """Make an empty checkpoint, under another name until it is whole."""
    # What SQLite kept beside an earlier file of this name would be read into the new one.
    _remove(path, _BESIDE)
    with replacing(path) as temporary:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.executescript(
                f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT};"
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
    return next(foreign_fields(stored, identity), None)


def foreign_fields(stored: Mapping[str, str], identity: Mapping[str, str]) -> Iterator[str]:
    """Yield the fields in which an identity stored is another."""
    for field in (*identity, *(name for name in stored if name not in identity)):
        if stored.get(field) != identity.get(field):
            yield field


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a checkpoint that another process may be writing."""
    if not path.exists():
        raise StoreError(f"there is no checkpoint at {path}")
    check_header(path)
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30.0)
        try:
            run = connection.execute
            if run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise StoreError(f"{path} is not a checkpoint of nwsim")
            if run("PRAGMA user_version").fetchone()[0] != FORMAT:
                raise StoreError(f"{path} has another checkpoint format")
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise trouble(path, error) from None


def trouble(path: Path, error: sqlite3.Error | OSError) -> StoreError:
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


def check_header(path: Path) -> None:
    """Raise unless a file begins as one of SQLite."""
    try:
        with path.open("rb") as file:
            header = file.read(16)
    except OSError as error:
        raise StoreError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    if header != b"SQLite format 3\x00":
        raise StoreError(f"{path} is not a checkpoint of nwsim; use --replace to start over")
