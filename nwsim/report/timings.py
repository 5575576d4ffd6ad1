"""The figure of the benchmarks, from ``timings.csv`` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from nwsim.exceptions import ParameterError
from nwsim.report.figures import save_figure
from nwsim.report.layout import Entry, key
from nwsim.report.style import WIDTH, blank, ink, new_figure, styled

TITLES = {
    "W1": "W1: Gaussian, $d=1$, $n=10^4$, $m=10^3$",
    "W2": "W2: Gaussian, $d=1$, $n=10^6$, $m=10^3$",
    "W3": r"W3: Gaussian, $d=3$, $n=2\times10^4$, $m=10^3$",
    "W4": "W4: Epanechnikov, $d=1$, $n=10^6$, $m=10^5$",
    "W5": "W5: leave-one-out bandwidth, $n=2000$",
    "W6": "W6: attention, float32, $H=8$, $n=4096$",
    "W7": "W7: bias and covariance, $H=8$, $n=4096$",
}
OWN, OTHER, LIMIT = "#D55E00", "#444444", "#0072B2"
MARKS = {"direct": "o", "fast": "^", "search": "D"}
WORDS = {"direct": "all pairs", "fast": "fewer operations", "search": "bandwidth search"}
ROW = 0.128
"""Height of a competitor's row, in inches."""
_LIMIT_LINE: dict[str, Any] = {"color": LIMIT, "lw": 1.2, "ls": (0, (4, 1.6))}


def draw_timings(folder: Path) -> list[Path]:
    """Draw ``timings.csv`` of a folder into its ``figures/``.

    Raises
    ------
    ParameterError
        If the folder has no such table.
    """
    path = Path(folder) / "timings.csv"
    if not path.is_file():
        raise ParameterError(f"folder must hold timings.csv, which a benchmark writes; {folder}")
    return save_figure(timings(pd.read_csv(path)), Path(folder) / "figures", "timings")


@styled
def timings(table: pd.DataFrame) -> Figure:
    """Draw seconds of a call by competitor: a panel a workload, the fastest on top.

    Marks are medians, bars go from the lower to the upper quartile. The line is what plain C
    takes, where there is such a program.

    Parameters
    ----------
    table : DataFrame
        ``timings.csv``. Cases without a time are left out.
    """
    shown = table[table["n_rounds"] > 0]
    competitors = shown[shown["kind"] != "limit"]
    names = [name for name in shown["workload"].unique() if name in set(competitors["workload"])]
    if not names:
        return blank("no case has a time")
    columns = _columns({name: int((competitors["workload"] == name).sum()) for name in names})
    rows = max(sum(column.values()) + 4.0 * len(column) for column in columns)
    figure = new_figure(width=WIDTH, height=ROW * rows + 0.5)
    outer = figure.add_gridspec(1, len(columns))
    for position, column in enumerate(columns):
        heights = [count + 1.0 for count in column.values()]
        inner = outer[position].subgridspec(len(column), 1, height_ratios=heights)
        for place, name in enumerate(column):
            axes = figure.add_subplot(inner[place])
            own = competitors[competitors["workload"] == name]
            limits = shown[(shown["workload"] == name) & (shown["kind"] == "limit")]
            _panel(axes, own.sort_values("median_s", kind="stable"), limits)
            # Over the names too: there is not room for it above the marks.
            axes.set_title(TITLES.get(name, name), x=-0.55)
    key(figure, _entries(competitors, shown))
    return figure


def _columns(counts: dict[str, int]) -> list[dict[str, int]]:
    """Spread panels over two columns of about the same height, in their order."""
    if len(counts) == 1:
        return [counts]
    columns: list[dict[str, int]] = [{}, {}]
    for name, count in counts.items():
        heights = [sum(column.values()) + 4 * len(column) for column in columns]
        columns[int(np.argmin(heights))][name] = count
    return columns


def _panel(axes: Axes, rows: pd.DataFrame, limits: pd.DataFrame) -> None:
    labels = []
    for place, row in enumerate(rows.to_dict("records")):
        colour = OWN if str(row["competitor"]).split()[0] == "nwsim" else OTHER
        middle = float(row["median_s"])
        axes.errorbar(
            [middle],
            [place],
            xerr=[[middle - float(row["q25_s"])], [float(row["q75_s"]) - middle]],
            color=colour,
            marker="x" if row["status"] != "ok" else MARKS.get(str(row["kind"]), "o"),
            mfc=colour if row["accuracy_class"] == "1e-12" else "white",
            mew=0.8,
            ms=3.8,
            ls="none",
            elinewidth=0.8,
            capsize=0,
        )
        labels.append(f"{row['competitor']}{' ~' if row['scaled'] else ''}")
    for limit in limits["median_s"]:
        axes.axvline(float(limit), zorder=1.5, **_LIMIT_LINE)
    axes.set_xscale("log")
    axes.set_yticks(range(len(labels)), labels, fontsize=6.5)
    for text in axes.get_yticklabels():
        if text.get_text().split()[0] == "nwsim":
            text.set_color(ink(OWN))
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _entries(competitors: pd.DataFrame, shown: pd.DataFrame) -> list[Entry]:
    """Return the key: whose a mark is, what its form says, how exact the answer is."""
    base = {"ls": "none", "ms": 4.2}
    entries: list[Entry] = [
        ("nwsim", {**base, "color": OWN, "marker": "o"}),
        ("other packages", {**base, "color": OTHER, "marker": "o"}),
    ]
    entries += [
        (WORDS[kind], {**base, "color": OTHER, "marker": marker})
        for kind, marker in MARKS.items()
        if kind != "direct" and (competitors["kind"] == kind).any()
    ]
    if (competitors["accuracy_class"] != "1e-12").any():
        hollow = {**base, "color": OTHER, "marker": "o", "mfc": "white"}
        entries.append(("error may exceed $10^{-12}$", hollow))
    if (competitors["status"] != "ok").any():
        entries.append(("wrong answer", {**base, "color": OTHER, "marker": "x"}))
    if (shown["kind"] == "limit").any():
        entries.append(("C on this machine", _LIMIT_LINE))
    if competitors["scaled"].astype(bool).any():
        entries.append(("~ scaled from part of the queries", {"ls": "none"}))
    return entries
