"""Adapters are well formed; a run writes whole tables, keeps other rows and survives failures."""

from __future__ import annotations

import json
import re
import types
from pathlib import Path

import pytest
from click.testing import CliRunner

from nwsim.bench import roofline, running, timing
from nwsim.bench.cases import ACCURACY, KINDS, absent
from nwsim.bench.running import PARTS, all_cases, compared_with, read_rows, run, write_rows
from nwsim.bench.workloads import WORKLOADS
from nwsim.cli.commands import cli
from nwsim.exceptions import ParameterError
from tests.bench import toys

ROOT = Path(__file__).resolve().parents[2]
DICTIONARY = ROOT / "docs" / "benchmarks.md"


def test_adapters_are_well_formed():
    entries = [case for cases in all_cases().values() for case in cases]
    names = [(case.workload, case.competitor) for case in entries]
    assert len(set(names)) == len(names)
    assert {case.workload for case in entries} == {workload.name for workload in WORKLOADS}
    for case in (*entries, *roofline.CASES):
        assert case.kind in KINDS
        assert case.accuracy in ACCURACY


def test_ratios_are_to_cases_that_exist_and_are_as_exact():
    entries = [case for cases in all_cases().values() for case in cases]
    known = {(case.workload, case.competitor): case for case in entries}
    for case in entries:
        other = known[case.workload, compared_with(case)]
        assert other.own
        assert ACCURACY[other.accuracy] <= max(ACCURACY[case.accuracy], 1e-5)
        if case.kind == "direct" and case.workload not in ("W2", "W4"):
            assert other.kind == "direct"


def test_every_peer_is_in_the_extra():
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    extra = re.search(r"^peers =\n((?:    .+\n)+)", text, re.M).group(1).split()
    core = re.search(r"^install_requires =\n((?:    .+\n)+)", text, re.M).group(1).split()
    names = {"sklearn": "scikit-learn", "skfda": "scikit-fda", "r2py_kernsmooth": "r2py_kernsmooth"}
    needed = {
        names.get(package, package)
        for cases in all_cases().values()
        for case in cases
        for package in case.packages
    }
    assert needed <= set(extra) | set(core)


def test_absent_packages_are_named():
    assert absent(("numpy", "a_package_that_nobody_has")) == ["a_package_that_nobody_has"]


def columns_explained(heading: str) -> set[str]:
    text = DICTIONARY.read_text(encoding="utf-8")
    section = text.split(f"\n### {heading}\n", 1)[1].split("\n##", 1)[0]
    return {
        name
        for line in section.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_column_is_explained():
    assert columns_explained("timings.csv") == set(timing.COLUMNS)
    assert columns_explained("roofline.csv") == set(roofline.COLUMNS)


@pytest.fixture
def toy_run(monkeypatch):
    chosen = [case for case in toys.CASES if case.competitor in ("right", "raises", "absent")]
    monkeypatch.setattr(running, "WORKLOADS", toys.WORKLOADS)
    monkeypatch.setattr(running, "all_cases", lambda: {toys.__name__: chosen})
    monkeypatch.setattr(running, "compared_with", lambda case: "right")
    monkeypatch.setattr(running, "PARTS", ("T1", "broken", "later"))
    monkeypatch.setattr(running, "_FURTHER", ("broken", "later"))
    monkeypatch.setattr(running, "find_spec", lambda name: name != "nwsim.bench.unknown")

    def broken(out, quick):
        raise RuntimeError("a part fails")

    def later(out, quick):
        (out / "later.csv").write_text("x\n", encoding="utf-8")

    parts = {"broken": broken, "later": later}
    monkeypatch.setattr(
        running,
        "import_module",
        lambda name: types.SimpleNamespace(run=parts[name.rsplit(".", 1)[1]]),
    )


def test_a_run_writes_tables_and_survives_a_part_that_fails(tmp_path, monkeypatch, toy_run):
    monkeypatch.setattr(running, "CACHE", tmp_path / "cache")
    said: list[str] = []
    assert not run(tmp_path, quick=True, say=said.append)
    rows = read_rows(tmp_path / "timings.csv")
    assert {row["competitor"]: row["status"] for row in rows} == {
        "right": "ok",
        "raises": "failed",
        "absent": "skipped",
    }
    assert "broken: failed, RuntimeError: a part fails" in said
    assert (tmp_path / "later.csv").is_file()
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "timings.pdf",
        "timings.png",
    }
    assert json.loads((tmp_path / "machine.json").read_text())["packages"]["numpy"]


def test_a_table_keeps_the_rows_of_other_workloads(tmp_path):
    row = dict.fromkeys(timing.COLUMNS, float("nan")) | {
        "workload": "W3",
        "competitor": "a",
        "kind": "direct",
        "accuracy_class": "1e-12",
        "threads": 1,
        "n_rounds": 2,
        "relative_to": None,
        "median_s": 0.1,
        "scaled": True,
        "status": "ok",
        "message": "",
    }
    path = tmp_path / "timings.csv"
    write_rows(path, [row], timing.COLUMNS)
    running._replace_rows(path, [row | {"workload": "W1", "competitor": "b"}], "W1")
    running._replace_rows(path, [row | {"workload": "W1", "competitor": "c"}], "W1")
    read = read_rows(path)
    assert [(entry["workload"], entry["competitor"]) for entry in read] == [
        ("W1", "c"),
        ("W3", "a"),
    ]
    assert read[1]["median_s"] == 0.1
    assert read[1]["scaled"] is True
    assert read[1]["relative_to"] is None


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="parts must be of W1, W2"):
        run(tmp_path, ["W9"])
    assert not list(tmp_path.iterdir())
    assert PARTS[:2] == ("W1", "W2")


def test_the_command_hands_its_arguments_on(monkeypatch):
    seen = {}

    def fake(out, parts, *, quick, say):
        seen.update(out=out, parts=parts, quick=quick)
        return False

    monkeypatch.setattr(running, "run", fake)
    done = CliRunner().invoke(cli, ["bench", "W1", "W3", "--quick"], standalone_mode=False)
    assert done.return_value == 1
    assert seen == {"out": Path("build/quick/bench"), "parts": ("W1", "W3"), "quick": True}
