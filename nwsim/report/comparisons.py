"""Figures that set a few levels of one factor side by side, from the results tables alone.

Their options are those of :mod:`nwsim.report.rates`, which offers these builders too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nwsim.report import drawing, layout
from nwsim.report.drawing import exponent_text
from nwsim.report.frames import Where, absent, levels, levels_of, performance, series
from nwsim.report.slopes import Tables, check_claims, claimed, fit_text, fitted_slope, slope_note
from nwsim.report.style import COMPARED, blank, styled
from nwsim.report.words import Words


@styled
def boundary(
    results: Tables,
    where: Where = None,
    method: str = "rate",
    measure: str = "mse",
    curve: str = "tail_slope",
    line: str = "region",
    row: str | None = "dim",
    panel: str | None = "alpha",
    x: str = "n_obs",
    claims: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw risk over regions side by side: a row a level of ``row``, a column one of ``panel``.

    Only panels that have at least two of the compared levels are shown. Points stand at their
    true places. Below the name of a line stands its fitted slope ± one standard error, and in
    brackets that of its claim.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    method, measure : str
        What is shown.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    line, row, panel, x : str
        Factors that tell lines, rows and columns of panels apart, and that of the horizontal,
        logarithmic axis; ``row`` and ``panel`` may be None.
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
    table = performance(results.performance, [measure], where, [method])
    places = [name for name in (row, panel) if name is not None]
    if not table.empty:
        groups = table.groupby(places)[line] if places else table.groupby("measure")[line]
        table = table[groups.transform("nunique") > 1]
    if table.empty:
        return blank(f"{absent([measure], where, [method])} over two levels of {line}")
    compared = levels(table, line)
    figure, cells = layout.grid(
        table,
        words,
        (row, levels_of(table, row)),
        (panel, levels_of(table, panel)),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel=words.measure(measure),
        sharey="all",
    )
    ends: list[layout.EndLabel] = []
    headings = {}
    theory = False
    for cell in cells:
        stated = fitted = False
        shown = ((row, cell.row), (panel, cell.column))
        cell.axes.set_title(
            ", ".join(words.level(name, level) for name, level in shown if name is not None)
        )
        for condition, rows in series(cell.table, [line], x):
            position = compared.index(condition[line])
            look = COMPARED[position % len(COMPARED)]
            end = drawing.draw_line(cell.axes, rows, look, x, hollow=position > 0)
            said = claimed(results.claims, measure, condition, "rate", names)
            note = slope_note(results, measure, condition, curve, said)
            if said:
                drawing.draw_slope(cell.axes, rows, said.theory, look.color, x)
            text = f"{words.level(line, condition[line])}\n{note}".rstrip()
            layout.add_label(ends, cell.axes, end, text, look.color)
            stated, fitted = stated or said is not None, fitted or bool(note)
        if fitted:
            headings[cell.axes] = f"slope ± s.e.{' (theory)' if stated else ''}"
        theory = theory or stated
    key = layout.claim_key(names) if theory else []
    layout.finish(figure, cells, ends, [layout.INTERVAL, *key], headings)
    return figure


@styled
def saturation(
    results: Tables,
    where: Where = None,
    shown: Sequence[tuple[str, str]] = (("bias2", "rate"), ("mse", "oracle")),
    claims: Sequence[str] | None = ("R2",),
    printed: Sequence[str] | None = None,
    theory_of: str | None = "rate",
    curve: str = "tail_slope",
    line: str = "kernel",
    row: str | None = "dim",
    x: str = "n_obs",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw kernels of different order on one smooth world: a row a dimension.

    Points stand at their true places. Below the name of a line stand its fitted slope ± one
    standard error and the slopes that the claims state.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s), usually ``{"alpha": 3.0, ...}``.
    shown : sequence of (measure, method)
        What the columns show.
    claims : sequence of str, optional
        Ids of the claims whose slopes are drawn through the estimates, the first that covers a
        line is taken; default that of saturation, None for all.
    printed : sequence of str, optional
        Ids of claims to compare with; the slope of the first that covers a line is drawn,
        where it differs, from the first point. Default all that ``claims`` does not name.
    theory_of : str, optional
        Method whose claims are also compared with at methods that ``printed`` is not about.
    curve : str
        Name of the curve that holds fitted slopes, for lines that no claim covers.
    line, row, x : str
        Factors that tell lines and rows of panels apart, and that of the horizontal,
        logarithmic axis; ``row`` may be None.
    labels : mapping, optional
        Texts by name of factor, level or method, such as a kernel with its order.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or claims differ about a line.
    """
    names = check_claims(results, "claims", claims)
    others = check_claims(results, "printed", printed)
    rest = results.claims
    if others is None:
        # With no claim named, none is left to compare with.
        rest = rest.iloc[:0] if names is None else rest[~rest["claim"].isin(names)]
    words = Words(results.manifest, labels or {})
    measures, methods = [list(column) for column in zip(*shown, strict=True)]
    table = performance(results.performance, measures, where, methods)
    pairs = list(zip(table["measure"], table["method"], strict=True))
    table = table.assign(shown=[f"{measure} {method}" for measure, method in pairs])
    table = table[[pair in {tuple(pair) for pair in shown} for pair in pairs]]
    if table.empty:
        return blank(absent(measures, where, methods))
    compared = levels(table, line)
    figure, cells = layout.grid(
        table,
        words,
        (row, levels_of(table, row)),
        ("shown", [f"{measure} {method}" for measure, method in shown]),
        x=x,
        x_log=True,
        xlabel=words.axis(x),
        ylabel="",
        height=2.6,
    )
    ends: list[layout.EndLabel] = []
    headings = {}
    through: dict[str, None] = {}
    beside: dict[str, None] = {}
    for cell in cells:
        measure, method = cell.table[["measure", "method"]].iloc[0]
        titles = [words.level(row, cell.row)] if row is not None else []
        cell.axes.set_title(", ".join([*titles, words.method(method)]))
        cell.axes.set_ylabel(words.measure(measure))
        for condition, rows in series(cell.table.drop(columns="shown"), [line], x):
            position = compared.index(condition[line])
            look = COMPARED[position % len(COMPARED)]
            end = drawing.draw_line(cell.axes, rows, look, x, hollow=position > 0)
            said = claimed(results.claims, measure, condition, "rate", names)
            fit = fit_text(*fitted_slope(results, measure, condition, curve, said))
            texts = [words.level(line, condition[line]), f"fit: {fit}" if fit else ""]
            if fit:
                headings[cell.axes] = "fitted slope ± s.e."
            other = claimed(rest, measure, condition, "rate", others, theory_of)
            if said:
                drawing.draw_slope(cell.axes, rows, said.theory, look.color, x)
                through[said.claim] = None
                texts.append(f"{said.claim}: {exponent_text(said.theory)}")
            if other and not (said and said.theory == other.theory):
                drawing.draw_slope(cell.axes, rows, other.theory, look.color, x, printed=True)
                beside[other.claim] = None
                texts.append(f"{other.claim}: {exponent_text(other.theory)}")
            layout.add_label(ends, cell.axes, end, "\n".join(filter(None, texts)), look.color)
    key = layout.claim_key(sorted(through), sorted(beside))
    layout.finish(figure, cells, ends, [layout.INTERVAL, *key], headings)
    return figure


