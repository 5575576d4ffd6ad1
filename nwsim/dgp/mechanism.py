"""A data-generating mechanism, and the replicates it draws.

Averaging over designs for one function and then over functions keeps the squared bias of
the function apart from the spread between functions: with a new function in each design,
all squared bias would count as variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_integer, check_real
from nwsim.dgp.designs import Design
from nwsim.dgp.domains import as_points
from nwsim.dgp.functions.base import RegressionFunction, World, read_only
from nwsim.dgp.noise import Noise
from nwsim.exceptions import ParameterError


class Region(NamedTuple):
    """The cube [low, high]^d over which errors are integrated, with Lebesgue weight."""

    low: float
    high: float


class Sample(NamedTuple):
    """Inputs X (n, d), the function f (n,) there, and the noise variance (n,)."""

    X: FloatArray
    f: FloatArray
    noise_variance: FloatArray


@dataclass(frozen=True, eq=False)
class Replicate:
    """A function, where it is asked for, and the designs it is seen through.

    Attributes
    ----------
    function : RegressionFunction
    noise : Noise
    queries : (m, d) read-only
    truth : (m,) the function at the queries, read-only
    samples : tuple of Sample
        One an inner design. Arrays are read-only: all methods of a study share them.
    """

    function: RegressionFunction
    noise: Noise
    queries: FloatArray
    truth: FloatArray
    samples: tuple[Sample, ...]
    _noise_keys: tuple[tuple[int, tuple[int, ...]], ...]

    def responses(self, j: int) -> FloatArray:
        """Return the noisy responses (n,) of inner design j: the same at every call.

        They are drawn when asked for, since the conditional route never needs them.
        """
        entropy, key = self._noise_keys[j]
        seed = np.random.SeedSequence(entropy, spawn_key=key)
        rng = np.random.Generator(np.random.PCG64(seed))
        return self.samples[j].f + self.noise.draw(rng, self.samples[j].X)


@dataclass(frozen=True, eq=False)
class Mechanism:
    """``f ~ world, X ~ design, y = f(X) + noise``.

    Parameters
    ----------
    world : World
        Law of the regression function.
    design : Design
        Law of X, of the same dimension. A design on the torus needs a periodic function.
    noise : Noise
        Law of y - f(X) given X.

    Raises
    ------
    ParameterError
        For a part of the wrong kind, or parts that do not fit each other.
    """

    world: World
    design: Design
    noise: Noise

    def __post_init__(self) -> None:
        """Check that the parts fit each other."""
        for name, kind in {"world": World, "design": Design, "noise": Noise}.items():
            if not isinstance(getattr(self, name), kind):
                raise ParameterError(
                    f"{name} must be a {kind.__name__}; got {type(getattr(self, name)).__name__}"
                )
        if self.world.dim != self.design.dim:
            raise ParameterError(
                f"design must have the dim of the world, {self.world.dim}; got {self.design.dim}"
            )
        if self.design.domain == "torus" and self.world.domain != "torus":
            raise ParameterError(
                "design must not be on the torus: the regression function is not periodic "
                "(make its world with domain='torus')"
            )

    def draw(
        self,
        rng: np.random.Generator,
        n_obs: int,
        n_designs: int,
        n_queries: int,
        region: Region | None,
        *,
        function: RegressionFunction | None = None,
        queries: ArrayLike | None = None,
    ) -> Replicate:
        """Draw a replicate.

        Parameters
        ----------
        rng : Generator
            Its children draw the function, the queries, the noise and each design, so that
            one of them is the same however many numbers another takes.
        n_obs, n_designs, n_queries : int
            Observations of a design; designs; queries.
        region : Region or None
            Where the queries lie, stratified as a Latin hypercube (McKay, Beckman &
            Conover 1979). None draws them from the design itself, so that a mean over
            queries has its density as weight.
        function : RegressionFunction, optional
            Taken in place of a draw, for an estimand that is about one function.
        queries : array_like, shape (n_queries, d), optional
            Taken in place of a draw, for an estimand that is about given points.

        Raises
        ------
        ParameterError
            For a size below 1, a region without extent, or a function or queries of another
            dimension or number.
        """
        check_integer("n_designs", n_designs, minimum=1)
        world_rng, query_rng, noise_rng, *design_rngs = rng.spawn(3 + n_designs)
        if function is None:
            function = self.world.draw(world_rng)
        elif not isinstance(function, RegressionFunction) or function.dim != self.world.dim:
            raise ParameterError(
                f"function must be a RegressionFunction of dim {self.world.dim}; got {function!r}"
            )
        if queries is None:
            points = self.draw_queries(query_rng, n_queries, region)
        else:
            points = read_only(as_points(queries, self.world.dim, "queries"))
            if points.shape[0] != n_queries:
                raise ParameterError(
                    f"queries must have n_queries = {n_queries} rows; got {points.shape[0]}"
                )
        seeds = noise_rng.bit_generator.seed_seq.spawn(n_designs)  # type: ignore[attr-defined]
        return Replicate(
            function=function,
            noise=self.noise,
            queries=points,
            truth=read_only(function(points)),
            samples=self.draw_samples(function, design_rngs, n_obs),
            # Keys and not generators: nothing in a replicate can change.
            _noise_keys=tuple((seed.entropy, seed.spawn_key) for seed in seeds),
        )

    def draw_queries(
        self, rng: np.random.Generator, n_queries: int, region: Region | None
    ) -> FloatArray:
        """Draw queries (n_queries, d) in a region, or from the design if it is None."""
        n_queries = check_integer("n_queries", n_queries, minimum=1)
        if region is None:
            return read_only(self.design.draw(rng, n_queries))
        low = check_real("low of region", region[0])
        high = check_real("high of region", region[1], above=low)
        unit = qmc.LatinHypercube(self.world.dim, rng=rng).random(n_queries)
        return read_only(low + (high - low) * unit)

    def draw_samples(
        self, function: RegressionFunction, rngs: Sequence[np.random.Generator], n_obs: int
    ) -> tuple[Sample, ...]:
        """Draw one sample of ``n_obs`` inputs with each generator, for a given function."""
        n_obs = check_integer("n_obs", n_obs, minimum=1)
        samples = []
        for rng in rngs:
            X = read_only(self.design.draw(rng, n_obs))
            samples.append(Sample(X, read_only(function(X)), read_only(self.noise.variance(X))))
        return tuple(samples)
