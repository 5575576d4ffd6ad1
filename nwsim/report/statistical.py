"""Figure of the seconds to a given Monte Carlo standard error, from ``statistical.csv`` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nwsim.inference.verdicts import Z95
from nwsim.report.figures import save_figure
from nwsim.report.layout import Entry, key
from nwsim.report.scaling import WRONG, read_table
from nwsim.report.style import COMPARED, DOTTED, WIDTH, Look, blank, new_figure, styled
from nwsim.report.ticks import log_ticks

LOOKS = {
    "conditional": COMPARED[0],
    "plain": COMPARED[1],
    "statsmodels": COMPARED[2],
}
ROW = 0.36
"""Inches of a cell."""

CELL = [
    *("study", "cell", "function", "n_obs", "dim", "kernel", "bandwidth", "n_heads"),
]


def draw_statistical(folder: Path) -> list[Path]:
    """Draw the page of ``statistical.csv`` in a folder into its ``figures/``.

    Raises
    ------
    ParameterError
        If the folder has no such table.
    """
    table = read_table(folder, "statistical.csv")
    return save_figure(routes(table), Path(folder) / "figures", "statistical")


@styled
def routes(table: pd.DataFrame) -> Figure:
    """Draw replicates saved by the conditional route, and seconds to the target by route.

    Parameters
    ----------
    table : DataFrame
        ``statistical.csv``. A row of panels a study, a line a cell.
    """
    if table.empty:
        return blank("no cells")
    studies = list(table["study"].unique())
    counts = [len(table.loc[table["study"] == study, CELL].drop_duplicates()) for study in studies]
    figure = new_figure(WIDTH, ROW * sum(counts) + 0.55 * len(studies) + 0.7)
    axes = figure.subplots(
        len(studies), 2, sharex="col", squeeze=False, height_ratios=[n + 0.6 for n in counts]
    )
    for (left, right), study in zip(axes, studies, strict=True):
        own = table[table["study"] == study]
        groups = list(own.groupby(CELL, sort=False))
        heights = np.arange(len(groups))[::-1]
        for height, (_, rows) in zip(heights, groups, strict=True):
            _row(left, right, float(height), rows.set_index("route"))
        for panel in (left, right):
            panel.set_xscale("log")
            panel.set_ylim(-0.7, len(groups) - 0.3)
            panel.set_yticks(heights, [cell_text(rows.iloc[0]) for _, rows in groups])
            panel.tick_params(axis="y", length=0)
        right.tick_params(labelleft=False)
        left.axvline(1.0, color="#444444", ls=DOTTED, lw=1.0)
        left.set_title(f"{study}: replicates saved")
        relative = np.nanmedian(own["target_mcse"] / own["estimate"])
        right.set_title(f"seconds to an MCSE of {100.0 * relative:.2g}% of the error")
    axes[-1, 0].set_xlabel("plain over conditional")
    axes[-1, 1].set_xlabel("seconds")
    for panel in axes[-1]:
        log_ticks(panel.xaxis)
    entries: list[Entry] = [
        (name, {"color": look.color, "marker": look.marker, "ls": "none"})
        for name, look in LOOKS.items()
        if name in set(table.loc[table["status"] == "ok", "route"])
    ]
    entries.append(("95% interval", {"marker": "o"}))
    if (table["status"] == "disagrees").any():
        entries.append(("another quantity", WRONG))
    key(figure, entries)
    return figure


def _row(left: Axes, right: Axes, height: float, rows: pd.DataFrame) -> None:
    """Draw one cell; rows by route."""
    if "conditional" in rows.index:
        row = rows.loc["conditional"]
        gain, reach = row["gain_replicates"], Z95 * row["gain_replicates_se"]
        # The jackknife's error is that of the logarithm.
        ends = gain * np.exp(np.array([-1.0, 1.0]) * reach / gain)
        left.errorbar(
            [gain],
            [height],
            xerr=[[gain - ends[0]], [ends[1] - gain]],
            **_mark(LOOKS["conditional"]),
        )
    seconds = rows["seconds_needed"].dropna()
    if len(seconds):
        span: dict[str, Any] = {"color": "#9A9A9A", "lw": 0.6, "zorder": 1.5}
        right.plot([seconds.min(), seconds.max()], [height, height], **span)
    for name, look in LOOKS.items():
        if name in seconds.index:
            right.plot(seconds[name], height, **_mark(look))
            if rows.loc[name, "status"] != "ok":
                right.plot(seconds[name], height, **WRONG)


def _mark(look: Look) -> dict[str, Any]:
    return {"color": look.color, "marker": look.marker, "ls": "none"}


def cell_text(row: pd.Series) -> str:
    """Return what a cell is, in two lines."""
    heads = f", $H = {int(row['n_heads'])}$" if row["study"] == "decomposition" else ""
    bias = f"{100.0 * max(0.0, float(row['bias2_share'])):.0f}%"
    kernel = str(row["kernel"]).capitalize()
    return (
        f"{row['cell']}, {row['function']} function, bias² {bias}\n"
        f"{kernel}, $n = {int(row['n_obs'])}$, $h = {row['bandwidth']:.2g}${heads}"
    )
