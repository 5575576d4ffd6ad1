"""Panels and what surrounds the data: axis names, labels at line ends, the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nwsim._typing import FloatArray
from nwsim.exceptions import ParameterError
from nwsim.report.drawing import PRINTED, STATED
from nwsim.report.style import DOTTED, Look, ink, panels
from nwsim.report.ticks import limits_log, sample_size_axis, value_axis
from nwsim.report.words import Words

LABEL_POINTS = 7.0
LABEL_X = 1.05
MARGIN = 0.02  # of the page's width, left free beside the key

INTERVAL = ("estimate, 95% Monte Carlo interval", {"marker": "o"})
LEVEL = ("theory", {"ls": DOTTED})

Entry = tuple[str, dict[str, Any]]
"""A text of the key and the look of the mark that it explains."""


def claim_key(claims: Sequence[str] | None, printed: Sequence[str] = ()) -> list[Entry]:
    """Return entries of the key for slopes that are drawn, and for those printed elsewhere."""
    entries: list[Entry] = []
    if claims is None or claims:
        text = f"slope of claim {' or '.join(claims)}" if claims else "slope of the theory"
        entries.append((text, STATED))
    if printed:
        entries.append((f"slope of claim {' or '.join(printed)}", PRINTED))
    return entries


@dataclass(frozen=True)
class EndLabel:
    """A label that belongs to the last point of a line."""

    axes: Axes
    x: float
    y: float
    text: str
    colour: str


@dataclass(frozen=True)
class Cell:
    """A panel and the rows of the table that belong into it, of which there are some."""

    axes: Axes
    row: Any
    column: Any
    table: pd.DataFrame


def grid(
    table: pd.DataFrame,
    words: Words,
    rows: tuple[str | None, Sequence[Any]],
    columns: tuple[str | None, Sequence[Any]],
    *,
    x: str,
    x_log: bool,
    xlabel: str,
    ylabel: str | None,
    at: str | None = None,
    log: bool = True,
    sharey: Any = False,
    height: float = 2.1,
    room: float = 1.3,
) -> tuple[Figure, list[Cell]]:
    """Return panels whose axes already have their scales, limits and names.

    Combinations of row and column without data get no panel. A column shares one range of x,
    so that slopes may be compared down the page.

    Parameters
    ----------
    table : DataFrame
        All rows of the page.
    words : Words
        Texts.
    rows, columns : tuple of (str or None, sequence)
        Column of the table and its levels, one row or column of panels each; (None, [None])
        for a single one.
    x : str
        The factor along the horizontal axis.
    x_log : bool
        Whether that axis is logarithmic.
    xlabel : str
        Its name.
    ylabel : str, optional
        Name of the vertical axis; None if each row of panels is a measure with its own.
    at : str, optional
        Column that has the places, if not ``x``.
    log : bool
        Whether the vertical axis is logarithmic.
    sharey : bool or str
        As in ``Figure.subplots``.
    height, room : float
        Inches of a panel; how far the horizontal axis goes on at both ends.

    Raises
    ------
    ParameterError
        If ``x`` is no number, or not positive on a logarithmic axis.
    """
    check_axis(table, x, at or x, x_log)
    figure, axes = panels(len(rows[1]), len(columns[1]), height=height, sharey=sharey)
    cells = []
    for (i, j), panel in np.ndenumerate(axes):
        own = part_of(part_of(table, rows[0], rows[1][i]), columns[0], columns[1][j])
        if own["estimate"].notna().any():
            cells.append(Cell(panel, rows[1][i], columns[1][j], own))
        else:
            panel.remove()
    for cell in cells:
        part, column = cell.table, part_of(table, columns[0], cell.column)
        if sharey == "all":
            part = table
        elif sharey == "row":
            part = part_of(table, rows[0], cell.row)
        elif sharey == "col":
            part = column
        if log:
            limits_log(cell.axes, part["estimate"].to_numpy(dtype=float))
        places = column[at or x].to_numpy(dtype=float)
        if x_log:
            sample_size_axis(cell.axes, places, room)
        else:
            value_axis(cell.axes, places)
        if not any(other.column == cell.column for other in cells[cells.index(cell) + 1 :]):
            cell.axes.set_xlabel(xlabel)
        if not any(other.row == cell.row for other in cells[: cells.index(cell)]):
            name = words.measure(str(cell.row)) if ylabel is None else ylabel
            cell.axes.set_ylabel(folded(name, height))
            cell.axes.tick_params(labelleft=True)
    return figure, cells


def part_of(table: pd.DataFrame, name: str | None, level: Any) -> pd.DataFrame:
    """Return the rows with this level; all, if there is no such column to choose by."""
    return table if name is None else table[table[name] == level]


def check_axis(table: pd.DataFrame, x: str, at: str, x_log: bool) -> None:
    """Refuse a horizontal axis that its scale cannot show."""
    if not pd.api.types.is_numeric_dtype(table[at]):
        raise ParameterError(f"x must be a factor whose levels are numbers; got {x!r}")
    if x_log and (table[at] <= 0).any():
        raise ParameterError(f"x_log must be False: {x!r} has levels that are not positive")


def folded(name: str, height: float) -> str:
    """Return the name of a vertical axis in lines that a panel has room for."""
    return "\n".join(wrap(name, max(12, int(14.0 * height)), break_long_words=False))


def aside(places: FloatArray, position: int, count: int, x_log: bool) -> float:
    """Return how far the points of a line stand beside their places.

    Intervals of different lines are then beside each other, not one in front of another. It
    is a factor on a logarithmic axis, else a summand; the lines of a panel are spread about
    the true place, over at most half the way to the next.
    """
    turn = (position - (count - 1) / 2) * min(0.5 / count, 0.08)
    known = np.unique(places)
    if x_log:
        return float(np.min(known[1:] / known[:-1]) if len(known) > 1 else 2.0) ** turn
    return float(np.min(np.diff(known)) if len(known) > 1 else 0.1) * turn


def heading(axes: Axes, text: str, height: float = 1.02) -> None:
    """Write what the labels of a panel say, above them."""
    axes.text(LABEL_X, height, text, transform=axes.transAxes, fontsize=LABEL_POINTS, va="bottom")


def add_label(
    labels: list[EndLabel], panel: Axes, end: tuple[float, float] | None, text: str, colour: str
) -> None:
    """Remember a label for the last point of a line, if the line has one."""
    if end is not None:
        labels.append(EndLabel(panel, end[0], end[1], text, colour))


def finish(
    figure: Figure,
    cells: Sequence[Cell],
    labels: Sequence[EndLabel],
    entries: Sequence[Entry],
    headings: Mapping[Axes, str] | None = None,
) -> None:
    """Add the key and the labels at line ends with their headings, and fix the layout.

    The key stands in the place of missing panels at the lower right, or else below the panels.
    """
    free = free_place(cells)
    if free is None:
        key(figure, entries)
    place_labels(figure, labels, headings or {})
    if free is not None:
        above, beside = free
        left, middle = above.get_position().x0, beside.get_position()
        figure.legend(
            handles=handles_of(entries),
            loc="center left",
            bbox_to_anchor=(left, (middle.y0 + middle.y1) / 2.0),
            handlelength=2.6,
            borderaxespad=0.0,
        )


def free_place(cells: Sequence[Cell]) -> tuple[Axes, Axes] | None:
    """Return the panel above and the panel left of the free lower right corner, if it is free."""
    places = {
        (spec.rowspan.start, spec.colspan.start): (cell.axes, spec.get_gridspec())
        for cell in cells
        if (spec := cell.axes.get_subplotspec()) is not None
    }
    last = max(row for row, _ in places)
    end = max(column for row, column in places if row == last)
    above = [axes for (_, column), (axes, _) in sorted(places.items()) if column == end + 1]
    return (above[-1], places[last, end][0]) if above else None


def place_labels(figure: Figure, labels: Sequence[EndLabel], headings: Mapping[Axes, str]) -> None:
    """Write the labels to the right of the lines, moved apart so that none overlaps.

    The panels' heights are those of the layout, so this comes after all else is drawn.
    """
    figure.draw_without_rendering()
    for axes in figure.axes:
        own = [label for label in labels if label.axes is axes]
        if not own:
            continue
        to_axes = axes.transData + axes.transAxes.inverted()
        ends = np.array([to_axes.transform((label.x, label.y)) for label in own])
        points = axes.get_window_extent().height / figure.dpi * 72.0
        height_lines = max(label.text.count("\n") + 1 for label in own)
        gap = (1.2 * height_lines + 0.15 * (height_lines - 1)) * LABEL_POINTS / points
        heights = inside(spread(ends[:, 1], gap), gap)
        if axes in headings:
            above = float(heights.max()) + (0.65 * height_lines + 0.15) * LABEL_POINTS / points
            heading(axes, headings[axes], above)
        # Where all lines end early, their labels follow them into the panel: a long leader
        # would look like data.
        right = float(ends[:, 0].max())
        column = LABEL_X if right > 0.9 else right + 0.1
        for label, end, height in zip(own, ends, heights, strict=True):
            axes.annotate(
                label.text,
                xy=(label.x, label.y),
                xytext=(column, height),
                textcoords="axes fraction",
                color=ink(label.colour),
                fontsize=LABEL_POINTS,
                va="center",
                ha="left",
                linespacing=1.05,
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-",
                    # A long one is grey: neither data nor, were it dotted, theory.
                    "color": label.colour if column - end[0] < 0.2 else "#9A9A9A",
                    "lw": 0.5 if column - end[0] < 0.2 else 0.35,
                    "alpha": 0.8,
                    "shrinkA": 0.5,
                    "shrinkB": 2.5,
                    "relpos": (0.0, 0.5),
                },
            )
    # Laid out once, for the labels too: PDF and PNG then agree, and saving is quick.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def spread(wanted: FloatArray, gap: float) -> FloatArray:
    """Return positions at least ``gap`` apart, in the same order and near those wanted.

    Neighbours that are too close form a block that is centred on its members' mean, until no
    block touches the next (pool adjacent violators on ``wanted - rank * gap``).
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[tuple[float, int]] = []
    for rank, index in enumerate(order):
        mean, count = float(wanted[index]) - rank * gap, 1
        while blocks and blocks[-1][0] >= mean:
            below, members = blocks.pop()
            mean = (below * members + mean * count) / (members + count)
            count += members
        blocks.append((mean, count))
    flat = np.concatenate([np.full(count, mean) for mean, count in blocks])
    placed = np.empty_like(wanted, dtype=float)
    placed[order] = flat + gap * np.arange(len(wanted))
    return placed


