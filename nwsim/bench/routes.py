"""Conditions of two studies, and the routes to their integrated mean squared error."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from nwsim.dgp import (
    Mechanism,
    Region,
    Replicate,
    head_mechanism,
    make_design,
    make_noise,
    make_world,
)
from nwsim.heads import diversity_path
from nwsim.inference import Decomposition, decompose_conditional, design_moments
from nwsim.seeding import stream
from nwsim.smoothing import MultiHeadNadarayaWatson, NadarayaWatson

SEED = 20261206
FUNCTION_SEED = 20261207
REGION = Region(0.25, 0.75)
N_WIDE = 33


@dataclass(frozen=True, eq=False)
class Cell:
    """A condition of a study.

    Parameters
    ----------
    study : {"rate", "decomposition"}
    name : str
        What is special about it.
    function : {"fixed", "redrawn"}
        Whether one function and set of queries serves all replicates.
    n_obs : int
    bandwidth : float
    kernel : str
    n_heads : int
        1 in the study of rates; orthogonal ones in that of decompositions.
    world : str
        Family of the regression functions, in the study of rates.
    options : mapping
        Of the world.
    """

    study: str
    name: str
    function: str
    n_obs: int
    bandwidth: float
    kernel: str = "gaussian"
    n_heads: int = 1
    world: str = "analytic"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return 1 if self.study == "rate" else N_WIDE

    @property
    def n_designs(self) -> int:
        """Designs of a replicate, as in the study."""
        return 2 if self.study == "rate" else 4

    @property
    def n_queries(self) -> int:
        """Queries, as in the study."""
        return 256 if self.study == "rate" else 64

    def mechanism(self) -> Mechanism:
        """Return the laws of function, inputs and noise."""
        if self.study == "decomposition":
            return head_mechanism("isotropic", self.dim)
        world = make_world(self.world, dim=1, **self.options)
        return Mechanism(world, make_design("uniform", dim=1), make_noise("gaussian", scale=1.0))

    def region(self) -> Region | None:
        """Return where queries lie; None draws them from the design."""
        return REGION if self.study == "rate" else None

    @functools.cached_property
    def given(self) -> dict[str, Any]:
        """Function and queries of all replicates, if they are fixed."""
        if self.function != "fixed":
            return {}
        mechanism = self.mechanism()
        function_rng, query_rng = np.random.default_rng(FUNCTION_SEED).spawn(2)
        return {
            "function": mechanism.world.draw(function_rng),
            "queries": mechanism.draw_queries(query_rng, self.n_queries, self.region()),
        }

    def draw(self, rep: int) -> Replicate:
        """Draw a replicate: the same at every call, whatever route it is for."""
        factors = {
            "study": self.study,
            "cell": self.name,
            "function": self.function,
            "n_obs": self.n_obs,
            "kernel": self.kernel,
            "bandwidth": self.bandwidth,
            "n_heads": self.n_heads,
        }
        return self.mechanism().draw(
            stream(SEED, factors, rep, "data"),
            self.n_obs,
            self.n_designs,
            self.n_queries,
            self.region(),
            **self.given,
        )

    def smoother(self) -> NadarayaWatson | MultiHeadNadarayaWatson:
        """Return the estimator, unfitted."""
        if self.study == "rate":
            return NadarayaWatson(self.bandwidth, self.kernel, empty_window="nearest")
        frames = diversity_path(max(self.n_heads, 2), self.dim, 1)
        projections = frames.frames_at(1.0)[: self.n_heads]
        return MultiHeadNadarayaWatson(projections, self.bandwidth, self.kernel)


GENTLE: Mapping[str, Any] = {"alpha": 2.0, "lowest": 0.5, "highest": 1.0, "amplitude": 0.25}
WAVY: Mapping[str, Any] = {"alpha": 2.0, "lowest": 1.0, "highest": 2.0, "amplitude": 1.0}
ROUGH: Mapping[str, Any] = {"alpha": 1.0, "lowest": 0.25, "amplitude": 1.0}


def cells(quick: bool) -> tuple[Cell, ...]:
    """Return the cells; a quick run has one of each study."""
    bound = [
        Cell("rate", "variance-bound", "fixed", n, 0.01, options=GENTLE)
        for n in (1024, 4096, 16384)
    ]
    many = Cell("decomposition", "orthogonal heads", "fixed", 1024, 1024**-0.2, n_heads=8)
    if quick:
        return bound[0], many
    rate = 4096 ** (-1.0 / 3.0)
    return (
        *bound,
        Cell("rate", "balanced", "fixed", 4096, 0.05, options=WAVY),
        Cell("rate", "bias-bound", "fixed", 4096, 0.2, options=WAVY),
        Cell("rate", "variance-bound", "fixed", 4096, 0.02, "epanechnikov", options=GENTLE),
        Cell("rate", "rough", "fixed", 4096, rate, "epanechnikov", world="lacunary", options=ROUGH),
        Cell(
            "rate", "rough", "redrawn", 4096, rate, "epanechnikov", world="lacunary", options=ROUGH
        ),
        Cell("rate", "bias-bound", "redrawn", 4096, 0.2, options=WAVY),
        Cell("decomposition", "one head", "fixed", 1024, 1024**-0.2),
        many,
        Cell("decomposition", "orthogonal heads", "redrawn", 1024, 1024**-0.2, n_heads=8),
        Cell("decomposition", "narrow windows", "fixed", 1024, 0.02, n_heads=8),
    )


Route: TypeAlias = Callable[[Cell, Replicate], float]
"""From a replicate to its integrated mean squared error."""


def decomposed(cell: Cell, data: Replicate) -> Decomposition:
    """Return error and parts on the conditional route."""
    fit = cell.smoother().fit
    per_design = design_moments(fit, data.samples, data.queries, data.truth)
    return decompose_conditional(per_design, data.truth)


def conditional(cell: Cell, data: Replicate) -> float:
    """Return the error on the conditional route: no noise is drawn."""
    return decomposed(cell, data).mse


def plain(cell: Cell, data: Replicate) -> float:
    """Return the mean squared error of predictions from noisy responses."""
    errors = []
    for j, sample in enumerate(data.samples):
        model = cell.smoother().fit(sample.X, data.responses(j))
        errors.append(model.predict(data.queries) - data.truth)
    return float(np.mean(np.square(errors)))


def statsmodels(cell: Cell, data: Replicate) -> float:
    """Return what :func:`plain` does, with KernelReg as the smoother."""
    from statsmodels.nonparametric.kernel_regression import KernelReg

    errors = []
    for j, sample in enumerate(data.samples):
        with warnings.catch_warnings():
            # Random numbers that it would draw for a bandwidth of its own are none of this.
            warnings.simplefilter("ignore", FutureWarning)
            model = KernelReg(
                data.responses(j), sample.X, "c", reg_type="lc", bw=np.array([cell.bandwidth])
            )
        errors.append(model.fit(data.queries)[0] - data.truth)
    return float(np.mean(np.square(errors)))


ROUTES: dict[str, Route] = {
    "conditional": conditional,
    "plain": plain,
    "statsmodels": statsmodels,
}


def refusal(cell: Cell, route: str) -> tuple[str, str] | None:
    """Return status and message of a route that cannot serve a cell, or None if it can."""
    if route != "statsmodels":
        return None
    if cell.study == "decomposition":
        return "not_served", "KernelReg is one smoother: it has no ensemble of heads"
    if cell.kernel != "gaussian":
        return "not_served", f"KernelReg has no kernel {cell.kernel}"
    if find_spec("statsmodels") is None:
        return "not_installed", "statsmodels is not installed"
    return None
