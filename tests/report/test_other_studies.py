"""The pages serve a study with other factors, and draw no theory that its tables do not state."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nwsim.exceptions import ParameterError
from nwsim.report import rates
from nwsim.report.drawing import PRINTED, STATED
from nwsim.report.layout import aside
from tests.report.fake import FakeResults, fake_results

HDI = (0.0, 0.25, 0.5, 0.75, 1.0)
HEADS = (2, 4, 8)
WORLDS = ("additive", "single_index")
MEASURES = ("mse", "variance", "head_covariance")


def heads_study() -> FakeResults:
    """Return tables with the factors world, n_heads, hdi and n_obs, without any claim."""
    rows = [
        {"study": "heads", "condition_id": "0" * 16, "world": world, "n_heads": heads}
        | {"hdi": hdi, "n_obs": n_obs, "method": method, "measure": measure}
        | {"estimate": (2.0 - hdi) / heads / n_obs, "mcse": 0.05 / n_obs / heads}
        | {"n_sim": 9, "n_failed": 0, "n_empty": 0}
        for world, heads, hdi, n_obs, method, measure in product(
            WORLDS, HEADS, HDI, (64, 256, 1024), ("fixed", "tuned"), MEASURES
        )
    ]
    curves = [
        {"study": "heads", "curve": "local_slope", "world": world, "n_heads": heads, "hdi": hdi}
        | {"method": "fixed", "measure": "mse", "over": over, "x": x}
        | {"estimate": -0.9 - 0.01 * heads, "mcse": 0.01}
        for world, heads, hdi, (over, x) in product(
            WORLDS, HEADS, HDI, (("n_obs", 128.0), ("n_obs", 512.0), ("n_queries", 3.0))
        )
    ]
    columns = ["claim", "setting", "quantity", "theory", "estimate", "mcse", "margin", "rule"]
    measures = [{"name": "mse", "label": "squared loss", "unit": "m²"}]
    return FakeResults(
        name="heads",
        performance=pd.DataFrame(rows),
        curves=pd.DataFrame(curves),
        claims=pd.DataFrame(columns=columns),
        manifest={"specification": {"measures": measures, "claims": []}},
    )


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def written(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def estimates(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if line.get_marker() not in ("None", "none", "", None, "_")]


def theory_in(axes: Axes) -> list[Line2D]:
    widths = (STATED["lw"], PRINTED["lw"])
    return [
        line
        for line in axes.lines
        if line.get_marker() in ("None", "", None) and line.get_linewidth() in widths
    ]


def theory(figure: Figure) -> list[Line2D]:
    return [line for axes in figure.axes for line in theory_in(axes)]


def key(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


ESTIMATES = "estimate, 95% Monte Carlo interval"


def test_risk_over_another_factor_on_a_plain_axis() -> None:
    figure = rates.risk(
        heads_study(),
        {"n_obs": 256},
        line="n_heads",
        panel="world",
        x="hdi",
        x_log=False,
        labels={"hdi": "head diversity index", "n_heads": "H", "fixed": "one bandwidth"},
    )
    assert titles(figure) == [
        "additive, one bandwidth",
        "single index, one bandwidth",
        "additive, tuned",
        "single index, tuned",
    ]
    first = figure.axes[0]
    assert first.get_ylabel() == "squared loss (m²)"
    assert figure.axes[2].get_xlabel() == "head diversity index"
    assert first.get_xscale() == "linear"
    assert written(first) == ["H = 2", "H = 4", "H = 8"]
    assert [np.asarray(line.get_xdata()).tolist() for line in estimates(first)] == [list(HDI)] * 3
    assert theory(figure) == []
    assert key(figure) == [ESTIMATES]


def test_parts_and_boundary_and_constants_with_other_factors() -> None:
    results, where = heads_study(), {"hdi": 0.5}
    figure = rates.parts(
        results, where, "tuned", ["variance", "head_covariance"], line="n_heads", panel="world"
    )
    assert titles(figure) == ["additive", "single index"] * 2
    assert [axes.get_ylabel() for axes in figure.axes][::2] == ["variance", "head covariance"]
    assert written(figure.axes[0]) == ["$H$", "2", "4", "8"]
    figure = rates.boundary(results, where, "fixed", line="world", row=None, panel="n_heads")
    assert titles(figure) == ["$H = 2$", "$H = 4$", "$H = 8$"]
    assert written(figure.axes[0]) == ["additive", "single index"]
    figure = rates.constants(
        results, {"n_obs": 64}, "fixed", ["mse"], ["n_heads", "world"], x="hdi", x_log=False
    )
    assert "$H = 2$, single index" in written(figure.axes[0])
    assert key(figure) == [ESTIMATES]
    figure = rates.saturation(results, where, [("mse", "fixed")], None, line="world", row="n_heads")
    assert titles(figure) == [f"$H = {heads}$, fixed" for heads in HEADS]
    assert key(figure) == [ESTIMATES]


def test_local_slopes_are_those_along_the_factor_asked_for() -> None:
    figure = rates.local_slopes(
        heads_study(), {"hdi": 0.5, "world": "additive"}, line="n_heads", panel=None
    )
    assert titles(figure) == ["fixed"]
    assert written(figure.axes[0]) == ["$H = 2$", "$H = 4$", "$H = 8$"]
    lines = estimates(figure.axes[0])
    assert len(lines) == 3
    for points in zip(*(np.log(np.asarray(line.get_xdata())) for line in lines), strict=True):
        assert len(set(points)) == 3
    middle = np.log(np.asarray(lines[1].get_xdata()))
    assert middle == pytest.approx(np.log([128.0, 512.0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "hdi"}, "x_log must be False: 'hdi' has levels that are not positive"),
        ({"x": "world"}, "x must be a factor whose levels are numbers; got 'world'"),
    ],
)
def test_an_axis_that_cannot_be_drawn_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        rates.risk(
            heads_study(), {"n_obs": 64, "n_heads": 2}, line="n_heads", panel=None, **options
        )


def test_no_theory_is_drawn_where_the_tables_state_none() -> None:
    results, plain = fake_results(), {"region": "interior", "kernel": "epanechnikov"}
    only_rate = rates.risk(results, plain | {"alpha": 0.5, "dim": 1})
    assert [len(theory_in(axes)) for axes in only_rate.axes] == [1, 0, 0]
    lent = rates.risk(results, plain | {"alpha": 0.5, "dim": 1}, theory_of="rate")
    assert [len(theory_in(axes)) for axes in lent.axes] == [1, 1, 1]
    results.claims = results.claims[results.claims["claim"] != "R1"]
    for builder in (rates.risk, rates.local_slopes):
        figure = builder(results, plain | {"alpha": 0.5, "dim": 1})
        assert theory(figure) == []
        assert len(key(figure)) == 1


def test_claims_that_differ_about_a_line_of_a_page_must_be_named() -> None:
    results = fake_results()
    where = {"region": "interior", "kernel": "epanechnikov", "alpha": 3.0, "dim": 1}
    with pytest.raises(ParameterError, match=r"claims must name which of R1.bias2, R2 is meant"):
        rates.parts(results, where)
    for claims, text in (
        (["R2"], "−4/7"),
        (["R1.bias2"], "−6/7"),
        (["R2", "R1.bias2"], "−4/7"),
    ):
        figure = rates.parts(results, where, claims=claims)
        assert any(text in label for label in written(figure.axes[0]))
        assert f"slope of claim {' or '.join(claims)}" in key(figure)
    with pytest.raises(ParameterError, match=r"claims must be ids .*got 'R1_bias2'"):
        rates.parts(results, where, claims=["R1_bias2"])


@pytest.mark.parametrize("x_log", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_lines_stand_beside_each_other_about_the_true_place(x_log: bool, count: int) -> None:
    places = np.array([4.0, 16.0, 64.0]) if x_log else np.array([0.0, 0.5, 1.0])
    shifts = np.array([aside(places, position, count, x_log) for position in range(count)])
    shifts = np.log(shifts) / np.log(4.0) if x_log else shifts / 0.5
    assert shifts.mean() == pytest.approx(0.0)
    assert (np.diff(shifts) > 0.04).all()
    assert np.abs(shifts).max() <= 0.25
