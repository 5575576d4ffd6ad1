from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from nwsim.exceptions import ParameterError, StoreError, StudyError
from nwsim.report import draw_figures, new_figure, rates, save_figure, style
from nwsim.report.figures import write_atomic
from tests.report.fake import FakeResults, fake_results

PLAIN = {"region": "interior", "kernel": "epanechnikov"}


@dataclass
class FakeFigure:
    name: str
    builder: Any
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class FakeStudy:
    figures: tuple[FakeFigure, ...]
    name: str = "rate"
    draw: Any = None


def study_draw(condition: Any, rng: Any) -> None:
    """Stand in for the draw of a study whose file is this module."""


def study_figure(results: FakeResults, width: float = 2.0) -> Figure:
    figure = new_figure(width=width, height=1.5)
    figure.subplots().plot([1, 2], [1, results.performance["estimate"].iloc[0]])
    return figure


@pytest.fixture(scope="module")
def results() -> FakeResults:
    return fake_results()


def settings() -> dict[str, Any]:
    # dict's own get: asking rcParams for the backend would choose one.
    return {name: dict.get(matplotlib.rcParams, name) for name in matplotlib.rcParams}


@pytest.fixture(autouse=True)
def _settings_untouched() -> Iterator[None]:
    before = settings()
    yield
    assert settings() == before
    assert "matplotlib.pyplot" not in sys.modules


def texts(figure: Figure) -> list[str]:
    return [artist.get_text() for artist in figure.findobj(Text) if artist.get_text()]


def lines(figure: Figure, panel: int = 0) -> list[list[float]]:
    """Heights of the lines that connect estimates in a panel."""
    return [
        np.asarray(line.get_ydata()).tolist()
        for line in figure.axes[panel].lines
        if line.get_marker() not in ("None", "none", "", None, "_", "|")
    ]


BUILDERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "risk": (rates.risk, {"where": PLAIN | {"dim": (1, 2), "alpha": (0.25, 0.5, 1.0)}}),
    "parts": (rates.parts, {"where": PLAIN | {"dim": 1}, "claims": ("R2", "R1.bias2")}),
    "local_slopes": (rates.local_slopes, {"where": PLAIN | {"dim": 1, "alpha": (0.5, 1.0)}}),
    "boundary": (rates.boundary, {"where": {"kernel": "epanechnikov", "alpha": 2.0}}),
    "saturation": (rates.saturation, {"where": {"region": "interior", "alpha": 3.0, "dim": 1}}),
    "constants": (rates.constants, {"where": PLAIN | {"alpha": 2.0}}),
}


@pytest.fixture(scope="module", params=list(BUILDERS))
def figure(request: pytest.FixtureRequest, results: FakeResults) -> Figure:
    builder, options = BUILDERS[request.param]
    return builder(results, **options)


def test_builders_draw_with_named_axes(figure: Figure) -> None:
    assert isinstance(figure, Figure)
    assert any("number of observations" in text for text in texts(figure))
    assert any(axes.get_ylabel() for axes in figure.axes)
    assert not any("nothing to draw" in text for text in texts(figure))


def test_no_label_leaves_the_page(figure: Figure) -> None:
    page = figure.bbox
    boxes = [
        Text.get_window_extent(artist)
        for axes in figure.axes
        for artist in axes.texts
        if artist.get_text()
    ]
    assert boxes
    for box in boxes:
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1


@pytest.mark.parametrize("name", list(BUILDERS))
def test_an_empty_table_is_said_in_words(name: str, results: FakeResults) -> None:
    builder, options = BUILDERS[name]
    where = options["where"] | {"alpha": 17.0}
    figure = builder(results, where=where)
    assert any("nothing to draw" in text and "17" in text for text in texts(figure))


def test_estimates_are_those_of_the_table(results: FakeResults) -> None:
    where = PLAIN | {"dim": 1, "alpha": 0.5}
    figure = rates.risk(results, where, methods=["oracle"])
    table = results.performance
    for column, level in (where | {"method": "oracle", "measure": "mse"}).items():
        table = table[table[column] == level]
    assert lines(figure) == [table.sort_values("n_obs")["estimate"].tolist()]


def test_theory_is_read_from_the_claims() -> None:
    changed = fake_results()
    rows = (changed.claims["quantity"] == "bias2") & changed.claims["setting"].str.contains(
        "alpha=0.5;.*kernel=epanechnikov;"
    )
    assert rows.any()
    changed.claims.loc[rows, "theory"] = -1 / 13
    figure = rates.parts(changed, **BUILDERS["parts"][1])
    assert any("(−1/13)" in text for text in texts(figure))


def test_a_factor_left_free_is_an_error(results: FakeResults) -> None:
    with pytest.raises(ParameterError, match="still varying along a line: kernel"):
        rates.risk(results, {"region": "interior"})


