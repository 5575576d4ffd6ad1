"""What make says before it does anything."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_a_variable_in_small_letters_is_refused():
    done = make("--dry-run", "study-rate", "profile=quick")
    assert done.returncode != 0
    assert "profile=quick: make variables are written in capitals" in done.stderr
    assert "nwsim run" not in done.stdout


def test_variables_in_capitals_reach_the_command():
    done = make("--dry-run", "study-rate", "PROFILE=quick", "WORKERS=1", "REPLACE=1")
    assert done.returncode == 0, done.stderr
    assert "nwsim run rate --profile quick --workers 1 --replace" in done.stdout


def test_help_lists_every_study():
    done = make("help")
    assert done.returncode == 0
    for path in (ROOT / "studies").glob("*.py"):
        assert path.stem in done.stdout
