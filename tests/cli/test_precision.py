"""Targets, logs and verification from the command line."""

from __future__ import annotations

import csv
import io
import logging
import os
import re
from pathlib import Path

import pytest

from nwsim.cli import main
from nwsim.cli.precision_commands import _in_words
from nwsim.study.events import LOGGER
from tests.study.toys import rewrite, snapshot, write_study

TARGET = ["--target-mcse", "0.15", "--measure", "noise"]
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) \S.*")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path / "studies")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["plan", "toy"], "--target-mcse"),
        (["plan", "toy", "--target-mcse", "0", "--profile", "quick"], "target_mcse must be"),
        (
            ["plan", "toy", *TARGET, "--profile", "standard"],
            "profile must be one of 'quick', 'small', 'one'",
        ),
        (
            ["plan", "toy", "--target-mcse", "1", "--measure", "n_empty", "--profile", "one"],
            "count",
        ),
        (["plan", "nope", *TARGET], "known studies: toy"),
        (["run", "toy", *TARGET, "--n-sim", "4"], "target_mcse and n_sim must not both"),
        (["run", "toy", *TARGET, "--pilot", "1"], "pilot must be a whole number"),
        (["run", "toy", "--pilot", "30"], "--pilot is about a target"),
        (["run", "toy", "--measure", "mse"], "--measure is about a target"),
        (["run", "toy", "--relative"], "--relative is about a target"),
        (["run", "toy", "--target-mcse", "0.1", "--measure", "worlds"], "contrast"),
        (["run", "toy", "--log-file", "none/log.txt"], "cannot write the log file none/log.txt"),
        (["run", "toy", "--log-file", "studies"], "cannot write the log file studies"),
        (["verify", "nope"], "known studies: toy"),
        (["verify", "--cells", "0"], "cells must be a whole number of at least 1"),
        (["verify", "--seed", "-1"], "seed must be"),
        (["verify", "--workers", "0"], "workers must be"),
        (["verify", "--studies", "none"], "there are no studies in none"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    place: Path, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("nwsim: ")
    assert named in captured.err
    assert not (place / "build").exists()


def test_plan_prints_a_table_and_a_sum(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "toy", *TARGET, "--profile", "quick"]) == 0
    captured = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(captured.out)))
    assert {row["measure"] for row in rows} == {"noise"}
    cells = {row["condition_id"]: int(row["n_sim_cell"]) for row in rows}
    summary = f"{sum(cells.values())} replicates in 6 cells, about "
    assert captured.err.startswith(summary)
    assert captured.err.endswith(f"pilot of 20 a cell in {place / 'build/plan/toy'}\n")
    assert main(["run", "toy", *TARGET]) == 0
    assert "results are in build/quick-target-0.15/toy" in capsys.readouterr().out
    # No study's ledger is touched by a run of another size.
    assert not (place / "build/quick-target-0.15/ledger.csv").exists()


def test_an_undecided_plan_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(place / "studies", BEFORE_HALF="raise ValueError('no')")
    assert main(["plan", "toy", *TARGET, "--profile", "one"]) == 1
    captured = capsys.readouterr()
    assert "6 rows have no n_sim" in captured.err
    assert "run would refuse this: the pilot cannot decide: 0 of 20" in captured.err
    rows = list(csv.DictReader(io.StringIO(captured.out)))
    assert {row["n_sim"] for row in rows if row["method"] == "half"} == {""}


