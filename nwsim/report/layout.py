"""Panels and what surrounds the data: axis names, labels at line ends, the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nwsim._typing import FloatArray
from nwsim.report.drawing import PRINTED, STATED
from nwsim.report.frames import levels
from nwsim.report.style import ink, panels
from nwsim.report.ticks import limits_log, sample_size_axis

LABEL_POINTS = 7.0
LABEL_X = 1.05
MARGIN = 0.02  # of the page's width, left free beside the key

SHORT = {"mse": "MSE", "bias2": "squared bias"}
LABELS = {
    "mse": "integrated MSE (unit of $y^2$)",
    "bias2": "integrated squared bias (unit of $y^2$)",
    "variance": "integrated variance (unit of $y^2$)",
    "bias_ratio": "bias / asymptotic bias",
    "variance_ratio": "variance / asymptotic variance",
}
METHODS = {"rate": "bandwidth of the theorem", "oracle": "best bandwidth", "loo": "leave-one-out"}
N_LABEL = "number of observations $n$"


def axis_name(measure: str) -> str:
    """Return the name of a measure, with its unit, as it stands beside an axis."""
    return LABELS.get(measure, measure)


def method_name(method: str) -> str:
    """Return the name of a method as it stands in a title."""
    return METHODS.get(method, method.replace("_", " "))


def alpha_text(alpha: float) -> str:
    """Return an alpha as it stands in titles and labels."""
    return f"$\\alpha = {alpha:g}$"


def factor_text(name: str, level: Any) -> str:
    """Return a level of a factor as it stands beside a line."""
    return {"dim": f"$d = {level}$", "alpha": f"$\\alpha = {level}$"}.get(name, str(level))


INTERVAL = ("estimate, 95% Monte Carlo interval", {"marker": "o"})
LEVEL = ("theory", {"ls": (0, (1, 1.4))})
THEORY = ("slope of the theory", STATED)
BRACKETED = ("slope of the theory (in brackets, after the fitted one)", STATED)


def claim_key(claim: str, printed: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return entries of the key for the slope of a claim and for one printed elsewhere."""
    entries: list[tuple[str, dict[str, Any]]] = [(f"slope of claim {claim}", STATED)]
    return entries + ([(f"slope that {printed} states", PRINTED)] if printed else [])


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
    rows: Sequence[Any],
    row_name: str | None,
    ylabel: str | None,
    column_name: str = "dim",
    columns: Sequence[Any] | None = None,
    *,
    x: str = "n_obs",
    log: bool = True,
    sharey: Any = False,
    height: float = 2.1,
    room: float = 1.3,
) -> tuple[Figure, list[Cell]]:
    """Return panels whose axes already have their scales, limits and names.

    Combinations of row and column without data get no panel. A column shares one range of
    sample sizes, so that slopes may be compared down the page.
    """
    columns = levels(table, column_name) if columns is None else columns
    figure, axes = panels(len(rows), len(columns), height=height, sharey=sharey)
    cells = []
    for (i, j), panel in np.ndenumerate(axes):
        own = table if row_name is None else table[table[row_name] == rows[i]]
        own = own[own[column_name] == columns[j]]
        if own["estimate"].notna().any():
            cells.append(Cell(panel, rows[i], columns[j], own))
        else:
            panel.remove()
    for cell in cells:
        part = cell.table
        if sharey == "all":
            part = table
        elif sharey == "row" and row_name is not None:
            part = table[table[row_name] == cell.row]
        elif sharey == "col":
            part = table[table[column_name] == cell.column]
        if log:
            limits_log(cell.axes, part["estimate"].to_numpy(dtype=float))
        sizes = table[table[column_name] == cell.column][x].to_numpy(dtype=float)
        sample_size_axis(cell.axes, sizes, room)
        if not any(other.column == cell.column for other in cells[cells.index(cell) + 1 :]):
            cell.axes.set_xlabel(N_LABEL)
        if not any(other.row == cell.row for other in cells[: cells.index(cell)]):
            cell.axes.set_ylabel(axis_name(cell.row) if row_name == "measure" else ylabel or "")
            cell.axes.tick_params(labelleft=True)
    return figure, cells


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
    entries: Sequence[tuple[str, dict[str, Any]]],
) -> None:
    """Add the key and the labels at line ends, and fix the layout.

    The key stands in the place of missing panels at the lower right, or else below the panels.
    """
    free = free_place(cells)
    if free is None:
        key(figure, entries)
    place_labels(figure, labels)
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


def place_labels(figure: Figure, labels: Sequence[EndLabel]) -> None:
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
                    "color": label.colour,
                    "lw": 0.5,
                    "ls": "-" if column - end[0] < 0.2 else (0, (1.0, 2.5)),
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


def handles_of(entries: Sequence[tuple[str, dict[str, Any]]]) -> list[Line2D]:
    """Return a sample of each kind of mark, with its explanation."""
    return [
        Line2D([], [], **({"color": "#444444"} | options), label=text) for text, options in entries
    ]


def key(figure: Figure, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Explain the kinds of marks below the panels, in as few lines as the page is wide."""
    for columns in range(len(entries), 0, -1):
        legend = figure.legend(
            handles=handles_of(entries),
            loc="outside lower center",
            ncols=columns,
            handlelength=2.6,
        )
        if columns == 1 or legend.get_window_extent().width <= (1 - 2 * MARGIN) * figure.bbox.width:
            return
        legend.remove()
