"""What a second worker process is worth: a study run with one and with two."""

from __future__ import annotations

import math
import tempfile
import time
from typing import Any

import numpy as np

from nwsim._typing import Factors, FloatArray
from nwsim.bench.interleaved import quartiles
from nwsim.dgp import Mechanism, Region, Replicate, make_design, make_noise, make_world
from nwsim.inference import decompose_conditional, design_moments
from nwsim.smoothing import NadarayaWatson
from nwsim.study import Grid, Measure, Method, Profile, Study, run_study
from nwsim.study.executors import WorkerPool
from nwsim.study.runner import single_threaded

N_OBS, N_QUERIES, BANDWIDTH = 8192, 512, 0.05
WORKERS = (1, 2)
LONG = 4
"""How many times as long the whole study is as the part that is run to tell start-up."""


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
    profiles={"quick": Profile(2, rule="set by the benchmark")},
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
        As of :func:`rows_of`.
    """
    replicate_seconds(1)
    n_sim = LONG * math.ceil(study_s / replicate_seconds(5) / LONG)
    whole: list[list[float]] = []
    part: list[list[float]] = []
    machine: list[list[float]] = []
    with single_threaded(), WorkerPool(max(WORKERS)) as pool:
        # Both processes must have compiled or loaded their loops before the clock runs.
        for _ in range(2):
            machine_seconds(pool, max(WORKERS), 2 * max(WORKERS))
        for turn in range(n_rounds):
            order = WORKERS if turn % 2 == 0 else WORKERS[::-1]
            for found, call in (
                (whole, lambda workers: study_seconds(workers, n_sim)),
                (part, lambda workers: study_seconds(workers, n_sim // LONG)),
                (machine, lambda workers: machine_seconds(pool, workers, n_sim)),
            ):
                took = {workers: call(workers) for workers in order}
                found.append([took[workers] for workers in WORKERS])
    return rows_of(np.array(whole), np.array(part), np.array(machine), n_sim)


def rows_of(
    whole: FloatArray, part: FloatArray, machine: FloatArray, n_sim: int
) -> list[dict[str, Any]]:
    """Return the rows of all lines.

    Parameters
    ----------
    whole, part, machine : ndarray, (n_rounds, len(WORKERS))
        Seconds of the study, of the study with 1/LONG of the replicates, and of the
        replicates without the runner.
    n_sim : int
        Replicates of the study.

    Returns
    -------
    list of dict
        Engine ``study``: the whole run. ``startup``: what it would take without replicates, on
        the line through the whole study and a part of it (a worker starts while another works
        already, so a study of no replicates would tell less). ``study_less_startup``: the rest.
        ``machine``: the same replicates in processes that stand already, without the runner:
        what this machine gives to a second process.
    """
    replicates = (whole - part) * LONG / (LONG - 1.0)
    lines = {
        "study": whole,
        "startup": whole - replicates,
        "study_less_startup": replicates,
        "machine": machine,
    }
    return [row for name, seconds in lines.items() for row in _line(name, seconds, n_sim)]


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
