"""Pages of weights of heads: what is drawn, where, and what is left out."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nwsim.exceptions import ParameterError
from nwsim.report import weights
from nwsim.report.style import look_of
from tests.report.fake import FakeResults

METHODS = ("uniform", "geometric_50", "optimal_nonnegative")
SPREADS = (0.0, 0.25, 1.0)
HEADS = (2, 8, 32)
SHARED, PRIVATE, THEORY = 0.04, 0.08, 1.0 / 3.0
CROSSES = {"geometric_50": 0.3, "optimal_nonnegative": math.nan}


def rows_of(measures: dict[str, float], **place: object) -> list[dict[str, object]]:
    common = {"study": "weighting", "condition_id": "0" * 16, **place}
    counts = {"n_sim": 50, "n_failed": 0, "n_empty": 0}
    return [
        common | {"measure": name, "estimate": value, "mcse": 0.05 * abs(value)} | counts
        for name, value in measures.items()
    ]


def weighting_study() -> FakeResults:
    """Return tables with the factors quality, spread and n_heads; n_obs does not vary."""
    performance, contrasts, curves, claims = [], [], [], []
    for spread, heads, method in product(SPREADS, HEADS, METHODS):
        place = {"quality": "signal", "spread": spread, "n_obs": 256, "n_heads": heads}
        error = SHARED + PRIVATE / heads + 0.1 * spread * (method == "uniform")
        measures = {"mse": error, "log_ratio": 0.3 - spread}
        if heads == 8:
            measures |= {f"weight_{rank}": 0.5**rank for rank in range(1, 9)}
        if spread == 0.0 and method == "uniform":
            measures |= {"shared_error": SHARED, "private_error": PRIVATE}
        performance += rows_of(measures, **place, method=method)
        contrasts.append(
            {"contrast": f"regret_{method}", **place, "method": method, "measure": "mse"}
            | {"kind": "ratio", "factor": "method", "level": method, "baseline": "oracle"}
            | {"estimate": 1.0 + spread, "mcse": 0.1, "n_sim": 50}
        )
    for heads, method in product(HEADS, CROSSES):
        curves.append(
            {"curve": "crossing", "quality": "signal", "spread": math.nan, "n_obs": 256}
            | {"n_heads": heads, "method": method, "measure": "log_ratio", "over": "spread"}
            | {"x": math.nan, "estimate": CROSSES[method], "mcse": 0.02}
            | {"ci_low": CROSSES[method] - 0.1, "ci_high": math.nan}
        )
    claims.append(
        {"claim": "W1_floor", "quantity": "private_share", "rule": "equivalence"}
        | {"setting": "method=geometric_50;n_heads=32;n_obs=256;quality=signal;spread=0.0"}
        | {"theory": THEORY, "estimate": 0.34, "mcse": 0.01, "margin": 0.06}
    )
    measure = {"name": "mse", "label": "squared loss", "unit": "y²"}
    return FakeResults(
        name="weighting",
        performance=pd.DataFrame(performance),
        contrasts=pd.DataFrame(contrasts),
        curves=pd.DataFrame(curves),
        claims=pd.DataFrame(claims),
        manifest={"specification": {"measures": [measure], "claims": [{"id": "W1_floor"}]}},
    )


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def points_of(axes: Axes, method: str) -> Line2D:
    """Return the line of a method's estimates."""
    look = look_of(METHODS.index(method))
    (line,) = [
        line
        for line in axes.lines
        if line.get_color() == look.color and line.get_marker() == look.marker
    ]
    return line


def key_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_profiles_show_weights_by_rank() -> None:
    figure = weights.profiles(weighting_study(), {"spread": (0.0, 1.0)})
    assert [title.splitlines()[1] for title in titles(figure)] == ["spread = 0", "spread = 1"]
    line = points_of(figure.axes[0], "geometric_50")
    np.testing.assert_array_equal(line.get_xdata(), range(1, 9))
    np.testing.assert_allclose(line.get_ydata(), 0.5 ** np.arange(1, 9))
    assert "geometric, ratio 0.5" in key_of(figure)


def test_errors_have_the_floor_that_the_claim_states_and_no_other() -> None:
    figure = weights.errors(weighting_study())
    level = SHARED + THEORY * PRIVATE
    flat = [
        [line for line in axes.lines if list(line.get_ydata()) == pytest.approx([level] * 2)]
        for axes in figure.axes
    ]
    assert [len(lines) for lines in flat] == [1, 0, 0]
    assert flat[0][0].get_color() == look_of(METHODS.index("geometric_50")).color
    assert "floor of claim W1_floor" in key_of(figure)


def test_without_the_claim_there_is_no_floor() -> None:
    results = weighting_study()
    bare = replace(results, claims=results.claims.iloc[:0])
    assert "floor of claim W1_floor" not in key_of(weights.errors(bare))


def test_ratios_name_their_baseline_and_draw_one() -> None:
    figure = weights.ratios(weighting_study(), methods=("uniform", "geometric_50"))
    assert len(figure.axes) == len(SPREADS)
    assert "over that of oracle weights" in figure.axes[0].get_ylabel().replace("\n", " ")
    assert list(points_of(figure.axes[2], "uniform").get_ydata()) == [2.0, 2.0, 2.0]
    assert any(list(line.get_ydata()) == [1.0, 1.0] for line in figure.axes[0].lines)
    assert "optimal, nonnegative" not in key_of(figure)


def test_crossings_stand_at_their_place_with_open_ends() -> None:
    figure = weights.crossings(weighting_study(), {"n_heads": (8, 32)}, METHODS[1:])
    assert len(figure.axes) == 2
    for axes in figure.axes:
        marks = [line for line in axes.lines if line.get_marker() == "|"]
        assert [float(mark.get_xdata()[0]) for mark in marks] == [CROSSES["geometric_50"]]
        (bar,) = [line for line in axes.lines if list(line.get_xdata())[:1] == [0.3 - 0.1]]
        assert bar.get_xdata()[1] == axes.get_xlim()[1]
    assert "where the line crosses 0, 95% interval" in key_of(figure)


def test_a_method_looks_the_same_on_every_page() -> None:
    figure = weights.ratios(weighting_study(), methods=("optimal_nonnegative",))
    assert points_of(figure.axes[0], "optimal_nonnegative").get_marker() == look_of(2).marker


def test_root_axis_keeps_order_and_shows_zero() -> None:
    figure = weights.crossings(weighting_study(), {"n_heads": 8})
    axes = figure.axes[0]
    places = axes.transData.transform([(x, 0.0) for x in (0.0, 0.25, 1.0)])[:, 0]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])
    assert axes.get_xlim()[0] < 0.0


@pytest.mark.parametrize("page", [weights.profiles, weights.errors, weights.ratios])
def test_nothing_to_draw_is_said_in_words(page) -> None:
    figure = page(weighting_study(), {"spread": 0.75})
    assert "nothing to draw" in figure.texts[0].get_text()


def test_a_factor_that_is_not_shown_must_be_fixed() -> None:
    results = weighting_study()
    other = results.performance.assign(n_obs=1024)
    both = replace(results, performance=pd.concat([results.performance, other]))
    with pytest.raises(ParameterError, match="n_obs"):
        weights.errors(both)