def test_a_plan_says_what_a_run_would_refuse(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--target-mcse", "0.0001", "--measure", "noise"]
    assert main(["plan", "toy", *target]) == 1
    captured = capsys.readouterr()
    reason = captured.err.splitlines()[-1].removeprefix("nwsim: run would refuse this: ")
    assert "target_mcse would take" in reason
    assert captured.out.startswith("study,condition_id,")
    assert main(["run", "toy", *target]) == 2
    assert capsys.readouterr().err == f"nwsim: {reason}\n"


def events(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    for line in lines:
        assert LINE.fullmatch(line), line
    return [line.split(" ", 1)[1] for line in lines]


def test_a_log_has_a_line_an_event(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handlers, level = list(LOGGER.handlers), LOGGER.level
    log = place / "log.txt"
    assert main(["run", "toy", "--log-file", "log.txt", "--workers", "2"]) == 0
    lines = events(log)
    assert lines[0] == (
        f"INFO start: study toy, profile quick, workers 2, folder {place / 'build/quick/toy'}"
    )
    assert lines[1] == "INFO run: 6 cells, 60 replicates, 60 of them missing"
    assert sum("cell finished: " in line for line in lines) == 6
    assert lines[-1].startswith("INFO end: tables written after ")
    calm = snapshot(place / "build/quick/toy")
    assert main(["run", "toy", "--out", "plain"]) == 0
    assert snapshot(place / "plain/toy") == calm
    assert events(log) == lines
    assert main(["run", "toy", "--log-file", "log.txt"]) == 0
    assert events(log)[: len(lines)] == lines
    assert "0 of them missing" in events(log)[len(lines) + 1]
    assert (LOGGER.handlers, LOGGER.level) == (handlers, level)
    assert capsys.readouterr().err == ""


def test_a_log_tells_of_failures_lost_blocks_and_ends(place: Path) -> None:
    write_study(place / "studies", BEFORE_HALF="raise ValueError('two\\nlines')")
    assert main(["run", "toy", "--log-file", "a", "--no-figures"]) == 1
    failures = [line for line in events(place / "a") if line.startswith("WARNING failures: ")]
    assert failures[0].endswith("first replicate 0, method half, ValueError: two lines")
    kill = "os.kill(os.getpid(), signal.SIGKILL) if condition['n_obs'] == 50 else None"
    write_study(place / "studies", BEFORE_PLAIN=kill)
    assert main(["run", "toy", "--log-file", "b", "--workers", "2", "--out", "b_out"]) == 1
    lost = [line for line in events(place / "b") if line.startswith("ERROR block lost: ")]
    assert lost
    assert all('"n_obs":50' in line for line in lost)
    write_study(place / "studies", BEFORE_PLAIN="raise KeyboardInterrupt")
    assert main(["run", "toy", "--log-file", "c", "--out", "c_out"]) == 130
    assert events(place / "c")[-1].startswith("WARNING end: interrupted after ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_log_and_not_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy", "--log-file", "/dev/full"]) == 0
    assert capsys.readouterr().err.count("cannot write the log: ") == 1


def test_logging_without_a_file_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert logging.getLogger("nwsim").handlers == []
    write_study(Path("studies"), BEFORE_HALF="raise ValueError('no')")
    assert main(["run", "toy"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_verify_finds_what_changed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = place / "studies/toy.py"
    assert main(["verify"]) == 0
    said = capsys.readouterr().out
    assert "toy: quick with 1 and 2 workers: 5 files: no differences" in said
    assert "toy: no results in results/toy, none are compared" in said
    rewrite(study, '"one": Profile', '"standard": Profile(25, rule="toy"), "one": Profile')
    assert main(["run", "toy", "--profile", "standard"]) == 0
    capsys.readouterr()
    assert main(["verify", "toy", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("tracked cells are drawn with seed 3\n")
    assert "toy: 1 of 6 cells of results/toy again, 25 replicates: no differences" in said
    assert said.endswith("0 differences in 1 studies\n")
    kept = (place / "results/toy/performance.csv").read_bytes()
    # The code of one method is another one.
    rewrite(study, "(0.5 * data", "(0.501 * data")
    assert main(["verify", "toy"]) == 1
    said = capsys.readouterr().out
    assert re.search(
        r"  toy: performance: [0-9a-f]{16}, half, mse: estimate 0\.\d+ and 0\.\d+", said
    )
    assert ", plain, " not in said
    assert "toy: results/toy was made from other sources: study_source " in said
    rewrite(study, "(0.501 * data", "(0.5 * data")
    # Another number of replicates, and a condition that nobody tracked.
    rewrite(study, "Profile(25", "Profile(26")
    rewrite(study, "(50, 100, 200)", "(50, 100, 400)")
    assert main(["verify", "toy"]) == 1
    said = capsys.readouterr().out
    assert said.count("has 25 replicates in results/toy and 26 in the study") == 4
    assert said.count("has 25 replicates in results/toy and none in the study") == 2
    assert said.count("has no replicates in results/toy and 26 in the study") == 2
    assert (place / "results/toy/performance.csv").read_bytes() == kept


def test_verify_sees_numbers_that_depend_on_the_process(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A study that breaks its promise: what it returns depends on where it runs.
    write_study(
        place / "studies",
        **{'"noise": rng.normal()': f'"noise": float(os.getpid() == {os.getpid()})'},
    )
    assert main(["verify", "toy"]) == 1
    said = capsys.readouterr().out
    assert "toy: performance.csv has other bytes in " in said
    (place / "studies/toy.py").write_text("raise ValueError")
    assert main(["verify", "toy"]) == 2


def test_verify_goes_on_after_a_study_that_cannot_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(place / "studies", **{'"noise": rng.normal()': '"other": 1.0'})
    (place / "studies/toy.py").rename(place / "studies/first.py")
    rewrite(place / "studies/first.py", 'name="toy"', 'name="first"')
    write_study(place / "studies")
    assert main(["verify"]) == 1
    said = capsys.readouterr().out
    assert "first: cannot be computed: 1 differences" in said
    assert "toy: quick with 1 and 2 workers: 5 files: no differences" in said


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5 s"), (119.0, "119 s"), (150.0, "2.5 min"), (9e3, "2.5 h")]
)
def test_times_are_told_in_a_fitting_unit(seconds: float, text: str) -> None:
    assert _in_words(seconds) == text
