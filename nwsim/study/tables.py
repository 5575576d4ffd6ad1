"""Tables as CSV text and back, without losing a bit.

Floats are written by ``repr``, which reads back to the same bits; whole numbers have no
decimal point; an undefined value (NaN) is an empty field. Lines end in a newline alone.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nwsim._files import CLAIM_COLUMNS, level_text
from nwsim.exceptions import StoreError

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = dict[str, Any]

_OWN = "<factors>"
_LAYOUT: Mapping[str, tuple[str, ...]] = {
    "performance": (
        *("study", "condition_id", _OWN, "method", "measure", "estimate", "mcse"),
        *("n_sim", "n_failed", "n_empty"),
    ),
    "contrasts": (
        *("study", "contrast", "condition_id", _OWN, "method", "measure", "kind"),
        *("factor", "level", "baseline", "estimate", "mcse", "n_sim"),
    ),
    "curves": (*("study", "curve", _OWN, "method", "measure", "over", "x", "estimate", "mcse"),),
    "claims": CLAIM_COLUMNS,
}

TABLES = tuple(_LAYOUT)
"""Names of the tables of a results folder."""

RESERVED = frozenset(("rep", *(name for row in _LAYOUT.values() for name in row))) - {_OWN}
"""Columns of the tables, which no factor may be named like."""

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


def columns_of(table: str, factors: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table of a study with these factors."""
    return tuple(
        name for entry in _LAYOUT[table] for name in (factors if entry == _OWN else (entry,))
    )


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
