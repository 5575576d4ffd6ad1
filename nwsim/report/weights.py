"""Figures of weights of heads: what they are, what they cost, and where their ranking turns.

Methods are told apart by colour and marker, the same in all panels; the key names them. Every
builder takes ``where``, a mapping of column to level(s) that picks the rows. Any factor that
varies along a line and is not shown is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nwsim._typing import FloatArray
from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, levels_of, performance, select, series
from nwsim.report.slopes import Tables, claimed
from nwsim.report.style import DOTTED, Look, blank, look_of, styled
from nwsim.report.words import Words

LABELS = {
    "geometric_50": "geometric, ratio 0.5",
    "geometric_70": "geometric, ratio 0.7",
    "geometric_90": "geometric, ratio 0.9",
    "fibonacci": "Fibonacci",
    "unordered": "geometric 0.7, unordered",
    "inverse_mse": "inverse error",
    "optimal_nonnegative": "optimal, nonnegative",
    "optimal_free": "optimal, free",
    "oracle": "oracle weights",
    "signal": "heads differ in signal",
    "bandwidth": "heads differ in bandwidth",
}
"""Texts for a study of weights, unless an option says otherwise."""

FLOOR: dict[str, Any] = {"ls": DOTTED, "lw": 1.0, "zorder": 1.5}
ONE: dict[str, Any] = {"color": "#444444", "lw": 0.7, "zorder": 1.4}


@styled
def profiles(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    prefix: str = "weight_",
    row: str | None = "quality",
    panel: str | None = "spread",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the mean weight of a head against its rank, 1 the best.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    methods : sequence of str, optional
        Lines; default all.
    prefix : str
        Measures ``<prefix>1``, ``<prefix>2``, … are the weights by rank.
    row, panel : str, optional
        Factors that tell rows and columns of panels apart.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have.
    """
    rank = {
        name: int(found.group(1))
        for name in results.performance["measure"].unique().tolist()
        if (found := re.fullmatch(re.escape(prefix) + r"(\d+)", name))
    }
    table = performance(results.performance, list(rank), where, methods)
    if table.empty:
        return blank(absent([f"{prefix}…"], where, methods))
    table = table.assign(rank=table["measure"].map(rank)).drop(columns="measure")
    page = _Page(results, table, methods, "rank", labels, row=row, panel=panel)
    page.draw("weight", log=False, xlabel="rank of the head, best first")
    for cell in page.cells:
        cell.axes.axhline(0.0, **ONE)
        cell.axes.set_xticks(sorted(set(rank.values())))
    return page.finish()


