"""The page of ratios, one below another: where marks stand, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from nwsim.exceptions import ParameterError
from nwsim.report.bandwidth import ratios
from tests.report.fake import FakeResults

METHODS = ("loo", "gcv", "rot")
SIZES = (64, 256)
NAMES = [f"regret_{method}" for method in METHODS]


def estimate(method: str, n_obs: int, dim: int) -> float:
    return {"loo": 1.02, "gcv": 0.9, "rot": 4.0}[method] * dim**0.5 * (n_obs / 64) ** 0.1


def tables(baselines: tuple[str, ...] = ("oracle",) * 3) -> FakeResults:
    rows, claims = [], []
    for (method, baseline), n_obs, dim in product(
        zip(METHODS, baselines, strict=True), SIZES, (1, 2)
    ):
        place: dict[str, Any] = {"world": "smooth", "dim": dim, "n_obs": n_obs, "method": method}
        rows.append(
            {"study": "bandwidth", "contrast": f"regret_{method}", "condition_id": "0", **place}
            | {"measure": "mse", "kind": "ratio", "factor": "method", "level": method}
            | {"baseline": baseline, "estimate": estimate(method, n_obs, dim), "mcse": 0.02}
        )
        claims.append(
            {"claim": "K2", "quantity": f"regret_{method}", "theory": 1.0, "margin": 0.1}
            | {"rule": "not_above"}
        )
    return FakeResults(contrasts=pd.DataFrame(rows), claims=pd.DataFrame(claims))


def marks(figure: Figure, row: int) -> dict[float, float]:
    """Return the marks of a panel, height to place, reference lines left out."""
    axes = figure.axes[row]
    found = {}
    for container in axes.containers:
        line = container[0]
        found |= dict(zip(np.asarray(line.get_ydata(), dtype=float), line.get_xdata(), strict=True))
    return found


def test_marks_stand_at_their_ratios_the_first_contrast_on_top() -> None:
    figure = ratios(tables(), contrasts=NAMES)
    for row, dim in enumerate((1, 2)):
        found = marks(figure, row)
        heights = sorted(found)
        want = [estimate(method, n_obs, dim) for method in METHODS for n_obs in SIZES]
        assert [found[height] for height in heights] == pytest.approx(want)
        axes = figure.axes[row]
        low, high = axes.get_xlim()
        assert low < min(want) < max(want) < high
        assert axes.yaxis_inverted()
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == [
        "leave-one-out", "gcv", "rot",
    ]  # fmt: skip
    assert "best bandwidth" in figure.axes[1].get_xlabel()


def test_a_contrast_names_its_baseline_where_there_are_several() -> None:
    figure = ratios(tables(("oracle", "oracle", "loo")), contrasts=NAMES)
    texts = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert texts[2].splitlines() == ["rot", "over leave-one-out"]


def test_what_a_claim_accepts_is_grey_and_only_if_it_is_one_range() -> None:
    def bands(results: FakeResults) -> list[float]:
        figure = ratios(results, contrasts=NAMES, claim="K2")
        return [patch.get_x() + patch.get_width() for patch in figure.axes[0].patches]

    results = tables()
    assert bands(results) == pytest.approx([1.1])
    results.claims.loc[0, "margin"] = 0.3
    assert bands(results) == []


def test_labels_of_ratios_are_plain_and_apart() -> None:
    figure = ratios(tables(), contrasts=NAMES)
    axes = figure.axes[1]
    ticks = axes.get_xticks()
    assert 1.0 in ticks
    low, high = axes.get_xlim()
    assert np.diff(np.log(ticks)).min() >= 0.17 * np.log(high / low) - 1e-9
    assert [t.get_text() for t in axes.get_xticklabels()] == [f"{tick:g}" for tick in ticks]


def test_a_factor_left_to_vary_is_named() -> None:
    with pytest.raises(ParameterError, match="still varying: dim"):
        ratios(tables(), contrasts=NAMES, row=None)


def test_nothing_to_draw_is_said_in_words() -> None:
    figure = ratios(tables(), contrasts=["regret_none"])
    assert "no contrasts regret_none" in figure.texts[0].get_text()


def test_panels_without_data_are_left_out_and_the_next_ones_are_named() -> None:
    results = tables()
    other = results.contrasts[results.contrasts["dim"] == 1].assign(world="rough")
    results.contrasts = pd.concat([results.contrasts, other], ignore_index=True)
    axes = ratios(results, contrasts=NAMES).axes
    assert len(axes) == 3
    named = [bool(panel.get_xlabel()) for panel in axes]
    assert named == [True, False, True]
    lettered = [panel.yaxis.get_tick_params()["labelleft"] for panel in axes]
    assert lettered == [True, False, True]
