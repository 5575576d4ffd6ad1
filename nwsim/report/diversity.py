"""Figures of an ensemble's error along a path of diversity, from the results tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from nwsim._files import level_text
from nwsim.exceptions import ParameterError
from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, check_single, levels, performance, select, series
from nwsim.report.slopes import Tables
from nwsim.report.style import COMPARED, DOTTED, Look, blank, look_of, styled
from nwsim.report.words import Words

PART_COLOURS = {"bias2": "#56B4E9", "variance": "#E69F00", "head_covariance": "#CC79A7"}
"""Fills of the parts of the error, in the order in which they are stacked."""

PER_ROW = 3
TOTAL = Look("#000000", "o")
LINES = tuple(look_of(position) for position in range(7))
FLOOR: dict[str, Any] = {"color": "#000000", "ls": DOTTED, "lw": 1.0}


def wrapped(table: pd.DataFrame, panel: str) -> pd.DataFrame:
    """Return the table with the row and the column of each panel, a few to a row."""
    order = table[panel].drop_duplicates().tolist()
    place = table[panel].map(order.index)
    return table.assign(_row=place // PER_ROW, _column=place % PER_ROW)


def _panels(
    table: pd.DataFrame, words: Words, by: str, panel: str, x: str, ylabel: str, log: bool = False
) -> tuple[Figure, list[layout.Cell]]:
    """Return named panels, one a level of ``panel``, with one row a level of ``by`` and of x."""
    check_single(table, [panel, by, x])
    table = wrapped(table, panel)
    figure, cells = layout.grid(
        table,
        words,
        ("_row", levels(table, "_row")),
        ("_column", levels(table, "_column")),
        x=x,
        x_log=False,
        xlabel=words.axis(x),
        ylabel=ylabel,
        log=log,
    )
    for cell in cells:
        cell.axes.set_title(words.level(panel, cell.table[panel].iloc[0]))
    return figure, cells


@styled
def stacked(
    results: Tables,
    where: Where = None,
    method: str = "fixed",
    parts: Sequence[str] = tuple(PART_COLOURS),
    total: str = "mse",
    floor: str = "floor2",
    panel: str = "world",
    x: str = "hdi",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the parts of the error one upon another along x: a panel a level of ``panel``.

    The line on top is the total with its intervals. The dotted line is the squared bias that
    no sample removes, where the tables have it.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method : str
        The one method shown.
    parts, total, floor : measures
        What is stacked, what the line on top shows, and the dotted line.
    panel, x : str
        Factors of the panels and of the horizontal axis.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    wanted = [*parts, total, floor]
    table = performance(results.performance, wanted, where, [method])
    if table.empty:
        return blank(absent(wanted, where, [method]))
    figure, cells = _panels(table, words, "measure", panel, x, words.measure(total))
    for cell in cells:
        axes = cell.axes
        rows = {str(name): part.sort_values(x) for name, part in cell.table.groupby("measure")}
        below = np.zeros(len(rows[total]))
        for part in parts:
            above = below + rows[part]["estimate"].to_numpy(dtype=float)
            colour = PART_COLOURS.get(part, "#999999")
            axes.fill_between(rows[part][x], below, above, color=colour, lw=0)
            below = above
        if floor in rows:
            axes.plot(rows[floor][x], rows[floor]["estimate"], **FLOOR)
        drawing.draw_line(axes, rows[total], TOTAL, x, log=False, x_log=False)
        axes.set_ylim(0.0, None)
    entries: list[layout.Entry] = [(f"{words.label(total)}, 95% interval", {"marker": "o"})]
    entries += [
        (words.label(part), {"color": PART_COLOURS.get(part, "#999999"), "lw": 6})
        for part in reversed(parts)
    ]
    if (table["measure"] == floor).any():
        entries.append((words.label(floor), FLOOR))
    layout.finish(figure, cells, [], entries)
    return figure


@styled
def relative(
    results: Tables,
    where: Where = None,
    method: str = "fixed",
    measure: str = "mse",
    panel: str = "world",
    line: str = "n_obs",
    x: str = "hdi",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure over its value at the first level of x, with intervals of the pairs.

    Parameters
    ----------
    results : Tables
        Frames of one study; the ratios are its contrasts along ``x``.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method, measure : str
        What is shown.
    panel, line, x : str
        Factors of the panels, of the lines and of the horizontal axis.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    wanted = {"measure": measure, "method": method, "factor": x, "kind": "ratio"}
    table = select(results.contrasts, {**dict(where or {}), **wanted})
    if table.empty:
        return blank(absent([measure], where, [method]) + f" among the contrasts along {x}")
    ylabel = f"{words.label(measure)} over that at {words.symbol(x)} = {table['baseline'].iloc[0]}"
    figure, cells = _panels(table, words, line, panel, x, ylabel)
    known = levels(table, line)
    for cell in cells:
        cell.axes.axhline(1.0, color="#444444", lw=0.8, zorder=1.2)
        for condition, rows in series(cell.table, [line], x):
            look = COMPARED[known.index(condition[line]) % len(COMPARED)]
            drawing.draw_line(cell.axes, rows, look, x, log=False, x_log=False)
    entries = layout.line_entries(COMPARED, [words.level(line, level) for level in known])
    pairs: layout.Entry = ("95% interval of pairs", {"marker": "|", "ls": "none", "ms": 9})
    layout.finish(figure, cells, [], [*entries, pairs])
    return figure


@styled
def along(
    results: Tables,
    where: Where = None,
    method: str = "fixed",
    measures: Sequence[str] = ("mse", "head_mse"),
    log: bool = False,
    ylabel: str | None = None,
    panel: str = "world",
    x: str = "hdi",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a few measures along x, a line each: a panel a level of ``panel``.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method : str
        The one method shown.
    measures : sequence of str
        What is shown.
    log : bool
        Whether the vertical axis is logarithmic.
    ylabel : str, optional
        Name of the vertical axis; default the name of the first measure.
    panel, x : str
        Factors of the panels and of the horizontal axis.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, measures, where, [method])
    if table.empty:
        return blank(absent(measures, where, [method]))
    ylabel = ylabel or words.measure(measures[0])
    figure, cells = _panels(table, words, "measure", panel, x, ylabel, log)
    for cell in cells:
        for _, rows in series(cell.table, ["measure"], x):
            look = look_of(list(measures).index(rows["measure"].iloc[0]))
            drawing.draw_line(cell.axes, rows, look, x, log=log, x_log=False)
        if not log:
            cell.axes.set_ylim(0.0, None)
    entries = layout.line_entries(LINES, [words.label(name) for name in measures])
    layout.finish(figure, cells, [], [*entries, layout.INTERVAL])
    return figure


@styled
def steps(
    results: Tables,
    where: Where = None,
    method: str = "fixed",
    curve: str = "step",
    measures: Sequence[str] = ("mse", "head_mse"),
    claim: str = "H2",
    panel: str = "world",
    x: str = "hdi",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw steps along x, as parts of the first mean, with the margin of the claim.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method, curve : str
        Which steps are shown.
    measures : sequence of str
        Measures of which each has a line; those of parts are steps relative to the part.
    claim : str
        Id of the claim whose margin and verdicts are shown.
    panel, x : str
        Factors of the panels and of the horizontal axis.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    wanted = {"curve": curve, "measure": list(measures), "method": method, "over": x}
    table = select(results.curves, {**dict(where or {}), **wanted})
    if table.empty:
        return blank(absent(measures, where, [method]) + f" in curve {curve}")
    table = table.assign(**{x: table["x"]})
    margin = _margin(results, claim)
    figure, cells = _panels(table, words, "measure", panel, x, "step over the first mean")
    for cell in cells:
        level = cell.table[panel].iloc[0]
        # The claim is about rises alone.
        cell.axes.axhspan(0.0, margin, color="#EDEDED", lw=0, zorder=0.4)
        cell.axes.axhline(0.0, color="#444444", lw=0.8, zorder=1.2)
        verdict = _verdict(results, claim, {**dict(where or {}), panel: level, "method": method})
        if verdict:
            cell.axes.set_title(f"{words.level(panel, level)}: {verdict}")
        for _, rows in series(cell.table, ["measure"], x):
            position = list(measures).index(rows["measure"].iloc[0])
            shift = layout.aside(
                cell.table[x].to_numpy(dtype=float), position, len(measures), False
            )
            drawing.draw_line(
                cell.axes, rows, look_of(position), x, log=False, x_log=False, shift=shift
            )
    band: layout.Entry = (f"margin of claim {claim}", {"color": "#DDDDDD", "lw": 6})
    entries = layout.line_entries(LINES, [words.label(name) for name in measures])
    layout.finish(figure, cells, [], [*entries, band])
    return figure


def _margin(results: Tables, claim: str) -> float:
    own = results.claims[results.claims["claim"] == claim]
    if own.empty:
        raise ParameterError(f"claim must be the id of a claim of the study; got {claim!r}")
    return float(own["margin"].iloc[0])


def _verdict(results: Tables, claim: str, position: Mapping[str, Any]) -> str:
    """Return the verdict of the one setting of a claim at a position, or an empty text."""
    pairs = {f"{name}={level_text(level)}" for name, level in position.items()}
    own = results.claims[results.claims["claim"] == claim]
    fits = [pairs <= set(str(setting).split(";")) for setting in own["setting"]]
    found = own[fits]["verdict"].tolist()
    return str(found[0]) if len(found) == 1 else ""
