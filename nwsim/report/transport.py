"""A page of paired ratios: what a method costs over another, along any factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nwsim.exceptions import ParameterError
from nwsim.report import drawing, layout
from nwsim.report.frames import Where, levels_of, select, series
from nwsim.report.slopes import Tables
from nwsim.report.style import COMPARED, blank, styled
from nwsim.report.words import Words


@styled
def ratios(
    results: Tables,
    contrasts: Sequence[str],
    where: Where = None,
    x: str = "n_obs",
    x_log: bool = True,
    panel: str | None = None,
    row: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw ratios of methods along x, a line a contrast, with the line where they are equal.

    Methods have the looks that they have on a page of the baseline and these methods.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    contrasts : sequence of str
        Names of contrasts of kind "ratio", of one measure and one baseline.
    where : mapping, optional
        Column to level(s): all factors that the page does not show.
    x : str
        Factor of the horizontal axis.
    x_log : bool
        Whether that axis is logarithmic; the vertical one is.
    panel, row : str, optional
        Factors of columns and rows of panels.
    labels : mapping, optional
        Texts by name of factor, level or method.

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, a factor is left to vary, or the
        contrasts are no ratios of one measure to one method.
    """
    words = Words(results.manifest, labels or {})
    table = select(results.contrasts, {**dict(where or {}), "contrast": list(contrasts)})
    if table.empty:
        return blank(f"no contrasts {', '.join(contrasts)} with {dict(where or {})}")
    kinds = table[["measure", "kind", "factor", "baseline"]].drop_duplicates()
    if len(kinds) > 1 or kinds["kind"].iloc[0] != "ratio" or kinds["factor"].iloc[0] != "method":
        raise ParameterError(
            f"contrasts must be ratios of one measure to one method; got {kinds.to_dict('records')}"
        )
    baseline = str(kinds["baseline"].iloc[0])
    measure = words.label(str(kinds["measure"].iloc[0]))
    figure, cells = layout.grid(
        table,
        words,
        (row, levels_of(table, row)),
        (panel, levels_of(table, panel)),
        x=x,
        x_log=x_log,
        xlabel=words.axis(x),
        ylabel=f"{measure} over that of {words.method(baseline)}",
        sharey="row",
    )
    order = results.performance["method"].unique().tolist()
    methods = [name for name in order if name in set(table["method"])]
    known = [baseline, *methods]
    for cell in cells:
        shown = [(row, cell.row), (panel, cell.column)]
        cell.axes.set_title(", ".join(words.level(n, level) for n, level in shown if n is not None))
        cell.axes.axhline(1.0, color="#444444", lw=0.8, zorder=1.2)
        for condition, rows in series(cell.table, ["method"], x):
            look = COMPARED[known.index(condition["method"]) % len(COMPARED)]
            drawing.draw_line(cell.axes, rows, look, x, x_log=x_log)
    looks = [COMPARED[known.index(name) % len(COMPARED)] for name in methods]
    entries = layout.line_entries(looks, [words.method(name) for name in methods])
    pairs: layout.Entry = ("95% interval of pairs", {"marker": "|", "ls": "none", "ms": 9})
    layout.finish(figure, cells, [], [*entries, pairs])
    return figure
