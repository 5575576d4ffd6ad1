"""Pages of scaling and statistical speed: from tables alone, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from nwsim.exceptions import ParameterError
from nwsim.report import scaling, statistical


def timed(curve: str, engine: str, x: int, seconds: float, **other: object) -> dict[str, object]:
    return {
        "curve": curve,
        "kernel": "gaussian",
        "dim": 1,
        "bandwidth": 0.05,
        "engine": engine,
        "x": x,
        "median_s": seconds,
        "q25_s": 0.9 * seconds,
        "q75_s": 1.2 * seconds,
        "ratio": 0.6,
        "ratio_q25": 0.5,
        "ratio_q75": 0.7,
        "local_slope": 1.0,
        "status": "ok",
        **other,
    }


def scaling_table() -> pd.DataFrame:
    rows = [
        timed(curve, engine, x, speed * x, dim=dim)
        for curve in ("n_obs", "n_queries")
        for dim in (1, 2)
        for engine, speed in (("direct", 1e-6), ("nufft", 3e-7), ("auto", 3e-7))
        for x in (256, 1024, 4096)
    ]
    rows += [timed("dim", "direct", d, 1e-3 * d, dim=d) for d in (1, 2, 3)]
    rows += [timed("n_heads", "head_moments", h, 1e-3 * h**2) for h in (1, 2, 4)]
    rows += [timed("workers", name, n, 2.0 / n) for name in scaling.PROCESSES for n in (1, 2)]
    return pd.DataFrame(rows)


def statistical_table() -> pd.DataFrame:
    cell = {
        "cell": "variance-bound",
        "function": "fixed",
        "dim": 1,
        "kernel": "gaussian",
        "bandwidth": 0.01,
        "bias2_share": 0.001,
    }
    rows = [
        {
            "study": study,
            "n_obs": n_obs,
            "n_heads": 1 if study == "rate" else 8,
            **cell,
            "route": route,
            "status": "ok",
            "estimate": 1.0,
            "target_mcse": 1e-3,
            "seconds_needed": seconds,
            "gain_replicates": 200.0 if route == "conditional" else 1.0,
            "gain_replicates_se": 20.0 if route == "conditional" else 0.0,
        }
        for study, n_obs in (("rate", 1024), ("rate", 4096), ("decomposition", 1024))
        for route, seconds in (("conditional", 1.0), ("plain", 100.0), ("statsmodels", 900.0))
    ]
    table = pd.DataFrame(rows)
    heads = (table["study"] == "decomposition") & (table["route"] == "statsmodels")
    table.loc[heads, "status"] = "not_served"
    numbers = ["estimate", "target_mcse", "seconds_needed", "gain_replicates"]
    table.loc[heads, numbers] = float("nan")
    return table


def bytes_of(paths: list[Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in paths}


def write(folder: Path, scaling_rows: pd.DataFrame, statistical_rows: pd.DataFrame) -> Path:
    folder.mkdir(exist_ok=True)
    scaling_rows.to_csv(folder / "scaling.csv", index=False)
    statistical_rows.to_csv(folder / "statistical.csv", index=False)
    return folder


def test_pages_are_the_same_bytes_and_show_the_tables(tmp_path: Path) -> None:
    times, speeds = scaling_table(), statistical_table()
    folder = write(tmp_path, times, speeds)
    first = bytes_of([*scaling.draw_scaling(folder), *statistical.draw_statistical(folder)])
    assert set(first) == {
        f"{name}.{kind}"
        for name in ("scaling_n_obs", "scaling_n_queries", "scaling_sizes", "statistical")
        for kind in ("pdf", "png")
    }

    # One page stands for all in what follows, since saving one takes a second.
    again = bytes_of(statistical.draw_statistical(folder))
    assert {name: first[name] for name in again} == again
    speeds.loc[speeds["route"] == "plain", "seconds_needed"] *= 2.0
    changed = bytes_of(statistical.draw_statistical(write(tmp_path, times, speeds)))
    assert not [name for name, drawn in changed.items() if drawn == again[name]]


def texts(figure: object) -> str:
    legends = getattr(figure, "legends", [])
    return " | ".join(text.get_text() for legend in legends for text in legend.get_texts())


def test_wrong_answers_are_crossed_out() -> None:
    table = scaling_table()
    assert "beyond tolerance" not in texts(scaling.engines(table, "n_obs"))
    table.loc[0, "status"] = "wrong"
    assert "beyond tolerance" in texts(scaling.engines(table, "n_obs"))
    table = statistical_table()
    assert "another quantity" not in texts(statistical.routes(table))
    table.loc[0, "status"] = "disagrees"
    assert "another quantity" in texts(statistical.routes(table))


def test_parts_that_are_missing_are_left_out() -> None:
    table = scaling_table()
    for curve in ("dim", "n_heads", "workers"):
        figure = scaling.sizes(table[table["curve"] != curve])
        assert len(figure.axes) == 2
    assert len(scaling.engines(table.iloc[:0], "n_obs").axes) == 0
    assert len(statistical.routes(statistical_table().iloc[:0]).axes) == 0


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"scaling\.csv"):
        scaling.draw_scaling(tmp_path)
    with pytest.raises(ParameterError, match=r"statistical\.csv"):
        statistical.draw_statistical(tmp_path)
