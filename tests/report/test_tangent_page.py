"""The page of power laws, a panel a measure."""

from __future__ import annotations

import pandas as pd
import pytest

from nwsim.exceptions import ParameterError
from nwsim.report.tangent import slopes
from tests.report.fake import FakeResults

MEASURES = ("first", "second", "third")


def results() -> FakeResults:
    rows = [
        {"study": "toy", "method": "trained", "measure": measure, "dim": dim, "waves": waves}
        | {"n_heads": heads, "estimate": dim * heads**-0.5, "mcse": 0.01 * heads**-0.5}
        for measure in MEASURES
        for dim in (4, 8)
        for waves in (1, 64)
        for heads in (2, 4, 8)
    ]
    claims = [
        {"claim": "C", "setting": f"dim={dim};method=trained;waves=1", "quantity": "first"}
        | {"theory": -0.5, "estimate": -0.48, "mcse": 0.02, "margin": 0.1, "rule": "rate"}
        for dim in (4, 8)
    ]
    curves = [
        {"curve": "tail_slope", "measure": "second", "method": "trained", "dim": dim, "waves": 1}
        | {"estimate": -0.7, "mcse": 0.03}
        for dim in (4, 8)
    ]
    return FakeResults(
        performance=pd.DataFrame(rows), claims=pd.DataFrame(claims), curves=pd.DataFrame(curves)
    )


def test_slopes_stand_beside_the_lines_and_claims_in_brackets() -> None:
    figure = slopes(results(), {"waves": 1}, measures=MEASURES)
    assert [axes.get_ylabel() for axes in figure.axes] == list(MEASURES)
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert "8: −0.480 (−1/2)" in texts[0]
    assert "8: −0.700" in texts[1]
    assert "8" in texts[2]
    # Two lines a panel, and a band for each that a claim covers.
    assert [len(axes.containers) for axes in figure.axes] == [2, 2, 2]
    bands = [sum(line.get_alpha() == 0.28 for line in axes.lines) for axes in figure.axes]
    assert bands == [2, 0, 0]


def test_what_cannot_be_drawn_is_refused_or_said() -> None:
    with pytest.raises(ParameterError, match="still varying along a line: waves"):
        slopes(results(), measures=MEASURES)
    assert "nothing to draw" in slopes(results(), measures=["none"]).texts[0].get_text()
