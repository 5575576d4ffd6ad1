"""One case in a process of its own: told by lines of JSON, answers with lines of JSON.

``python -m nwsim.bench.serving MODULE WORKLOAD COMPETITOR REFERENCE CORE`` loads the data,
lets the competitor prepare and makes a first call; then every line ``run`` on the standard
input is one timed call. Answers go to the standard output, and what a package prints goes
with the errors.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nwsim.bench.cases import Case
from nwsim.bench.workloads import Workload, part_of

WARMED = 0.3
"""Calls shorter than this many seconds are timed right after another one.

Others may have computed for a minute since the last call, and memory is cold by then.
"""


def main(arguments: list[str]) -> int:
    """Serve one case until the input ends."""
    module_name, workload_name, competitor, reference, core = arguments
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if core and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {int(core)})
    warnings.simplefilter("ignore")

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        workload, case = find(module_name, workload_name, competitor)
        serve(workload, case, Path(reference), answer)
    # What cannot be imported or compiled here is left out, as what is not installed.
    except ImportError as error:
        answer(skipped=" ".join(str(error).split())[:300])
    except MemoryError:
        answer(failed="out of memory")
    # Whatever a peer raises is a row of the table.
    except Exception as error:
        answer(failed=f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])
    return 0


def find(module_name: str, workload: str, competitor: str) -> tuple[Workload, Case]:
    """Return a workload and a case by name; both are in the module of the case."""
    from importlib import import_module

    from nwsim.bench.workloads import WORKLOADS

    module = import_module(module_name)
    known = getattr(module, "WORKLOADS", WORKLOADS)
    return (
        next(entry for entry in known if entry.name == workload),
        next(
            entry
            for entry in module.CASES
            if (entry.workload, entry.competitor) == (workload, competitor)
        ),
    )


def serve(workload: Workload, case: Case, reference: Path, answer: Any) -> None:
    """Make the first call, then one call for every line of the input."""
    data = workload.draw()
    scale, rows = 1.0, None
    if case.part is not None:
        scale = len(data.q) / case.part
        data, rows = part_of(data, case.part)
    start = time.perf_counter()
    run = case.prepare(data)
    before = resident(reset=True)
    called = time.perf_counter()
    result = run()
    ended = time.perf_counter()
    memory = resident() - before
    expected = None
    if case.accuracy != "none":
        expected = np.load(reference)
        expected = expected if rows is None else expected[rows]

    def error() -> float | None:
        return None if expected is None else workload.error(data, result, expected)

    answer(
        seconds=(ended - called) * scale,
        wall=ended - called,
        first=ended - start,
        memory=memory / 2**20,
        error=error(),
    )
    wall = ended - called
    for line in sys.stdin:
        if line.strip() != "run":
            break
        del result
        errors = []
        if wall < WARMED:
            result = run()
            errors.append(error())
        start = time.perf_counter()
        result = run()
        wall = time.perf_counter() - start
        errors.append(error())
        # NaN stays NaN, which a plain maximum would not see to.
        worst = None if expected is None else float(np.max(np.array(errors, dtype=float)))
        answer(seconds=wall * scale, wall=wall, error=worst)


def resident(*, reset: bool = False) -> float:
    """Return the peak of resident memory in bytes; after a reset, what is resident now.

    Where the peak cannot be reset it is that since the start of the process.
    """
    status = Path("/proc/self/status")
    if reset:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
