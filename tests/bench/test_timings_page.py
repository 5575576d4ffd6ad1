"""The page of the benchmarks: what is on it, from a made-up table alone."""

from __future__ import annotations

import pandas as pd
import pytest

from nwsim.bench.timing import COLUMNS
from nwsim.exceptions import ParameterError
from nwsim.report.timings import draw_timings, timings


def table() -> pd.DataFrame:
    rows = []
    for workload, entries in {
        "W1": [
            ("nwsim direct", "direct", "1e-12", 0.01, "ok"),
            ("other", "direct", "1e-12", 0.05, "ok"),
            ("rough one", "fast", "rough", 0.002, "ok"),
            ("wrong one", "fast", "1e-6", 0.001, "wrong"),
            ("absent one", "fast", "1e-6", None, "skipped"),
            ("C", "limit", "1e-12", 0.008, "ok"),
        ],
        "W5": [("nwsim loo", "search", "1e-6", 0.1, "ok"), ("other", "search", "rough", 1.0, "ok")],
        "W6": [("absent one", "direct", "float32", None, "skipped")],
    }.items():
        for competitor, kind, accuracy, median, status in entries:
            row = dict.fromkeys(COLUMNS)
            row.update(
                workload=workload,
                competitor=competitor,
                kind=kind,
                accuracy_class=accuracy,
                n_rounds=0 if median is None else 5,
                scaled=competitor == "other",
                status=status,
            )
            if median is not None:
                row.update(median_s=median, q25_s=0.9 * median, q75_s=1.2 * median)
            rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def names(axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def test_competitors_are_sorted_and_those_without_a_time_are_left_out():
    figure = timings(table())
    assert len(figure.axes) == 2
    assert names(figure.axes[0]) == ["wrong one", "rough one", "nwsim direct", "other ~"]
    low, high = figure.axes[0].get_ylim()
    assert low > high  # the first, fastest, is on top
    assert figure.axes[0].get_xscale() == "log"


def test_nwsim_stands_out_and_the_limit_is_a_line():
    first, second = timings(table()).axes
    colours = {text.get_text(): text.get_color() for text in first.get_yticklabels()}
    assert colours["nwsim direct"] != colours["other ~"]
    vertical = [
        line
        for line in first.lines
        if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2
    ]
    assert [line.get_xdata()[0] for line in vertical] == [0.008]
    assert not [line for line in second.lines if len(line.get_xdata()) == 2]


def test_a_table_without_times_says_so():
    empty = table()
    empty["n_rounds"] = 0
    assert "nothing to draw" in timings(empty).texts[0].get_text()


def test_files_are_the_same_bytes(tmp_path):
    table().to_csv(tmp_path / "timings.csv", index=False)
    first = [path.read_bytes() for path in draw_timings(tmp_path)]
    second = [path.read_bytes() for path in draw_timings(tmp_path)]
    assert first == second
    assert len(first) == 2


def test_a_folder_without_the_table_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"timings\.csv"):
        draw_timings(tmp_path)
