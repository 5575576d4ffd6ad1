"""Panels and what surrounds the data: axis names, labels at line ends, the key below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from nwsim._typing import FloatArray
from nwsim.report.drawing import STATED
from nwsim.report.frames import levels
from nwsim.report.style import panels

LABEL_POINTS = 7.0

SHORT = {"mse": "MSE", "bias2": "squared bias"}
LABELS = {
    "mse": "integrated MSE (unit of y²)",
    "bias2": "integrated squared bias (unit of y²)",
    "variance": "integrated variance (unit of y²)",
    "bias_ratio": "bias / asymptotic bias",
    "variance_ratio": "variance / asymptotic variance",
}
N_LABEL = "number of observations $n$"


def axis_name(measure: str) -> str:
    """Return the name of a measure, with its unit, as it stands beside an axis."""
    return LABELS.get(measure, measure)


INTERVAL = ("estimate, 95% Monte Carlo interval", {"marker": "o"})
LEVEL = ("theory", {"ls": (0, (1, 1.4))})
THEORY = ("slope of the theory", STATED)
BRACKETED = ("slope of the theory (in brackets, after the fitted one)", STATED)


@dataclass(frozen=True)
class EndLabel:
    """A label that belongs to the last point of a line."""

    axes: Axes
    x: float
    y: float
    text: str
    colour: str


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
    sharey: str | bool = False,
    height: float = 2.1,
) -> tuple[Figure, Any, list[EndLabel]]:
    """Return panels whose axes already have their scales, limits and names."""
    columns = levels(table, column_name) if columns is None else columns
    figure, axes = panels(len(rows), len(columns), height=height, sharey=sharey)
    for (i, j), panel in np.ndenumerate(axes):
        part = table
        if sharey != "all":
            part = part if row_name is None else part[part[row_name] == rows[i]]
            part = part if sharey == "row" else part[part[column_name] == columns[j]]
        if log:
            limits_log(panel, part["estimate"].to_numpy(dtype=float))
        own = table[table[column_name] == columns[j]]
        sample_size_axis(panel, (own if len(own) else table)[x].to_numpy(dtype=float))
        if i == len(rows) - 1:
            panel.set_xlabel(N_LABEL)
        if j == 0:
            panel.set_ylabel(axis_name(rows[i]) if row_name == "measure" else ylabel or "")
    return figure, axes, []


def add_label(
    labels: list[EndLabel], panel: Axes, end: tuple[float, float] | None, text: str, colour: str
) -> None:
    """Remember a label for the last point of a line, if the line has one."""
    if end is not None:
        labels.append(EndLabel(panel, end[0], end[1], text, colour))


def limits_log(axes: Axes, values: FloatArray, room: float = 1.7) -> None:
    """Set a logarithmic y axis around the positive values."""
    positive = values[np.isfinite(values) & (values > 0)]
    axes.set_yscale("log", nonpositive="clip")
    if positive.size:
        axes.set_ylim(float(positive.min()) / room, float(positive.max()) * room)
        log_ticks(axes.yaxis)


def sample_size_axis(axes: Axes, values: Sequence[float] | FloatArray) -> None:
    """Make x a logarithmic axis of sample sizes."""
    axes.set_xscale("log")
    axes.set_xlim(float(np.min(values)) / 1.3, float(np.max(values)) * 1.3)
    log_ticks(axes.xaxis)


def log_ticks(axis: Axis) -> None:
    """Label decades, or 1, 2 and 5 times them where the axis holds less than two decades."""
    low, high = axis.get_view_interval()
    axis.set_minor_formatter(NullFormatter())
    if high / low < 100:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def place_labels(figure: Figure, labels: Sequence[EndLabel]) -> None:
    """Write the labels to the right of their axes, moved apart so that none overlaps.

    The panels' heights are those of the layout, so this comes after all else is drawn.
    """
    figure.draw_without_rendering()
    for axes in figure.axes:
        own = [label for label in labels if label.axes is axes]
        if not own:
            continue
        to_axes = axes.transData + axes.transAxes.inverted()
        wanted = np.array([to_axes.transform((label.x, label.y))[1] for label in own])
        points = axes.get_window_extent().height / figure.dpi * 72.0
        height_lines = max(label.text.count("\n") + 1 for label in own)
        heights = spread(
            wanted, (1.2 * height_lines + 0.15 * (height_lines - 1)) * LABEL_POINTS / points
        )
        for label, height in zip(own, heights, strict=True):
            axes.annotate(
                label.text,
                xy=(label.x, label.y),
                xytext=(1.05, height),
                textcoords="axes fraction",
                color=label.colour,
                fontsize=LABEL_POINTS,
                va="center",
                ha="left",
                linespacing=1.05,
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-",
                    "color": label.colour,
                    "lw": 0.4,
                    "alpha": 0.7,
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


def key(figure: Figure, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Explain the kinds of marks below the panels, where no data can be covered."""
    handles = [
        Line2D([], [], **({"color": "#444444"} | options), label=text) for text, options in entries
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), handlelength=2.6)
