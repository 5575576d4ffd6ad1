"""Figures of risk against sample size, from the results tables alone.

Every builder takes ``results`` (anything with the frames ``performance``, ``curves`` and
``claims`` and a ``manifest``) and ``where``, a mapping of column to level(s) that picks the
rows. Which factors make the lines, the panels and the horizontal axis are options; any other
factor that varies along one line is an error that names it. Theoretical slopes, margins and
fitted slopes are read from the tables: where no claim states a theory, none is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nwsim.report import drawing, layout
from nwsim.report.comparisons import boundary, constants, saturation
from nwsim.report.drawing import exponent_text
from nwsim.report.frames import Where, absent, levels, levels_of, performance, select, series
from nwsim.report.slopes import Tables, check_claims, claimed, slope_note
from nwsim.report.style import DOTTED, Look, blank, look_of, styled
from nwsim.report.words import Words

__all__ = ["boundary", "constants", "local_slopes", "parts", "risk", "saturation"]


@styled
def risk(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
    line: str = "alpha",
    panel: str | None = "dim",
    x: str = "n_obs",
    x_log: bool = True,
    claims: Sequence[str] | None = None,
    theory_of: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw risk on logarithmic axes: a row a method, a column a level of ``panel``.

    Points stand at their true places. The slope of a claim is a pale band through the larger
    half of the points; lines without a claim have none.

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
    line, panel, x : str
        Factors that tell lines and columns of panels apart, and that of the horizontal axis;
        ``panel`` may be None.
    x_log : bool
        Whether x is logarithmic; bands of theory are drawn only then.
    claims : sequence of str, optional
        Ids of the claims whose slopes are drawn, the first that covers a line is taken;
        default all, an error where they differ about a line.
    theory_of : str, optional
        Method whose claims also state the theory for methods that no claim is about.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or claims differ about a line.
    """
    names = check_claims(results, "claims", claims)
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, [measure], where, methods)
    if table.empty:
        return blank(absent([measure], where, methods))
    figure, cells = layout.grid(
        table,
        words,
        ("method", levels_of(table, "method", methods)),
        (panel, levels_of(table, panel)),
        x=x,
        x_log=x_log,
        xlabel=words.axis(x),
        ylabel=words.measure(measure),
        sharey="all",
    )
    ends: list[layout.EndLabel] = []
    theory = False
    for cell in cells:
        cell.axes.set_title(_title(words, panel, cell))
        for condition, rows in series(cell.table, [line], x):
            look = _look(results, line, condition[line])
            end = drawing.draw_line(cell.axes, rows, look, x, x_log=x_log)
            said = claimed(results.claims, measure, condition, "rate", names, theory_of)
            if said and x_log:
                drawing.draw_slope(cell.axes, rows, said.theory, look.color, x)
                theory = True
            layout.add_label(ends, cell.axes, end, words.level(line, condition[line]), look.color)
    key = layout.claim_key(names) if theory else []
    layout.finish(figure, cells, ends, [layout.INTERVAL, *key])
    return figure


