"""Figures of the scaling curves, from ``scaling.csv`` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nwsim.exceptions import ParameterError
from nwsim.report.drawing import STATED, number_text
from nwsim.report.figures import save_figure
from nwsim.report.layout import Cell, EndLabel, Entry, add_label, finish, key, line_entries
from nwsim.report.style import COMPARED, DOTTED, Look, blank, panels, styled
from nwsim.report.ticks import limits_log, sample_size_axis

AXES = {"n_obs": "sample size $n$", "n_queries": "queries $m$"}
PER_ROW = 3
AUTO = "auto"
AUTO_LOOK: dict[str, Any] = {**STATED, "color": "#000000"}
WRONG: dict[str, Any] = {"ls": "none", "marker": "x", "color": "#D55E00", "ms": 9.0, "mew": 1.6}
PROCESSES = {
    "study": "a study",
    "study_less_startup": "less its start-up",
    "machine": "no runner",
}
"""Lines of the panel of workers, and what they are called."""


def draw_scaling(folder: Path) -> list[Path]:
    """Draw the pages of ``scaling.csv`` in a folder into its ``figures/``.

    Raises
    ------
    ParameterError
        If the folder has no such table.
    """
    table = read_table(folder, "scaling.csv")
    figures = Path(folder) / "figures"
    return [
        *save_figure(engines(table, "n_obs"), figures, "scaling_n_obs"),
        *save_figure(engines(table, "n_queries"), figures, "scaling_n_queries"),
        *save_figure(sizes(table), figures, "scaling_sizes"),
    ]


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """Return a table of a folder, or refuse a folder that has none of that name."""
    path = Path(folder) / name
    if not path.is_file():
        raise ParameterError(f"folder must hold {name}, which a benchmark writes; got {folder}")
    return pd.read_csv(path)


@styled
def engines(table: pd.DataFrame, curve: str) -> Figure:
    """Draw seconds of a call by engine: a panel a kernel and dimension.

    Beside a line's end stands its slope between the last two points. What ``auto`` took lies
    under the lines, wide and pale.

    Parameters
    ----------
    table : DataFrame
        ``scaling.csv``.
    curve : {"n_obs", "n_queries"}
        What grows along x.
    """
    own = table[table["curve"] == curve]
    if own.empty:
        return blank(f"no curve {curve}")
    settings = list(own.groupby(["dim", "kernel"], sort=False))
    settings.sort(key=lambda entry: (entry[0][0], list(own["kernel"].unique()).index(entry[0][1])))
    names = [name for name in own["engine"].unique() if name != AUTO]
    n_rows = -(-len(settings) // PER_ROW)
    figure, axes = panels(n_rows, PER_ROW, sharey="all")
    cells: list[Cell] = []
    labels: list[EndLabel] = []
    for place, panel in enumerate(axes.flat):
        if place >= len(settings):
            panel.remove()
            continue
        (dim, kernel), part = settings[place]
        cells.append(Cell(panel, place // PER_ROW, place % PER_ROW, part))
        panel.set_title(
            f"{str(kernel).capitalize()}, $d = {dim}$, $h = {part['bandwidth'].iloc[0]:g}$"
        )
        sample_size_axis(panel, part["x"].to_numpy(float))
        auto = part[part["engine"] == AUTO]
        panel.plot(auto["x"], auto["median_s"], **AUTO_LOOK)
        for name, look in looks(names).items():
            line = part[part["engine"] == name]
            end = draw_times(panel, line, look)
            slope = line["local_slope"].iloc[-1] if len(line) else np.nan
            if np.isfinite(slope):
                add_label(labels, panel, end, number_text(slope, 2), look.color)
        mark_wrong(panel, part)
        if place % PER_ROW == 0:
            panel.set_ylabel("seconds a call")
            panel.tick_params(labelleft=True)
        if place + PER_ROW >= len(settings):
            panel.set_xlabel(AXES[curve])
    limits_log(cells[0].axes, own[["q25_s", "q75_s"]].to_numpy(float).ravel())
    entries = [*line_entries(list(looks(names).values()), names), (AUTO, AUTO_LOOK)]
    entries.append(("median and quartiles of rounds", {"marker": "o"}))
    entries += wrong_entry(own)
    finish(figure, cells, labels, entries, {cell.axes: "slope" for cell in cells})
    return figure


@styled
def sizes(table: pd.DataFrame) -> Figure:
    """Draw seconds against dimension and number of heads, and what a second worker is worth.

    Parameters
    ----------
    table : DataFrame
        ``scaling.csv``.
    """
    figure, axes = panels(1, 3)
    for panel, curve, name in (
        (axes[0, 0], "dim", "dimension $d$, direct"),
        (axes[0, 1], "n_heads", "heads $H$, all moments"),
    ):
        own = table[table["curve"] == curve]
        if own.empty:
            panel.remove()
            continue
        sample_size_axis(panel, own["x"].to_numpy(float))
        draw_times(panel, own, COMPARED[0])
        mark_wrong(panel, own)
        limits_log(panel, own[["q25_s", "q75_s"]].to_numpy(float).ravel(), room=2.0)
        panel.set_xlabel(name)
        panel.set_ylabel("seconds a call")
    _workers(axes[0, 2], table[table["curve"] == "workers"])
    entries: list[Entry] = [
        ("median and quartiles of rounds", {"marker": "o"}),
        ("as many times faster as there are workers", {"ls": DOTTED}),
    ]
    key(figure, entries + wrong_entry(table[table["curve"].isin(["dim", "n_heads"])]))
    return figure


def _workers(panel: Axes, own: pd.DataFrame) -> None:
    """Draw speed-ups of the largest number of workers as dots, a row a line of the curve."""
    if own.empty:
        panel.remove()
        return
    most = int(own["x"].max())
    rows = own[own["x"] == most].set_index("engine")
    names = [name for name in PROCESSES if name in rows.index]
    for height, name in enumerate(reversed(names)):
        row = rows.loc[name]
        speedup = 1.0 / row["ratio"]
        reach = [[speedup - 1.0 / row["ratio_q75"]], [1.0 / row["ratio_q25"] - speedup]]
        panel.errorbar([speedup], [height], xerr=reach, color=COMPARED[0].color, marker="o")
    panel.axvline(most, color="#444444", ls=DOTTED, lw=1.0)
    panel.set_yticks(range(len(names)), [PROCESSES[name] for name in reversed(names)])
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_xlim(min(1.0, 0.95 / float(rows.loc[names, "ratio_q75"].max())), most * 1.08)
    panel.set_xlabel(f"speed-up by {most} workers")


def looks(names: Sequence[str]) -> Mapping[str, Look]:
    """Return the look of each engine, the same in every panel."""
    return {name: COMPARED[place % len(COMPARED)] for place, name in enumerate(names)}


def draw_times(panel: Axes, line: pd.DataFrame, look: Look) -> tuple[float, float] | None:
    """Draw medians with their quartiles; return the last point drawn."""
    if line.empty:
        return None
    line = line.sort_values("x")
    x, median = line["x"].to_numpy(float), line["median_s"].to_numpy(float)
    reach = np.stack(
        [median - line["q25_s"].to_numpy(float), line["q75_s"].to_numpy(float) - median]
    )
    panel.errorbar(x, median, yerr=reach, color=look.color, marker=look.marker, elinewidth=0.8)
    return float(x[-1]), float(median[-1])


def mark_wrong(panel: Axes, part: pd.DataFrame) -> None:
    """Cross out points whose answers were wrong."""
    wrong = part[part["status"] != "ok"]
    panel.plot(wrong["x"], wrong["median_s"], **WRONG)


def wrong_entry(part: pd.DataFrame) -> list[Entry]:
    """Return the key's entry for points that are crossed out, if there are any."""
    return [("answer beyond tolerance", WRONG)] if (part["status"] != "ok").any() else []
