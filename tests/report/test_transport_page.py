"""The page of paired ratios."""

from __future__ import annotations

import pandas as pd
import pytest

from nwsim.exceptions import ParameterError
from nwsim.report.transport import ratios
from tests.report.fake import FakeResults


def results(kind: str = "ratio") -> FakeResults:
    contrasts = [
        {"study": "toy", "contrast": f"to_a_{method}", "world": world, "n_obs": n, "method": method}
        | {"measure": "mse", "kind": kind, "factor": "method", "level": method, "baseline": "a"}
        | {"estimate": 1.0 + n / 100, "mcse": 0.1, "n_sim": 9}
        for method in ("b", "c")
        for world in ("rough", "smooth")
        for n in (10, 20)
    ]
    methods = pd.DataFrame({"method": ["a", "b", "c"]})
    manifest = {"specification": {"measures": [{"name": "mse", "label": "loss"}]}}
    return FakeResults(performance=methods, contrasts=pd.DataFrame(contrasts), manifest=manifest)


def test_one_line_a_contrast_and_one_panel_a_level() -> None:
    figure = ratios(results(), ["to_a_b", "to_a_c"], panel="world", labels={"a": "the usual"})
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["rough", "smooth"]
    assert figure.axes[0].get_ylabel().replace("\n", " ") == "loss over that of the usual"
    drawn = [len(axes.containers) for axes in figure.axes]
    assert drawn == [2, 2]
    looks = {container.lines[0].get_color() for container in figure.axes[0].containers}
    assert len(looks) == 2


def test_what_cannot_be_drawn_is_refused_or_said() -> None:
    with pytest.raises(ParameterError, match="still varying along a line: world"):
        ratios(results(), ["to_a_b"])
    with pytest.raises(ParameterError, match="contrasts must be ratios"):
        ratios(results("difference"), ["to_a_b"], panel="world")
    assert "nothing to draw" in ratios(results(), ["to_a_d"]).texts[0].get_text()