@styled
def parts(
    results: Tables,
    where: Where = None,
    method: str = "rate",
    measures: Sequence[str] = ("bias2", "variance"),
    curve: str = "tail_slope",
    line: str = "alpha",
    panel: str | None = "dim",
    x: str = "n_obs",
    claims: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw squared bias and variance apart, each line labelled by fitted and stated slope.

    Points stand at their true places. Beside a line stand its level, its fitted slope and, in
    brackets, that of its claim; the room does not allow the standard errors, which the other
    pages give after ±.

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
    line, panel, x : str
        Factors that tell lines and columns of panels apart, and that of the horizontal,
        logarithmic axis; ``panel`` may be None.
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
    figure, cells = layout.grid(
        table,
        words,
        ("measure", list(measures)),
        (panel, levels_of(table, panel)),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel=None,
        sharey="row",
        height=2.5,
    )
    ends: list[layout.EndLabel] = []
    theory = False
    for cell in cells:
        stated = fitted = False
        if panel is not None:
            cell.axes.set_title(words.level(panel, cell.column))
        for condition, rows in series(cell.table, [line], x):
            look = _look(results, line, condition[line])
            end = drawing.draw_line(cell.axes, rows, look, x)
            said = claimed(results.claims, cell.row, condition, "rate", names)
            if said:
                drawing.draw_slope(cell.axes, rows, said.theory, look.color, x)
            note = slope_note(results, cell.row, condition, curve, said, with_error=False)
            text = words.short(condition[line])
            layout.add_label(ends, cell.axes, end, f"{text}: {note}" if note else text, look.color)
            stated, fitted = stated or said is not None, fitted or bool(note)
        heads = f": slope{' (theory)' if stated else ''}" if fitted else ""
        layout.heading(cell.axes, words.symbol(line) + heads)
        theory = theory or stated
    key = layout.claim_key(names) if theory else []
    layout.finish(figure, cells, ends, [layout.INTERVAL, *key])
    return figure


@styled
def local_slopes(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
    curve: str = "local_slope",
    line: str = "alpha",
    panel: str | None = "dim",
    x: str = "n_obs",
    x_log: bool = True,
    claims: Sequence[str] | None = None,
    theory_of: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw slopes between neighbouring levels of x against the exponent of the theory.

    A slope belongs to the geometric mean of its two levels. Points are shifted sideways about
    that place for visibility, so that no interval hides another.

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
    line, panel, x : str
        Factors that tell lines and columns of panels apart, and that which the curve runs
        along; ``panel`` may be None.
    x_log : bool
        Whether the horizontal axis is logarithmic.
    claims : sequence of str, optional
        Ids of the claims whose slopes are drawn, the first that covers a line is taken;
        default all, an error where they differ about a line.
    theory_of : str, optional
        Method whose claims also state the theory for methods that no claim is about.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or claims differ about a line.
    """
    names = check_claims(results, "claims", claims)
    words = Words(results.manifest, labels or {})
    table = select(results.curves, {"curve": curve, "measure": measure, "over": x})
    table = select(table, where)
    if methods is not None:
        table = table[table["method"].isin(list(methods))]
    if table.empty:
        return blank(absent([f"{curve} of {measure}"], where, methods))
    figure, cells = layout.grid(
        table,
        words,
        ("method", levels_of(table, "method", methods)),
        (panel, levels_of(table, panel)),
        x=x,
        x_log=x_log,
        xlabel=words.axis(x),
        ylabel=f"local slope of {words.label(measure)}",
        at="x",
        log=False,
        sharey="col",
        height=2.7,
        room=1.8,
    )
    ends: list[layout.EndLabel] = []
    theory = False
    for cell in cells:
        axes, shown = cell.axes, levels(cell.table, line)
        axes.set_title(_title(words, panel, cell))
        places = layout.part_of(table, panel, cell.column)["x"].to_numpy(dtype=float)
        for condition, rows in series(cell.table, [line], "x"):
            look = _look(results, line, condition[line])
            shift = layout.aside(places, shown.index(condition[line]), len(shown), x_log)
            end = drawing.draw_line(
                axes, rows, look, "x", log=False, shift=shift, joined=False, x_log=x_log
            )
            text = words.level(line, condition[line])
            said = claimed(results.claims, measure, condition, "rate", names, theory_of)
            if said:
                axes.axhline(said.theory, color=look.color, ls=DOTTED, lw=1.0, zorder=1.5)
                end = (axes.get_xlim()[1], said.theory)
                text = f"{text}: {exponent_text(said.theory)}"
                theory = True
            layout.add_label(ends, axes, end, text, look.color)
    marks: layout.Entry = ("local slope, 95% Monte Carlo interval", {"marker": "o", "lw": 0.4})
    layout.finish(figure, cells, ends, [marks, layout.LEVEL] if theory else [marks])
    return figure


def _title(words: Words, panel: str | None, cell: layout.Cell) -> str:
    method = words.method(str(cell.row))
    return method if panel is None else f"{words.level(panel, cell.column)}, {method}"


def _look(results: Tables, line: str, level: object) -> Look:
    """Return the look of a level: one for the whole study, whatever else a page shows."""
    return look_of(levels(results.performance, line).index(level))
