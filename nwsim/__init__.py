"""Simulation studies of attention as Nadaraya-Watson regression.

Public names are loaded on first use, so that ``import nwsim`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nwsim.attention import softmax_attention
    from nwsim.dgp import register_world
    from nwsim.heads import head_diversity_index
    from nwsim.inference import conditional_moments, decompose, fit_rate
    from nwsim.smoothing import (
        LocalLinear,
        MultiHeadNadarayaWatson,
        NadarayaWatson,
        register_kernel,
    )
    from nwsim.study import load_results, run_study

__version__ = "0.1.0"

_HOMES = {
    "LocalLinear": "nwsim.smoothing",
    "MultiHeadNadarayaWatson": "nwsim.smoothing",
    "NadarayaWatson": "nwsim.smoothing",
    "conditional_moments": "nwsim.inference",
    "decompose": "nwsim.inference",
    "fit_rate": "nwsim.inference",
    "head_diversity_index": "nwsim.heads",
    "load_results": "nwsim.study",
    "register_kernel": "nwsim.smoothing",
    "register_world": "nwsim.dgp",
    "run_study": "nwsim.study",
    "softmax_attention": "nwsim.attention",
}

__all__ = [
    "LocalLinear",
    "MultiHeadNadarayaWatson",
    "NadarayaWatson",
    "__version__",
    "conditional_moments",
    "decompose",
    "fit_rate",
    "head_diversity_index",
    "load_results",
    "register_kernel",
    "register_world",
    "run_study",
    "softmax_attention",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its room on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_HOMES})
