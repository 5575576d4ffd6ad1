"""A changed helper must not keep living in the cache of its callers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import nwsim.numerics._compile as compile_module

_HELPER = """
from nwsim.numerics._compile import compiled

@compiled(inline=True)
def constant():
    return {value}
"""
_CALLER = """
from nwsim.numerics._compile import REAL, compiled
from nwsim.numerics.helper import constant

@compiled(REAL())
def answer():
    return constant()
"""


def test_changed_helper_is_seen_through_the_cache(tmp_path):
    package = tmp_path / "nwsim"
    (package / "numerics").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "numerics" / "__init__.py").touch()
    shutil.copy(compile_module.__file__, package / "numerics" / "_compile.py")
    (package / "numerics" / "caller.py").write_text(_CALLER)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = "from nwsim.numerics.caller import answer; print(answer())"
    for value in ("1.0", "2.0"):
        (package / "numerics" / "helper.py").write_text(_HELPER.format(value=value))
        done = subprocess.run(
            [sys.executable, "-B", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == value
    assert len(list(tmp_path.glob("nwsim/*/**/*.nbi"))) == 2
