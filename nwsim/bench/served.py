"""The parent's side of a case: a process that is told to make one call at a time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ONE_THREAD = {
    **dict.fromkeys(
        (
            *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
            *("NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"),
        ),
        "1",
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "PYKEOPS_VERBOSE": "0",
    "FASTLPR_QUIET": "1",
    "JAX_PLATFORMS": "cpu",
}
"""What makes every package here use one thread, and say little."""


class EndedError(Exception):
    """A case that will answer no more: its ``status`` and why."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Served:
    """A case served by :mod:`nwsim.bench.serving`, pinned to one core with one thread.

    Parameters
    ----------
    module, workload, competitor : str
        Where the case is, and which.
    reference : Path
        The trusted answer.
    """

    def __init__(self, module: str, workload: str, competitor: str, reference: Path) -> None:
        # As long as the process; what it writes is read if it dies.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115
        arguments = (module, workload, competitor, str(reference), _core())
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nwsim.bench.serving", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**os.environ, **ONE_THREAD},
            bufsize=0,
        )
        self._input: Any = self._process.stdin
        self._output: Any = self._process.stdout

    def ask(self, timeout: float) -> dict[str, Any]:
        """Let the case make one call and return its answer.

        Raises
        ------
        EndedError
            If it cannot run here, fails, dies, or takes longer than ``timeout`` seconds.
        """
        try:
            self._input.write(b"run\n")
        except BrokenPipeError:
            raise EndedError("failed", self._last_words()) from None
        return self.answer(timeout)

    def answer(self, timeout: float) -> dict[str, Any]:
        """Return the next answer; that to the first call comes unasked. Raises as ``ask``."""
        until = time.monotonic() + timeout
        text = b""
        while not text.endswith(b"\n"):
            left = max(until - time.monotonic(), 0.0)
            if not select.select([self._output], [], [], left)[0]:
                raise EndedError("timeout", f"no answer within {timeout:g} s")
            part = os.read(self._output.fileno(), 65536)
            if not part:
                raise EndedError("failed", self._last_words())
            text += part
        fields: dict[str, Any] = json.loads(text)
        for status in ("failed", "skipped"):
            if status in fields:
                raise EndedError(status, str(fields[status]))
        return fields

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._input, self._output, self._words):
            stream.close()

    def _last_words(self) -> str:
        """Return how the process ended, and the last line of what it wrote."""
        code = self._process.wait()
        ended = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").strip().splitlines()
        return f"{ended}: {lines[-1].strip()[:200]}" if lines else ended


def _core() -> str:
    """Return the core that all cases are pinned to: the last one that is allowed."""
    if not hasattr(os, "sched_getaffinity"):
        return ""
    return str(max(os.sched_getaffinity(0)))
