"""Figures of frames that minimise an error: how much they overlap, at which angles, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nwsim.heads import minimum_overlap, null_mean
from nwsim.inference.verdicts import Z95
from nwsim.report import layout
from nwsim.report.frames import Where, absent, check_single, levels, performance, select
from nwsim.report.slopes import Tables, claimed
from nwsim.report.style import COMPARED, DOTTED, Look, blank, panels, styled
from nwsim.report.words import Words, number

SIZE = ("dim", "n_heads", "d_k")
LEAST: dict[str, Any] = {"color": "#444444", "ls": DOTTED, "lw": 1.0, "zorder": 1.5}
RANDOM: dict[str, Any] = {"color": "#444444", "ls": (0, (5, 2)), "lw": 0.8, "zorder": 1.5}
BAND: dict[str, Any] = {"color": "#EDEDED", "lw": 0, "zorder": 0.4}
ZERO: dict[str, Any] = {"color": "#444444", "lw": 0.6, "zorder": 1.5}
ACROSS = 3


@styled
def optimum(
    results: Tables,
    where: Where = None,
    method: str = "optimised",
    measure: str = "overlap",
    claim: str = "D1",
    line: str = "noise",
    x: str = "world",
    panel: str = "bandwidth",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the overlap at the optimum by world: a panel a size and level of ``panel``.

    Dotted: the least overlap that so many heads can have. Dashed: the expectation for
    independent uniform frames. Grey: what the claim accepts.

    Parameters
    ----------
    results : Tables
        Frames of one study, with the factors ``dim``, ``n_heads`` and ``d_k``.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method, measure, claim : str
        What is shown, and the claim whose margin is.
    line, x, panel : str
        Factors of the marks, of the horizontal axis and of the panels of a size.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, [measure], where, [method])
    if table.empty:
        return blank(absent([measure], where, [method]))
    places, looks = _order(table, x), levels(table, line)
    check_single(table, [*SIZE, panel, line, x])
    figure, cells = _panels(table, [*SIZE, panel])
    for axes, rows in cells:
        first = _first(rows)
        size = int(first["n_heads"]), int(first["dim"]), int(first["d_k"])
        least = minimum_overlap(*size)
        said = claimed(results.claims, measure, first, "not_above", [claim])
        if said:
            axes.axhspan(least, said.theory + said.margin, **BAND)
        axes.axhline(least, **LEAST)
        axes.axhline(1.0 - null_mean(*size), **RANDOM)
        for level, part in rows.groupby(line):
            _draw(axes, part, x, places, looks.index(level), looks)
        axes.set_ylim(-0.03, 1.03)
        axes.set_title(f"{_size_text(first)}\n{words.level(panel, first[panel])}")
        _name_places(axes, [words.short(place) for place in places])
    _label_left(cells, words.measure(measure))
    entries = layout.line_entries(COMPARED, [words.level(line, level) for level in looks], "none")
    entries += [layout.INTERVAL, ("random frames", RANDOM), ("least possible", LEAST)]
    if not results.claims.empty:
        entries.append((f"margin of {claim}", {"color": "#DDDDDD", "lw": 6}))
    layout.key(figure, entries)
    return figure


@styled
def spectra(
    results: Tables,
    where: Where = None,
    method: str = "optimised",
    references: Sequence[str] = ("random", "apart"),
    line: str = "world",
    panel: str = "noise",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the mean cosines of the principal angles, descending: a panel a size and level.

    Parameters
    ----------
    results : Tables
        Frames of one study, with measures ``cosine_1``, ``cosine_2``, …
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method : str
        The method whose spectra are shown for every level of ``line``.
    references : sequence of str
        Up to two methods that are the same for every level: dashed and dotted, from the first.
    line, panel : str
        Factors of the lines and of the panels of a size.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    names = sorted(set(results.performance["measure"]), key=str)
    names = [name for name in names if name.startswith("cosine_")]
    table = performance(results.performance, names, where, [method, *references])
    if table[table["method"] == method].empty:
        return blank(absent(names, where, [method]))
    table = table.assign(angle=[int(name.partition("_")[2]) for name in table["measure"]])
    lines = _order(table, line)
    check_single(table, [*SIZE, panel, line, "method", "angle"])
    figure, cells = _panels(table.sort_values([*SIZE, panel], kind="stable"), [*SIZE, panel])
    for axes, rows in cells:
        places = sorted(rows["angle"].unique().tolist())
        for style, reference in zip((RANDOM, LEAST), references, strict=False):
            own = rows[rows["method"] == reference]
            own = own[own[line] == own[line].iloc[0]].sort_values("angle")
            axes.plot([places.index(angle) for angle in own["angle"]], own["estimate"], **style)
        for level, part in rows[rows["method"] == method].groupby(line):
            position = lines.index(level)
            _draw(axes, part, "angle", places, position, lines, joined=True)
        first = _first(rows)
        axes.set_title(f"{_size_text(first)}\n{words.level(panel, first[panel])}")
        axes.set_ylim(-0.03, 1.03)
        _name_places(axes, [str(place) for place in places], turned=False)
        axes.set_xlabel("principal angle")
    _label_left(cells, "cosine, mean over pairs")
    entries = layout.line_entries(COMPARED, [words.short(level) for level in lines], "none")
    styles = zip(references, (RANDOM, LEAST), strict=False)
    entries.append(layout.INTERVAL)
    entries += [(words.method(reference), style) for reference, style in styles]
    layout.key(figure, entries)
    return figure


@styled
def reasons(
    results: Tables,
    where: Where = None,
    rivals: Sequence[str] = ("best_orthogonal", "best_identical"),
    parts: Sequence[str] = ("bias2", "variance", "head_covariance", "mse"),
    x: str = "world",
    panel: str = "noise",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw by how much each part of the error differs from that of rivals: a row a rival.

    Parameters
    ----------
    results : Tables
        Frames of one study, whose contrasts ``<part>_above_<rival>`` are shown.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    rivals, parts : sequence of str
        Methods and measures.
    x, panel : str
        Factors of the horizontal axis and of the columns.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    names = [f"{part}_above_{rival}" for rival in rivals for part in parts]
    table = select(results.contrasts, where)
    table = table[table["contrast"].isin(names)]
    if table.empty:
        return blank(f"no contrasts {', '.join(names)}")
    check_single(table, ["contrast", panel, x])
    places, columns = _order(table, x), levels(table, panel)
    figure, axes = panels(len(rivals), len(columns))
    for (i, j), own in np.ndenumerate(axes):
        rows = table[(table["baseline"] == rivals[i]) & (table[panel] == columns[j])]
        if rows["estimate"].isna().all():
            own.remove()
            continue
        own.axhline(0.0, **ZERO)
        for position, part in enumerate(parts):
            _draw(own, rows[rows["measure"] == part], x, places, position, parts)
        own.set_title(f"beside {words.method(rivals[i])}\n{words.level(panel, columns[j])}")
        _name_places(own, [words.short(place) for place in places])
        if j == 0:
            own.set_ylabel(layout.folded(f"optimised less rival ({_unit(words, parts[-1])})", 2.1))
    entries = layout.line_entries(COMPARED, [words.label(part) for part in parts], "none")
    layout.key(figure, [*entries, layout.INTERVAL])
    return figure


def _panels(
    table: pd.DataFrame, by: Sequence[str]
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Return a panel for each combination of the columns, in their order, a few to a row."""
    groups = [rows for _, rows in table.groupby(list(by), sort=False)]
    across = min(ACROSS, len(groups))
    figure, axes = panels(-(-len(groups) // across), across, sharey="all")
    for spare in axes.flat[len(groups) :]:
        spare.remove()
    return figure, list(zip(axes.flat, groups, strict=False))


def _order(table: pd.DataFrame, name: str) -> list[Any]:
    """Return the levels of a factor as the study orders them."""
    return table[name].drop_duplicates().tolist()


def _first(rows: pd.DataFrame) -> dict[str, Any]:
    return {str(name): level for name, level in rows.iloc[0].items()}


def _draw(
    axes: Axes,
    rows: pd.DataFrame,
    x: str,
    places: Sequence[Any],
    position: int,
    lines: Sequence[Any],
    *,
    joined: bool = False,
) -> None:
    """Draw estimates and 95% intervals at their places, one line's beside another's."""
    look: Look = COMPARED[position % len(COMPARED)]
    rows = rows.assign(_at=[places.index(place) for place in rows[x]]).sort_values("_at")
    axes.errorbar(
        rows["_at"] + 0.5 * ((position + 0.5) / len(lines) - 0.5) * (0.4 if joined else 1.0),
        rows["estimate"],
        yerr=np.nan_to_num(Z95 * rows["mcse"].to_numpy(dtype=float)),
        color=look.color,
        marker=look.marker,
        ls="-" if joined else "none",
        lw=0.7,
        elinewidth=0.9,
    )


def _name_places(axes: Axes, names: Sequence[str], *, turned: bool = True) -> None:
    axes.set_xticks(range(len(names)), names)
    if turned:
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.grid(visible=False, axis="x")


def _label_left(cells: Sequence[tuple[Axes, pd.DataFrame]], text: str) -> None:
    for position, (axes, _) in enumerate(cells):
        if position % min(ACROSS, len(cells)) == 0:
            axes.set_ylabel(layout.folded(text, 2.1))


def _size_text(row: Mapping[str, Any]) -> str:
    symbols = {"dim": "d", "n_heads": "H", "d_k": "d_k"}
    return ", ".join(f"${symbol} = {number(row[name])}$" for name, symbol in symbols.items())


def _unit(words: Words, measure: str) -> str:
    label, full = words.label(measure), words.measure(measure)
    return full[len(label) :].strip(" ()")
