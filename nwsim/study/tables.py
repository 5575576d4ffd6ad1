"""Tables as CSV text and back, without losing a bit.

Floats are written by ``repr``, which reads back to the same bits; whole numbers have no
decimal point; an undefined value (NaN) is an empty field. Lines end in a newline alone.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nwsim.exceptions import StoreError

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = dict[str, Any]

COLUMN_TYPES: Mapping[str, str] = {
    "estimate": "float",
    "mcse": "float",
    "n_sim": "int",
    "n_failed": "int",
    "n_empty": "int",
    "x": "float",
    "theory": "float",
    "ci_low": "float",
    "ci_high": "float",
    "margin": "float",
}
"""Types of the columns that are neither texts nor factors."""


def level_text(value: Any) -> str:
    """Return a value as the text of a CSV field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return str(value)


def table_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as CSV text; a column that a row lacks is an empty field there."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([level_text(row.get(column)) for column in columns])
    return buffer.getvalue()


def read_table(path: Path, factor_types: Mapping[str, str]) -> pd.DataFrame:
    """Read a table of a results folder.

    Parameters
    ----------
    path : Path
    factor_types : mapping
        Type name ("str", "int", "float", "bool") by factor.

    Raises
    ------
    StoreError
        If the file is missing or is not such a table.
    """
    import pandas as pd

    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    if not lines or any(len(line) != len(lines[0]) for line in lines):
        raise StoreError(f"{path} is not a complete table; run the study again")
    types = {**COLUMN_TYPES, **factor_types}
    columns = {}
    for position, name in enumerate(lines[0]):
        fields = [line[position] for line in lines[1:]]
        try:
            columns[name] = _column(fields, types.get(name, "str"))
        except (ValueError, KeyError):
            raise StoreError(f"{path}: column {name!r} holds a value of another type") from None
    return pd.DataFrame(columns, columns=list(lines[0]))


def _column(fields: list[str], kind: str) -> pd.Series[Any]:
    import pandas as pd

    gaps = "" in fields
    if kind == "float":
        return pd.Series([float(x) if x else math.nan for x in fields], dtype="float64")
    if kind == "int":
        values = [int(x) if x else pd.NA for x in fields]
        return pd.Series(values, dtype="Int64" if gaps else "int64")
    if kind == "bool":
        known = {"true": True, "false": False, "": pd.NA}
        return pd.Series([known[x] for x in fields], dtype="boolean" if gaps else "bool")
    return pd.Series(fields, dtype="str")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path`` that takes its place if all goes well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all: to a temporary name first, then renamed.

    Raises
    ------
    StoreError
        If the folder cannot be written.
    """
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(text.encode("utf-8"))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
