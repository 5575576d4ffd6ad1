"""Where numbers come from: versions, the manifest, and the record of one run.

The manifest is a function of the specification, the sources and the results, so it is
the same bytes whenever the numbers are; times, machine and commit are kept apart.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nwsim
from nwsim.study.cells import Cell
from nwsim.study.parts import factors_of
from nwsim.study.sources import source_digests
from nwsim.study.specification import Study
from nwsim.study.versions import LIBRARIES, versions


def identity_of(study: Study) -> dict[str, str]:
    """Return what a checkpoint must agree in to be continued, by field, as text."""
    fields = {
        "study": study.name,
        "seed": str(study.seed),
        "factors": ", ".join(f"{name} ({kind})" for name, kind in study.factor_types.items()),
        "shared_streams": ", ".join(sorted(study.shared_streams)) or "none",
    }
    fields.update({f"version of {name}": value for name, value in versions().items()})
    return {**fields, **source_digests(study)}


def manifest_of(
    study: Study,
    profile: str,
    cells: Sequence[Cell],
    n_sim: int | None,
    identity: Mapping[str, str],
    failures: Sequence[Mapping[str, Any]],
    cautions: Sequence[Mapping[str, Any]],
    missing: Mapping[str, int],
) -> dict[str, Any]:
    """Return the manifest of a results folder.

    Parameters
    ----------
    study : Study
    profile : str
    cells : sequence of Cell
        The conditions that were run.
    n_sim : int or None
        Number of replicates that replaced the profile's.
    identity : mapping
        Of :func:`identity_of`, from before the run: sources may change while it lasts.
    failures : sequence of mapping
        Failed replicates, counted by condition, method and type.
    cautions : sequence of mapping
        Replicates that warned, counted by role (a method or "draw") and category.
    missing : mapping of str to int
        Replicates that no worker finished, by condition_id.
    """
    rule = study.profile(profile).rule if n_sim is None else f"n_sim={n_sim} given for this run"
    return {
        "study": study.name,
        "label": study.label,
        "profile": profile,
        "seed": study.seed,
        "rule_for_n_sim": rule,
        "specification": _specification(study),
        "sources": {name: identity[name] for name in ("study_source", "package_sources")},
        "versions": {
            "nwsim": str(nwsim.__version__),
            **{name: identity[f"version of {name}"] for name in ("python", *LIBRARIES)},
        },
        "n_sim": {cell.condition_id: cell.n_sim for cell in cells},
        "missing": dict(missing),
        "failures": [dict(row) for row in failures],
        "warnings": [dict(row) for row in cautions],
    }


def _specification(study: Study) -> dict[str, Any]:
    return {
        "factors": {
            name: {"type": study.factor_types[name], "levels": list(levels)}
            for name, levels in study.levels.items()
        },
        "grids": [{k: list(v) for k, v in grid.levels.items()} for grid in study.factors],
        "shared_streams": list(study.shared_streams),
        "methods": [method.name for method in study.methods],
        "measures": [
            {"name": m.name, "label": m.label, "unit": m.unit, "kind": m.kind}
            for m in study.measures
        ],
        "claims": [
            {
                "id": claim.id,
                "statement": claim.statement,
                "quantity": claim.quantity,
                "theory": _number_or_function(claim.theory),
                "margin": _number_or_function(claim.margin),
                "rule": claim.rule,
                "over": list(factors_of(claim.over)),
                "tail": claim.tail,
                "method": claim.method,
            }
            for claim in study.claims
        ],
        "curves": [
            {
                "name": c.name,
                "measure": c.measure,
                "rule": c.rule,
                "over": list(factors_of(c.over)),
                "tail": c.tail,
            }
            for c in study.curves
        ],
        "contrasts": [
            {
                "name": c.name,
                "measure": c.measure,
                "kind": c.kind,
                "factor": c.factor,
                "level": c.level,
                "baseline": c.baseline,
            }
            for c in study.contrasts
        ],
        "figures": [figure.name for figure in study.figures],
        "max_failure_share": study.max_failure_share,
    }


def _number_or_function(value: Any) -> Any:
    return "by setting" if callable(value) else float(value)


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """Return a manifest as JSON text."""
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def commit_of(folder: Path) -> str:
    """Return the commit of the checkout that holds ``folder``.

    ``-dirty`` is appended if tracked files differ from it; "unknown" is returned outside
    a checkout or without git.
    """

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if not commit:
        return "unknown"
    changes = git("status", "--porcelain", "--untracked-files=no")
    return commit if changes == "" else f"{commit}-dirty"


def run_record(
    started: str, seconds: float, workers: int, computed: int, profile: str
) -> dict[str, Any]:
    """Return what belongs to one run and not to its numbers, for ``run.json``."""
    return {
        "started": started,
        "wall_seconds": round(seconds, 3),
        "workers": workers,
        "profile": profile,
        "replicates_computed": computed,
        "commit": commit_of(Path(nwsim.__file__).parent),
        "machine": platform.machine(),
        "system": platform.platform(),
        "processor": platform.processor() or "unknown",
        "cores": os.cpu_count(),
        "python": sys.version,
    }
