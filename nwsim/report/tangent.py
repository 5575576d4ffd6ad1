"""A figure of power laws: a panel a measure, with fitted slopes and those of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nwsim.report import drawing, layout
from nwsim.report.frames import Where, absent, levels, performance, series
from nwsim.report.slopes import Tables, check_claims, claimed, slope_note
from nwsim.report.style import COMPARED, blank, styled
from nwsim.report.words import Words

PER_ROW = 2


@styled
def slopes(
    results: Tables,
    where: Where = None,
    method: str = "trained",
    measures: Sequence[str] = ("mse",),
    line: str = "dim",
    x: str = "n_heads",
    curve: str = "tail_slope",
    claims: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw measures on logarithmic axes: a panel a measure, a line a level of ``line``.

    Points stand at their true places. Beside a line stand its level, its fitted slope and, in
    brackets, that of its claim, which is also drawn as a pale band.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    method : str
        The one method shown.
    measures : sequence of str
        What is shown, in the order of the panels.
    line, x : str
        Factors of the lines and of the horizontal axis.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    claims : sequence of str, optional
        Ids of the claims whose slopes are drawn, the first that covers a line is taken;
        default all, an error where they differ about a line.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or claims differ about a line.
    """
    names = check_claims(results, "claims", claims)
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, measures, where, [method])
    if table.empty:
        return blank(absent(measures, where, [method]))
    order = [name for name in measures if (table["measure"] == name).any()]
    place = table["measure"].map(order.index)
    table = table.assign(_row=place // PER_ROW, _column=place % PER_ROW)
    figure, cells = layout.grid(
        table,
        words,
        ("_row", levels(table, "_row")),
        ("_column", levels(table, "_column")),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel="",
        height=2.3,
    )
    known = levels(table, line)
    ends: list[layout.EndLabel] = []
    stated = False
    for cell in cells:
        measure = str(cell.table["measure"].iloc[0])
        cell.axes.set_ylabel(layout.folded(words.measure(measure), 2.3))
        cell.axes.tick_params(labelleft=True)
        rows = cell.table.drop(columns=["_row", "_column"])
        noted = False
        for condition, own in series(rows, [line], x):
            look = COMPARED[known.index(condition[line]) % len(COMPARED)]
            end = drawing.draw_line(cell.axes, own, look, x)
            said = claimed(results.claims, measure, condition, "rate", names)
            if said:
                drawing.draw_slope(cell.axes, own, said.theory, look.color, x)
            note = slope_note(results, measure, condition, curve, said, with_error=False)
            text = words.short(condition[line])
            layout.add_label(ends, cell.axes, end, f"{text}: {note}" if note else text, look.color)
            stated, noted = stated or said is not None, noted or bool(note)
        layout.heading(cell.axes, words.symbol(line) + (": slope (claim)" if noted else ""))
    key = layout.claim_key(names) if stated else []
    layout.finish(figure, cells, ends, [layout.INTERVAL, *key])
    return figure
