"""Cases that crash, hang or answer wrongly are rows; times, ratios and errors are as defined."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nwsim.bench.cases import Case
from nwsim.bench.timing import COLUMNS, STATUSES, Plan, Run, measure, quartiles, table_of
from tests.bench import toys

PLAN = Plan(n_rounds=3, budget_s=5.0, timeout_s=1.5, first_timeout_s=60.0, slow=False)


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def rows(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("references")
    runs = measure(toys.WORKLOADS[0], {toys.__name__: toys.CASES}, PLAN, folder, said.append)
    return {row["competitor"]: row for row in table_of(runs, lambda case: "right")}


def test_every_case_is_a_row_with_all_columns(rows):
    expected = {case.competitor for case in toys.CASES if not case.slow}
    assert set(rows) == expected
    for row in rows.values():
        assert tuple(row) == COLUMNS
        assert row["status"] in STATUSES


@pytest.mark.parametrize(
    ("competitor", "status", "message"),
    [
        ("right", "ok", ""),
        ("talkative", "ok", ""),
        ("rough", "ok", ""),
        ("wrong", "wrong", "above 1e-12"),
        ("later undefined", "wrong", "error nan"),
        ("misshapen", "wrong", "error nan"),
        ("raises", "failed", "ValueError: this package wants something else"),
        ("dies", "failed", "killed by signal"),
        ("dies later", "failed", "ended with code 3: the last words"),
        ("hangs", "timeout", "no answer within 1.5 s"),
        ("absent", "skipped", "a_package_that_nobody_has is not installed"),
        ("no compiler", "skipped", "no C compiler"),
    ],
)
def test_what_becomes_of_a_case(rows, said, competitor, status, message):
    row = rows[competitor]
    assert row["status"] == status
    assert message in row["message"]
    lines = [line for line in said if line.startswith(f"T1 {competitor}: ")]
    assert len(lines) == (status != "ok")


def test_times_and_errors(rows):
    assert rows["right"]["n_rounds"] == 3
    assert rows["right"]["ratio"] == rows["right"]["ratio_q75"] == 1.0
    assert rows["right"]["error"] == 0.0
    assert rows["slower"]["median_s"] > 0.02
    assert rows["slower"]["ratio"] > 1.0
    assert rows["slower"]["relative_to"] == "right"
    assert rows["wrong"]["error"] == pytest.approx(1e-3 / np.ptp(toys.draw().y))
    assert rows["dies"]["n_rounds"] == 0
    assert math.isnan(rows["dies"]["median_s"])
    assert rows["dies"]["relative_to"] is None
    assert rows["right"]["memory_mb"] >= 0.0
    assert rows["right"]["first_call_s"] > 0.0
    assert rows["half"]["scaled"] is True
    assert rows["half"]["error"] == 0.0
    assert rows["right"]["scaled"] is False


def test_ratios_are_taken_within_rounds():
    # The machine is twice as slow in every other round; the ratio is 3 in each.
    drift = {0: 1.0, 1: 2.0, 2: 1.0, 3: 2.0}
    case = {"workload": "T1", "packages": (), "kind": "direct", "accuracy": "1e-12"}
    reference = Run(Case(competitor="a", prepare=toys.right, **case), seconds=drift)
    other = Run(Case(competitor="b", prepare=toys.right, **case), seconds={1: 6.0, 2: 3.0, 3: 6.0})
    row = table_of([reference, other], lambda case: "a")[1]
    assert (row["ratio_q25"], row["ratio"], row["ratio_q75"]) == (3.0, 3.0, 3.0)
    # Medians over different rounds would have said otherwise.
    assert row["median_s"] / np.median(list(drift.values())) != 3.0


def test_no_values_have_no_quartiles():
    assert all(math.isnan(value) for value in quartiles([]))
    assert quartiles([1.0, 2.0, 3.0]) == (1.5, 2.0, 2.5)


def test_a_case_stops_at_its_budget_but_is_asked_once(tmp_path):
    plan = Plan(n_rounds=3, budget_s=0.001, timeout_s=5.0)
    slower = [case for case in toys.CASES if case.competitor == "slower"]
    (run,) = measure(toys.WORKLOADS[0], {toys.__name__: slower}, plan, tmp_path, print)
    assert len(run.seconds) == 1
