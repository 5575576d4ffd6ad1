"""What a second worker process is worth: a study run with one and with two."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from nwsim._typing import Factors, FloatArray
from nwsim.bench.interleaved import quartiles
from nwsim.dgp import Mechanism, Region, Replicate, make_design, make_noise, make_world
from nwsim.inference import decompose_conditional, design_moments
from nwsim.smoothing import NadarayaWatson
from nwsim.study import Grid, Measure, Method, Profile, Study, run_study
from nwsim.study.runner import WorkerPool, single_threaded

N_OBS, N_QUERIES, BANDWIDTH = 8192, 512, 0.05
WORKERS = (1, 2)
N_START = 2
"""Replicates of the study that is all start-up."""


def draw(condition: Factors, rng: np.random.Generator) -> Replicate:
    """Draw a function, two designs and queries."""
    world = make_world("analytic", alpha=2.0, dim=1)
    mechanism = Mechanism(world, make_design("uniform", dim=1), make_noise("gaussian", scale=1.0))
    return mechanism.draw(rng, condition["n_obs"], 2, N_QUERIES, Region(0.25, 0.75))


def conditional(condition: Factors, data: Replicate, rng: np.random.Generator) -> dict[str, float]:
    """Return the error on the conditional route, by an engine whose work is known."""
    fit = NadarayaWatson(BANDWIDTH, engine="direct").fit
    moments = design_moments(fit, data.samples, data.queries, data.truth)
    return {"mse": decompose_conditional(moments, data.truth).mse}


STUDY = Study(
    name="workers",
    label="Work for one or two processes",
    seed=20261205,
    factors=(Grid({"n_obs": (N_OBS,)}),),
    draw=draw,
    methods=(Method("conditional", conditional),),
    measures=(Measure("mse", "integrated mean squared error", unit="y²"),),
    profiles={"quick": Profile(N_START, rule="set by the benchmark")},
)


def replicate_seconds(n_replicates: int) -> float:
    """Return the seconds of a replicate here, outside of any runner."""
    condition = {"n_obs": N_OBS}
    start = time.perf_counter()
    for rep in range(n_replicates):
        rng = np.random.default_rng([STUDY.seed, rep])
        conditional(condition, draw(condition, rng), rng)
    return (time.perf_counter() - start) / n_replicates


def study_seconds(workers: int, n_sim: int) -> float:
    """Return the seconds of the study from its start to its written tables."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run_study(STUDY, workers=workers, out=folder, n_sim=n_sim)
        return time.perf_counter() - start


def machine_seconds(pool: WorkerPool, processes: int, n_replicates: int) -> float:
    """Return the seconds in which ``processes`` share the replicates, with no runner.

    The bound of any division of this work: the processes stand, and say nothing until the end.
    """
    share = n_replicates // processes
    start = time.perf_counter()
    for future in [pool.submit(replicate_seconds, share) for _ in range(processes)]:
        future.result()
    return time.perf_counter() - start


def worker_rows(study_s: float, n_rounds: int) -> list[dict[str, Any]]:
    """Return the points of the curve of workers.

    Parameters
    ----------
    study_s : float
        Seconds that one worker is to take.
    n_rounds : int
        Times that everything is run, in an order that turns round.

    Returns
    -------
    list of dict
        Engine ``study``: the whole run. ``startup``: the same study with two replicates.
        ``study_less_startup``: their difference, round by round. ``machine``: the same
        replicates in processes that stand already, without the runner: what this machine gives
        to a second process.
    """
    replicate_seconds(1)
    n_sim = 2 * math.ceil(study_s / replicate_seconds(5) / 2.0)
    calls = {
        "study": lambda workers: study_seconds(workers, n_sim),
        "startup": lambda workers: study_seconds(workers, N_START),
    }
    seconds: dict[str, list[list[float]]] = {name: [] for name in (*calls, "machine")}
    with single_threaded(), WorkerPool(max(WORKERS)) as pool:
        # Both processes must have compiled or loaded their loops before the clock runs.
        for _ in range(2):
            machine_seconds(pool, max(WORKERS), 2 * max(WORKERS))
        for turn in range(n_rounds):
            order = WORKERS if turn % 2 == 0 else WORKERS[::-1]
            for name, call in calls.items():
                took = {workers: call(workers) for workers in order}
                seconds[name].append([took[workers] for workers in WORKERS])
            took = {count: machine_seconds(pool, count, n_sim) for count in order}
            seconds["machine"].append([took[count] for count in WORKERS])
    return rows_of({name: np.array(values) for name, values in seconds.items()}, n_sim)


def rows_of(seconds: Mapping[str, FloatArray], n_sim: int) -> list[dict[str, Any]]:
    """Return the rows of all lines, that of the study less its start-up among them.

    Parameters
    ----------
    seconds : mapping of str to ndarray, (n_rounds, len(WORKERS))
        Of ``study``, ``startup`` and ``machine``.
    n_sim : int
        Replicates of all but the start-up.
    """
    lines = {**seconds, "study_less_startup": seconds["study"] - seconds["startup"]}
    rows = []
    for name, values in lines.items():
        rows += _line(name, values, N_START if name == "startup" else n_sim)
    return rows


def _line(engine: str, seconds: FloatArray, n_sim: int) -> list[dict[str, Any]]:
    """Return the rows of one line; seconds (n_rounds, len(WORKERS))."""
    rows = []
    for index, count in enumerate(WORKERS):
        median, q25, q75 = quartiles(seconds[:, index])
        ratio, low, high = quartiles(seconds[:, index] / seconds[:, 0])
        rows.append(
            {
                "curve": "workers",
                "kernel": "gaussian",
                "dim": 1,
                "bandwidth": BANDWIDTH,
                "n_obs": N_OBS,
                "n_queries": N_QUERIES,
                "n_sim": n_sim,
                "engine": engine,
                "served_by": "direct",
                "x": count,
                "median_s": median,
                "q25_s": q25,
                "q75_s": q75,
                "n_rounds": len(seconds),
                "relative_to": f"x={WORKERS[0]}",
                "ratio": ratio,
                "ratio_q25": low,
                "ratio_q75": high,
                "status": "ok",
            }
        )
    return rows
