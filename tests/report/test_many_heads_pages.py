"""Pages about ensembles of heads show what the tables say, and refuse what they cannot show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from nwsim._files import setting_text
from nwsim.exceptions import ParameterError
from nwsim.report import diversity, ensembles
from tests.report.fake import FakeResults

WORLDS = ("one", "two", "three", "four")
PATH = (0.0, 0.5, 1.0)
PARTS = {"bias2": 0.5, "variance": 0.1, "head_covariance": 0.3, "floor2": 0.4, "head_mse": 1.0}
COUNTS = (1, 2, 8)


def performance_row(factors: dict[str, Any], method: str, measure: str, value: float) -> Any:
    return {
        **{"study": "s", "condition_id": setting_text(factors), **factors, "method": method},
        **{"measure": measure, "estimate": value, "mcse": 0.05 * abs(value)},
        **{"n_sim": 30, "n_failed": 0, "n_empty": 0},
    }


def along_a_path() -> FakeResults:
    rows, steps, ratios, claims = [], [], [], []
    for world in WORLDS:
        for n_obs in (100, 400):
            setting = {"world": world, "n_obs": n_obs}
            for t in PATH:
                parts = {name: value * (2.0 - t) for name, value in PARTS.items()}
                total = parts["bias2"] + parts["variance"] + parts["head_covariance"]
                factors = {**setting, "hdi": t}
                for name, value in {**parts, "mse": total}.items():
                    rows.append(performance_row(factors, "fixed", name, value))
                shared = {"study": "s", **setting, "method": "fixed", "mcse": 0.01}
                if t > 0:
                    steps += [
                        {**shared, "curve": "step", "measure": measure, "over": "hdi", "x": t}
                        | {"hdi": np.nan, "estimate": -0.25}
                        for measure in ("mse", "head_mse")
                    ]
                    ratios.append(
                        {**shared, "contrast": f"at_{t}", "measure": "mse", "kind": "ratio"}
                        | {"factor": "hdi", "level": str(t), "baseline": "0.0", "hdi": t}
                        | {"estimate": 1.0 - t / 2}
                    )
            text = setting_text({**setting, "method": "fixed"})
            verdict = "refuted" if world == "two" else "supported"
            claims.append({"claim": "H2", "setting": text, "margin": 0.01, "verdict": verdict})
    return FakeResults(
        performance=pd.DataFrame(rows),
        curves=pd.DataFrame(steps),
        contrasts=pd.DataFrame(ratios),
        claims=pd.DataFrame(claims),
    )


def of_many_heads() -> FakeResults:
    rows, pairs = [], []
    for kind in ("identical", "orthogonal"):
        for count in COUNTS:
            factors = {"n_obs": 100, "heads": kind, "n_heads": count}
            variance = 1.0 if kind == "identical" else 0.1 + 0.9 / count
            rows.append(performance_row(factors, "conditional", "total_variance", variance))
            rows.append(performance_row(factors, "conditional", "variance", 1.0 / count))
            if count == 1:
                rows.append(performance_row(factors, "conditional", "bias2", 2.0))
            if count == 1 and kind == "identical":
                rows.append(performance_row(factors, "tree", "total_variance", 7.0))
                rows.append(performance_row(factors, "tree", "bias2", 1.0))
            pairs += [
                {"study": "s", "contrast": f"{prefix}_{measure}", **factors, "method": "plain"}
                | {"measure": measure, "kind": "ratio", "estimate": value, "mcse": 0.1}
                for prefix, value in (("routes", 1.0), ("worth", 4.0))
                for measure in ("mse", "bias2", "total_variance")
            ]
    mixed = {"n_obs": 100, "heads": "mixed", "n_heads": 3}
    for k in range(3):
        for other in range(k + 1):
            name = f"covariance_{k + 1}_{other + 1}"
            value = 2.0 if k == other else -0.5
            rows.append(performance_row(mixed, "conditional", name, value))
    return FakeResults(performance=pd.DataFrame(rows), contrasts=pd.DataFrame(pairs))


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def test_a_stack_adds_up_to_the_line_on_top():
    figure = diversity.stacked(along_a_path(), where={"n_obs": 100})
    assert titles(figure) == list(WORLDS)
    axes = figure.axes[0]
    total = next(
        line for line in axes.lines if len(line.get_xdata()) == 3 and line.get_marker() == "o"
    )
    np.testing.assert_allclose(total.get_ydata(), [1.8, 1.35, 0.9])
    tops = [collection.get_paths()[0].vertices[:, 1].max() for collection in axes.collections[:3]]
    np.testing.assert_allclose(tops, [1.0, 1.2, 1.8])
    dotted = [line for line in axes.lines if np.allclose(line.get_ydata()[0], 0.8)]
    assert len(dotted) == 1
    assert axes.get_ylim()[0] == 0.0


def test_ratios_are_drawn_at_their_levels_beside_one():
    figure = diversity.relative(along_a_path())
    lines = [line for line in figure.axes[0].lines if line.get_marker() in ("o", "s")]
    for line in lines:
        np.testing.assert_allclose(line.get_xdata(), PATH[1:])
        np.testing.assert_allclose(line.get_ydata(), [0.75, 0.5])
    assert len(lines) == 2


def test_steps_have_the_margin_and_the_verdict_of_their_world():
    figure = diversity.steps(along_a_path(), where={"n_obs": 100})
    assert titles(figure) == [
        "one: supported",
        "two: refuted",
        "three: supported",
        "four: supported",
    ]
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(lines[0].get_ydata(), [-0.25, -0.25])
    with pytest.raises(ParameterError, match="claim"):
        diversity.steps(along_a_path(), where={"n_obs": 100}, claim="H9")


def test_measures_along_a_path_have_a_line_each():
    figure = diversity.along(along_a_path(), where={"n_obs": 100}, log=True)
    assert figure.axes[0].get_yscale() == "log"
    for marker, first in (("o", 1.8), ("s", 2.0)):
        (line,) = [own for own in figure.axes[0].lines if own.get_marker() == marker]
        assert line.get_ydata()[0] == pytest.approx(first)


@pytest.mark.parametrize(
    "page", [diversity.stacked, diversity.along, diversity.steps], ids=lambda page: page.__name__
)
def test_a_factor_left_to_vary_is_named(page):
    with pytest.raises(ParameterError, match="n_obs"):
        page(along_a_path())


@pytest.mark.parametrize(
    ("page", "results"),
    [
        (diversity.stacked, along_a_path),
        (diversity.along, along_a_path),
        (diversity.steps, along_a_path),
        (diversity.relative, along_a_path),
        (ensembles.variance, of_many_heads),
        (ensembles.routes, of_many_heads),
        (ensembles.heat_map, of_many_heads),
        (ensembles.shares, of_many_heads),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_nothing_to_draw_is_said(page, results):
    assert "nothing to draw" in texts(page(results(), where={"n_obs": 5}))


def test_variance_is_beside_that_of_one_head_over_their_number():
    figure = ensembles.variance(of_many_heads())
    (axes,) = figure.axes
    drawn = {
        line.get_marker(): line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 3
    }
    np.testing.assert_allclose(drawn["o"], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(drawn["s"], [1.0, 0.55, 0.2125])
    reference = next(line for line in axes.lines if line.get_linestyle() == ":" or line.is_dashed())
    np.testing.assert_allclose(reference.get_ydata(), [1.0, 1.0 / 2, 1.0 / 8])


def test_routes_have_ratio_and_worth_below_each_other():
    figure = ensembles.routes(of_many_heads())
    assert len(figure.axes) == 6
    for axes, value in ((figure.axes[0], 1.0), (figure.axes[3], 4.0)):
        lines = [line for line in axes.lines if line.get_marker() in ("o", "s")]
        assert len(lines) == 2
        for line in lines:
            np.testing.assert_allclose(line.get_ydata(), value)
    assert figure.axes[3].get_yscale() == "log"


def test_heat_map_is_symmetric_and_in_units_of_the_mean_variance():
    figure = ensembles.heat_map(of_many_heads())
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(image, np.where(np.eye(3), 1.0, -0.25))
    twice = of_many_heads()
    twice.performance = pd.concat([twice.performance, twice.performance])
    with pytest.raises(ParameterError, match="one condition"):
        ensembles.heat_map(twice)


def test_bars_stack_bias_and_variance_of_both():
    figure = ensembles.shares(of_many_heads(), where={"n_heads": 1})
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert heights == pytest.approx([2.0, 1.0, 1.0, 7.0])
