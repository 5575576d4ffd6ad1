"""The costs of the runner are measured as said; how large they are is no test."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nwsim.bench import runner
from nwsim.study import run_study


def test_the_table_has_every_promise(tmp_path: Path) -> None:
    runner.run(tmp_path, quick=True)
    lines = (tmp_path / "runner.csv").read_text().splitlines()
    assert lines[0] == ",".join(runner.COLUMNS)
    assert [tuple(line.split(",")[:2]) for line in lines[1:]] == list(runner.LIMITS)
    assert all(float(line.split(",")[2]) > 0 for line in lines[1:])


def test_the_clock_tells_calls_from_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    clock = runner.Clocked()

    def call(seconds: float) -> None:
        now[0] += seconds

    for _ in range(3):
        clock.submit(call, 2.0)
        now[0] += 0.5
    assert clock.inside == 6.0
    # What comes after the last call is not of the loop.
    assert clock.outside == 1.0


def test_blocks_are_as_long_as_said(tmp_path: Path) -> None:
    clock = runner.overhead(runner.toy(2, 0.01))
    assert clock.inside >= 6 * 2 * 0.01
    results = run_study(runner.toy(3), out=tmp_path)
    assert set(results.performance["n_sim"]) == {3}


@pytest.mark.parametrize(("values", "within"), [([1.0, 2.0, 9.0], True), ([3.0, 4.0], False)])
def test_a_row_is_median_and_quartiles(values: list[float], within: bool) -> None:
    found = runner.row("quantity", "s", values, 2.0)
    assert found["within"] is within
    assert found["q25"] <= found["median"] <= found["q75"]
    assert found["n_rounds"] == len(values)


def test_a_process_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="ValueError: no"):
        runner._process("raise ValueError('no')")
