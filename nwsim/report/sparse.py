"""Figures of attention that keeps a number of keys, from the results tables alone.

Methods, or contrasts, whose names end in a number are points of a line at that number of keys.
Every builder takes ``where``, a mapping of column to level(s) that picks the rows; a factor
that is left to vary unseen is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from nwsim.inference.verdicts import Z95
from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, check_single, levels, performance, select, series
from nwsim.report.slopes import Tables
from nwsim.report.style import COMPARED, blank, panels, styled
from nwsim.report.words import Words

KEPT = "n_keep"
XLABEL = "keys kept $k$"
ONE: dict[str, Any] = {"color": "#444444", "lw": 0.7, "zorder": 1.4}


@styled
def losses(
    results: Tables,
    where: Where = None,
    prefix: str = "loss_keep_",
    line: str = "width",
    panel: str = "keys",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw ratios of errors against the number of keys kept.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    prefix : str
        Contrasts ``<prefix>1``, ``<prefix>2``, … are ratios to one baseline, by number.
    line, panel : str
        Factors that tell lines and panels apart.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = numbered(select(results.contrasts, where), "contrast", prefix)
    if table.empty:
        return blank(f"no contrasts {prefix}… with {dict(where or {})}")
    baselines = ", ".join(words.method(name) for name in table["baseline"].unique())
    figure, cells = _panels(table, words, line, panel, f"error over that of {baselines}")
    known = levels(table, line)
    for cell in cells:
        cell.axes.axhline(1.0, **ONE)
        for condition, rows in series(cell.table.drop(columns="contrast"), [line], KEPT):
            look = COMPARED[known.index(condition[line]) % len(COMPARED)]
            drawing.draw_line(cell.axes, rows, look, KEPT)
    entries = layout.line_entries(COMPARED, [words.level(line, level) for level in known])
    pairs: layout.Entry = ("95% interval of pairs", {"marker": "|", "ls": "none", "ms": 9})
    layout.finish(figure, cells, [], [*entries, pairs])
    return figure


@styled
def bounds(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measures: Sequence[str] = ("bound", "moved"),
    prefix: str = "keep_",
    panel: str = "keys",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a few measures against the number of keys kept, a line each.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    methods : sequence of str, optional
        Points; default all.
    measures : sequence of str
        What is shown.
    prefix : str
        Methods ``<prefix>1``, ``<prefix>2``, … are shown, by number.
    panel : str
        Factor that tells panels apart.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, measures, where, methods)
    table = numbered(table, "method", prefix)
    if table.empty:
        return blank(absent(measures, where, methods or [f"{prefix}…"]))
    unit = words.measure(measures[0]).removeprefix(words.label(measures[0])).strip()
    figure, cells = _panels(table, words, "measure", panel, f"distance {unit}".strip())
    for cell in cells:
        for _, rows in series(cell.table.drop(columns="method"), ["measure"], KEPT):
            look = COMPARED[list(measures).index(rows["measure"].iloc[0])]
            drawing.draw_line(cell.axes, rows, look, KEPT)
    entries = layout.line_entries(COMPARED, [words.label(name) for name in measures])
    layout.finish(figure, cells, [], [*entries, layout.INTERVAL])
    return figure


@styled
def ranking(
    results: Tables,
    where: Where = None,
    method: str = "dot_32",
    measure: str = "common",
    contrast: str = "dot_cost",
    x: str = "keys",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw what two rankings of keys have in common, and what the other ranking costs.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method : str
        The method that ranks otherwise.
    measure : str
        Its measure of agreement, in the left panel.
    contrast : str
        The ratio of errors in the right panel.
    x : str
        The factor whose levels are set side by side.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    shared = performance(results.performance, [measure], where, [method])
    cost = select(results.contrasts, {**dict(where or {}), "contrast": contrast})
    if shared.empty or cost.empty:
        return blank(absent([measure, contrast], where, [method]))
    figure, axes = panels(1, 2, height=2.4)
    other = words.method(str(cost["baseline"].iloc[0]))
    for one, table, name in zip(
        axes[0],
        (shared, cost),
        (words.measure(measure), f"error over that of {other}"),
        strict=True,
    ):
        check_single(table, [x])
        order = table[x].tolist()
        places = np.arange(len(order))
        half = Z95 * table["mcse"].to_numpy(dtype=float)
        estimates = table["estimate"].to_numpy(dtype=float)
        one.errorbar(places, estimates, yerr=half, color="#000000", marker="o", ls="none")
        one.set_xticks(places, [words.short(level) for level in order])
        one.set_xlim(-0.6, len(order) - 0.4)
        one.set_ylabel(name)
    axes[0, 0].set_ylim(-0.05, 1.05)
    axes[0, 1].set_yscale("log")
    axes[0, 1].axhline(1.0, **ONE)
    layout.key(figure, [layout.INTERVAL])
    return figure


def numbered(table: pd.DataFrame, column: str, prefix: str) -> pd.DataFrame:
    """Return the rows whose name is the prefix and a number, with that number as ``n_keep``."""
    number = table[column].astype(str).str.extract(rf"^{prefix}(\d+)$", expand=False)
    return table.assign(**{KEPT: pd.to_numeric(number)})[number.notna()]


def _panels(
    table: pd.DataFrame, words: Words, by: str, panel: str, ylabel: str
) -> tuple[Figure, list[layout.Cell]]:
    """Return panels on logarithmic axes, one a level of ``panel``."""
    check_single(table, [panel, by, KEPT])
    order = table[panel].drop_duplicates().tolist()
    figure, cells = layout.grid(
        table,
        words,
        (None, [None]),
        (panel, order),
        x=KEPT,
        x_log=True,
        xlabel=XLABEL,
        ylabel=ylabel,
        sharey="all",
        height=2.4,
    )
    for cell in cells:
        cell.axes.set_title(words.level(panel, cell.column))
    return figure, cells
