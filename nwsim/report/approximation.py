"""Figures of approximation by attention, from the results tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, levels, performance, series
from nwsim.report.slopes import Tables, check_claims, claimed
from nwsim.report.style import COMPARED, DOTTED, blank, styled
from nwsim.report.words import Words

RULE = "falls_in_logs"
LEVEL: dict[str, Any] = {"color": "#444444", "ls": DOTTED, "lw": 1.0, "zorder": 1.4}


@styled
def lines(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "sup_error",
    x: str = "n_keys",
    panel: str = "dim",
    log: bool = True,
    level: float | None = None,
    claims: Sequence[str] = (),
    judged: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure against the number of keys, a line a method.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    methods : sequence of str, optional
        Lines; default all that have the measure.
    measure : str
        What is shown.
    x, panel : str
        Factors of the horizontal, logarithmic axis and of the panels.
    log : bool
        Whether the vertical axis is logarithmic.
    level : float, optional
        Height of a dotted line.
    claims : sequence of str
        Ids of the claims whose slopes are drawn, rule "falls_in_logs"; on a logarithmic axis
        alone.
    judged : str, optional
        The quantity of these claims, the log of the measure.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    names = check_claims(results, "claims", claims)
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, [measure], where, methods)
    if table.empty:
        return blank(absent([measure], where, methods))
    figure, cells = layout.grid(
        table,
        words,
        (None, [None]),
        (panel, levels(table, panel)),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel=words.measure(measure),
        log=log,
        sharey="all",
        height=2.8,
    )
    # Of the study, not of the page: a method looks the same in all figures.
    known = results.performance["method"].unique().tolist()
    shown = [name for name in known if name in set(table["method"])]
    stated = False
    for cell in cells:
        cell.axes.set_title(words.level(panel, cell.column))
        if level is not None:
            cell.axes.axhline(level, **LEVEL)
        for condition, rows in series(cell.table, ["method"], x):
            look = COMPARED[known.index(condition["method"]) % len(COMPARED)]
            drawing.draw_line(cell.axes, rows, look, x, log=log)
            said = claimed(results.claims, judged, condition, RULE, names) if judged else None
            if said is not None and log:
                drawing.draw_slope(cell.axes, rows, said.theory, look.color, x)
                stated = True
    looks = [COMPARED[known.index(name) % len(COMPARED)] for name in shown]
    entries = layout.line_entries(looks, [words.method(name) for name in shown])
    if stated:
        entries += layout.claim_key(names)
    layout.finish(figure, cells, [], [*entries, layout.INTERVAL])
    return figure
