"""Figures of risk against sample size, from the results tables alone.

Every builder takes ``results`` (anything with the frames ``performance``, ``curves`` and
``claims``) and ``where``, a mapping of column to level(s) that picks the rows. A factor that
varies along one line is an error that names it. Theoretical slopes, margins and fitted slopes
are read from the tables; where no claim covers a line, the slope drawn is the exponent that
R1 states, ``-2 alpha / (2 alpha + d)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from nwsim.report import drawing, layout
from nwsim.report.drawing import exponent_text
from nwsim.report.frames import levels, select, series
from nwsim.report.slopes import Tables, claimed, slope_note, stated_slope
from nwsim.report.style import blank, look_of, styled

Where = Mapping[str, Any] | None


@styled
def risk(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
) -> Figure:
    """Draw risk against n on logarithmic axes: a row a method, a column a dimension.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    methods : sequence of str, optional
        Methods to show, one row each; default all.
    measure : str
        Measure of the performance table.
    """
    table = _performance(results, [measure], where, methods)
    if table.empty:
        return blank(_absent([measure], where, methods))
    order = list(methods) if methods else levels(table, "method")
    order = [name for name in order if name in set(table["method"])]
    figure, axes, labels = layout.grid(
        table, order, "method", layout.axis_name(measure), sharey="all"
    )
    for (row, column), panel in np.ndenumerate(axes):
        dim = levels(table, "dim")[column]
        part = table[(table["method"] == order[row]) & (table["dim"] == dim)]
        panel.set_title(f"d = {dim}, {order[row]} bandwidth")
        for condition, rows in series(part, ["alpha"]):
            look = look_of(levels(table, "alpha").index(condition["alpha"]))
            end = drawing.draw_line(panel, rows, look)
            drawing.draw_slope(panel, rows, stated_slope(results, measure, condition), look.color)
            layout.add_label(labels, panel, end, f"α = {condition['alpha']:g}", look.color)
    layout.key(figure, [layout.INTERVAL, layout.THEORY])
    layout.place_labels(figure, labels)
    return figure


@styled
def parts(
    results: Tables,
    where: Where = None,
    method: str = "rate",
    measures: Sequence[str] = ("bias2", "variance"),
    curve: str = "tail_slope",
) -> Figure:
    """Draw squared bias and variance apart, each line labelled by fitted and stated slope.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    method : str
        The one method shown.
    measures : sequence of str
        Parts, one row each.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    """
    table = _performance(results, measures, where, [method])
    if table.empty:
        return blank(_absent(measures, where, [method]))
    figure, axes, labels = layout.grid(
        table, list(measures), "measure", None, sharey="row", height=2.5
    )
    for (row, column), panel in np.ndenumerate(axes):
        dim, measure = levels(table, "dim")[column], measures[row]
        part = table[(table["measure"] == measure) & (table["dim"] == dim)]
        panel.set_title(f"d = {dim}")
        for condition, rows in series(part, ["alpha"]):
            look = look_of(levels(table, "alpha").index(condition["alpha"]))
            end = drawing.draw_line(panel, rows, look)
            said = claimed(results.claims, measure, condition)
            if said:
                drawing.draw_slope(panel, rows, said["theory"], look.color)
            note = slope_note(results, measure, condition, curve, with_error=False)
            text = f"{condition['alpha']:g}: {note}" if note else f"{condition['alpha']:g}"
            layout.add_label(labels, panel, end, text, look.color)
        panel.text(
            1.05, 1.02, "α: slope (theory)", transform=panel.transAxes, fontsize=7, va="bottom"
        )
    layout.key(figure, [layout.INTERVAL, layout.THEORY])
    layout.place_labels(figure, labels)
    return figure


@styled
def local_slopes(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
    curve: str = "local_slope",
) -> Figure:
    """Draw slopes between neighbouring sample sizes against the exponent of the theory.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    methods : sequence of str, optional
        Methods, one row each; default all.
    measure : str
        The measure whose slopes are shown.
    curve : str
        Name of the curve that holds them.
    """
    wanted = {"curve": curve, "measure": measure}
    table = select(results.curves, wanted | dict(where or {}))
    if methods is not None:
        table = table[table["method"].isin(list(methods))]
    if table.empty:
        return blank(_absent([f"{curve} of {measure}"], where, methods))
    order = [name for name in methods or levels(table, "method") if name in set(table["method"])]
    figure, axes, labels = layout.grid(
        table,
        order,
        "method",
        f"local slope of log {layout.SHORT.get(measure, measure)}",
        x="x",
        log=False,
        sharey="all",
    )
    spread = levels(table, "alpha")
    for (row, column), panel in np.ndenumerate(axes):
        dim = levels(table, "dim")[column]
        part = table[(table["method"] == order[row]) & (table["dim"] == dim)]
        panel.set_title(f"d = {dim}, {order[row]} bandwidth")
        for condition, rows in series(part, ["alpha"], over="x"):
            position = spread.index(condition["alpha"])
            look = look_of(position)
            # A few percent in n keep the intervals of different alpha from hiding each other.
            shift = 1.05 ** (position - (len(spread) - 1) / 2)
            drawing.draw_line(panel, rows, look, "x", log=False, shift=shift)
            slope = stated_slope(results, measure, condition)
            panel.axhline(slope, color=look.color, ls=(0, (1, 1.4)), lw=1.0, zorder=1.5)
            end = (panel.get_xlim()[1], slope)
            text = f"α = {condition['alpha']:g}: {exponent_text(slope)}"
            layout.add_label(labels, panel, end, text, look.color)
    layout.key(figure, [("local slope, 95% interval", {"marker": "o"}), layout.LEVEL])
    layout.place_labels(figure, labels)
    return figure


@styled
def boundary(
    results: Tables,
    where: Where = None,
    method: str = "rate",
    measure: str = "mse",
    factor: str = "region",
    curve: str = "tail_slope",
) -> Figure:
    """Draw risk over regions, side by side: a row a dimension, a column an alpha.

    Only combinations that were run over at least two regions are shown.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    method, measure : str
        What is shown.
    factor : str
        The factor whose levels are compared within a panel.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    """
    table = _performance(results, [measure], where, [method])
    cells = ["dim", "alpha"]
    if not table.empty:
        table = table[table.groupby(cells)[factor].transform("nunique") > 1]
    if table.empty:
        return blank(f"{_absent([measure], where, [method])} over two levels of {factor}")
    regions = levels(table, factor)
    figure, axes, labels = layout.grid(
        table,
        levels(table, "dim"),
        "dim",
        layout.axis_name(measure),
        "alpha",
        sharey="all",
    )
    for (row, column), panel in np.ndenumerate(axes):
        dim, alpha = levels(table, "dim")[row], levels(table, "alpha")[column]
        part = table[(table["dim"] == dim) & (table["alpha"] == alpha)]
        panel.set_title(f"d = {dim}, α = {alpha:g}")
        for condition, rows in series(part, [factor]):
            position = regions.index(condition[factor])
            look = look_of((0, 5, 3, 4)[position % 4])
            end = drawing.draw_line(panel, rows, look, hollow=position > 0)
            said = claimed(results.claims, measure, condition)
            name = str(condition[factor]).replace("_", " ")
            text = f"{name}\n{slope_note(results, measure, condition, curve)}".rstrip()
            if said:
                drawing.draw_slope(panel, rows, said["theory"], look.color)
            layout.add_label(labels, panel, end, text, look.color)
    layout.key(figure, [layout.INTERVAL, layout.BRACKETED])
    layout.place_labels(figure, labels)
    return figure


@styled
def saturation(
    results: Tables,
    where: Where = None,
    method: str = "rate",
    measures: Sequence[str] = ("bias2", "mse"),
    kernel_labels: Mapping[str, str] | None = None,
    curve: str = "tail_slope",
) -> Figure:
    """Draw kernels of different order on one smooth world: a row a dimension.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s), usually ``{"alpha": 3.0, ...}``.
    method : str
        The one method shown.
    measures : sequence of str
        Measures, one column each.
    kernel_labels : mapping, optional
        Kernel name to the text shown, such as ``"order 2"``.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    """
    table = _performance(results, measures, where, [method])
    if table.empty:
        return blank(_absent(measures, where, [method]))
    kernels = levels(table, "kernel")
    figure, axes, labels = layout.grid(
        table, levels(table, "dim"), "dim", None, "measure", list(measures), height=2.6
    )
    for (row, column), panel in np.ndenumerate(axes):
        dim, measure = levels(table, "dim")[row], measures[column]
        part = table[(table["dim"] == dim) & (table["measure"] == measure)]
        panel.set_title(f"d = {dim}")
        panel.set_ylabel(layout.axis_name(measure))
        for condition, rows in series(part, ["kernel"]):
            position = kernels.index(condition["kernel"])
            look = look_of((4, 5, 3, 6)[position % 4])
            end = drawing.draw_line(panel, rows, look, hollow=position > 0)
            said = claimed(results.claims, measure, condition)
            name = (kernel_labels or {}).get(condition["kernel"], condition["kernel"])
            text = f"{name}\n{slope_note(results, measure, condition, curve)}".rstrip()
            if said:
                drawing.draw_slope(panel, rows, said["theory"], look.color)
            layout.add_label(labels, panel, end, text, look.color)
    layout.key(figure, [layout.INTERVAL, layout.BRACKETED])
    layout.place_labels(figure, labels)
    return figure


@styled
def constants(
    results: Tables,
    where: Where = None,
    method: str | None = None,
    measures: Sequence[str] = ("bias_ratio", "variance_ratio"),
    by: Sequence[str] = ("dim", "kernel"),
) -> Figure:
    """Draw bias and variance over their asymptotic values, with the margin of the claim.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    method : str, optional
        The one method shown; needed if several report the ratios.
    measures : sequence of str
        Ratios, one column each.
    by : sequence of str
        Factors that tell the lines apart; those with one level are not written out.
    """
    table = _performance(results, measures, where, None if method is None else [method])
    if table.empty:
        return blank(_absent(measures, where, None if method is None else [method]))
    keys = [name for name in by if len(levels(table, name)) > 1] or list(by[:1])
    figure, axes, labels = layout.grid(
        table, [None], None, None, "measure", list(measures), log=False
    )
    looks: dict[tuple[Any, ...], int] = {}
    for panel, measure in zip(axes[0], measures, strict=True):
        part = table[table["measure"] == measure]
        panel.set_ylabel(layout.axis_name(measure))
        for condition, rows in series(part, keys):
            line = tuple(condition[name] for name in keys)
            look = look_of(looks.setdefault(line, len(looks)))
            end = drawing.draw_line(panel, rows, look, log=False)
            said = claimed(results.claims, measure, condition, rule="equivalence")
            if said:
                low, high = said["theory"] - said["margin"], said["theory"] + said["margin"]
                panel.axhspan(low, high, color="#EDEDED", lw=0, zorder=0.4)
                panel.axhline(said["theory"], color="#444444", ls=(0, (1, 1.4)), lw=1.0, zorder=1.5)
            text = ", ".join(_factor_text(name, condition[name]) for name in keys)
            layout.add_label(labels, panel, end, text, look.color)
    band = ("margin of the claim", {"color": "#DDDDDD", "lw": 6})
    layout.key(figure, [layout.INTERVAL, layout.LEVEL, band])
    layout.place_labels(figure, labels)
    return figure


def _performance(
    results: Tables, measures: Sequence[str], where: Where, methods: Sequence[str] | None
) -> pd.DataFrame:
    table = select(results.performance, where)
    table = table[table["measure"].isin(list(measures))]
    return table if methods is None else table[table["method"].isin(list(methods))]


def _absent(measures: Sequence[str], where: Where, methods: Sequence[str] | None) -> str:
    asked = {"measure": list(measures), "method": methods, **dict(where or {})}
    listed = ", ".join(f"{name}={value}" for name, value in asked.items() if value is not None)
    return f"no rows with {listed}"


def _factor_text(name: str, level: Any) -> str:
    short = {"dim": "d", "alpha": "α"}.get(name)
    return f"{short} = {level:g}" if short else str(level)
