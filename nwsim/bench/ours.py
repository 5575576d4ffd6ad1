"""nwsim as a competitor: the public estimators, from raw arrays, fit and predict."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from nwsim.bench.cases import Prepare, cases, module
from nwsim.bench.workloads import Attention, Heads, Sample


def _load_loops() -> None:
    """Import the compiled loops now: they load on first use, which is no work of a call."""
    numerics = import_module("nwsim.numerics")
    for found in pkgutil.iter_modules(numerics.__path__):
        import_module(f"nwsim.numerics.{found.name}")


def smoother(kernel: str, engine: str, tol: float = 1e-12) -> Prepare:
    """Return a case of :class:`~nwsim.NadarayaWatson` with an engine and a tolerance."""

    def prepare(data: Sample) -> Callable[[], Any]:
        from nwsim.smoothing import NadarayaWatson

        _load_loops()

        def run() -> Any:
            model = NadarayaWatson(data.h, kernel=kernel, engine=engine, tol=tol)
            return model.fit(data.x, data.y).predict(data.q)

        return run

    return prepare


def leave_one_out(data: Sample) -> Callable[[], Any]:
    """Prepare the choice of a bandwidth, over an unrestricted range."""
    from nwsim.smoothing import NadarayaWatson

    _load_loops()
    return lambda: np.array([NadarayaWatson("loo").fit(data.x, data.y).bandwidth_])


def attention(data: Attention) -> Callable[[], Any]:
    """Prepare softmax attention in float32."""
    softmax_attention = module("nwsim.attention").softmax_attention
    _load_loops()
    return lambda: softmax_attention(data.q, data.k, data.v, temperature=1.0 / data.scale)


def heads(data: Heads) -> Callable[[], Any]:
    """Prepare bias and noise covariance of the heads."""
    from nwsim.smoothing import MultiHeadNadarayaWatson

    _load_loops()

    def run() -> Any:
        model = MultiHeadNadarayaWatson(data.projections, data.h).fit(data.x, data.f_train)
        mean, covariance, _ = model.head_moments(data.q, data.f_train, 1.0)
        bias = mean[:, :, 0] - data.f_query[:, None]
        return np.concatenate([bias[:, None], covariance], axis=1)

    return run


_EPANECHNIKOV = tuple(
    case
    for engine in ("auto", "prefix", "window")
    for case in cases(
        "W4", f"nwsim {engine}", smoother("epanechnikov", engine), needs="", kind="fast"
    )
)

CASES = (
    *cases("W1 W3", "nwsim direct", smoother("gaussian", "direct"), needs=""),
    *cases("W1 W2 W3", "nwsim auto", smoother("gaussian", "auto"), needs="", kind="fast"),
    *cases("W1", "nwsim expansion", smoother("gaussian", "expansion"), needs="", kind="fast"),
    *cases("W1 W2", "nwsim nufft", smoother("gaussian", "nufft"), needs="", kind="fast"),
    *cases(
        "W1 W2",
        "nwsim auto, tol 1e-6",
        smoother("gaussian", "auto", 1e-6),
        needs="",
        kind="fast",
        accuracy="1e-6",
    ),
    *_EPANECHNIKOV,
    *cases("W5", "nwsim loo", leave_one_out, needs="", kind="search", accuracy="1e-6"),
    *cases("W6", "nwsim attention", attention, needs="", accuracy="float32"),
    *cases("W7", "nwsim heads", heads, needs=""),
)

_COMPARED = {
    ("W1", "direct"): "nwsim direct",
    ("W3", "direct"): "nwsim direct",
    ("W5", "search"): "nwsim loo",
    ("W6", "direct"): "nwsim attention",
    ("W7", "direct"): "nwsim heads",
    ("W1", "limit"): "nwsim direct",
    ("W3", "limit"): "nwsim direct",
    ("W6", "limit"): "nwsim attention",
    ("W7", "limit"): "nwsim heads",
}


def relative_to(workload: str, kind: str, accuracy: str) -> str:
    """Return the nwsim case that a case is compared with: of its kind and accuracy.

    Where every pair is computed that is the direct engine, elsewhere what ``auto`` chooses at
    the accuracy of the case.
    """
    if (workload, kind) in _COMPARED:
        return _COMPARED[workload, kind]
    coarse = accuracy in ("1e-6", "float32", "rough") and workload in ("W1", "W2")
    return "nwsim auto, tol 1e-6" if coarse and kind != "limit" else "nwsim auto"
