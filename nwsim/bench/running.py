"""The whole of ``make bench``: what is run, in which order, and the files it leaves."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nwsim._files import level_text, write_atomic
from nwsim.bench import ours, roofline, timing
from nwsim.bench.cases import Case
from nwsim.bench.workloads import WORKLOADS
from nwsim.exceptions import ParameterError

CACHE = Path("build") / "bench"
"""Folder of references and compiled C programs."""

TIMINGS, ROOFLINE, MACHINE = "timings.csv", "roofline.csv", "machine.json"

_MODULES = (
    "nwsim.bench.ours",
    "nwsim.bench.machine_limits",
    "nwsim.bench.peers.arrays",
    "nwsim.bench.peers.smoothers",
    "nwsim.bench.peers.bandwidths",
    "nwsim.bench.peers.tensors",
)
# Each has run(out, quick) and writes its own table.
_FURTHER = ("costs", "scaling", "statistical", "runner")
_PACKAGES = (
    *("numpy", "scipy", "numba", "llvmlite", "scikit-learn", "statsmodels", "finufft"),
    *("torch", "jax", "jaxlib", "kerneljax", "pykeops", "KDEpy", "pyfigtree", "fastlpr"),
    *("kernelsmooth", "r2py_kernsmooth", "hessband", "rgram", "scikit-fda"),
)

PARTS = (*(workload.name for workload in WORKLOADS), "roofline", *_FURTHER)
"""What a run consists of, in this order."""


def all_cases() -> dict[str, tuple[Case, ...]]:
    """Return the cases of every adapter by module; no peer package is imported for it."""
    return {name: import_module(name).CASES for name in _MODULES}


def compared_with(case: Case) -> str:
    """Return the nwsim case that a case is compared with."""
    return ours.relative_to(case.workload, case.kind, case.accuracy)


def run(
    out: Path, parts: Sequence[str] = (), *, quick: bool = False, say: Callable[[str], None] = print
) -> bool:
    """Run benchmarks and write their tables and figures.

    Parameters
    ----------
    out : Path
        Folder of the tables. A table that is there keeps the rows of workloads that are not
        run now.
    parts : sequence of str
        Of ``PARTS``; all by default.
    quick : bool
        Few rounds, and no slow cases.
    say : callable
        Takes lines of progress.

    Returns
    -------
    bool
        Whether every part came to its end; cases that fail are rows of the tables.

    Raises
    ------
    ParameterError
        For a part that does not exist.
    StoreError
        If ``out`` cannot be written.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise ParameterError(f"parts must be of {', '.join(PARTS)}; got {', '.join(unknown)}")
    chosen = [name for name in PARTS if not parts or name in parts]
    plan = timing.QUICK if quick else timing.Plan()
    write_atomic(out / MACHINE, json.dumps(machine(), indent=2) + "\n")
    for workload in WORKLOADS:
        if workload.name in chosen:
            say(f"{workload.name}: {workload.what}")
            runs = timing.measure(workload, all_cases(), plan, CACHE, say)
            rows = timing.table_of(runs, compared_with)
            _replace_rows(out / TIMINGS, rows, workload.name)
            for line in summary(rows):
                say(line)
    timings = read_rows(out / TIMINGS)
    if "roofline" in chosen:
        say("roofline: rates of one core")
        rows = [*roofline.probe(plan, CACHE, say), *roofline.reached(timings)]
        write_rows(out / ROOFLINE, rows, roofline.COLUMNS)
    finished = [_further(name, out, quick, say) for name in _FURTHER if name in chosen]
    if timings:
        from nwsim.report.timings import draw_timings

        draw_timings(out)
    return all(finished)


def _further(name: str, out: Path, quick: bool, say: Callable[[str], None]) -> bool:
    """Run a part that writes its own table; what goes wrong there must not cost the rest."""
    module = f"nwsim.bench.{name}"
    if find_spec(module) is None:
        say(f"{name}: skipped, there is no {module}")
        return True
    say(f"{name}:")
    try:
        import_module(module).run(out, quick)
    except Exception as error:
        say(f"{name}: failed, {type(error).__name__}: {' '.join(str(error).split())}")
        return False
    return True


def summary(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each case that has times, the fastest first."""
    timed = sorted((row for row in rows if row["n_rounds"]), key=lambda row: row["median_s"])
    return [
        f"  {row['competitor']:<36} {1e3 * row['median_s']:10.2f} ms"
        f"  {row['ratio']:8.2f} x {row['relative_to'] or 'nothing'}"
        f"  error {row['error']:.1e}{'' if row['status'] == 'ok' else '  ' + row['status']}"
        for row in timed
    ]


def _replace_rows(path: Path, rows: Sequence[Mapping[str, Any]], workload: str) -> None:
    """Write the rows of a workload beside those of others that are in the table."""
    order = [entry.name for entry in WORKLOADS]
    kept = [row for row in read_rows(path) if row["workload"] != workload]
    kept.extend(dict(row) for row in rows)
    kept.sort(key=lambda row: order.index(row["workload"]))
    write_rows(path, kept, timing.COLUMNS)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a table as CSV, whole or not at all; NaN and None are empty fields."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([level_text(row[column]) for column in columns])
    write_atomic(path, text.getvalue())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read ``timings.csv`` back; none if it is not there or has other columns."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != timing.COLUMNS:
            return []
        return [{name: _value(name, text) for name, text in row.items()} for row in reader]


_TEXTS = {"workload", "competitor", "kind", "accuracy_class", "status", "message"}


def _value(column: str, text: str) -> Any:
    if column in _TEXTS:
        return text
    if column == "relative_to":
        return text or None
    if column in ("threads", "n_rounds"):
        return int(text)
    if column == "scaled":
        return text == "true"
    return float(text) if text else float("nan")


def machine() -> dict[str, Any]:
    """Return what a reader of the times must know: processor, load and versions."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    versions: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "compiler": _first_line([compiler, "--version"]) if compiler else None,
        "packages": versions,
    }


def _cpu() -> str:
    """Return the model of the processor, as the system names it."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return _first_line(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.processor()


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()
