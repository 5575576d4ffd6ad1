"""Figures of the variance of an ensemble of heads, from the results tables alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

from nwsim.exceptions import ParameterError
from nwsim.inference.verdicts import Z95
from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, check_single, levels, performance, select, series
from nwsim.report.slopes import Tables
from nwsim.report.style import COMPARED, DOTTED, blank, new_figure, panels, styled
from nwsim.report.words import Words

REFERENCE: dict[str, Any] = {"color": "#444444", "ls": DOTTED, "lw": 1.0}
BARS = {"bias2": "#56B4E9", "total_variance": "#E69F00"}
PAIR = re.compile(r"covariance_(\d+)_(\d+)\Z")


@styled
def variance(
    results: Tables,
    where: Where = None,
    method: str = "conditional",
    measure: str = "total_variance",
    limit: tuple[str, str] = ("variance", "orthogonal"),
    line: str = "heads",
    panel: str = "n_obs",
    x: str = "n_heads",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the variance of ensembles against the number of heads, with V/H for comparison.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method, measure : str
        What is shown.
    limit : tuple of (measure, level of ``line``)
        What the dotted line shows: the variance of as many uncorrelated heads, V/H.
    line, panel, x : str
        Factors of the lines, of the panels and of the horizontal, logarithmic axis.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, [measure], where, [method])
    if not table.empty:
        # Kinds of heads that exist for one number of them are no line.
        table = table[table.groupby([line, panel])[x].transform("nunique") > 1]
    if table.empty:
        return blank(absent([measure], where, [method]))
    figure, cells = layout.grid(
        table,
        words,
        (None, [None]),
        (panel, levels(table, panel)),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel=words.measure(measure),
        sharey="all",
        height=2.4,
    )
    known = levels(table, line)
    uncorrelated = performance(results.performance, [limit[0]], where, [method])
    uncorrelated = select(uncorrelated, {line: limit[1]})
    for cell in cells:
        cell.axes.set_title(words.level(panel, cell.column))
        for condition, rows in series(cell.table, [line], x):
            look = COMPARED[known.index(condition[line]) % len(COMPARED)]
            drawing.draw_line(cell.axes, rows, look, x)
        below = select(uncorrelated, {panel: cell.column}).sort_values(x)
        cell.axes.plot(below[x], below["estimate"], **REFERENCE)
    entries = layout.line_entries(COMPARED, [words.level(line, kind) for kind in known])
    entries.append(("variance of as many uncorrelated heads", REFERENCE))
    layout.finish(figure, cells, [], entries)
    return figure


@styled
def routes(
    results: Tables,
    where: Where = None,
    prefixes: Sequence[str] = ("routes", "worth"),
    measures: Sequence[str] = ("mse", "bias2", "total_variance"),
    line: str = "heads",
    x: str = "n_heads",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw how the plain and the conditional route compare: their ratio, and their precision.

    Parameters
    ----------
    results : Tables
        Frames of one study; its contrasts are named ``<prefix>_<measure>``.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    prefixes : pair of str
        Contrasts of the first and of the second row of panels.
    measures : sequence of str
        One column of panels each.
    line, x : str
        Factors of the lines and of the horizontal, logarithmic axis.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    wanted = [f"{prefix}_{measure}" for prefix in prefixes for measure in measures]
    table = select(results.contrasts, {**dict(where or {}), "contrast": wanted})
    if not table.empty:
        table = table[table.groupby([line, "contrast"])[x].transform("nunique") > 1]
    if table.empty:
        return blank(f"no contrasts {', '.join(wanted)} along {x}")
    table = table.assign(_row=table["contrast"].str.split("_").str[0])
    names = {
        prefixes[0]: "plain over conditional",
        prefixes[1]: "replicates of the plain route\nworth one of the conditional",
    }
    figure, cells = layout.grid(
        table,
        words,
        ("_row", list(prefixes)),
        ("measure", list(measures)),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel="",
        log=False,
        sharey="row",
    )
    known = levels(table, line)
    places = table[x].to_numpy(dtype=float)
    for cell in cells:
        if cell.row == prefixes[0]:
            cell.axes.set_title(words.label(cell.column))
        if cell.column == measures[0]:
            cell.axes.set_ylabel(names[cell.row])
        cell.axes.axhline(1.0, color="#444444", lw=0.8, zorder=1.2)
        if cell.row == prefixes[1]:
            cell.axes.set_yscale("log")
        for condition, rows in series(cell.table, [line], x):
            position = known.index(condition[line])
            shift = layout.aside(places, position, len(known), True)
            drawing.draw_line(
                cell.axes, rows, COMPARED[position % len(COMPARED)], x, log=False, shift=shift
            )
    entries = layout.line_entries(COMPARED, [words.level(line, kind) for kind in known])
    layout.finish(figure, cells, [], [*entries, layout.INTERVAL])
    return figure


@styled
def heat_map(
    results: Tables, where: Where = None, labels: Mapping[str, str] | None = None
) -> Figure:
    """Draw the covariance matrix of heads, from the measures ``covariance_<k>_<l>``.

    Each field shows the covariance over the mean variance, with its Monte Carlo standard
    error below.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): must leave one condition and method.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If several conditions are left.
    """
    words = Words(results.manifest, labels or {})
    table = select(results.performance, where)
    found = table["measure"].str.extract(PAIR).dropna().astype(int)
    if found.empty:
        return blank("no measures covariance_<k>_<l>")
    table = table.loc[found.index]
    if table["measure"].duplicated().any():
        raise ParameterError("where must leave one condition and method")
    size = int(found.to_numpy().max())
    matrix, errors = np.full((2, size, size), np.nan)
    for (k, other), (_, row) in zip(found.to_numpy() - 1, table.iterrows(), strict=True):
        for place in ((k, other), (other, k)):
            matrix[place], errors[place] = row["estimate"], row["mcse"]
    scale = float(np.diag(matrix).mean())
    figure = new_figure(width=4.4, height=3.8)
    axes = figure.subplots()
    image = axes.imshow(matrix / scale, cmap="RdBu_r", norm=CenteredNorm(0.0, 1.0))
    axes.grid(visible=False)
    for (k, other), value in np.ndenumerate(matrix / scale):
        text = f"{value:.2f}\n±{errors[k, other] / scale:.2f}".replace("-", "−")
        colour = "white" if abs(value) > 0.6 else "black"
        axes.text(other, k, text, ha="center", va="center", fontsize=7, color=colour)
    ticks = range(size)
    axes.set_xticks(ticks, [str(k + 1) for k in ticks])
    axes.set_yticks(ticks, [str(k + 1) for k in ticks])
    axes.set_xlabel("head")
    axes.set_ylabel("head")
    kind = {name: table[name].iloc[0] for name in ("heads", "n_obs") if name in table.columns}
    axes.set_title(", ".join(words.level(name, level) for name, level in kind.items()))
    figure.colorbar(image, ax=axes, label="covariance over mean variance")
    return figure


@styled
def shares(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] = ("conditional", "tree"),
    parts: Sequence[str] = tuple(BARS),
    panel: str = "n_obs",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the squared bias and the variance of one smoother of each kind as stacked bars.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    methods, parts : sequence of str
        What stands side by side, and what one upon another.
    panel : str
        Factor of the panels.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    own = {"conditional": "one head", "tree": "regression tree", **dict(labels or {})}
    words = Words(results.manifest, own)
    table = performance(results.performance, parts, where, methods)
    both = table[table["method"] == methods[-1]] if not table.empty else table
    if both.empty:
        return blank(absent(parts, where, methods))
    # Only conditions in which every method runs.
    table = table[table["condition_id"].isin(both["condition_id"])]
    check_single(table, [panel, "method", "measure"])
    known = levels(table, panel)
    figure, axes = panels(1, len(known), height=2.4, sharey="all")
    for place, level in zip(axes[0], known, strict=True):
        rows = table[table[panel] == level]
        for position, method in enumerate(methods):
            below = 0.0
            for part in parts:
                row = rows[(rows["method"] == method) & (rows["measure"] == part)].iloc[0]
                colour = BARS.get(part, "#999999")
                place.bar(position, row["estimate"], 0.6, bottom=below, color=colour)
                below += row["estimate"]
                half = Z95 * row["mcse"]
                place.errorbar(position, below, yerr=half, color="black", elinewidth=0.8)
        place.set_xticks(range(len(methods)), [words.method(name) for name in methods])
        place.set_title(words.level(panel, level))
    axes[0, 0].set_ylabel("mean squared error (y²)")
    layout.key(figure, [(words.label(part), {"color": BARS[part], "lw": 6}) for part in parts])
    return figure
