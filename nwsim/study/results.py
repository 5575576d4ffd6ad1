"""Results folders: the layout of their tables, reading them, and comparing two of them.

Tables are CSV. Floats are written by ``repr``, which reads back to the same bits; whole
numbers have no decimal point; an undefined value (NaN) is an empty field. Lines end in a
newline alone.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nwsim._files import CLAIM_COLUMNS, MANIFEST, check_digests, level_text
from nwsim.exceptions import ParameterError, StoreError

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
    "curves": (
        *("study", "curve", _OWN, "method", "measure", "over", "x"),
        *("estimate", "mcse", "ci_low", "ci_high"),
    ),
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


@dataclass(frozen=True)
class Results:
    """The tables of a results folder.

    Attributes
    ----------
    name : str
        Name of the study.
    folder : Path
    performance, contrasts, curves, claims : DataFrame
        The CSV files of these names; columns as in ``results/README.md``.
    manifest : dict
    """

    name: str
    folder: Path
    performance: pd.DataFrame
    contrasts: pd.DataFrame
    curves: pd.DataFrame
    claims: pd.DataFrame
    manifest: dict[str, Any]


def results_folder(
    name: str,
    profile: str = "standard",
    out: str | Path | None = None,
    n_sim: int | None = None,
    target: str | None = None,
) -> Path:
    """Return where a study's results go.

    ``out/<name>`` if ``out`` is given; else ``results/<name>`` for the profile
    "standard" and ``build/<profile>/<name>`` for any other. A profile with another number
    of replicates is none of these: it goes to ``build/<profile>-<n_sim>/<name>``, and one with
    a precision target, such as "target-0.01", to ``build/<profile>-<target>/<name>``.

    Raises
    ------
    ParameterError
        If both a number and a target are given.
    """
    if out is not None and not str(out):
        raise ParameterError("out must be the path of a folder; it is empty")
    if n_sim is not None and target is not None:
        raise ParameterError("target_mcse and n_sim must not both be given")
    if out is not None:
        return Path(out) / name
    if n_sim is not None or target is not None:
        return Path("build") / f"{profile}-{n_sim if target is None else target}" / name
    return Path("results") / name if profile == "standard" else Path("build") / profile / name


def load_results(
    name: str | Path, root: str | Path | None = None, *, profile: str = "standard"
) -> Results:
    """Load the results of a study.

    Parameters
    ----------
    name : str or Path
        Name of the study, or a results folder itself.
    root : str or Path, optional
        Folder that holds ``<name>/``, in place of the profile's own.
    profile : str
        The profile whose folder is read, see :func:`results_folder`.

    Raises
    ------
    StoreError
        If there are no results, or a file of them is missing or incomplete.
    """
    folder = results_folder(str(name), profile, root)
    if not (folder / MANIFEST).is_file() and (Path(name) / MANIFEST).is_file():
        folder = Path(name)
    return read_results(folder)


def table_digests(tables: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 digests of tables' texts by file name."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in tables.items()}


def read_results(folder: Path) -> Results:
    """Load a results folder."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        factors = manifest["specification"]["factors"]
        types = {factor: entry["type"] for factor, entry in factors.items()}
        name = str(manifest["study"])
        digests = dict(manifest.get("tables", {}))
    except OSError:
        raise StoreError(
            f"there are no results in {folder}; run the study first, or name the profile of the "
            "run that is meant (the default is standard)"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(f"{folder / MANIFEST} is not a manifest of nwsim") from None
    check_digests(folder, digests)
    frames = {table: read_table(folder / f"{table}.csv", types) for table in TABLES}
    return Results(name=name, folder=folder, manifest=manifest, **frames)


_KEYS: Mapping[str, tuple[str, ...]] = {
    "performance": ("condition_id", "method", "measure"),
    "contrasts": ("contrast", "condition_id", "method", "measure"),
    "curves": ("curve", "method", "measure", "over", "x"),
    "claims": ("claim", "setting", "quantity"),
}
_WITHIN_ERROR = ("estimate", "mcse", "ci_low", "ci_high")
_EXACT = ("theory", "margin")
_OF_A_RUN = ("study", "profile", "seed", "n_sim", "missing", "failures", "precision")


def differences(first: Results, second: Results) -> Iterator[str]:
    """Yield one sentence for every number or word in which two results differ.

    Parameters
    ----------
    first, second : Results

    Notes
    -----
    Estimates, their errors and intervals agree if ``|a - b| <= 1e-9 |a| + 1e-3 mcse``:
    processors differ in the last bits of a sum, which is far below what the Monte Carlo
    error lets anyone see. Theory and margin agree if ``|a - b| <= 1e-9 |a|``; all else, such
    as counts and verdicts, if it is equal. Results of two studies have no rows in common:
    nothing is yielded, see :func:`run_differences`.
    """
    if first.manifest.get("study") != second.manifest.get("study"):
        return
    for table, keys in _KEYS.items():
        old, new = _rows(first, table, keys), _rows(second, table, keys)
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{table}: {', '.join(part for part in key if part)}"
            if key not in new or key not in old:
                side = first.folder if key in old else second.folder
                yield f"{where}: only in {side}"
                continue
            a, b = old[key], new[key]
            for column in [*a, *(column for column in b if column not in a)]:
                if column not in a or column not in b:
                    yield f"{where}: column {column} is in one only"
                elif not _same(column, a, b):
                    yield f"{where}: {column} {_shown(a[column])} and {_shown(b[column])}"


def run_differences(first: Results, second: Results) -> Iterator[str]:
    """Yield one sentence for every field in which two runs were not the same.

    They are study, profile, seed, replicates, failures, what is missing and the precision that
    was asked for; sources and versions may differ.
    """
    for field in _OF_A_RUN:
        if first.manifest.get(field) != second.manifest.get(field):
            yield f"{MANIFEST}: {field} differs"


def _rows(results: Results, table: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    frame = getattr(results, table)
    factors = results.manifest["specification"]["factors"] if table == "curves" else ()
    names = (*keys, *(name for name in factors if name in frame.columns))
    return {tuple(_shown(row[name]) for name in names): row for row in frame.to_dict("records")}


def _same(column: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if column not in (*_WITHIN_ERROR, *_EXACT):
        return _shown(a[column]) == _shown(b[column])
    one, other = float(a[column]), float(b[column])
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    error = 0.0 if column in _EXACT or math.isnan(a["mcse"]) else float(a["mcse"])
    return abs(one - other) <= 1e-9 * abs(one) + 1e-3 * error


def _shown(value: Any) -> str:
    """Return a value as text; what is undefined (NaN, a gap) is the empty text."""
    import pandas as pd

    return "" if pd.isna(value) else str(value)
