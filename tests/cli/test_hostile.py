"""Whatever is typed: an exit code, at most one line of complaint, and nothing half-written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nwsim.cli import main
from tests.study.toys import write_study

ODD = (
    *("", " ", "-", "--", "-1", "0", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "0x10"),
    *("99999999999999999999", "-99999999999999999999", "x", "ü\n", "a\x00b", "%s", "{}", "*"),
    *("..", "../..", "/", "/dev/null", "/proc/nothing", "studies", "studies/toy.py", "~nobody/x"),
    *("\udcff", "\u202e", "a" * 300, "None", "True", "[]", "tcp://", "tcp://127.0.0.1:1"),
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "run": (
        *("--profile", "--workers", "--executor", "--block-timeout", "--n-sim"),
        *("--target-mcse", "--measure", "--pilot", "--log-file", "--out", "--studies"),
    ),
    "plan": ("--target-mcse", "--measure", "--pilot", "--profile", "--out", "--studies"),
    "status": ("--profile", "--n-sim", "--target-mcse", "--pilot", "--out", "--studies"),
    "figures": ("--profile", "--n-sim", "--target-mcse", "--out", "--studies"),
    "replay": ("--condition", "--rep", "--studies"),
    "verify": ("--seed", "--cells", "--workers", "--results", "--out", "--studies"),
    "diff": (),
    "ledger": ("--out",),
    "list": ("--studies",),
    "new-study": ("--studies",),
    "bench": ("--out",),
}
SHORT = {"run": ("--profile", "one"), "plan": ("--profile", "one", "--target-mcse", "5")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments() -> st.SearchStrategy[list[str]]:
    @st.composite
    def build(draw: Any) -> list[str]:
        command = draw(st.sampled_from(sorted(OPTIONS)))
        odd = st.sampled_from(ODD)
        found = [command, *SHORT.get(command, ())]
        # What is typed is odd somewhere: a plain verification or benchmark takes minutes.
        given = draw(st.lists(odd, min_size=1, max_size=2))
        if command in ("run", "plan", "status", "replay") and draw(st.booleans()):
            given = ["toy"]
        found += given
        if OPTIONS[command]:
            for name in draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=2)):
                found += [name, draw(odd)]
        return found

    return build()


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(typed=arguments())
@example(typed=["run", "toy", "--profile", "one", "--workers", "99999999999999999999"])
@example(typed=["run", "toy", "--profile", "one", "--log-file", "a\x00b"])
@example(typed=["run", "toy", "--profile", "one", "--out", "a\x00b"])
@example(typed=["run", "a\x00b"])
@example(typed=["run", "toy", "--profile", "one", "--executor", "dask", "--scheduler", "tcp://"])
def test_anything_typed_is_answered(
    typed: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(place / "studies")
    source = study.read_bytes()
    capsys.readouterr()
    code = main(typed)
    captured = capsys.readouterr()
    assert code in (0, 1, 2)
    assert "Traceback" not in captured.err
    if code == 2:
        assert captured.err.startswith(("nwsim: ", "Usage: "))
        if captured.err.startswith("nwsim: "):
            assert captured.err.count("\n") == 1
    assert study.read_bytes() == source
    # Whole tables or none, and no temporary files.
    for folder, _, names in os.walk(place):
        assert not [name for name in names if name.endswith((".tmp", "-journal"))]
        if "claims.csv" in names:
            assert {"performance.csv", "contrasts.csv", "curves.csv"} <= set(names), folder


def test_many_workers_are_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(place / "studies")
    assert main(["run", "toy", "--workers", "100000"]) == 2
    assert "workers must be" in capsys.readouterr().err
    assert not (place / "build").exists()
