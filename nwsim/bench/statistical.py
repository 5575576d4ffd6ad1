r"""Statistical speed: seconds to a given Monte Carlo standard error of the integrated MSE.

Cells like those of the studies ``rate`` and ``decomposition`` are estimated by three routes that
share functions, designs and noise, replicate by replicate. ``conditional``: moments given the
inputs, no noise is drawn. ``plain``: draw responses, predict, average squared errors.
``statsmodels``: the plain route with KernelReg in place of the smoother.

Notes
-----
Where the variance is most of the error, the error of one replicate is, on the plain route, a mean
over the region of squared normal errors that are correlated over a window: about as many
independent terms as windows fit the region, so its relative variance falls only like h. Given the
inputs, what is left is how much the integrated variance differs from design to design, and that
hardly: to first order it depends on the number of points in the region alone, and its relative
variance falls like 1/n. For uniform inputs on [0, 1], a region of length L and J = 1, first order
gives

.. math::
    \frac{\text{plain}}{\text{conditional}} \approx
    \frac{2 h L^{-1} \int \rho^2}{n^{-1} (L^{-1} - 1)},
    \qquad \rho = \frac{K * K}{\int K^2},

so the gain grows like n h while the bias is negligible. It is small where every replicate has a
new function and its bias dominates: both routes then see the same spread between functions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nwsim._files import write_atomic
from nwsim._typing import FloatArray
from nwsim.bench.interleaved import quartiles
from nwsim.bench.routes import ROUTES, Cell, Route, cells, decomposed, refusal
from nwsim.inference import jackknife
from nwsim.study.runner import single_threaded

TARGET = 1e-3
"""Target MCSE as a part of the integrated mean squared error."""

Z_ACCEPTED = 4.0
"""Standard errors by which two routes may differ, over a dozen cells."""

REPRODUCED = 1e-8
"""Relative difference of a replicate beyond which statsmodels computes something else."""

COLUMNS = (
    *("study", "cell", "function", "n_obs", "dim", "kernel", "bandwidth", "n_heads"),
    *("n_designs", "n_queries", "route", "status", "message", "n_pilot"),
    *("estimate", "mcse", "bias2_share", "sd_replicate", "seconds_replicate"),
    *("seconds_q25", "seconds_q75", "target_mcse", "n_sim_needed", "seconds_needed"),
    *("gain_replicates", "gain_replicates_se", "gain_seconds"),
    *("difference", "difference_mcse"),
)
"""Columns of ``statistical.csv``; gains and differences are relative to the plain route."""


class Sampled(NamedTuple):
    """What a route gave on some replicates of the pilot.

    Attributes
    ----------
    reps : (k,) which replicates
    values, seconds : (k,) their errors, and the time of drawing and estimating them
    """

    reps: FloatArray
    values: FloatArray
    seconds: FloatArray


def sample_routes(
    cell: Cell, routes: Mapping[str, Route], n_pilot: int, n_slow: int
) -> dict[str, Sampled]:
    """Run the routes on the same replicates, in turn.

    ``statsmodels`` is run on ``n_slow`` of the ``n_pilot`` replicates, spread over all of them.
    Every route draws the replicate for itself, since that is part of its price.
    """
    for route in routes.values():
        route(cell, cell.draw(0))
    slow = set(np.linspace(0, n_pilot - 1, n_slow).round().astype(int).tolist())
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in routes}
    for rep in range(n_pilot):
        names = list(routes) if rep % 2 == 0 else list(routes)[::-1]
        for name in names:
            if name == "statsmodels" and rep not in slow:
                continue
            start = time.perf_counter()
            value = routes[name](cell, cell.draw(rep))
            found[name].append((rep, value, time.perf_counter() - start))
    return {
        name: Sampled(*(np.array(column) for column in zip(*rows, strict=True)))
        for name, rows in found.items()
    }


def log_variance_ratio(pairs: FloatArray) -> float:
    """Return the log of the ratio of two variances; pairs (R, 2), second over first."""
    variances = np.var(pairs, axis=0, ddof=1)
    return float(np.log(variances[1] / variances[0]))


def share_of_bias(cell: Cell, n_pilot: int) -> float:
    """Return integrated squared bias as a part of the mean squared error."""
    parts = [decomposed(cell, cell.draw(rep)) for rep in range(n_pilot)]
    return float(np.mean([part.bias2 for part in parts]) / np.mean([part.mse for part in parts]))


def cell_rows(cell: Cell, n_pilot: int, n_slow: int) -> list[dict[str, Any]]:
    """Return a row for each route in a cell.

    Parameters
    ----------
    cell : Cell
    n_pilot : int
        Replicates from which standard deviations are taken.
    n_slow : int
        Replicates of statsmodels, whose standard deviation is that of the plain route if it
        reproduces its values.
    """
    about = {
        "study": cell.study,
        "cell": cell.name,
        "function": cell.function,
        "n_obs": cell.n_obs,
        "dim": cell.dim,
        "kernel": cell.kernel,
        "bandwidth": cell.bandwidth,
        "n_heads": cell.n_heads,
        "n_designs": cell.n_designs,
        "n_queries": cell.n_queries,
        "bias2_share": share_of_bias(cell, n_pilot),
    }
    refused = {name: refusal(cell, name) for name in ROUTES}
    served = {name: route for name, route in ROUTES.items() if refused[name] is None}
    found = sample_routes(cell, served, n_pilot, n_slow)
    target = TARGET * float(found["conditional"].values.mean())
    rows = []
    for name, reason in refused.items():
        row = about | {"route": name}
        if reason is None:
            row |= route_columns(name, found, target)
        else:
            row |= {"status": reason[0], "message": reason[1]}
        rows.append(row)
    return rows


def route_columns(name: str, found: Mapping[str, Sampled], target: float) -> dict[str, Any]:
    """Return the columns of a route, relative to the plain one."""
    own, plain = found[name], found["plain"]
    common = plain.values[np.searchsorted(plain.reps, own.reps)]
    difference = own.values - common
    n = len(own.values)
    status, gain, gain_se = "ok", 1.0, 0.0
    spread = own if name == "conditional" else plain
    if name == "conditional":
        ratio = jackknife(log_variance_ratio, np.column_stack([own.values, common]))
        gain = math.exp(ratio.estimate)
        gain_se = gain * ratio.mcse
        if abs(difference.mean()) > Z_ACCEPTED * difference.std(ddof=1) / math.sqrt(n):
            status = "disagrees"
    elif np.any(np.abs(difference) > REPRODUCED * common):
        status = "disagrees"
    sd = float(spread.values.std(ddof=1))
    needed = {
        route: max(2, math.ceil((float(found[route].values.std(ddof=1)) / target) ** 2))
        for route in ("conditional", "plain")
    }
    n_sim_needed = needed["conditional" if name == "conditional" else "plain"]
    seconds, q25, q75 = quartiles(own.seconds)
    plain_seconds = needed["plain"] * quartiles(plain.seconds)[0]
    return {
        "status": status,
        "n_pilot": n,
        "estimate": float(own.values.mean()),
        "mcse": float(own.values.std(ddof=1)) / math.sqrt(n),
        "sd_replicate": sd,
        "seconds_replicate": seconds,
        "seconds_q25": q25,
        "seconds_q75": q75,
        "target_mcse": target,
        "n_sim_needed": n_sim_needed,
        "seconds_needed": n_sim_needed * seconds,
        "gain_replicates": gain,
        "gain_replicates_se": gain_se,
        "gain_seconds": plain_seconds / (n_sim_needed * seconds),
        "difference": float(difference.mean()),
        "difference_mcse": float(difference.std(ddof=1)) / math.sqrt(n),
    }


def run(out: Path, quick: bool = False) -> None:
    """Measure all cells, write ``statistical.csv`` and draw it.

    Parameters
    ----------
    out : Path
        Folder of the table and its ``figures/``, such as ``results/bench``.
    quick : bool
        A few replicates of two cells.

    Notes
    -----
    Replicates needed are (sd of a replicate / target)^2, their ratio has a jackknife standard
    error over the pilot's replicates, and seconds needed are replicates times the median seconds
    of one, drawing included. A route that fails to estimate what the plain one does, by four
    standard errors of the paired difference, has the status ``disagrees``.
    """
    from nwsim.report.statistical import draw_statistical

    n_pilot, n_slow = (40, 3) if quick else (400, 20)
    with single_threaded():
        rows = [row for cell in cells(quick) for row in cell_rows(cell, n_pilot, n_slow)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table = table.astype({"n_pilot": "Int64", "n_sim_needed": "Int64"})
    write_atomic(Path(out) / "statistical.csv", table.to_csv(index=False))
    draw_statistical(Path(out))
