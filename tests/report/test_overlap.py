"""Pages of frames at the optimum: references, margins, intervals, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from nwsim.exceptions import ParameterError
from nwsim.report import overlap
from tests.report.fake import FakeResults

WORLDS = ("isotropic", "index_shared")
SIZES = ((4, 2, 2), (6, 3, 2), (6, 2, 4))
NOISE = (0.5, 8.0)
METHODS = {"optimised": 0.6, "random": 0.5, "apart": 0.0, "best_orthogonal": 0.0}
PARTS = ("bias2", "variance", "head_covariance", "mse")
FIXED = {"n_designs": 8}


def results(n_designs: tuple[int, ...] = (8,)) -> FakeResults:
    rows: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    claims: list[dict[str, Any]] = []
    for world, (dim, heads, d_k), noise, designs in product(WORLDS, SIZES, NOISE, n_designs):
        place = {"world": world, "dim": dim, "n_heads": heads, "d_k": d_k, "n_obs": 128}
        place |= {"noise": noise, "n_designs": designs, "bandwidth": "rate"}
        for method, level in METHODS.items():
            value = level / noise if method == "optimised" else level
            measures = {"overlap": value}
            measures |= {f"cosine_{j}": value ** (j / 2) for j in range(1, d_k + 1)}
            rows += [
                {"study": "decorrelation", "condition_id": "0" * 16, **place, "method": method}
                | {"measure": name, "estimate": estimate, "mcse": 0.02}
                | {"n_sim": 20, "n_failed": 0, "n_empty": 0}
                for name, estimate in measures.items()
            ]
        contrasts += [
            {"contrast": f"{part}_above_{rival}", **place, "method": "optimised", "measure": part}
            | {"kind": "difference", "factor": "method", "level": "optimised", "baseline": rival}
            | {"estimate": -0.1 * k, "mcse": 0.01, "n_sim": 20}
            for rival in ("best_orthogonal", "best_identical")
            for k, part in enumerate(PARTS)
        ]
        setting = {**place, "method": "optimised"}
        claims.append(
            {"claim": "D1", "quantity": "overlap", "rule": "not_above", "theory": 0.0}
            | {"setting": ";".join(f"{name}={setting[name]}" for name in sorted(setting))}
            | {"estimate": 0.6, "mcse": 0.02, "margin": 0.125}
        )
    measures = [{"name": "mse", "label": "squared loss", "unit": "m²"}]
    return FakeResults(
        name="decorrelation",
        performance=pd.DataFrame(rows),
        contrasts=pd.DataFrame(contrasts),
        claims=pd.DataFrame(claims),
        manifest={"specification": {"measures": measures, "claims": [{"id": "D1"}]}},
    )


def levels_of_lines(figure: Figure, panel: int) -> list[float]:
    """Heights of horizontal lines across a panel."""
    found = [np.asarray(line.get_ydata(), float) for line in figure.axes[panel].lines]
    return [float(y[0]) for y in found if len(y) == 2 and y[0] == y[1]]


def marks(figure: Figure, panel: int) -> list[np.ndarray]:
    return [
        np.asarray(line.get_ydata(), float)
        for line in figure.axes[panel].lines
        if line.get_marker() in ("o", "s", "^", "D")
    ]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_optimum_has_its_references_and_margin():
    figure = overlap.optimum(results())
    assert len(figure.axes) == len(SIZES)
    # Random frames share d_k/d; the last must share two dimensions of four.
    for panel, (least, random) in enumerate(((0.0, 0.5), (0.0, 1 / 3), (0.5, 2 / 3))):
        assert levels_of_lines(figure, panel)[:2] == pytest.approx([least, random])
        low, high = marks(figure, panel)
        np.testing.assert_allclose([low, high], [[1.2, 1.2], [0.075, 0.075]])
    band = figure.axes[0].patches[0].get_extents()
    assert band.height > 0
    # In an order that depends on how many columns the key has.
    assert set(texts(figure)) == {
        *("noise = 0.5", "noise = 8", "estimate, 95% Monte Carlo interval"),
        *("random frames", "least possible", "margin of D1"),
    }


def test_without_claims_there_is_no_margin():
    plain = results()
    figure = overlap.optimum(replace(plain, claims=plain.claims.iloc[:0]))
    assert not figure.axes[0].patches
    assert "margin of D1" not in texts(figure)


def test_spectra_have_an_angle_each():
    figure = overlap.spectra(results(), where={"noise": 0.5})
    assert [len(axes.get_xticks()) for axes in figure.axes] == [2, 4, 2]
    lines = [np.asarray(line.get_ydata()) for line in figure.axes[1].lines]
    np.testing.assert_allclose(lines[0], 0.5 ** (np.arange(1, 5) / 2))  # random, at its places
    np.testing.assert_allclose(figure.axes[1].lines[0].get_xdata(), np.arange(4))
    np.testing.assert_allclose(marks(figure, 1)[0], 1.2 ** (np.arange(1, 5) / 2))


def test_reasons_show_every_part():
    where = {"dim": 4}
    figure = overlap.reasons(results(), where)
    assert len(figure.axes) == 2 * len(NOISE)
    for panel in range(4):
        np.testing.assert_allclose([y[0] for y in marks(figure, panel)], [0.0, -0.1, -0.2, -0.3])
    assert "squared loss" in texts(figure)
    assert figure.axes[0].get_ylabel().endswith("(m²)")


def test_points_of_two_lines_stand_apart():
    axes = overlap.optimum(results()).axes[0]
    places = [tuple(line.get_xdata()) for line in axes.lines if line.get_marker() in "os"]
    assert len(set(places)) == len(places) == 2


@pytest.mark.parametrize("builder", [overlap.optimum, overlap.spectra, overlap.reasons])
def test_a_factor_left_to_vary_is_named(builder):
    where = {"dim": 4} if builder is overlap.reasons else {}
    with pytest.raises(ParameterError, match="varying: n_designs"):
        builder(results((8, 24)), where)
    builder(results((8, 24)), where | FIXED)
    with pytest.raises(ParameterError, match="where must name columns"):
        builder(results(), {"nothing": 1})


@pytest.mark.parametrize("builder", [overlap.optimum, overlap.spectra, overlap.reasons])
def test_nothing_to_draw_is_said(builder):
    figure = builder(results(), {"noise": 3.0})
    assert "nothing to draw" in figure.texts[0].get_text()
