"""Versions of what can change a number."""

from __future__ import annotations

import platform
from importlib import metadata

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn")
"""Distributions that the package itself computes with."""


def versions() -> dict[str, str]:
    """Return the versions of all that can change a replicate."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
