"""The page of a few lines a panel: what is drawn where, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from nwsim.exceptions import ParameterError
from nwsim.report.lines import lines
from tests.report.fake import FakeResults

SIZES = (256, 1024, 4096)


def tables() -> FakeResults:
    rows = [
        {"study": "toy", "condition_id": "0" * 16, "world": world, "alpha": alpha, "n_obs": n}
        | {"method": method, "measure": measure, "estimate": scale * n ** (-alpha)}
        | {"mcse": 0.01 * n ** (-alpha), "n_sim": 50, "n_failed": 0, "n_empty": 0}
        for world, alpha, n, method, (measure, scale) in product(
            ("cube", "torus"), (0.5, 1.0), SIZES, ("one", "two"), (("mse", 1.0), ("best_t", 2.0))
        )
    ]
    claims = [
        {"claim": "E3_best", "setting": f"alpha={alpha};method=one;world={world}"}
        | {"quantity": "best_t", "theory": -alpha, "estimate": -alpha, "mcse": 0.01}
        | {"ci_low": -alpha, "ci_high": -alpha, "margin": 0.1, "rule": "rate"}
        | {"verdict": "supported"}
        for alpha, world in product((0.5, 1.0), ("cube", "torus"))
    ]
    specification = {
        "measures": [{"name": "best_t", "label": "best temperature", "unit": ""}],
        "claims": [{"id": "E3_best"}],
    }
    return FakeResults(
        "toy",
        performance=pd.DataFrame(rows),
        claims=pd.DataFrame(claims),
        manifest={"specification": specification},
    )


def test_panels_lines_and_key() -> None:
    figure = lines(
        tables(),
        {"world": "cube"},
        ("best_t",),
        line="alpha",
        row="method",
        x_log=True,
        claims=("E3_best",),
        labels={"one": "first form"},
    )
    first = figure.axes[0]
    assert [axes.get_title("left") for axes in figure.axes] == ["first form", "two"]
    assert first.get_ylabel() == "best temperature"
    drawn = [line for line in first.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(drawn[0].get_xdata(), SIZES)
    np.testing.assert_allclose(drawn[0].get_ydata(), 2.0 * np.array(SIZES) ** -0.5)
    # Bands of the claim are drawn for the one method that it is about.
    bands = [[line for line in axes.lines if line.get_linewidth() == 4.0] for axes in figure.axes]
    assert [len(found) for found in bands] == [2, 0]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["$\\alpha = 0.5$", "$\\alpha = 1$", "slope of claim E3_best"]


def test_several_measures_have_rows_of_their_own() -> None:
    figure = lines(
        tables(),
        {"alpha": 0.5},
        ("mse", "best_t"),
        methods=("two", "one"),
        panel="world",
        log=False,
    )
    assert len(figure.axes) == 4
    assert figure.axes[2].get_ylabel() == "best temperature"
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["two", "one"]


def test_a_factor_that_varies_is_named() -> None:
    with pytest.raises(ParameterError, match="world"):
        lines(tables(), {"alpha": 0.5}, ("mse",))


def test_nothing_to_draw_is_said() -> None:
    figure = lines(tables(), None, ("bias2",))
    assert "nothing to draw" in figure.texts[0].get_text()
