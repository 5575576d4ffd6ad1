"""The constants by which ``engine="auto"`` chooses, measured.

The package ships its own (nwsim/smoothing/costs.json), so that a choice is the same everywhere.
This part times the units of work behind them on this machine and writes both into costs.csv.
``python -m nwsim.bench.costs FILE`` writes a file to ship instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nwsim._files import write_atomic
from nwsim._typing import FloatArray
from nwsim.bench.interleaved import interleaved
from nwsim.bench.running import write_rows
from nwsim.smoothing import NadarayaWatson, costs
from nwsim.smoothing.engines import lay_out
from nwsim.smoothing.expansion import make_plan
from nwsim.smoothing.fourier import modes, nufft_sums, precision
from nwsim.smoothing.sums import WeightedSample

Call = Callable[[], Any]
COLUMNS = ("constant", "shipped_s", "measured_s", "ratio")
_SEED = 20260101
_LARGE = 2**18


def _sums(
    kernel: str, engine: str, n: int, m: int, h: float, *, d: int = 1, columns: int = 2
) -> Call:
    """Return a call that sums over windows of uniform samples by a given engine."""
    rng = np.random.default_rng([_SEED, n, m, d])
    model = NadarayaWatson(h, kernel, engine=engine).fit(rng.random((n, d)), rng.random(n))
    sample: WeightedSample = model._sample
    values = sample.columns(rng.random((columns - 1, n)))
    queries = rng.random((m, d))
    return lambda: sample.sums(queries, values)


def _moments(n: int, cells: int, terms: int, columns: int) -> Call:
    from nwsim.numerics.expansion import cell_moments

    rng = np.random.default_rng([_SEED, n, cells])
    x, data = rng.random(n), rng.random((columns, n))
    out = np.zeros((cells, columns, terms))
    width = 1.0 / cells

    nowhere = np.empty(0, np.int64)
    return lambda: cell_moments(x, nowhere, data, 0.0, width, 2.0 * width, out)


def _series(m: int, cells: int, terms: int, columns: int) -> Call:
    from nwsim.numerics.expansion import expanded_sums

    rng = np.random.default_rng([_SEED, m, cells])
    series = rng.random((columns, terms, cells))
    centres, q = np.linspace(0.0, 1.0, cells), rng.random(m)
    first, last = np.zeros(m, np.int64), np.full(m, cells)
    out = np.zeros((m, columns))
    return lambda: expanded_sums(q, centres, 0.1, series, first, last, out)


def _transform(n: int, h: float, tol: float, d: int = 1) -> Call:
    rng = np.random.default_rng([_SEED, n])
    layout = lay_out(rng.random((n, d)), "plain")
    columns, queries, bandwidth = rng.random((2, n)), rng.random((n, d)), np.full(d, h)
    return lambda: nufft_sums(layout, queries, bandwidth, columns, tol)


def _digits(h: float, tol: float, d: int = 1) -> tuple[float, float]:
    """Return the digits asked of a transform, and its coefficients."""
    eps = precision(np.ones(d), np.full(d, h), tol)
    count = modes(np.ones(d), np.full(d, h), eps)[1]
    return 1.0 - np.log10(eps), float(np.prod(count))


def calls() -> dict[str, Call]:
    """Return the work whose times the constants are made of."""
    tiny = 1e-7
    return {
        "gaussian": _sums("gaussian", "direct", 4096, 256, 0.1),
        "gaussian, d = 3": _sums("gaussian", "direct", 4096, 256, 0.1, d=3),
        "gaussian, 6 columns": _sums("gaussian", "direct", 4096, 256, 0.1, columns=6),
        "laplace": _sums("laplace", "direct", 4096, 256, 0.1),
        "compact": _sums("epanechnikov", "direct", 4096, 256, 0.4),
        "window": _sums("epanechnikov", "window", 4096, 2**16, tiny),
        "cells": _sums("epanechnikov", "cells", 2**12, 2**12, 1.0 / 16, d=2),
        "prefix, few queries": _sums("epanechnikov", "prefix", _LARGE, 2**8, 0.1),
        "prefix, many queries": _sums("epanechnikov", "prefix", 2**8, 2**16, tiny),
        "recursive, few queries": _sums("laplace", "recursive", _LARGE, 2**8, 0.1),
        "moments, 8": _moments(_LARGE, 512, 8, 2),
        "moments, 16": _moments(_LARGE, 512, 16, 2),
        "sparse": _sums("gaussian", "expansion", 2**16, 1, 2e-5),
        "series, 8": _series(2**12, 128, 8, 2),
        "series, 16": _series(2**12, 128, 16, 2),
        "expansion, tiny": _sums("gaussian", "expansion", 64, 4, 0.1),
        "nufft, tiny": _transform(16, 0.5, 1e-2),
        "nufft, few digits": _transform(2**16, 0.1, 1e-2),
        "nufft, d = 2, few digits": _transform(2**16, 0.1, 1e-2, 2),
        "nufft, d = 2, many digits": _transform(2**16, 0.1, 1e-9, 2),
        "nufft, many coefficients": _transform(2**10, 2e-5, 1e-2),
    }


def solve(t: dict[str, float]) -> dict[str, float]:
    """Return the constants from the seconds of :func:`calls`."""
    pairs = 4096 * 256
    c = {f"pair_{family}": t[family] / pairs for family in ("compact", "gaussian", "laplace")}
    c["pair_coordinate"] = (t["gaussian, d = 3"] - t["gaussian"]) / (2 * pairs)
    c["pair_column"] = (t["gaussian, 6 columns"] - t["gaussian"]) / (4 * pairs)
    c["query"] = t["window"] / 2**16
    # A window 2/16 wide meets about 5 columns of the 32 cells an axis.
    points = np.pi * (1.0 / 16) ** 2 * 2**12 * 1.2
    rest = t["cells"] / 2**12 - c["query"] - points * (c["pair_compact"] + c["pair_coordinate"])
    c["run"] = rest / 5.0
    # Three powers of two columns.
    touched = min(_LARGE, 2**8 * _LARGE * 0.2)
    c["prefix_sum"] = t["prefix, few queries"] / (touched * 6)
    c["sweep_query"] = t["prefix, many queries"] / 2**16
    c["recursive_point"] = (t["recursive, few queries"] / _LARGE - c["pair_laplace"]) / 2
    c["expansion_moment"] = (t["moments, 16"] - t["moments, 8"]) / (_LARGE * 16)
    c["expansion_point"] = t["moments, 8"] / _LARGE - 16 * c["expansion_moment"]
    c["expansion_term"] = (t["series, 16"] - t["series, 8"]) / (2**12 * 128 * 16)
    c["expansion_cell"] = t["series, 8"] / (2**12 * 128) - 16 * c["expansion_term"]
    c["expansion_start"] = t["expansion, tiny"]
    plan = make_plan(2**16, 1, 2, 1.0, 2e-5, 1e-12)
    assert plan is not None
    of_moments = c["expansion_point"] + 2 * plan.terms * c["expansion_moment"]
    c["expansion_sparse"] = t["sparse"] / 2**16 - of_moments
    c["nufft_start"] = t["nufft, tiny"] / 2
    # By points and grid cells around each, in two dimensions, which lie between one and three.
    both = 2 * 2**16  # points and queries
    few, many = _digits(0.1, 1e-2, 2)[0], _digits(0.1, 1e-9, 2)[0]
    longer = t["nufft, d = 2, many digits"] - t["nufft, d = 2, few digits"]
    c["nufft_spread"] = longer / (both * (many**2 - few**2))
    on_line = _digits(0.1, 1e-2)[0] * c["nufft_spread"]
    c["nufft_point"] = t["nufft, few digits"] / both - on_line
    digits, total = _digits(2e-5, 1e-2)
    points_part = 2 * 2**10 * (c["nufft_point"] + digits * c["nufft_spread"])
    c["nufft_grid"] = (t["nufft, many coefficients"] - points_part) / (
        2.0 * total * 2.0 * np.log2(total + 2.0)
    )
    # A difference of two times may come out below nothing where a unit costs next to nothing.
    return {name: max(float(value), 1e-12) for name, value in c.items()}


def measure(quick: bool) -> dict[str, float]:
    """Return the constants of this machine: least times, which drift the least."""
    work = calls()
    seconds: FloatArray = interleaved(list(work.values()), 2.0 if quick else 30.0, most=25)
    return solve(dict(zip(work, seconds.min(axis=0).tolist(), strict=True)))


def run(out: Path, quick: bool) -> None:
    """Measure the constants and write ``costs.csv`` into ``out``."""
    shipped, measured = costs.constants(), measure(quick)
    rows = [
        dict(zip(COLUMNS, (name, value, measured[name], measured[name] / value), strict=True))
        for name, value in shipped.items()
    ]
    write_rows(out / "costs.csv", rows, COLUMNS)


def ship(path: Path) -> None:
    """Measure the constants and write them, to two digits, where the package has its own."""
    rounded = {name: float(f"{value:.2g}") for name, value in measure(quick=False).items()}
    ordered = {name: rounded[name] for name in costs.constants()}
    write_atomic(path, json.dumps(ordered, indent=2) + "\n")


if __name__ == "__main__":
    ship(Path(sys.argv[1]))
