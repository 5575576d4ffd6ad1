"""What an editor would send back: empty panels, labels on labels, a key off the page."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, ScalarFormatter
from matplotlib.transforms import Bbox

from nwsim.report import rates
from nwsim.report.drawing import PRINTED, STATED
from nwsim.report.layout import inside, spread
from nwsim.report.style import COLOURS, look_of
from nwsim.report.ticks import MOST_LABELS, size_text
from tests.report.fake import FakeResults, fake_results

PLAIN = {"region": "interior", "kernel": "epanechnikov"}
ALPHAS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
KERNEL_LABELS = {
    "epanechnikov": "order 2 (Epanechnikov)",
    "epanechnikov4": "order 4 (Epanechnikov)",
}

PAGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "risk": (rates.risk, {"where": PLAIN, "theory_of": "rate"}),
    "parts": (rates.parts, {"where": PLAIN | {"alpha": ALPHAS}}),
    "parts-named": (rates.parts, {"where": PLAIN, "claims": ("R2", "R1.bias2")}),
    "local_slopes": (rates.local_slopes, {"where": PLAIN, "theory_of": "rate"}),
    "boundary": (rates.boundary, {"where": {"kernel": "epanechnikov", "alpha": 2.0, "dim": 1}}),
    "saturation": (
        rates.saturation,
        {"where": {"region": "interior", "alpha": 3.0}, "labels": KERNEL_LABELS},
    ),
    "constants": (rates.constants, {"where": PLAIN | {"alpha": 2.0}}),
}


def with_sizes(sizes: tuple[int, ...] | None) -> FakeResults:
    """Return results with other sample sizes in place of the powers of four."""
    results = fake_results()
    if sizes is not None:
        powers = {2**power: size for power, size in zip(range(18, 6, -2), sizes, strict=True)}
        results.performance["n_obs"] = results.performance["n_obs"].map(powers)
        middles = {float(n): np.sqrt(powers[n // 2] * powers[n * 2]) for n in middles_of(powers)}
        results.curves["x"] = results.curves["x"].round().map(middles)
    return results


def middles_of(powers: dict[int, int]) -> list[int]:
    return [2 * n for n in powers if 4 * n in powers]


ROUND = (50000, 20000, 10000, 5000, 2000, 1000)
UNEVEN = (10**6, 10**5, 10**4, 9000, 5000, 100)
CASES: list[tuple[str, tuple[int, ...] | None]] = [(name, None) for name in PAGES]
CASES += [("parts", ROUND), ("parts", UNEVEN)]


@pytest.fixture(
    scope="module",
    params=CASES,
    ids=[f"{name}-{'powers' if sizes is None else sizes[-1]}" for name, sizes in CASES],
)
def page(request: pytest.FixtureRequest) -> Figure:
    name, sizes = request.param
    builder, options = PAGES[name]
    figure = builder(with_sizes(sizes), **options)
    figure.draw_without_rendering()
    return figure


def shown_ticks(axes: Axes) -> list[Text]:
    found = []
    for axis, low_high in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        low, high = sorted(low_high)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if low <= tick.get_loc() <= high and tick.label1.get_visible():
                found.append(tick.label1)
    return [text for text in found if text.get_text()]


def all_text(figure: Figure) -> list[tuple[str, Bbox]]:
    found = []
    for axes in figure.axes:
        artists = [*shown_ticks(axes), *axes.texts, axes.xaxis.label, axes.yaxis.label]
        artists += [axes.title, axes._left_title]  # type: ignore[attr-defined]
        found += [a for a in artists if a.get_text() and a.get_visible()]
    found += [text for legend in figure.legends for text in legend.get_texts()]
    # An annotation's own extent includes its leader.
    return [(text.get_text(), Text.get_window_extent(text)) for text in found]


def overlapping(texts: list[tuple[str, Bbox]]) -> list[tuple[str, str]]:
    """Pairs that share more than a pixel and a half: boxes are a little taller than letters."""
    pairs = []
    for (first, a), (second, b) in combinations(texts, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        if width > 1.0 and height > 1.5:
            pairs.append((first, second))
    return pairs


def data_lines(axes: Axes) -> list[Line2D]:
    marks = ("None", "none", "", None, "_", "|")
    return [line for line in axes.lines if line.get_marker() not in marks]


def test_every_panel_has_data(page: Figure) -> None:
    for axes in page.axes:
        assert data_lines(axes)
        assert all(len(np.asarray(line.get_xdata())) for line in data_lines(axes))


def test_no_two_texts_of_a_page_overlap(page: Figure) -> None:
    assert overlapping(all_text(page)) == []


def test_few_sample_sizes_are_labelled(page: Figure) -> None:
    for axes in page.axes:
        low, high = axes.get_xlim()
        labels = [tick.label1 for tick in axes.xaxis.get_major_ticks()]
        texts = [text for text in labels if text.get_text() and low < text.get_position()[0] < high]
        assert 1 <= len(texts) <= MOST_LABELS


def test_an_overlap_would_be_seen() -> None:
    figure = rates.parts(fake_results(), PLAIN, claims=["R1.bias2"])
    axis = figure.axes[2].xaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ScalarFormatter())
    figure.draw_without_rendering()
    assert overlapping(all_text(figure))


def test_everything_stands_inside_the_page(page: Figure) -> None:
    for name, box in all_text(page):
        assert page.bbox.x0 <= box.x0, name
        assert box.x1 <= page.bbox.x1, name
        assert page.bbox.y0 <= box.y0, name
        assert box.y1 <= page.bbox.y1, name


def test_the_key_is_inside_the_page_and_off_the_panels(page: Figure) -> None:
    assert len(page.legends) == 1
    box = page.legends[0].get_window_extent()
    assert page.bbox.x0 <= box.x0
    assert box.x1 <= page.bbox.x1
    assert page.bbox.y0 <= box.y0
    for axes in page.axes:
        assert not box.overlaps(axes.get_window_extent())


def test_no_estimate_or_interval_is_cut_off_at_the_sides(page: Figure) -> None:
    for axes in page.axes:
        low, high = axes.get_xlim()
        for line in data_lines(axes):
            x = np.asarray(line.get_xdata(), dtype=float)
            assert low < x.min()
            assert x.max() < high


def test_panels_without_data_are_not_drawn() -> None:
    figure = rates.risk(fake_results(), PLAIN)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(titles) == 7
    assert [title for title in titles if "leave-one-out" in title] == ["$d = 1$, leave-one-out"]
    # The lowest panel of each column names its axis.
    named = [axes for axes in figure.axes if axes.get_xlabel()]
    assert len(named) == 3
    assert all(axes.get_ylabel() for axes in figure.axes if "d = 1" in axes.get_title(loc="left"))


def test_a_single_sample_size_does_not_look_like_a_line() -> None:
    changed = fake_results()
    table = changed.performance
    changed.performance = table[(table["method"] != "loo") | (table["n_obs"] == 2**8)]
    figure = rates.risk(changed, PLAIN)
    panel = next(axes for axes in figure.axes if "leave" in axes.get_title(loc="left"))
    assert len(data_lines(panel)) == 7
    assert [line for line in panel.lines if line.get_linewidth() == STATED["lw"]] == []
    width = panel.get_window_extent().width
    for text in panel.texts:
        start = panel.transData.transform((text.xy[0], text.xy[1]))[0]  # type: ignore[attr-defined]
        assert Text.get_window_extent(text).x0 - start < 0.2 * width


def test_an_alpha_has_one_colour_in_all_pages() -> None:
    results = fake_results()
    where = PLAIN | {"alpha": (1.0, 2.0), "dim": 1, "method": "rate"}
    # Of all alphas of the study, those are the fourth and the sixth.
    wanted = {COLOURS[3], COLOURS[5]}
    for builder in (rates.risk, rates.parts, rates.local_slopes):
        for axes in builder(results, where).axes:  # type: ignore[operator]
            assert {line.get_color() for line in data_lines(axes)} == wanted


def test_more_lines_than_colours_keep_their_own_look() -> None:
    assert len({look_of(position) for position in range(49)}) == 49


def slopes(axes: Axes, width: float) -> list[float]:
    found = []
    for line in axes.lines:
        if line.get_linewidth() == width and line.get_marker() in ("None", ""):
            x, y = (np.log(np.asarray(v, dtype=float)) for v in line.get_data())
            found.append(float((y[-1] - y[0]) / (x[-1] - x[0])))
    return found


def set_theory(results: FakeResults, claim: str, quantity: str, kernel: str, value: float) -> None:
    claims = results.claims
    rows = (claims["claim"] == claim) & (claims["quantity"] == quantity)
    rows &= claims["setting"].str.contains(f"alpha=3.0.*kernel={kernel};")
    assert rows.any()
    claims.loc[rows, "theory"] = value


def test_saturation_shows_the_corrected_claim_and_the_printed_one() -> None:
    changed = fake_results()
    for kernel, value in (("epanechnikov", -1 / 13), ("epanechnikov4", -2 / 13)):
        set_theory(changed, "R2", "bias2", kernel, value)
        set_theory(changed, "R2", "mse", kernel, value - 1 / 13)
    set_theory(changed, "R1.bias2", "bias2", "epanechnikov", -5 / 13)
    set_theory(changed, "R1.bias2", "bias2", "epanechnikov4", -2 / 13)  # as R2: drawn once
    set_theory(changed, "R1", "mse", "epanechnikov4", -3 / 13)
    set_theory(changed, "R1", "mse", "epanechnikov", -7 / 13)
    builder, options = PAGES["saturation"]
    figure = builder(changed, **options | {"where": options["where"] | {"dim": 1}})
    bias, mse = figure.axes
    assert slopes(bias, STATED["lw"]) == pytest.approx([-1 / 13, -2 / 13])
    assert slopes(bias, PRINTED["lw"]) == pytest.approx([-5 / 13])
    assert slopes(mse, STATED["lw"]) == pytest.approx([-2 / 13, -3 / 13])
    assert slopes(mse, PRINTED["lw"]) == pytest.approx([-7 / 13])
    written = [text.get_text() for text in bias.texts]
    assert any("order 2 (Epanechnikov)" in t and "R2: −1/13\nR1.bias2: −5/13" in t for t in written)
    assert any("order 4 (Epanechnikov)" in t and t.endswith("R2: −2/13") for t in written)
    assert "theorem" in bias.get_title(loc="left")
    assert "best" in mse.get_title(loc="left")


def test_saturation_reads_each_panel_from_its_own_method() -> None:
    results = fake_results()
    builder, options = PAGES["saturation"]
    figure = builder(results, **options | {"where": options["where"] | {"dim": 1}})
    for axes, (measure, method) in zip(
        figure.axes, (("bias2", "rate"), ("mse", "oracle")), strict=True
    ):
        table: pd.DataFrame = results.performance
        for name, level in {
            "alpha": 3.0, "dim": 1, "region": "interior", "measure": measure, "method": method,
            "kernel": "epanechnikov",
        }.items():  # fmt: skip
            table = table[table[name] == level]
        drawn = [np.asarray(line.get_ydata()).tolist() for line in data_lines(axes)]
        assert len(drawn) == 2
        assert table["estimate"].tolist() in drawn


def test_constants_show_theory_and_margin_of_the_claims() -> None:
    changed = fake_results()
    rows = changed.claims["quantity"] == "variance_ratio"
    changed.claims.loc[rows, ["theory", "margin"]] = [1.25, 0.125]
    builder, options = PAGES["constants"]
    figure = builder(changed, **options)
    for axes, low, high in zip(figure.axes, (0.95, 1.125), (1.05, 1.375), strict=True):
        bands = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert [(band.get_y(), band.get_y() + band.get_height()) for band in bands] == [
            pytest.approx((low, high))
        ]
        levels = [
            np.asarray(line.get_ydata())[0] for line in axes.lines if len(line.get_xdata()) == 2
        ]
        assert (low + high) / 2 in [pytest.approx(level) for level in levels]
        bottom, top = axes.get_ylim()
        assert bottom < low
        assert high < top


def test_constants_follow_a_theory_that_changes_along_the_axis() -> None:
    changed = fake_results()
    claims = changed.claims
    own = claims[claims["quantity"] == "bias_ratio"]
    own = own[own["setting"].str.contains("alpha=2.0;.*dim=1;.*region=interior")]
    assert len(own) == 1
    top = own["setting"].iloc[0]
    lower = own.assign(setting=top.replace(f"n_obs={2**18}", f"n_obs={2**16}"), theory=0.9)
    changed.claims = pd.concat([own, lower])
    assert lower["setting"].iloc[0] != top
    figure = rates.constants(changed, PLAIN | {"alpha": 2.0, "dim": 1})
    theory = next(line for line in figure.axes[0].lines if line.get_color() == "#444444")
    assert np.asarray(theory.get_xdata()).tolist() == [2**16, 2**18]
    assert np.asarray(theory.get_ydata()).tolist() == [0.9, 1.0]
    assert not [line for line in figure.axes[1].lines if line.get_color() == "#444444"]


def test_constants_show_no_margin_without_a_claim() -> None:
    changed = fake_results()
    changed.claims = changed.claims[changed.claims["rule"] == "rate"]
    builder, options = PAGES["constants"]
    assert not any(axes.patches for axes in builder(changed, **options).axes)


def test_methods_come_in_the_order_of_the_study() -> None:
    figure = rates.risk(fake_results(), PLAIN | {"dim": 1})
    titles = [axes.get_title(loc="left").split(", ")[1] for axes in figure.axes]
    assert titles == ["bandwidth of the theorem", "best bandwidth", "leave-one-out"]


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (1024.0, 2, "$2^{10}$"),
        (1000.0, 10, "$10^{3}$"),
        (1500.0, None, "1500"),
        (250000.0, None, "$2.5\\times 10^{5}$"),
    ],
)
def test_sample_sizes_are_written_short(value: float, base: int | None, text: str) -> None:
    assert size_text(value, base) == text


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=8), st.floats(0.01, 0.12))
def test_labels_are_kept_inside(wanted: list[float], gap: float) -> None:
    heights = np.array(wanted)
    apart = spread(heights, gap)
    placed = inside(apart, gap)
    order = np.argsort(apart, kind="stable")
    assert (np.diff(placed[order]) >= gap * (1 - 1e-9)).all()
    assert placed.min() >= gap / 2 - 1e-9
    assert placed.max() <= 1 - gap / 2 + 1e-9
