"""The grid of architectures, number of heads against their dimension, from the tables alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nwsim.report.frames import Where, absent, check_single, levels, levels_of, performance
from nwsim.report.slopes import Tables
from nwsim.report.style import blank, panels, styled
from nwsim.report.words import Words


@styled
def grid(
    results: Tables,
    where: Where = None,
    methods: Sequence[str] | None = None,
    measure: str = "mse",
    budget: str = "dim",
    x: str = "d_k",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a measure over the number of heads and their dimension, a panel a method.

    A cell is an architecture. The number in it is the measure, the colour its ratio to the
    least of the same budget, which has a frame: budgets are compared within themselves.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    where : mapping, optional
        Column to level(s): all factors but the budget and the head dimension.
    methods : sequence of str, optional
        The panels, in this order; default all.
    measure : str
        One that is above 0.
    budget, x : str
        Factors that hold H d_k and d_k.
    labels : mapping, optional

    Raises
    ------
    ParameterError
        If an option names what the tables do not have, or a factor is left to vary.
    """
    words = Words(results.manifest, labels or {})
    table = performance(results.performance, [measure], where, methods)
    if table.empty:
        return blank(absent([measure], where, methods))
    check_single(table, ["method", budget, x])
    least = table.groupby(["method", budget])["estimate"].transform("min")
    table = table.assign(ratio=table["estimate"] / least)
    order = levels_of(table, "method", methods)
    ticks = levels(table, x)
    figure, axes = panels(math.ceil(len(order) / 2), 2, height=3.0)
    worst = max(1.01, float(table["ratio"].max()))
    norm = LogNorm(1.0, worst)
    paint = matplotlib.colormaps["YlOrBr"]
    for place, method in zip(axes.flat, order, strict=False):
        place.set_title(words.method(str(method)))
        for _, cell in table[table["method"] == method].iterrows():
            at = ticks.index(cell[x]), ticks.index(cell[budget] / cell[x])
            colour = paint(norm(cell["ratio"]))
            box = {"fc": colour, "ec": "none", "lw": 1.4, "zorder": 2.0}
            if cell["ratio"] == 1.0:
                box |= {"ec": "black", "zorder": 3.0}
            place.add_patch(Rectangle((at[0] - 0.5, at[1] - 0.5), 1.0, 1.0, **box))
            dark = colour[0] * 0.299 + colour[1] * 0.587 + colour[2] * 0.114 < 0.5
            text = f"{cell['estimate']:.2f}".removeprefix("0")
            ink = "white" if dark else "black"
            place.text(*at, text, ha="center", va="center", fontsize=6, color=ink, zorder=4)
        span = (-0.6, len(ticks) - 0.4)
        place.set(xlim=span, ylim=span, xlabel=words.axis(x), ylabel="number of heads $H$")
        place.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        place.set_yticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        place.grid(visible=False)
    for place in axes.flat[len(order) :]:
        place.remove()
    name = f"{words.label(measure)}\nover the least of its budget (framed)"
    bar = figure.colorbar(
        ScalarMappable(norm, paint), ax=axes.ravel()[: len(order)].tolist(), shrink=0.6, label=name
    )
    ratios = [tick for tick in (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20) if tick <= worst]
    bar.set_ticks(ratios, labels=[f"{tick:g}" for tick in ratios])
    bar.minorticks_off()
    return figure
