"""Figures of head dimension against number of heads at a fixed budget, from the tables alone.

Their options: ``where`` maps columns to levels, ``labels`` names of factors, levels or methods
to texts. A builder raises :class:`~nwsim.exceptions.ParameterError` if an option names what
the tables do not have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

from nwsim._files import parse_setting
from nwsim.exceptions import ParameterError
from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, levels, levels_of, performance, select, series
from nwsim.report.slopes import Tables
from nwsim.report.style import COMPARED, Look, blank, styled
from nwsim.report.words import Words

LAW_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#D55E00", "lw": 1.6},
    {"color": "#0072B2", "ls": "--"},
    {"color": "#CC79A7", "ls": (0, (5, 1.5, 1, 1.5, 1, 1.5))},
    {"color": "#009E73", "ls": "-."},
    {"color": "#888888", "ls": ":", "lw": 1.2},
    {"color": "#56B4E9", "ls": (0, (1, 1))},
)
"""Looks of rival laws, the first for the one that is judged."""

FITTED: dict[str, Any] = {"color": "#444444", "ls": (0, (1, 1.4)), "lw": 0.8}
BOOTSTRAP = ("least mean, 95% bootstrap interval", {"marker": "o"})


@styled
def best_dimension(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    curve: str = "best_dimension",
    row: str = "dim",
    x: str = "n_obs",
    laws: Mapping[str, str] | None = None,
    fitted_to: str = "fitted_to",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the best head dimension against n with rival laws: a row a budget, a column a method.

    Ticks of the vertical axis are the divisors of the budget that were compared. Laws are
    drawn as the study fitted them, to the smaller n alone: those left of a vertical line.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
    methods : sequence of str, optional
        The columns, in this order; default all.
    curve : str
        Name of the curve that holds the best levels.
    row, x : str
        Factors of the rows of panels and of the horizontal axis.
    laws : mapping, optional
        Curve that holds a law's values to its text in the key.
    fitted_to : str
        Curve that holds the largest n that the laws are fitted to.
    labels : mapping, optional

    Raises
    ------
    ParameterError
        If there are more laws than looks.
    """
    laws = dict(laws or {})
    if len(laws) > len(LAW_LOOKS):
        raise ParameterError(f"laws must be at most {len(LAW_LOOKS)}; got {len(laws)}")
    words = Words(results.manifest, labels or {})
    table = _of_methods(select(results.curves[results.curves["curve"] == curve], where), methods)
    if table.empty:
        return blank(absent([curve], where, methods))
    figure, cells = _panels(table, words, row, methods, x, words.axis(x), words.axis(curve))
    for cell in cells:
        own = {row: cell.row, "method": cell.column, **dict(where or {})}
        for name, look in zip(laws, LAW_LOOKS, strict=False):
            law = results.curves[results.curves["curve"] == name]
            law = select(law, own).sort_values("x")
            cell.axes.plot(law["x"], law["estimate"], zorder=1.6, **{"lw": 1.0, **look})
        end = results.curves[results.curves["curve"] == fitted_to]
        for last in select(end, own)["estimate"].dropna() if laws else ():
            beyond = min(place for place in cell.table[x] if place > last)
            cell.axes.axvline(math.sqrt(last * beyond), zorder=1.2, **FITTED)
        _draw_best(cell.axes, cell.table, x, COMPARED[0])
        beside = table if cell.row is None else table[table[row] == cell.row]
        cell.axes.set_ylim(beside["ci_low"].min() / 1.3, beside["ci_high"].max() * 1.3)
        _level_ticks(cell.axes, _divisors(results, own), "y")
    entries = [BOOTSTRAP, *zip(laws.values(), LAW_LOOKS, strict=False)]
    if laws:
        entries.append(("laws are fitted to the left of this", FITTED))
    layout.finish(figure, cells, [], entries)
    return figure


