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
from nwsim.report.slopes import Tables, claimed, fit_text, fitted_slope, slope_note, stated_slope
from nwsim.report.style import COMPARED, Look, blank, look_of, styled

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
    figure, cells = layout.grid(
        table, _order(table, methods), "method", layout.axis_name(measure), sharey="all"
    )
    labels: list[layout.EndLabel] = []
    for cell in cells:
        cell.axes.set_title(f"$d = {cell.column}$, {layout.method_name(cell.row)}")
        for condition, rows in series(cell.table, ["alpha"]):
            look = _alpha_look(results, condition["alpha"])
            end = drawing.draw_line(cell.axes, rows, look)
            slope = stated_slope(results, measure, condition)
            drawing.draw_slope(cell.axes, rows, slope, look.color)
            layout.add_label(
                labels, cell.axes, end, layout.alpha_text(condition["alpha"]), look.color
            )
    layout.finish(figure, cells, labels, [layout.INTERVAL, layout.THEORY])
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
    figure, cells = layout.grid(table, list(measures), "measure", None, sharey="row", height=2.5)
    labels: list[layout.EndLabel] = []
    for cell in cells:
        panel, measure = cell.axes, cell.row
        panel.set_title(f"$d = {cell.column}$")
        for condition, rows in series(cell.table, ["alpha"]):
            look = _alpha_look(results, condition["alpha"])
            end = drawing.draw_line(panel, rows, look)
            said = claimed(results.claims, measure, condition)
            if said:
                drawing.draw_slope(panel, rows, said["theory"], look.color)
            note = slope_note(results, measure, condition, curve, with_error=False)
            text = f"{condition['alpha']:g}: {note}" if note else f"{condition['alpha']:g}"
            layout.add_label(labels, panel, end, text, look.color)
        panel.text(
            layout.LABEL_X,
            1.02,
            "$\\alpha$: slope (theory)",
            transform=panel.transAxes,
            fontsize=layout.LABEL_POINTS,
            va="bottom",
        )
    layout.finish(figure, cells, labels, [layout.INTERVAL, layout.THEORY])
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
    figure, cells = layout.grid(
        table,
        _order(table, methods),
        "method",
        f"local slope of log {layout.SHORT.get(measure, measure)}",
        x="x",
        log=False,
        sharey="col",
        height=2.7,
        room=1.8,
    )
    labels: list[layout.EndLabel] = []
    for cell in cells:
        panel, alphas = cell.axes, levels(cell.table, "alpha")
        panel.set_title(f"$d = {cell.column}$, {layout.method_name(cell.row)}")
        # Intervals of different alpha stand beside each other, not one in front of another.
        places = np.array(levels(table[table["dim"] == cell.column], "x"))
        step = float(np.min(places[1:] / places[:-1])) if len(places) > 1 else 2.0
        for condition, rows in series(cell.table, ["alpha"], over="x"):
            look = _alpha_look(results, condition["alpha"])
            turn = alphas.index(condition["alpha"]) - (len(alphas) - 1) / 2
            shift = step ** (0.5 * turn / len(alphas))
            drawing.draw_line(panel, rows, look, "x", log=False, shift=shift, joined=False)
            slope = stated_slope(results, measure, condition)
            panel.axhline(slope, color=look.color, ls=(0, (1, 1.4)), lw=1.0, zorder=1.5)
            end = (panel.get_xlim()[1], slope)
            text = f"{layout.alpha_text(condition['alpha'])}: {exponent_text(slope)}"
            layout.add_label(labels, panel, end, text, look.color)
    marks = ("local slope, 95% Monte Carlo interval", {"marker": "o", "lw": 0.4})
    layout.finish(figure, cells, labels, [marks, layout.LEVEL])
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
    if not table.empty:
        table = table[table.groupby(["dim", "alpha"])[factor].transform("nunique") > 1]
    if table.empty:
        return blank(f"{_absent([measure], where, [method])} over two levels of {factor}")
    regions = levels(table, factor)
    figure, cells = layout.grid(
        table,
        levels(table, "dim"),
        "dim",
        layout.axis_name(measure),
        "alpha",
        sharey="all",
    )
    labels: list[layout.EndLabel] = []
    for cell in cells:
        panel = cell.axes
        panel.set_title(f"$d = {cell.row}$, {layout.alpha_text(cell.column)}")
        for condition, rows in series(cell.table, [factor]):
            position = regions.index(condition[factor])
            look = COMPARED[position % len(COMPARED)]
            end = drawing.draw_line(panel, rows, look, hollow=position > 0)
            said = claimed(results.claims, measure, condition)
            name = str(condition[factor]).replace("_", " ")
            text = f"{name}\n{slope_note(results, measure, condition, curve)}".rstrip()
            if said:
                drawing.draw_slope(panel, rows, said["theory"], look.color)
            layout.add_label(labels, panel, end, text, look.color)
    layout.finish(figure, cells, labels, [layout.INTERVAL, layout.BRACKETED])
    return figure


