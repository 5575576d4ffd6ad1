"""A page of ratios of errors near 1, one below another, so that none hides the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from nwsim.inference.verdicts import Z95
from nwsim.report import layout
from nwsim.report.frames import Where, check_single, levels, levels_of, select
from nwsim.report.slopes import Tables
from nwsim.report.style import COMPARED, Look, blank, panels, styled
from nwsim.report.words import Words, number

BAND: dict[str, Any] = {"color": "#EDEDED", "lw": 0, "zorder": 0.4}
ONE: dict[str, Any] = {"color": "#444444", "lw": 0.7, "zorder": 1.4}
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
REACH = 1.25  # how far the axis goes on beyond the extreme estimates, for their intervals
GAP = 0.17  # least distance of two labels as a part of the axis


@styled
def ratios(
    results: Tables,
    where: Where = None,
    contrasts: Sequence[str] = (),
    claim: str | None = None,
    row: str | None = "dim",
    panel: str | None = "world",
    line: str = "n_obs",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw ratios of errors with their intervals, one below another, on a logarithmic axis.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    contrasts : sequence of str
        Contrasts of kind "ratio", the first on top.
    claim : str, optional
        Id of a claim about them; what it accepts is grey, where all its settings on the page
        accept the same. The key names the other claims about them that accept just this, too.
    row, panel : str, optional
        Factors of rows and columns of panels.
    line : str
        Factor of the marks of one contrast, the lowest level on top.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = select(results.contrasts, {**dict(where or {}), "contrast": list(contrasts)})
    if table.empty:
        return blank(f"no contrasts {', '.join(contrasts)} with {dict(where or {})}")
    check_single(table, [name for name in (row, panel, line, "contrast") if name is not None])
    names = [name for name in contrasts if name in set(table["contrast"])]
    baselines = table["baseline"].unique().tolist()
    tall, wide, known = levels_of(table, row), levels_of(table, panel), levels(table, line)
    height = 0.7 + len(names) * (0.14 + 0.08 * len(known))
    figure, grid = panels(len(tall), len(wide), height=height, sharey=True, sharex=True)
    span, claims = _accepted(results, claim, names)
    kept: dict[tuple[int, ...], Axes] = {}
    for (i, j), axes in np.ndenumerate(grid):
        own = layout.part_of(layout.part_of(table, row, tall[i]), panel, wide[j])
        if own.empty:
            axes.remove()
            continue
        kept[i, j] = axes
        shown = ((row, tall[i]), (panel, wide[j]))
        axes.set_title(", ".join(words.level(name, at) for name, at in shown if name is not None))
        if span is not None:
            axes.axvspan(*span, **BAND)
        axes.axvline(1.0, **ONE)
        for at, level in enumerate(known):
            rows = own[own[line] == level]
            shift = 0.6 * ((at + 0.5) / len(known) - 0.5)
            places = [names.index(name) + shift for name in rows["contrast"]]
            _draw(axes, rows, places, COMPARED[at % len(COMPARED)])
    texts = [_text(table, name, words, baselines) for name in names]
    under = f"error over {words.method(baselines[0])}" if len(baselines) == 1 else ""
    first = next(iter(kept.values()))
    _ratio_axis(first, table["estimate"].to_numpy(dtype=float))
    first.set_ylim(len(names) - 0.5, -0.5)
    first.set_yticks(range(len(names)), texts)
    for (i, j), axes in kept.items():
        leftmost = not any((i, other) in kept for other in range(j))
        lowest = not any((other, j) in kept for other in range(i + 1, len(tall)))
        axes.tick_params(axis="y", labelsize=layout.LABEL_POINTS, labelleft=leftmost)
        axes.tick_params(axis="x", labelbottom=lowest)
        if lowest:
            axes.set_xlabel(under or "ratio of errors")
    entries = layout.line_entries(COMPARED, [words.level(line, level) for level in known], "none")
    refuting = set(results.claims.loc[results.claims["claim"] == claim, "rule"]) == {
        "refutes_above"
    }
    said = "does not refute" if refuting else "accepted by"
    band: layout.Entry = (f"{said} {', '.join(claims)}", {"color": "#DDDDDD", "lw": 6})
    layout.key(figure, [*entries, layout.INTERVAL, *([band] if span is not None else [])])
    return figure


def _text(table: pd.DataFrame, contrast: str, words: Words, baselines: Sequence[str]) -> str:
    """Return the name of a contrast: its method, and the baseline where a page has several."""
    first = table[table["contrast"] == contrast].iloc[0]
    over = f"\nover {words.method(first['baseline'])}" if len(baselines) > 1 else ""
    return words.method(first["level"]) + over


def _draw(axes: Axes, rows: pd.DataFrame, places: Sequence[float], look: Look) -> None:
    axes.errorbar(
        rows["estimate"].to_numpy(dtype=float),
        places,
        xerr=np.nan_to_num(Z95 * rows["mcse"].to_numpy(dtype=float)),
        color=look.color,
        marker=look.marker,
        ms=3.5,
        elinewidth=1.0,
        ls="none",
    )


def _accepted(
    results: Tables, claim: str | None, quantities: Sequence[str]
) -> tuple[tuple[float, float] | None, list[str]]:
    """Return what the claim accepts of these, if it is one range, and all claims that do so."""
    rows = results.claims[results.claims["quantity"].isin(list(quantities))]
    ranges: dict[str, set[tuple[float, float]]] = {}
    for name, theory, margin, rule in zip(
        rows["claim"], rows["theory"], rows["margin"], rows["rule"], strict=True
    ):
        low = theory - margin if rule == "equivalence" else 0.0
        ranges.setdefault(name, set()).add((max(low, 1e-9), theory + margin))
    own = ranges.get(claim or "", set())
    if len(own) != 1 or max(own)[1] <= 1.0:
        return None, []
    return max(own), [name for name, other in ranges.items() if other == own]


def _ratio_axis(axes: Axes, estimates: np.ndarray[Any, Any]) -> None:
    """Make x a logarithmic axis of ratios about 1, with labels as plain numbers."""
    usable = estimates[np.isfinite(estimates) & (estimates > 0)]
    low, high = min(usable.min(initial=1.0), 1.0) / REACH, max(usable.max(initial=1.0), 1.0) * REACH
    axes.set_xscale("log", nonpositive="clip")
    axes.set_xlim(low, high)
    least = GAP * np.log(high / low)
    shown = [1.0]
    for tick in sorted((t for t in TICKS if low <= t <= high), key=lambda t: abs(np.log(t))):
        if all(abs(np.log(tick / other)) >= least for other in shown):
            shown.append(tick)
    axes.xaxis.set_major_locator(FixedLocator(sorted(shown)))
    axes.xaxis.set_major_formatter(FixedFormatter([number(tick) for tick in sorted(shown)]))
    axes.xaxis.set_minor_locator(NullLocator())
