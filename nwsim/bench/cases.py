"""What is timed: a competitor at a workload, as a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

# Largest error (see Workload.error) that an answer of the class may have.
ACCURACY = {"1e-12": 1e-12, "1e-6": 1e-6, "float32": 1e-5, "rough": 0.1, "none": float("inf")}
"""Accuracy classes, finest first; ``none`` is for programs that give no answer."""

KINDS = ("direct", "fast", "search", "limit")
"""All pairs; fewer operations than pairs; search for a bandwidth; a limit of the machine."""

NAMESAKE = "nwsim"
"""Start of the competitors' names that are this package."""

Prepare = Callable[[Any], Callable[[], Any]]


@dataclass(frozen=True)
class Case:
    """One competitor at one workload.

    Attributes
    ----------
    workload, competitor : str
    packages : tuple of str
        Modules that must be importable; else the case is left out.
    kind : str
        One of ``KINDS``. Ratios are taken between cases of one kind.
    accuracy : str
        One of ``ACCURACY``; an answer that misses it is wrong.
    prepare : callable
        ``prepare(data) -> run``; ``run()`` does all that a user pays for, from raw arrays to
        the answer.
    part : int, optional
        Number of queries that are computed; times are scaled up to all of them.
    slow : bool
        Left out of a quick run.
    """

    workload: str
    competitor: str
    packages: tuple[str, ...]
    kind: str
    accuracy: str
    prepare: Prepare
    part: int | None = None
    slow: bool = False

    @property
    def own(self) -> bool:
        """Whether this is nwsim."""
        return self.competitor.split()[0] == NAMESAKE


def cases(
    workloads: str,
    competitor: str,
    prepare: Prepare,
    *,
    needs: str,
    kind: str = "direct",
    accuracy: str | Mapping[str, str] = "1e-12",
    part: Mapping[str, int] | None = None,
    slow: str = "",
) -> tuple[Case, ...]:
    """Return the cases of a competitor at several workloads.

    Parameters
    ----------
    workloads, needs, slow : str
        Names, separated by blanks: workloads, modules, and the workloads at which it is slow.
    accuracy : str or mapping
        One for all, or by workload.
    part : mapping, optional
        Number of queries that are computed, by workload.
    """
    return tuple(
        Case(
            workload,
            competitor,
            tuple(needs.split()),
            kind,
            accuracy if isinstance(accuracy, str) else accuracy[workload],
            prepare,
            (part or {}).get(workload),
            workload in slow.split(),
        )
        for workload in workloads.split()
    )


def absent(packages: tuple[str, ...]) -> list[str]:
    """Return the modules that cannot be found here, without importing any."""
    return [name for name in packages if find_spec(name) is None]


def module(name: str) -> Any:
    """Import a peer package, whose types are not known here."""
    return import_module(name)


def columns(array: Any) -> Any:
    """Return points as rows, (n,) as (n, 1)."""
    return np.reshape(array, (len(array), -1))