def test_an_estimate_that_is_not_positive_hangs_from_its_upper_end() -> None:
    changed = fake_results()
    table = changed.performance
    where = (table["alpha"] == 0.5) & (table["dim"] == 1) & (table["method"] == "rate")
    low = where & (table["measure"] == "bias2") & (table["n_obs"] == 2**18)
    table.loc[low, ["estimate", "mcse"]] = [-1e-4, 1e-3]
    figure = rates.parts(changed, PLAIN | {"dim": 1, "alpha": 0.5})
    assert len(lines(figure)[0]) == 5
    arrows = [text for text in figure.axes[0].texts if not text.get_text()]
    assert len(arrows) == 1
    assert arrows[0].get_position() == pytest.approx((2**18, -1e-4 + 1.959964e-3), rel=1e-6)


def test_one_replicate_has_no_interval_but_is_drawn() -> None:
    changed = fake_results()
    changed.performance["mcse"] = np.nan
    figure = rates.risk(changed, PLAIN | {"dim": 1, "alpha": 0.5}, methods=["rate"])
    assert len(lines(figure)) == 1


def test_files_are_the_same_bytes_twice(tmp_path: Path, results: FakeResults) -> None:
    study = FakeStudy(
        figures=(
            FakeFigure("constants", "nwsim.report.rates:constants", BUILDERS["constants"][1]),
            FakeFigure("own", "rate:study_figure", {"width": 3.0}),
            FakeFigure("function", study_figure),
        ),
        draw=study_draw,
    )
    contents = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        results.folder = folder
        paths = draw_figures(study, results)
        assert [path.name for path in paths] == [
            f"{name}.{kind}" for name in ("constants", "own", "function") for kind in ("pdf", "png")
        ]
        assert sorted(folder.rglob("*.*")) == sorted(paths)
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert contents[0][0].startswith(b"%PDF")
    assert b"CreationDate" not in contents[0][0]
    assert contents[0][1].startswith(b"\x89PNG")
    assert b"Software" not in contents[0][1]


def test_files_are_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tests.report.test_figures import study_figure
from tests.report.fake import fake_results
from nwsim.report import save_figure, styled
save_figure(styled(study_figure)(fake_results()), Path(sys.argv[1]), "figure")
"""
    root = Path(__file__).resolve().parents[2]
    for name in ("1", "2"):
        # A style of the user's own and another hash seed must change nothing.
        config = tmp_path / f"config{name}"
        config.mkdir()
        (config / "matplotlibrc").write_text(f"lines.linewidth: {name}\nfont.size: 1{name}\n")
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": name, "MPLCONFIGDIR": str(config), "DISPLAY": ""},
            check=True,
        )
    for kind in ("pdf", "png"):
        first, second = ((tmp_path / name / f"figure.{kind}").read_bytes() for name in ("1", "2"))
        assert first == second


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        ("rates", "must be 'module:function'"),
        ("nwsim.report.nowhere:risk", "No module named"),
        ("nwsim.report.rates:nothing", "no such function"),
        ("rate:nothing", "no such function"),
    ],
)
def test_an_unknown_builder_is_named(
    builder: str, message: str, results: FakeResults, tmp_path: Path
) -> None:
    results.folder = tmp_path
    study = FakeStudy(
        figures=(FakeFigure("own", study_figure), FakeFigure("bad", builder)), draw=study_draw
    )
    with pytest.raises(StudyError, match=message):
        draw_figures(study, results)
    assert list(tmp_path.iterdir()) == []


def test_a_builder_that_returns_something_else_is_named(
    results: FakeResults, tmp_path: Path
) -> None:
    results.folder = tmp_path
    study = FakeStudy(figures=(FakeFigure("bad", lambda results: "no figure"),))
    with pytest.raises(StudyError, match=r"'bad'.*must return a matplotlib Figure; got str"):
        draw_figures(study, results)


def test_a_builder_that_fails_is_named_with_its_options(
    results: FakeResults,
) -> None:
    def broken(results: FakeResults) -> Figure:
        raise KeyError("dim")

    study = FakeStudy(figures=(FakeFigure("page", broken),))
    with pytest.raises(StudyError, match=r"'page': its builder fails.*KeyError: 'dim'"):
        draw_figures(study, results)


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="cannot write"):
        save_figure(new_figure(), tmp_path / "figures", "risk")


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_atomic(tmp_path / "risk.pdf", b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StoreError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_style_is_applied_and_put_back() -> None:
    before = matplotlib.rcParams["pdf.fonttype"]
    with style():
        assert matplotlib.rcParams["pdf.fonttype"] == 42
        assert matplotlib.rcParams["font.serif"] == ["STIXGeneral"]
    assert matplotlib.rcParams["pdf.fonttype"] == before
