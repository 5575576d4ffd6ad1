"""Pages of kept keys and of approximation: what is drawn, where, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nwsim.exceptions import ParameterError
from nwsim.report import approximation, sparse
from nwsim.report.style import COMPARED
from tests.report.fake import FakeResults

KEPT = (2, 8, 32)
WIDTHS = (0.5, 1.0)
SETS = ("circle", "shell")


def loss(width: float, n_keep: int) -> float:
    return 1.0 + width / n_keep


def sparse_study() -> FakeResults:
    """Return tables with the factors keys, n_obs and width; n_obs does not vary."""
    performance, contrasts = [], []
    for name, width in product(SETS, WIDTHS):
        place = {"keys": name, "n_obs": 64, "width": width}
        counts = {"n_sim": 50, "n_failed": 0, "n_empty": 0}
        for n_keep in KEPT:
            for measure, value in (("bound", 1.0 / n_keep), ("moved", 0.1 / n_keep)):
                performance.append(
                    {**place, "method": f"keep_{n_keep}", "measure": measure}
                    | {"estimate": value, "mcse": 0.01 * value, **counts}
                )
            contrasts.append(
                {**place, "contrast": f"loss_keep_{n_keep}", "method": f"keep_{n_keep}"}
                | {"measure": "mse", "kind": "ratio", "factor": "method", "baseline": "dense"}
                | {"level": f"keep_{n_keep}", "estimate": loss(width, n_keep), "mcse": 0.01}
            )
        performance.append(
            {**place, "method": "dot_32", "measure": "common", "estimate": 0.25 * (1 + width)}
            | {"mcse": 0.01, **counts}
        )
        contrasts.append(
            {**place, "contrast": "dot_cost", "method": "dot_32", "measure": "mse"}
            | {"kind": "ratio", "factor": "method", "level": "dot_32", "baseline": "keep_32"}
            | {"estimate": 2.0 + width, "mcse": 0.1}
        )
    measures = [
        {"name": "bound", "label": "what is allowed", "unit": "y"},
        {"name": "moved", "label": "what moved", "unit": "y"},
    ]
    return FakeResults(
        name="sparse",
        performance=pd.DataFrame(performance),
        contrasts=pd.DataFrame(contrasts),
        manifest={"specification": {"measures": measures}},
    )


def approximation_study() -> FakeResults:
    performance = [
        {"target": "smooth", "dim": dim, "n_keys": n, "method": method, "measure": "sup_error"}
        | {"estimate": n ** (-1.0 / dim) if method == "local" else 0.8, "mcse": 0.001}
        | {"n_sim": 50, "n_failed": 0, "n_empty": 0}
        for dim, n, method in product((1, 2), (16, 64, 256), ("local", "raw"))
    ]
    claims = [
        {"claim": "A", "quantity": "log_error", "rule": "falls_in_logs", "theory": -1.0 / dim}
        | {"setting": f"dim={dim};method=local;target=smooth", "margin": 0.1}
        | {"estimate": -1.0 / dim, "mcse": 0.01}
        for dim in (1, 2)
    ]
    return FakeResults(
        name="approximation",
        performance=pd.DataFrame(performance),
        claims=pd.DataFrame(claims),
        manifest={"specification": {"measures": [], "claims": [{"id": "A"}]}},
    )


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def points_of(axes: Axes, position: int) -> Line2D:
    """Return the estimates in the look of a position."""
    look = COMPARED[position]
    (line,) = [
        line
        for line in axes.lines
        if line.get_color() == look.color and line.get_marker() == look.marker
    ]
    return line


def key_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_losses_are_drawn_at_their_number_of_keys() -> None:
    figure = sparse.losses(sparse_study(), labels={"width": "c"})
    assert titles(figure) == list(SETS)
    for axes in figure.axes:
        for position, width in enumerate(WIDTHS):
            x, y = points_of(axes, position).get_data()
            np.testing.assert_array_equal(x, KEPT)
            np.testing.assert_allclose(y, [loss(width, n_keep) for n_keep in KEPT])
    assert figure.axes[0].get_ylabel() == "error over that of dense"
    assert key_of(figure)[:2] == ["c = 0.5", "c = 1"]


def test_bounds_stand_above_what_moved() -> None:
    figure = sparse.bounds(sparse_study(), {"width": 1.0})
    for axes in figure.axes:
        above, below = (points_of(axes, position).get_ydata() for position in (0, 1))
        np.testing.assert_allclose(above, 1.0 / np.array(KEPT))
        np.testing.assert_allclose(below, 0.1 / np.array(KEPT))
    assert figure.axes[0].get_ylabel() == "distance (y)"
    assert key_of(figure)[:2] == ["what is allowed", "what moved"]
    few = sparse.bounds(sparse_study(), {"width": 1.0}, methods=("keep_2", "keep_8"))
    np.testing.assert_array_equal(points_of(few.axes[0], 0).get_xdata(), KEPT[:2])


def test_ranking_sets_kinds_of_keys_side_by_side() -> None:
    figure = sparse.ranking(sparse_study(), {"width": 1.0}, labels={"keep_32": "nearest"})
    left, right = figure.axes
    np.testing.assert_allclose(points_of(left, 0).get_ydata(), [0.5, 0.5])
    np.testing.assert_allclose(points_of(right, 0).get_ydata(), [3.0, 3.0])
    assert [text.get_text() for text in left.get_xticklabels()] == list(SETS)
    assert right.get_ylabel() == "error over that of nearest"


@pytest.mark.parametrize("builder", [sparse.bounds, sparse.ranking])
def test_a_factor_left_to_vary_is_named(builder) -> None:
    with pytest.raises(ParameterError, match="width"):
        builder(sparse_study())


@pytest.mark.parametrize("builder", [sparse.losses, sparse.bounds, sparse.ranking])
def test_nothing_to_draw_is_said(builder) -> None:
    figure = builder(sparse_study(), {"keys": "torus"})
    assert "nothing to draw" in figure.texts[0].get_text()


def test_errors_of_approximation_with_the_slopes_of_claims() -> None:
    study = approximation_study()
    figure = approximation.lines(study, claims=("A",), judged="log_error")
    assert titles(figure) == ["$d = 1$", "$d = 2$"]
    for dim, axes in zip((1, 2), figure.axes, strict=True):
        x, y = points_of(axes, 0).get_data()
        np.testing.assert_allclose(y, np.asarray(x) ** (-1.0 / dim))
        bands = [line for line in axes.lines if line.get_linewidth() == 4.0]
        (band,) = bands
        (low, high), (first, last) = band.get_data()
        assert np.log(last / first) / np.log(high / low) == pytest.approx(-1.0 / dim)
        assert band.get_color() == COMPARED[0].color
    assert "slope of claim A" in key_of(figure)


def test_without_claims_no_slope_is_drawn_and_a_level_is() -> None:
    figure = approximation.lines(approximation_study(), log=False, level=0.5)
    for axes in figure.axes:
        assert not [line for line in axes.lines if line.get_linewidth() == 4.0]
        assert [line for line in axes.lines if set(line.get_ydata()) == {0.5}]
        assert axes.get_yscale() == "linear"
    assert not [text for text in key_of(figure) if "claim" in text]
    with pytest.raises(ParameterError, match="claims"):
        approximation.lines(approximation_study(), claims=("B",))
    missing = approximation.lines(approximation_study(), measure="nothing")
    assert "nothing to draw" in missing.texts[0].get_text()
