"""Rows of the results tables, picked out for drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd

from nwsim.exceptions import ParameterError

Where: TypeAlias = Mapping[str, Any] | None
"""Column to a level, or to a list, tuple or set of levels."""

NOT_FACTORS = frozenset(
    {
        *("study", "condition_id", "curve", "contrast", "method", "measure", "kind"),
        *("factor", "level", "baseline", "over", "x"),
        *("estimate", "mcse", "n_sim", "n_failed", "n_empty"),
    }
)
"""Columns of the tables that are not factors of the study."""


def factor_names(frame: pd.DataFrame) -> list[str]:
    """Return the columns of a table that are factors of its study."""
    return [str(name) for name in frame.columns if name not in NOT_FACTORS]


def select(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Return the rows whose columns have the wanted levels.

    Parameters
    ----------
    frame : DataFrame
        A results table.
    where : mapping or None
        Column to a level, or to a list, tuple or set of levels.

    Raises
    ------
    ParameterError
        If a column does not exist.
    """
    kept = frame
    for name, wanted in (where or {}).items():
        if name not in frame.columns:
            raise ParameterError(
                f"where must name columns of the table ({', '.join(map(str, frame.columns))}); "
                f"got {name!r}"
            )
        levels = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
        kept = kept[kept[name].isin(levels)]
    return kept


def levels(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return the distinct levels of a column in ascending order."""
    return sorted(frame[name].dropna().unique().tolist())


def levels_of(
    table: pd.DataFrame, name: str | None, order: Sequence[Any] | None = None
) -> list[Any]:
    """Return the levels of a column of panels or of a row.

    Those of ``method`` come in the order asked for, or else in that of the study; with no name
    there is one level, None.
    """
    if name is None:
        return [None]
    if name != "method":
        return levels(table, name)
    present = table[name].unique().tolist()
    return present if order is None else [level for level in order if level in present]


def performance(
    table: pd.DataFrame, measures: Sequence[str], where: Where, methods: Sequence[str] | None
) -> pd.DataFrame:
    """Return the rows of the table of performance that a figure shows."""
    table = select(table, where)
    table = table[table["measure"].isin(list(measures))]
    return table if methods is None else table[table["method"].isin(list(methods))]


def absent(measures: Sequence[str], where: Where, methods: Sequence[str] | None) -> str:
    """Say which rows a figure asked for and did not find."""
    asked = {"measure": list(measures), "method": methods, **dict(where or {})}
    listed = ", ".join(f"{name}={value}" for name, value in asked.items() if value is not None)
    return f"no rows with {listed}"


def check_single(frame: pd.DataFrame, shown: Sequence[str]) -> None:
    """Refuse rows that would stand at one place: a factor that the page does not show varies.

    Raises
    ------
    ParameterError
        If two rows agree in all columns ``shown``; the message names the factors that differ.
    """
    if not frame.duplicated(list(shown)).any():
        return
    groups = frame.groupby(list(shown))
    varying = [
        name
        for name in [*factor_names(frame), "method"]
        if name in frame.columns and name not in shown and groups[name].nunique().max() > 1
    ]
    raise ParameterError(
        "where must fix every factor that the figure does not show; still varying: "
        f"{', '.join(varying) or 'none, rows are repeated'}"
    )


def series(
    frame: pd.DataFrame, by: Sequence[str], over: str = "n_obs"
) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """Split a table into lines, one for each combination of the columns ``by``.

    Returns
    -------
    list of (condition, rows)
        The condition has the factors and the method that are constant along the line; rows
        are sorted by ``over``.

    Raises
    ------
    ParameterError
        If a line has two rows at one level of ``over``: some other factor varies along it,
        and the message names it.
    """
    if frame.empty:
        return []
    lines = []
    for _, rows in frame.groupby(list(by), sort=True):
        rows = rows.sort_values(over, kind="stable")
        constant = {
            name: rows[name].iloc[0]
            for name in [*factor_names(frame), "method"]
            if name in rows.columns and name != over and rows[name].nunique(dropna=False) == 1
        }
        if rows[over].duplicated().any():
            varying = sorted(
                name
                for name in [*factor_names(frame), "method"]
                if name in rows.columns and name not in constant and name != over
            )
            raise ParameterError(
                f"where must fix every factor that the figure does not show; "
                f"still varying along a line: {', '.join(varying) or 'none, rows are repeated'}"
            )
        lines.append((constant, rows))
    return lines
