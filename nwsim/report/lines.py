"""One page for many studies: a few lines a panel, told apart by one column of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, levels_of, performance, series
from nwsim.report.slopes import Tables, claimed
from nwsim.report.style import COMPARED, blank, styled
from nwsim.report.words import Words


@styled
def lines(
    results: Tables,
    where: Where = None,
    measures: Sequence[str] = ("mse",),
    methods: Sequence[str] | None = None,
    line: str = "method",
    row: str | None = None,
    panel: str | None = None,
    x: str = "n_obs",
    x_log: bool = False,
    log: bool = True,
    claims: Sequence[str] = (),
    rule: str = "rate",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw measures along x, a line a level of ``line``; the key names the lines.

    Points stand at their true places.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    measures : sequence of str
        What is shown; several have a row of panels each.
    methods : sequence of str, optional
        Methods shown; default all.
    line : str
        Column that tells lines apart: a factor, or "method".
    row, panel : str, optional
        Factors of rows and columns of panels; ``row`` only with one measure.
    x : str
        Factor of the horizontal axis.
    x_log, log : bool
        Whether the horizontal and the vertical axis are logarithmic.
    claims : sequence of str
        Ids of claims whose slopes are drawn through the lines.
    rule : {"rate", "rate_of_log"}
        The rule of these claims; the second is of measures that are means of logs, on an axis
        that is not logarithmic.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, measures, where, methods)
    if table.empty:
        return blank(absent(measures, where, methods))
    many = len(measures) > 1
    rows = ("measure", list(measures)) if many else (row, levels_of(table, row))
    figure, cells = layout.grid(
        table,
        words,
        rows,
        (panel, levels_of(table, panel)),
        x=x,
        x_log=x_log,
        xlabel=words.axis(x),
        ylabel=None if many else words.measure(measures[0]),
        log=log,
        sharey="row" if many else "all",
    )
    known = levels_of(table, line, methods if line == "method" else None)
    stated = False
    for cell in cells:
        shown = [(panel, cell.column)] + ([] if many else [(row, cell.row)])
        cell.axes.set_title(", ".join(words.level(n, level) for n, level in shown if n is not None))
        for condition, own in series(cell.table, [line], x):
            look = COMPARED[known.index(condition[line]) % len(COMPARED)]
            drawing.draw_line(cell.axes, own, look, x, log=log, x_log=x_log)
            measure = str(own["measure"].iloc[0])
            said = claimed(results.claims, measure, condition, rule, claims) if claims else None
            if said:
                logs = rule == "rate_of_log"
                drawing.draw_slope(cell.axes, own, said.theory, look.color, x, logs=logs)
                stated = True
    entries = layout.line_entries(COMPARED, [words.level(line, level) for level in known])
    key = layout.claim_key(claims) if stated else []
    layout.finish(figure, cells, [], [*entries, *key])
    return figure
