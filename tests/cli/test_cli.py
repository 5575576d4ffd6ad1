"""Every ending has its exit code, and bad input is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from nwsim.cli import main
from nwsim.cli.commands import _show_verdicts
from nwsim.seeding import stream
from nwsim.study import load_study
from nwsim.study.checkpoint_file import CHECKPOINT
from nwsim.study.standing import standing_of
from tests.study.toys import rewrite, snapshot, write_study

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path / "studies")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "nope"], "known studies: toy"),
        (["run", "toy", "--profile", "huge"], "'quick', 'small', 'one'; got 'huge'"),
        (["run", "toy", "--workers", "0"], "workers must be a whole number of at least 1"),
        (["run", "toy", "--workers", "many"], "--workers"),
        (["run", "toy", "--n-sim", "-3"], "n_sim must be"),
        (["run", "toy", "--out", "studies/toy.py"], "cannot write results to"),
        (["run"], "STUDY"),
        (["run", "toy", "--speed"], "--speed"),
        (["fly"], "fly"),
        (["list", "--studies", "none"], "there are no studies in none"),
        (["figures"], "has results"),
        (["status", "--profile", "huge"], "no study in studies has a profile 'huge'"),
        (["figures", "toy"], "run the study first"),
        (["ledger"], "there are no results in results"),
        (["status", "nope"], "known studies: toy"),
        (
            ["status", "toy", "--profile", "one", "--target-mcse", "1", "--measure", "nope"],
            "measure must be",
        ),
        (["replay", "toy", "--condition", "x", "--rep", "0"], "condition"),
        (["diff", "a", "b"], "there are no results in a"),
        (["new-study", "toy"], "is taken"),
        (["new-study", "a b"], "study name"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("nwsim: ")
    assert named in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(("verdict", "shown"), [("inconclusive", False), ("refuted", True)])
def test_counterexamples_are_told_where_nothing_else_is_decided(
    verdict: str, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = pd.DataFrame({"claim": ["C1", "C2"], "verdict": ["inconclusive", verdict]})
    _show_verdicts(SimpleNamespace(claims=claims, manifest={"n_sim": {"a": 19}}))
    out = capsys.readouterr().out
    assert out.startswith("no verdicts: they need 20 replicates")
    assert ("but for counterexamples" in out, "C2: refuted in 1 settings" in out) == (shown, shown)
    assert "inconclusive" not in out


def test_run_status_replay_and_diff(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert "toy  Toy  [quick, small, one]" in capsys.readouterr().out
    assert main(["status", "toy", "--profile", "quick"]) == 0
    assert "60 replicates planned, no checkpoint" in capsys.readouterr().out
    assert main(["run", "toy"]) == 0
    captured = capsys.readouterr()
    assert "results are in build/quick/toy" in captured.out
    assert captured.err == ""
    # Ten replicates decide nothing, so no count of verdicts is shown.
    assert "no verdicts: they need 20 replicates" in captured.out
    assert "inconclusive" not in captured.out
    assert main(["run", "toy", "--n-sim", "40"]) == 0
    captured = capsys.readouterr()
    assert "results are in build/quick-40/toy" in captured.out
    assert "T2: " in captured.out
    assert main(["status", "toy", "--profile", "quick", "--n-sim", "40"]) == 0
    assert "240 of 240 replicates finished" in capsys.readouterr().out
    assert main(["status", "toy", "--profile", "quick"]) == 0
    assert "60 of 60 replicates finished, 0 failures, tables written" in capsys.readouterr().out
    assert main(["run", "toy", "--out", "other", "--workers", "1"]) == 0
    assert main(["diff", "build/quick/toy", "other/toy"]) == 0
    assert main(["run", "toy", "--out", "more", "--n-sim", "12"]) == 0
    assert main(["diff", "other/toy", "more/toy"]) == 1
    capsys.readouterr()
    key = (place / "other/toy/performance.csv").read_text().splitlines()[1].split(",")[1]
    assert main(["replay", "toy", "--condition", key, "--rep", "3"]) == 0
    assert capsys.readouterr().out.startswith("condition_id,rep,method,measure,value\n" + key)


def test_status_takes_for_a_checkpoint_what_a_run_does(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "build/quick/toy" / CHECKPOINT
    path.mkdir(parents=True)
    for command in ("status", "run"):
        assert main([command, "toy", "--profile", "quick"]) == 2
        assert "cannot read the checkpoint" in capsys.readouterr().err
    path.rmdir()
    path.touch()
    assert main(["status", "toy", "--profile", "quick"]) == 0
    assert "no checkpoint" in capsys.readouterr().out
    assert main(["run", "toy", "--profile", "quick"]) == 0


def test_status_of_all_goes_on_where_one_is_broken(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "studies/broken.py").write_text("1 / 0\n")
    assert main(["status", "--profile", "quick"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["broken", "toy"]
    assert "no status: " in lines[0]
    assert "ZeroDivisionError" in lines[0]
    assert "60 replicates planned" in lines[1]
    assert main(["status", "broken"]) == 2


def test_a_broken_study_file_is_listed_as_such(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "studies/bad.py").write_text("raise SystemExit('a\\nb')")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["bad", "broken:"], ["toy", "Toy"]]
    assert "SystemExit: a b" in lines[0]


def test_one_replicate_warns_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy", "--profile", "one"]) == 0
    assert "nwsim: warning: a condition with one replicate" in capsys.readouterr().err


def test_changed_sources_need_replace(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy"]) == 0
    rewrite(place / "studies/toy.py", "SHIFT = 0.3", "SHIFT = 0.4")
    assert main(["run", "toy"]) == 2
    assert "study_source" in capsys.readouterr().err
    assert main(["run", "toy", "--replace"]) == 0


def test_too_many_failures_end_in_one_after_writing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(place / "studies", BEFORE_PLAIN='raise ValueError("a\\nb")')
    assert main(["run", "toy"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "100.0%" in error
    assert (place / "build/quick/toy/performance.csv").is_file()


def test_missing_replicates_end_in_one_after_writing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fatal = float(stream(7, {"n_obs": 200}, 9, "data").normal(0.3, 1.0, size=200)[0])
    kill = f"if data.values[0] == {fatal!r}: os.kill(os.getpid(), signal.SIGKILL)"
    write_study(place / "studies", BEFORE_PLAIN=kill)
    assert main(["run", "toy", "--workers", "2"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    # Replicate 9 is a block of its own, and both worlds share its numbers.
    assert "2 replicates are missing" in error
    table = (place / "build/quick/toy/performance.csv").read_text()
    assert table.count("\n") == 1 + 6 * 2 * 2


def test_new_study_runs_as_it_is(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-study", "mine"]) == 0
    assert main(["run", "mine"]) == 0
    claims = (place / "build/quick/mine/claims.csv").read_text().splitlines()
    assert len(claims) == 1 + 4


def test_figures_and_ledger_come_with_the_standard_profile(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "studies/toy.py"
    rewrite(path, '"quick": P', '"standard": P')
    rewrite(path, "    profiles=", '    figures=(Figure("f", "toy:picture"),),\n    profiles=')
    rewrite(path, "Contrast, Curve, Grid", "Contrast, Curve, Figure, Grid")
    picture = (
        "def picture(results):\n"
        "    from matplotlib.figure import Figure as Canvas\n"
        "    figure = Canvas()\n"
        "    figure.add_subplot().plot(results.performance.estimate)\n"
        "    return figure\n\n\nMETHODS ="
    )
    rewrite(path, "METHODS =", picture)
    assert main(["run", "toy", "--profile", "standard"]) == 0
    folder = place / "results/toy"
    first = {p.name: p.read_bytes() for p in (folder / "figures").iterdir()}
    assert set(first) == {"f.pdf", "f.png"}
    assert (place / "results/ledger.csv").is_file()
    (folder / "figures/f.pdf").unlink()
    assert main(["figures"]) == 0
    assert {p.name: p.read_bytes() for p in (folder / "figures").iterdir()} == first
    assert main(["ledger"]) == 0


def test_help_is_quick_and_light() -> None:
    code = (
        "import sys; from nwsim.cli import main; code = main(['--help']); "
        "assert not {'numpy', 'numba', 'pandas', 'scipy'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "new-study" in done.stdout


def default_signals() -> None:
    """Undo what a shell hands on to jobs in the background: they ignore interrupts and hang-ups."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def test_interrupt_leaves_a_checkpoint_that_goes_on(place: Path) -> None:
    slow = "import time; time.sleep(0.02)"
    study = load_study(write_study(place / "studies", BEFORE_PLAIN=slow))
    command = [sys.executable, "-m", "nwsim", "run", "toy", "--workers", "2", "--out", "cut"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=default_signals,
    )  # fmt: skip
    checkpoint = place / "cut/toy" / CHECKPOINT
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if checkpoint.exists() and standing_of(study, "quick", checkpoint.parent).finished:
            break
    # As a terminal does it: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert error.strip().count("\n") == 0
    assert "what is finished is kept" in error
    assert not (place / "cut/toy/performance.csv").exists()
    assert main(["run", "toy", "--out", "cut"]) == 0
    assert main(["run", "toy", "--out", "whole"]) == 0
    assert snapshot(place / "cut/toy") == snapshot(place / "whole/toy")