@styled
def constants(
    results: Tables,
    where: Where = None,
    method: str | None = None,
    measures: Sequence[str] = ("bias_ratio", "variance_ratio"),
    line: str | Sequence[str] = ("dim", "kernel"),
    x: str = "n_obs",
    x_log: bool = True,
    claims: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw bias and variance over their asymptotic values, with the margin of the claim.

    Points are shifted sideways about their true places for visibility, so that no interval
    hides another.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s).
    method : str, optional
        The one method shown; needed if several report the ratios.
    measures : sequence of str
        Ratios, one column of panels each.
    line : str or sequence of str
        Factors that tell lines apart; those with one level are not written out.
    x : str
        Factor of the horizontal axis.
    x_log : bool
        Whether that axis is logarithmic.
    claims : sequence of str, optional
        Ids of the claims whose margins are shown, the first that covers a line is taken;
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
    methods = None if method is None else [method]
    table = performance(results.performance, measures, where, methods)
    if table.empty:
        return blank(absent(measures, where, methods))
    by = [line] if isinstance(line, str) else list(line)
    by = [name for name in by if len(levels(table, name)) > 1] or by[:1]
    figure, cells = layout.grid(
        table,
        words,
        (None, [None]),
        ("measure", list(measures)),
        x=x,
        x_log=x_log,
        xlabel=words.axis(x),
        ylabel="",
        log=False,
        sharey="all",
        height=2.3,
    )
    order = sorted(table[by].drop_duplicates().itertuples(index=False, name=None))
    places = table[x].to_numpy(dtype=float)
    ends: list[layout.EndLabel] = []
    theory = False
    for cell in cells:
        axes, measure = cell.axes, cell.column
        axes.set_ylabel(layout.folded(words.measure(measure), 2.3))
        axes.tick_params(labelleft=True)
        drawn: set[tuple[object, ...]] = set()
        for condition, rows in series(cell.table, by, x):
            position = order.index(tuple(condition[name] for name in by))
            look = COMPARED[position % len(COMPARED)]
            shift = layout.aside(places, position, len(order), x_log)
            end = drawing.draw_line(axes, rows, look, x, log=False, shift=shift, x_log=x_log)
            # An equivalence claim names the level of x that it judges.
            said = {
                place: (stated.theory, stated.margin)
                for place in rows[x].tolist()
                if (
                    stated := claimed(
                        results.claims, measure, {**condition, x: place}, "equivalence", names
                    )
                )
            }
            known = (
                tuple(set(said.values())) if len(set(said.values())) < 2 else tuple(said.items())
            )
            if said and known not in drawn:
                drawing.draw_margin(axes, said)
                drawn.add(known)
            text = ", ".join(words.level(name, condition[name]) for name in by)
            layout.add_label(ends, axes, end, text, look.color)
        theory = theory or bool(drawn)
    band: layout.Entry = ("margin of the claim", {"color": "#DDDDDD", "lw": 6})
    key = [layout.LEVEL, band] if theory else []
    layout.finish(figure, cells, ends, [layout.INTERVAL, *key])
    return figure
