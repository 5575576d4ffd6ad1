"""What the names in the tables are called on a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

SYMBOLS = {"alpha": "\\alpha", "dim": "d", "n_obs": "n", "n_heads": "H", "d_k": "d_k"}
"""Factors that have a letter of their own, as in ``results/README.md``."""

AXES = {
    "n_obs": "number of observations $n$",
    "n_heads": "number of heads $H$",
    "d_k": "dimension of a head $d_k$",
    "hdi": "head diversity index",
}
LEVELS = {
    "index_shared": "index, shared frame",
    "index_private": "index, private frames",
    "nongaussian": "heavy tails",
}
METHODS = {"rate": "bandwidth of the theorem", "oracle": "best bandwidth", "loo": "leave-one-out"}


@dataclass(frozen=True)
class Words:
    """Texts for measures, factors, levels and methods.

    Parameters
    ----------
    manifest : mapping
        Manifest of the results; its measures have a label and a unit.
    own : mapping of str to str
        Texts by name for factors, levels that are words, and methods. They come first.
    """

    manifest: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    def label(self, measure: str) -> str:
        """Return the label of a measure as the study states it, or else its name."""
        stated = self._measure(measure).get("label")
        return self.own.get(measure) or str(stated or plain(measure))

    def measure(self, measure: str) -> str:
        """Return the label of a measure with its unit, if it has one."""
        unit = self._measure(measure).get("unit")
        return f"{self.label(measure)} ({unit})" if unit else self.label(measure)

    def axis(self, factor: str) -> str:
        """Return the name of a factor as it stands below an axis."""
        return self.own.get(factor) or AXES.get(factor) or plain(factor)

    def method(self, method: str) -> str:
        """Return the name of a method as it stands in a title."""
        return self.own.get(method) or METHODS.get(method) or plain(method)

    def level(self, factor: str, level: Any) -> str:
        """Return a level of a factor as it stands in titles and beside lines."""
        if factor == "method":
            return self.method(str(level))
        if isinstance(level, str):
            return self.own.get(level) or LEVELS.get(level) or plain(level)
        text = number(level)
        if factor in SYMBOLS and factor not in self.own:
            return f"${SYMBOLS[factor]} = {text}$"
        return f"{self.own.get(factor) or plain(factor)} = {text}"

    def symbol(self, factor: str) -> str:
        """Return the shortest name of a factor, such as heads a list of its levels."""
        if factor in SYMBOLS and factor not in self.own:
            return f"${SYMBOLS[factor]}$"
        return self.own.get(factor) or plain(factor)

    def short(self, level: Any) -> str:
        """Return a level below the name of its factor."""
        return self.own.get(level) or plain(level) if isinstance(level, str) else number(level)

    def _measure(self, name: str) -> Mapping[str, Any]:
        measures = self.manifest.get("specification", {}).get("measures", [])
        return next((entry for entry in measures if entry.get("name") == name), {})


def number(level: Any) -> str:
    """Return a level that is no word: a number in few digits, true or false."""
    if isinstance(level, (bool, np.bool_)):
        return str(bool(level)).lower()
    return f"{level:g}" if isinstance(level, Real) else str(level)


def plain(name: str) -> str:
    """Return a name of the tables as words."""
    return name.replace("_", " ")