@styled
def profiles(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
    row: str = "dim",
    line: str = "n_obs",
    x: str = "d_k",
    mark: bool = True,
    floor: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure against the head dimension: a line an n, its minimum marked by a ring.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
    methods : sequence of str, optional
        The columns, in this order; default all.
    measure : str
    row, line, x : str
        Factors of the rows of panels, of the lines and of the horizontal axis.
    mark : bool
        Whether the least estimate of a line is ringed.
    floor : str, optional
        A measure of any method that is drawn as a dotted line in every panel of its row.
    labels : mapping, optional
    """
    words = Words(results.manifest, labels or {})
    table = _of_methods(performance(results.performance, [measure], where, methods), methods)
    if table.empty:
        return blank(absent([measure], where, methods))
    figure, cells = _panels(table, words, row, methods, x, words.axis(x), words.measure(measure))
    shown = levels(table, line)
    ends: list[layout.EndLabel] = []
    for cell in cells:
        drawn: list[tuple[float, pd.DataFrame, Look]] = []
        for condition, rows in series(cell.table, [line], x):
            look = COMPARED[shown.index(condition[line]) % len(COMPARED)]
            end = drawing.draw_line(cell.axes, rows, look, x)
            drawn.append((condition[line], rows, look))
            if cell is _last_of_row(cells, cell):
                text = _power_of_two(condition[line]) or words.level(line, condition[line])
                layout.add_label(ends, cell.axes, end, text, look.color)
        for _, rows, look in drawn if mark else ():
            best = rows.nsmallest(1, "estimate")
            ring: dict[str, Any] = {"mfc": "none", "mec": look.color, "ms": 8.0, "ls": "none"}
            cell.axes.plot(best[x], best["estimate"], marker="o", zorder=4, **ring)
        if floor is not None:
            below = performance(
                results.performance, [floor], {**dict(where or {}), row: cell.row}, None
            )
            # At d_k = D nothing is left but rounding errors.
            below = below[below["estimate"] > 1e-12].sort_values(x)
            cell.axes.plot(below[x], below["estimate"], color="#444444", ls=(0, (1, 1.4)), lw=1.0)
        at = levels(cell.table, x)
        # A small budget has the width of a large one: lines are compared within a panel.
        cell.axes.set_xlim(at[0] / 1.2, at[-1] * 1.2)
        _level_ticks(cell.axes, at, "x")
    entries: list[layout.Entry] = [layout.INTERVAL]
    if mark:
        entries.append(("least estimate", {"marker": "o", "mfc": "none", "ms": 8.0, "ls": "none"}))
    if floor is not None:
        entries.append((words.label(floor), {"ls": (0, (1, 1.4))}))
    layout.finish(figure, cells, ends, entries)
    return figure


@styled
def best_heads(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    curve: str = "best_dimension",
    line: str = "n_obs",
    x: str = "dim",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the best number of heads H* = D / d_k* against the budget: a column a method.

    The grey lines are H = D, growth in proportion, and H = 1, one head.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
    methods : sequence of str, optional
    curve : str
        Name of the curve that holds the best head dimensions.
    line, x : str
        Factors of the lines and of the horizontal axis.
    labels : mapping, optional
    """
    words = Words(results.manifest, labels or {})
    table = _of_methods(select(results.curves[results.curves["curve"] == curve], where), methods)
    if table.empty:
        return blank(absent([curve], where, methods))
    budget = table[x].to_numpy(dtype=float)
    low, high = budget / table["ci_high"], budget / table["ci_low"]
    table = table.assign(estimate=budget / table["estimate"], ci_low=low, ci_high=high)
    figure, cells = _panels(table, words, None, methods, x, words.axis(x), "best number of heads")
    ends: list[layout.EndLabel] = []
    shown = levels(table, line)
    at = np.unique(budget)
    for cell in cells:
        cell.axes.plot(at, at, color="#9A9A9A", lw=0.8, zorder=1.5)
        cell.axes.plot(at, np.ones_like(at), color="#9A9A9A", lw=0.8, zorder=1.5)
        cell.axes.set_ylim(0.75, 1.4 * at[-1])
        for condition, rows in series(cell.table.drop(columns="x"), [line], x):
            position = shown.index(condition[line])
            look = COMPARED[position % len(COMPARED)]
            shift = layout.aside(at, position, len(shown), True)
            end = _draw_best(cell.axes, rows, x, look, shift)
            if cell is cells[-1]:
                text = _power_of_two(condition[line]) or words.level(line, condition[line])
                layout.add_label(ends, cell.axes, end, text, look.color)
        _level_ticks(cell.axes, at.tolist(), "x")
        _level_ticks(cell.axes, [1, 2, 4, 8, 16, 32], "y")
    grey: layout.Entry = ("$H = D$ and $H = 1$", {"color": "#9A9A9A", "lw": 0.8})
    layout.finish(figure, cells, ends, [BOOTSTRAP, grey])
    return figure


@styled
def small_against_large(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    claim: str = "S3",
    row: str = "dim",
    line: str | Sequence[str] = "frames",
    x: str = "n_obs",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the ratio of two errors as the claims state it, against n.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column of a setting to level(s), as texts.
    methods : sequence of str, optional
        The columns, in this order; default all.
    claim : str
        Id of a claim whose estimate is the log of a ratio, and whose theory is 0.
    row, line, x : str
        Parts of a setting for the rows of panels, the lines (may be several) and the
        horizontal axis.
    labels : mapping, optional
    """
    words = Words(results.manifest, labels or {})
    said = results.claims[results.claims["claim"] == claim].reset_index(drop=True)
    parts = pd.DataFrame([parse_setting(text) for text in said["setting"]])
    table = pd.concat([parts, said[["estimate", "mcse", "ci_low", "ci_high"]]], axis=1)
    by = [line] if isinstance(line, str) else list(line)
    if not table.empty:
        table = table.astype({row: float, x: float})
        table = _of_methods(select(table, where), methods)
    if table.empty:
        return blank(absent([claim], where, methods))
    columns = ["estimate", "ci_low", "ci_high"]
    table[columns] = np.exp(table[columns])
    figure, cells = _panels(table, words, row, methods, x, words.axis(x), words.axis(claim))
    looks = sorted(table[by].drop_duplicates().itertuples(index=False, name=None))
    ends: list[layout.EndLabel] = []
    for cell in cells:
        cell.axes.axhline(1.0, color="#444444", ls=(0, (1, 1.4)), lw=1.0, zorder=1.5)
        for condition, rows in series(cell.table, by, x):
            position = looks.index(tuple(condition[name] for name in by))
            look = COMPARED[position % len(COMPARED)]
            end = _draw_best(cell.axes, rows, x, look)
            text = ", ".join(words.level(name, condition[name]) for name in by)
            if cell is _last_of_row(cells, cell):
                layout.add_label(ends, cell.axes, end, text, look.color)
    equal: layout.Entry = ("equal errors", {"ls": (0, (1, 1.4))})
    layout.finish(figure, cells, ends, [layout.INTERVAL, equal])
    return figure


def _of_methods(table: pd.DataFrame, methods: Sequence[str] | None) -> pd.DataFrame:
    return table if methods is None else table[table["method"].isin(list(methods))]


def _panels(
    table: pd.DataFrame,
    words: Words,
    row: str | None,
    methods: Sequence[str] | None,
    x: str,
    xlabel: str,
    ylabel: str,
) -> tuple[Figure, list[layout.Cell]]:
    """Return panels with a row a level of ``row`` and a column a method, with titles."""
    order = levels_of(table, "method", methods)
    figure, cells = layout.grid(
        table,
        words,
        (row, [None] if row is None else levels(table, row)),
        ("method", order),
        x=x,
        x_log=True,
        xlabel=xlabel,
        ylabel=ylabel,
        sharey="row",
        height=1.75 if row else 2.4,
    )
    for cell in cells:
        names = [words.method(str(cell.column))]
        if row is not None:
            names.insert(0, words.level(row, cell.row))
        cell.axes.set_title(", ".join(names))
    return figure, cells


def _draw_best(
    axes: Axes, rows: pd.DataFrame, x: str, look: Look, shift: float = 1.0
) -> tuple[float, float]:
    """Draw estimates with the intervals that the table states; return the last point."""
    rows = rows.sort_values(x, kind="stable")
    at, y = rows[x].to_numpy(dtype=float) * shift, rows["estimate"].to_numpy(dtype=float)
    reach = np.abs(np.stack([y - rows["ci_low"], rows["ci_high"] - y]))
    axes.errorbar(
        at,
        y,
        yerr=np.nan_to_num(reach),
        color=look.color,
        marker=look.marker,
        elinewidth=0.9,
        lw=0.7,
        zorder=3,
    )
    return float(at[-1]), float(y[-1])


def _divisors(results: Tables, own: Mapping[str, Any]) -> list[Any]:
    """Return the head dimensions that were compared in a panel."""
    known = {name: level for name, level in own.items() if name in results.performance.columns}
    return levels(select(results.performance, known), "d_k")


def _level_ticks(axes: Axes, places: Sequence[float], which: str) -> None:
    """Label the places on a logarithmic axis, leaving out those that would touch."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    least = (0.11 if which == "x" else 0.1) * math.log(high / low)
    shown: list[float] = []
    for place in places:
        if low <= place <= high and (not shown or math.log(place / shown[-1]) >= least):
            shown.append(place)
    axis.set_major_locator(FixedLocator(shown))
    axis.set_major_formatter(FixedFormatter([f"{place:g}" for place in shown]))
    axis.set_minor_locator(FixedLocator([place for place in places if place not in shown]))
    axis.set_minor_formatter(NullFormatter())


def _last_of_row(cells: Sequence[layout.Cell], cell: layout.Cell) -> layout.Cell:
    return [other for other in cells if other.row == cell.row][-1]


def _power_of_two(level: Any) -> str:
    """Return "n = 2^k" for a sample size that is one, else nothing."""
    exponent = math.log2(float(level)) if float(level) > 0 else math.nan
    return f"$n = 2^{{{exponent:.0f}}}$" if exponent == round(exponent, 9) // 1 else ""
