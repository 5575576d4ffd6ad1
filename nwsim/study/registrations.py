"""What a study file registers by name, for the processes that do not run the file.

A study file may register kernels and worlds when it is loaded. Worker processes get its
functions but never run it, so registrations travel with them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_REGISTRIES = ("nwsim.smoothing.kernels", "nwsim.dgp.registry")


def collect() -> dict[str, tuple[Any, ...]]:
    """Return what users registered, by the module that keeps it.

    A module that nothing has imported holds no registration, and is not imported for that.
    """
    found = {}
    for name in _REGISTRIES:
        module = sys.modules.get(name)
        entries = module.user_registrations() if module is not None else ()
        if entries:
            found[name] = tuple(entries)
    return found


def restore(registrations: Mapping[str, Sequence[Any]]) -> None:
    """Register here what :func:`collect` found elsewhere, unless its name is known."""
    for name, entries in registrations.items():
        importlib.import_module(name).register_missing(entries)