def inside(placed: FloatArray, gap: float) -> FloatArray:
    """Move positions that are ``gap`` apart into [0, 1], half a gap from its ends.

    Both bounds rise by one gap from a position to the next, so no two come closer. If there
    is not room for all, the lowest stand below 0.
    """
    order = np.argsort(placed, kind="stable")
    ranks = np.empty_like(placed)
    ranks[order] = gap * np.arange(len(placed))
    top = 1.0 - gap / 2.0 - ranks.max() + ranks
    return np.minimum(np.maximum(placed, gap / 2.0 + ranks), top)


def line_entries(looks: Sequence[Look], texts: Sequence[str], ls: str = "-") -> list[Entry]:
    """Return an entry of the key for each line of a page, with its text."""
    own = (looks[position % len(looks)] for position in range(len(texts)))
    return [
        (text, {"color": look.color, "marker": look.marker, "ls": ls})
        for text, look in zip(texts, own, strict=True)
    ]


def handles_of(entries: Sequence[Entry]) -> list[Line2D]:
    """Return a sample of each kind of mark, with its explanation."""
    base: dict[str, Any] = {"color": "#444444"}
    return [Line2D([], [], **(base | options), label=text) for text, options in entries]


def key(figure: Figure, entries: Sequence[Entry]) -> None:
    """Explain the kinds of marks below the panels, in as few lines as the page is wide."""
    handles = handles_of(entries)
    for columns in range(len(entries), 0, -1):
        legend = figure.legend(
            # A legend is filled column by column, and read line by line.
            handles=[handle for first in range(columns) for handle in handles[first::columns]],
            loc="outside lower center",
            ncols=columns,
            handlelength=2.6,
        )
        if columns == 1 or legend.get_window_extent().width <= (1 - 2 * MARGIN) * figure.bbox.width:
            return
        legend.remove()