def start(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a slow run with two workers and wait until replicates are finished."""
    study = load_study(write_study(place / "studies", BEFORE_PLAIN="import time; time.sleep(0.1)"))
    command = [sys.executable, "-m", "nwsim", "run", "toy", "--workers", "2", "--out", "cut"]
    process = subprocess.Popen(
        [*command, *arguments], cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=default_signals,
    )  # fmt: skip
    checkpoint = place / "cut/toy" / CHECKPOINT
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if checkpoint.exists() and standing_of(study, "quick", checkpoint.parent).finished:
            break
    return process


def children_of(parent: int) -> set[int]:
    return {
        int(stat.parent.name)
        for stat in Path("/proc").glob("[0-9]*/stat")
        if f" {parent} " in stat.read_text().rpartition(")")[2][:20]
    }


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_workers_end_with_their_parent(place: Path, number: signal.Signals) -> None:
    process = start(place)
    children = children_of(process.pid)
    assert len(children) >= 2
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert error.strip().startswith("nwsim: interrupted")
        assert error.strip().count("\n") == 0
    deadline = time.monotonic() + 5
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, children))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["run", "toy"]])
def test_output_that_cannot_be_written_is_one_line(place: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nwsim", *arguments], cwd=place, stdout=full,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
            timeout=60,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "nwsim: cannot read or write: No space left on device\n"