@styled
def saturation(
    results: Tables,
    where: Where = None,
    shown: Sequence[tuple[str, str]] = (("bias2", "rate"), ("mse", "oracle")),
    kernel_labels: Mapping[str, str] | None = None,
    claim: str = "R2",
    printed: str | None = "R1",
    curve: str = "tail_slope",
) -> Figure:
    """Draw kernels of different order on one smooth world: a row a dimension.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s), usually ``{"alpha": 3.0, ...}``.
    shown : sequence of (measure, method)
        What the columns show.
    kernel_labels : mapping, optional
        Kernel name to the text shown, such as ``"order 2"``.
    claim : str
        The claim whose slope is drawn through the estimates.
    printed : str, optional
        A claim to compare with; its slope is drawn, where it differs, from the first point.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    """
    measures, methods = [list(names) for names in zip(*shown, strict=True)]
    table = _performance(results, measures, where, methods)
    pairs = list(zip(table["measure"], table["method"], strict=True))
    table = table.assign(shown=[f"{measure} {method}" for measure, method in pairs])
    table = table[[pair in {tuple(pair) for pair in shown} for pair in pairs]]
    if table.empty:
        return blank(_absent(measures, where, methods))
    kernels = levels(table, "kernel")
    figure, cells = layout.grid(
        table,
        levels(table, "dim"),
        "dim",
        None,
        "shown",
        [f"{measure} {method}" for measure, method in shown],
        height=2.6,
    )
    labels: list[layout.EndLabel] = []
    for cell in cells:
        panel = cell.axes
        measure, method = cell.table[["measure", "method"]].iloc[0]
        panel.set_title(f"$d = {cell.row}$, {layout.method_name(method)}")
        panel.set_ylabel(layout.axis_name(measure))
        for condition, rows in series(cell.table.drop(columns="shown"), ["kernel"]):
            position = kernels.index(condition["kernel"])
            look = COMPARED[position % len(COMPARED)]
            end = drawing.draw_line(panel, rows, look, hollow=position > 0)
            words = [(kernel_labels or {}).get(condition["kernel"], condition["kernel"])]
            fit = fit_text(*fitted_slope(results, measure, condition, curve, claim))
            words.append(f"fit: {fit}" if fit else "")
            stated: dict[str, float] = {}
            for name in (claim, printed) if printed else (claim,):
                said = claimed(results.claims, measure, condition, claim=name)
                if said and said["theory"] not in stated.values():
                    stated[name] = said["theory"]
                    drawing.draw_slope(
                        panel, rows, said["theory"], look.color, printed=name == printed
                    )
            words.append(", ".join(f"{name}: {exponent_text(v)}" for name, v in stated.items()))
            text = "\n".join(word for word in words if word)
            layout.add_label(labels, panel, end, text, look.color)
    entries = [layout.INTERVAL, *layout.claim_key(claim, printed)]
    layout.finish(figure, cells, labels, entries)
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
    figure, cells = layout.grid(
        table, [None], None, None, "measure", list(measures), log=False, sharey="all"
    )
    labels: list[layout.EndLabel] = []
    looks: dict[tuple[Any, ...], int] = {}
    for cell in cells:
        panel, measure = cell.axes, cell.column
        panel.set_ylabel(layout.axis_name(measure))
        drawn = set()
        for condition, rows in series(cell.table, keys):
            line = tuple(condition[name] for name in keys)
            position = looks.setdefault(line, len(looks))
            look = COMPARED[position % len(COMPARED)]
            end = drawing.draw_line(panel, rows, look, log=False, shift=1.1**position)
            said = claimed(results.claims, measure, condition, rule="equivalence")
            if said and (said["theory"], said["margin"]) not in drawn:
                drawn.add((said["theory"], said["margin"]))
                low, high = said["theory"] - said["margin"], said["theory"] + said["margin"]
                panel.axhspan(low, high, color="#EDEDED", lw=0, zorder=0.4)
                panel.axhline(said["theory"], color="#444444", ls=(0, (1, 1.4)), lw=1.0, zorder=1.5)
            text = ", ".join(layout.factor_text(name, condition[name]) for name in keys)
            layout.add_label(labels, panel, end, text, look.color)
    band = ("margin of the claim", {"color": "#DDDDDD", "lw": 6})
    layout.finish(figure, cells, labels, [layout.INTERVAL, layout.LEVEL, band])
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


def _order(table: pd.DataFrame, methods: Sequence[str] | None) -> list[str]:
    """Return the methods that have rows, in the order asked for or else that of the study."""
    present = table["method"].unique().tolist()
    return present if methods is None else [name for name in methods if name in present]


def _alpha_look(results: Tables, alpha: float) -> Look:
    """Return the look of an alpha: one for the whole study, whatever else a page shows."""
    return look_of(levels(results.performance, "alpha").index(alpha))
