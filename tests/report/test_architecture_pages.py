"""Pages of head dimension against number of heads: what stands in them is what tables say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from nwsim.exceptions import ParameterError
from nwsim.report import architecture, budgets
from tests.report.fake import FakeResults

SIZES = (2**6, 2**8, 2**10)
METHODS = ("inverse_root", "oracle")
FIXED = {"world": "isotropic", "frames": "orthogonal", "noise": 0.5, "alpha": 1.5}
LAWS = {"law_printed": "printed", "law_power": "power", "law_constant": "constant"}
LABELS = {"dim": "$D$", "inverse_root": "source", "oracle": "best"}


def best_of(dim: int, n: int, method: str) -> int:
    """The planted optimum: interior and growing for one method, all of D for the other."""
    return dim if method == "oracle" else {2**6: 2, 2**8: 2, 2**10: 4}[n]


def fake_results() -> FakeResults:
    """Return tables of two budgets: a V in log d_k about the planted optimum."""
    performance: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    claims: list[dict[str, Any]] = []
    for dim in (8, 12):
        sizes = [size for size in range(1, dim + 1) if dim % size == 0]
        for method in METHODS:
            for n in SIZES:
                base = {"dim": dim, **FIXED, "method": method, "measure": "mse"}
                best = best_of(dim, n, method)
                performance += [
                    {**base, "n_obs": n, "d_k": size, "measure": measure, "mcse": 0.01}
                    | {"estimate": 0.5 + 0.1 * abs(np.log(size / best))}
                    | {"condition_id": "0", "n_sim": 30, "n_failed": 0, "n_empty": 0}
                    for size in sizes
                    for measure in ("mse", "floor2")
                ]
                curves.append(
                    {**base, "curve": "best_dimension", "n_obs": n, "d_k": np.nan, "over": "d_k"}
                    | {"x": np.nan, "estimate": best, "mcse": 0.2}
                    | {"ci_low": max(1, best // 2), "ci_high": best}
                )
                setting = {**FIXED, "dim": dim, "n_obs": n, "method": method}
                claims.append(
                    {"claim": "S3", "quantity": "mse", "estimate": 0.1, "mcse": 0.02}
                    | {"setting": ";".join(f"{k}={v}" for k, v in sorted(setting.items()))}
                    | {"theory": 0.0, "ci_low": 0.06, "ci_high": 0.14, "margin": 0.0}
                    | {"rule": "ends", "verdict": "refuted"}
                )
            curves += [
                {"dim": dim, **FIXED, "method": method, "measure": "mse", "curve": name}
                | {"n_obs": np.nan, "d_k": np.nan, "over": "n_obs,d_k", "x": n, "mcse": np.nan}
                | {"estimate": 2.0, "ci_low": np.nan, "ci_high": np.nan}
                for name in LAWS
                for n in SIZES
            ]
            curves.append(
                {"dim": dim, **FIXED, "method": method, "measure": "mse", "curve": "fitted_to"}
                | {"n_obs": np.nan, "d_k": np.nan, "over": "n_obs,d_k", "x": np.nan}
                | {"mcse": np.nan, "estimate": SIZES[1], "ci_low": np.nan, "ci_high": np.nan}
            )
    measures = [
        {"name": "mse", "label": "error", "unit": "y²"},
        {"name": "floor2", "label": "floor", "unit": "y²"},
    ]
    return FakeResults(
        name="scaling",
        performance=pd.DataFrame(performance),
        curves=pd.DataFrame(curves),
        claims=pd.DataFrame(claims),
        manifest={"specification": {"measures": measures, "claims": [{"id": "S3"}]}},
    )


PAGES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "best_dimension": (architecture.best_dimension, {"where": FIXED, "laws": LAWS}, 4),
    "profiles": (architecture.profiles, {"where": FIXED, "floor": "floor2"}, 4),
    "best_heads": (architecture.best_heads, {"where": FIXED}, 2),
    "small_against_large": (architecture.small_against_large, {}, 4),
}


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest) -> tuple[str, Figure]:
    builder, options, _ = PAGES[request.param]
    figure = builder(fake_results(), **options, methods=METHODS, labels=LABELS)
    figure.draw_without_rendering()
    return request.param, figure


def points_of(
    figure: Figure, panel: int, marker: str = "o"
) -> list[tuple[list[float], list[float]]]:
    """Return x and y of the lines of a panel that have this marker."""
    return [
        (list(map(float, line.get_xdata())), list(map(float, line.get_ydata())))
        for line in figure.axes[panel].lines
        if line.get_marker() == marker
    ]


def test_every_panel_is_there_titled_and_labelled_once(page: tuple[str, Figure]) -> None:
    name, figure = page
    assert len(figure.axes) == PAGES[name][2]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert all(text.endswith(("source", "best")) for text in titles)
    assert len(set(titles)) == len(titles)
    assert all(axes.lines for axes in figure.axes)


def test_nothing_written_leaves_the_page(page: tuple[str, Figure]) -> None:
    _, figure = page
    width, height = figure.bbox.width, figure.bbox.height
    texts = [text for axes in figure.axes for text in axes.texts]
    assert figure.legends
    for item in [*texts, *figure.legends]:
        box = item.get_window_extent()
        assert min(box.x0, box.y0) >= 0
        assert max(box.x1 - width, box.y1 - height) <= 0


def test_best_dimension_shows_the_table_and_ticks_at_divisors() -> None:
    figure = architecture.best_dimension(fake_results(), where=FIXED, methods=METHODS, laws=LAWS)
    assert points_of(figure, 0) == [([64.0, 256.0, 1024.0], [2.0, 2.0, 4.0])]
    ticks = figure.axes[2].yaxis.get_majorticklocs()
    low, high = figure.axes[2].get_ylim()
    assert set(ticks) <= {1, 2, 3, 4, 6, 12}
    assert low < 2
    assert high > 4
    laws = [line for line in figure.axes[0].lines if line.get_marker() in ("None", "")]
    assert sum(len(line.get_xdata()) == len(SIZES) for line in laws) == len(LAWS)
    # Between the last n that laws are fitted to and the next.
    (fence,) = [line for line in laws if len(set(line.get_xdata())) == 1]
    assert fence.get_xdata()[0] == pytest.approx(2**9)
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(LAWS.values()) < set(key)


def test_without_laws_none_is_drawn_and_too_many_are_refused() -> None:
    figure = architecture.best_dimension(fake_results(), where=FIXED, methods=METHODS)
    assert not [line for line in figure.axes[0].lines if line.get_marker() in ("None", "")][1:]
    many = {f"law_{k}": "law" for k in range(9)}
    with pytest.raises(ParameterError, match="laws must be at most"):
        architecture.best_dimension(fake_results(), where=FIXED, laws=many)


def test_the_grid_has_a_cell_an_architecture_and_frames_the_best() -> None:
    where = {**FIXED, "n_obs": SIZES[0]}
    figure = budgets.grid(fake_results(), where=where, methods=METHODS, labels=LABELS)
    figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if axes.texts]
    assert [axes.get_title(loc="left") for axes in panels] == ["source", "best"]
    ticks = [1, 2, 3, 4, 6, 8, 12]
    for axes, method in zip(panels, METHODS, strict=True):
        found = {}
        for box, text in zip(axes.patches, axes.texts, strict=True):
            x, y = text.get_position()
            assert box.get_x() == x - 0.5
            assert box.get_y() == y - 0.5
            found[ticks[x], ticks[y]] = text.get_text(), box
        assert {size * heads for size, heads in found} == {8, 12}
        assert len(found) == 4 + 6
        framed = {place for place, (_, box) in found.items() if box.get_edgecolor()[3] > 0}
        best = [best_of(dim, SIZES[0], method) for dim in (8, 12)]
        assert framed == {(best[0], 8 // best[0]), (best[1], 12 // best[1])}
        assert found[1, 8][0] == f"{0.5 + 0.1 * np.log(best[0]):.2f}".removeprefix("0")
    with pytest.raises(ParameterError, match="n_obs"):
        budgets.grid(fake_results(), where=FIXED)
    assert "nothing to draw" in budgets.grid(fake_results(), where={"dim": 99}).texts[0].get_text()


def test_rings_stand_at_the_least_estimate_of_every_line() -> None:
    figure = architecture.profiles(fake_results(), where=FIXED, methods=METHODS)
    for panel, (dim, method) in enumerate((d, m) for d in (8, 12) for m in METHODS):
        rings = [
            float(line.get_xdata()[0])
            for line in figure.axes[panel].lines
            if len(line.get_xdata()) == 1 and line.get_markerfacecolor() == "none"
        ]
        assert rings == [best_of(dim, n, method) for n in SIZES]
    plain = architecture.profiles(fake_results(), where=FIXED, methods=METHODS, mark=False)
    assert not [line for line in plain.axes[0].lines if line.get_markerfacecolor() == "none"]


def test_heads_are_the_budget_over_the_dimension_with_the_ends_exchanged() -> None:
    figure = architecture.best_heads(
        fake_results(), where={**FIXED, "n_obs": 2**10}, methods=METHODS
    )
    ((x, y),) = points_of(figure, 0)
    assert (x, y) == ([8.0, 12.0], [2.0, 3.0])
    ((low, high), _) = [
        (float(s[0][1]), float(s[1][1]))
        for container in figure.axes[0].containers
        for s in container[2][0].get_segments()
    ]
    assert (low, high) == (2.0, 4.0)


def test_ratios_are_exponentials_of_the_claims() -> None:
    figure = architecture.small_against_large(fake_results(), methods=METHODS)
    ((_, y),) = points_of(figure, 0)
    np.testing.assert_allclose(y, np.exp(0.1))


def test_missing_rows_are_said_and_not_drawn() -> None:
    results = fake_results()
    for builder, options, _ in PAGES.values():
        kept = {key: value for key, value in options.items() if key != "where"}
        figure = builder(results, **kept, where={"dim": 99})
        assert not figure.axes
        assert "nothing to draw" in figure.texts[0].get_text()