@styled
def errors(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
    x: str = "n_heads",
    row: str | None = "quality",
    panel: str | None = "spread",
    claim: str = "W1_floor",
    share: str = "private_share",
    shared: str = "shared_error",
    private: str = "private_error",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the error against the number of heads, with the floors under fixed ratios.

    Points are shifted sideways about their true places for visibility. A floor is
    ``shared + theory private``: the error of infinitely many heads, and the part of what a head
    does not share that the claim says is left. It is drawn where the tables have both measures,
    from the largest number of heads, for methods that the claim is about.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where, methods, row, panel, labels
        As in `profiles`.
    measure, x : str
        What is shown, and the factor of the horizontal, logarithmic axis.
    claim, share : str
        Id of the claim about floors and the quantity that it judges.
    shared, private : str
        Measures that a floor is made of.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have.
    """
    table = performance(results.performance, [measure], where, methods)
    if table.empty:
        return blank(absent([measure], where, methods))
    page = _Page(results, table, methods, x, labels, row=row, panel=panel)
    page.draw(
        page.words.measure(measure), log=True, xlabel=page.words.axis(x), x_log=True, aside=True
    )
    parts = select(results.performance, where)
    drawn = False
    for cell, condition, rows in page.lines():
        here = {name: condition[name] for name in (row, panel) if name is not None}
        largest = rows[x].max()
        part = select(parts, {**here, x: largest}).set_index("measure")["estimate"]
        said = claimed(results.claims, share, {**condition, x: largest}, "equivalence", [claim])
        if said is None or shared not in part.index or private not in part.index:
            continue
        level = float(part[shared]) + said.theory * float(part[private])
        cell.axes.axhline(level, color=page.look(condition["method"]).color, **FLOOR)
        drawn = True
    return page.finish([(f"floor of claim {claim}", FLOOR)] if drawn else [])


@styled
def ratios(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    prefix: str = "regret_",
    x: str = "n_heads",
    row: str | None = "quality",
    panel: str | None = "spread",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw ratios of errors to a common baseline, one line a method.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where, methods, row, panel, labels
        As in `profiles`.
    prefix : str
        Contrasts whose names begin so are drawn; all have one baseline.
    x : str
        The factor of the horizontal, logarithmic axis.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have.
    """
    table = select(results.contrasts, where)
    table = table[table["contrast"].str.startswith(prefix)]
    if methods is not None:
        table = table[table["method"].isin(list(methods))]
    if table.empty:
        return blank(f"no contrasts {prefix}… with {dict(where or {})}")
    page = _Page(results, table, methods, x, labels, row=row, panel=panel)
    baselines = ", ".join(page.words.method(name) for name in table["baseline"].unique())
    page.draw(f"error over that of {baselines}", log=True, xlabel=page.words.axis(x), x_log=True)
    for cell in page.cells:
        cell.axes.axhline(1.0, **ONE)
    return page.finish()


@styled
def crossings(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "log_ratio",
    curve: str = "crossing",
    x: str = "spread",
    row: str | None = "quality",
    panel: str | None = "n_heads",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure against how much heads differ, and where it falls to 0.

    The horizontal axis is one of square roots, which has room for small levels and for 0. The
    crossings stand at the foot of the panels, with 95% intervals that go to the edge where they
    are open. A method that never crosses has none.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where, methods, row, panel, labels
        As in `profiles`.
    measure : str
        What is shown.
    curve : str
        Name of the curve along ``x`` that holds the crossings of the measure.
    x : str
        The factor of the horizontal axis.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have.
    """
    table = performance(results.performance, [measure], where, methods)
    if table.empty:
        return blank(absent([measure], where, methods))
    page = _Page(results, table, methods, x, labels, row=row, panel=panel)
    page.draw(page.words.measure(measure), log=False, xlabel=page.words.axis(x))
    found = results.curves
    found = found[(found["curve"] == curve) & (found["over"] == x) & (found["measure"] == measure)]
    for cell in page.cells:
        root_axis(cell.axes, cell.table[x].to_numpy(dtype=float))
        low, high = cell.axes.get_ylim()
        cell.axes.set_ylim(low - 0.3 * (high - low), high)
        cell.axes.axhline(0.0, **ONE)
    drawn = False
    for cell, condition, _ in page.lines():
        here = {name: condition[name] for name in condition if name in found.columns and name != x}
        for row_found in select(found, here).to_dict("records"):
            drawn = page.mark(cell, condition["method"], row_found) or drawn
    entries: list[layout.Entry] = [
        ("where the line crosses 0, 95% interval", {"marker": "|", "ms": 6, "mew": 1.2})
    ]
    return page.finish(entries if drawn else [])


def root_axis(axes: Axes, levels: FloatArray) -> None:
    """Make x an axis of square roots, with ticks at the levels that lie far enough apart."""
    known = np.unique(levels)
    reach = float(np.sqrt(known[-1]))
    axes.set_xscale("function", functions=(_signed_root, _signed_square))
    axes.set_xlim(-((0.08 * reach) ** 2), (1.05 * reach) ** 2)
    shown = [known[0]]
    for level in known[1:]:
        if np.sqrt(level) - np.sqrt(shown[-1]) > 0.14 * reach:
            shown.append(level)
    axes.set_xticks(shown, [f"{level:.3g}" for level in shown])


def _signed_root(values: FloatArray) -> FloatArray:
    return np.sign(values) * np.sqrt(np.abs(values))


def _signed_square(values: FloatArray) -> FloatArray:
    return np.sign(values) * np.square(values)


class _Page:
    """Panels with one line a method."""

    def __init__(
        self,
        results: Tables,
        table: pd.DataFrame,
        methods: Sequence[str] | None,
        x: str,
        labels: Mapping[str, str] | None,
        *,
        row: str | None,
        panel: str | None,
    ) -> None:
        self.words = Words(results.manifest, {**LABELS, **(labels or {})})
        self.table, self.x, self.row, self.panel = table, x, row, panel
        self.methods: list[str] = levels_of(table, "method", methods)
        # Of the study, not of the page: a method looks the same in all figures.
        self.known: list[str] = results.performance["method"].unique().tolist()
        self.figure: Figure
        self.cells: list[layout.Cell] = []

    def look(self, method: str) -> Look:
        """Return the look of a method."""
        return look_of(self.known.index(method))

    def draw(
        self, ylabel: str, *, log: bool, xlabel: str, x_log: bool = False, aside: bool = False
    ) -> None:
        """Lay the panels out and draw the lines, beside each other on request."""
        self.figure, self.cells = layout.grid(
            self.table,
            self.words,
            (self.row, levels_of(self.table, self.row)),
            (self.panel, levels_of(self.table, self.panel)),
            x=self.x,
            x_log=x_log,
            xlabel=xlabel,
            ylabel=ylabel,
            log=log,
            sharey="row",
        )
        for cell in self.cells:
            shown = ((self.row, cell.row), (self.panel, cell.column))
            texts = [self.words.level(name, level) for name, level in shown if name is not None]
            cell.axes.set_title("\n".join(texts))
        places = self.table[self.x].to_numpy(dtype=float)
        for cell, condition, rows in self.lines():
            look = self.look(condition["method"])
            position = self.methods.index(condition["method"])
            shift = layout.aside(places, position, len(self.methods), x_log) if aside else None
            drawing.draw_line(cell.axes, rows, look, self.x, log=log, x_log=x_log, shift=shift)

    def lines(self) -> list[tuple[layout.Cell, dict[str, Any], pd.DataFrame]]:
        """Return every line with its panel, methods in their order."""
        found = [
            (cell, condition, rows)
            for cell in self.cells
            for condition, rows in series(cell.table, ["method"], self.x)
        ]
        return sorted(found, key=lambda line: self.methods.index(line[1]["method"]))

    def mark(self, cell: layout.Cell, method: str, found: Mapping[Any, Any]) -> bool:
        """Draw a crossing, if there is one within the levels; say whether it was."""
        place, low, high = (float(found[name]) for name in ("estimate", "ci_low", "ci_high"))
        if not np.isfinite(place):
            return False
        left, right = cell.axes.get_xlim()
        ends = (low if np.isfinite(low) else left, high if np.isfinite(high) else right)
        look: dict[str, Any] = {
            "color": self.look(method).color,
            "transform": cell.axes.get_xaxis_transform(),
            "zorder": 3,
        }
        height = 0.05 * (len(self.methods) - self.methods.index(method))
        cell.axes.plot(ends, (height, height), lw=1.1, **look)
        cell.axes.plot([place], [height], marker="|", ms=6, mew=1.2, **look)
        return True

    def finish(self, entries: Sequence[layout.Entry] = ()) -> Figure:
        """Add the key and fix the layout."""
        looks = [self.look(method) for method in self.methods]
        lines = layout.line_entries(looks, [self.words.method(method) for method in self.methods])
        layout.finish(self.figure, self.cells, [], [*lines, layout.INTERVAL, *entries])
        return self.figure
