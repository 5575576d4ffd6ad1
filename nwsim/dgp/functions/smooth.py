"""Smooth families: analytic sums, splines with a bounded top derivative, polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_integer, check_real
from nwsim.dgp.functions.base import RegressionFunction, World, derivative_order, read_only
from nwsim.dgp.functions.wave import (
    CUBIC,
    QUADRATIC,
    SINUSOID,
    Shape,
    WaveSum,
    wave_vectors,
)
from nwsim.dgp.registry import register_world


@dataclass(frozen=True, kw_only=True)
class _FewWaves(World):
    alpha: float = 2.0
    n_terms: int = 6
    lowest: float | None = None
    highest: float = 2.0
    amplitude: float = 1.0

    shape: ClassVar[Shape]
    mean_square: ClassVar[float]

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("n_terms", check_integer("n_terms", self.n_terms, minimum=1, maximum=4096))
        self._set("amplitude", check_real("amplitude", self.amplitude, above=0.0))
        smallest = 1.0 if self.domain == "torus" else 2.0**-26
        lowest = (1.0 if self.domain == "torus" else 0.5) if self.lowest is None else self.lowest
        self._set("lowest", check_real("lowest", lowest, minimum=smallest))
        assert self.lowest is not None
        self._set(
            "highest", check_real("highest", self.highest, minimum=self.lowest, maximum=2.0**20)
        )

    def draw(self, rng: np.random.Generator) -> WaveSum:
        """Draw frequencies (uniform in length), directions and phases."""
        assert self.lowest is not None
        lengths = self.lowest + (self.highest - self.lowest) * rng.random(self.n_terms)
        frequencies = wave_vectors(rng, lengths, self.dim, self.domain)
        phases = rng.random(self.n_terms)
        each = self.amplitude / math.sqrt(self.mean_square * self.n_terms)
        weights = np.full(self.n_terms, each)
        return WaveSum.build(self, self.shape, frequencies, phases, weights)


@register_world
@dataclass(frozen=True, kw_only=True)
class Analytic(_FewWaves):
    """A few sinusoids with bounded frequencies, random directions and phases.

    ``f(x) = c sum_k cos(2 pi (<u_k, x> + phase_k))``, |u_k| uniform on
    [lowest, highest]; smoother than every class. ``alpha`` says only which class it is
    considered in, and so which seminorm ``holder_constant`` bounds.

    Parameters
    ----------
    n_terms : int
        Number of sinusoids.
    lowest, highest : float
        Range of frequencies, turns per unit length; lowest defaults to 0.5 (torus: 1). On
        the torus wave vectors are rounded to integers.
    amplitude : float
        Standard deviation of f(x) over the phases, exact.

    Notes
    -----
    L: see :func:`nwsim.dgp.functions.wave.seminorm_bound`.
    """

    name: ClassVar[str] = "analytic"
    label: ClassVar[str] = "Analytic"
    source: ClassVar[str] = "a trigonometric polynomial; Tsybakov (2009), Definition 1.2"
    roughness: ClassVar[str] = "none"
    shape: ClassVar[Shape] = SINUSOID
    mean_square: ClassVar[float] = 0.5


@register_world
@dataclass(frozen=True, kw_only=True)
class C2(_FewWaves):
    """Twice integrated triangle waves: a bounded, Lipschitz, non-smooth second derivative.

    Sums of cubic Euler splines ``S(t) = 1 - 24 t^2 + 32 |t|^3`` (|t| <= 1/2), as in
    "analytic". f is twice continuously differentiable, its second derivative is a sum of
    triangle waves, its third a sum of square waves with jumps. It belongs to every class
    alpha <= 3, to none beyond; alpha = 2, the default, is the class in which a
    nonnegative kernel saturates. Options as in :class:`Analytic`.

    Notes
    -----
    L: see :func:`nwsim.dgp.functions.wave.seminorm_bound`, with
    sup |S'|, |S''|, |S'''| = 6, 48, 192.
    """

    name: ClassVar[str] = "c2"
    label: ClassVar[str] = "C² spline"
    source: ClassVar[str] = "Schoenberg, Cardinal Spline Interpolation (1973), lecture 4"
    roughness: ClassVar[str] = "points"
    shape: ClassVar[Shape] = CUBIC
    mean_square: ClassVar[float] = 17.0 / 35.0
    max_alpha: ClassVar[float] = 3.0


@register_world
@dataclass(frozen=True, kw_only=True)
class C11(_FewWaves):
    """Once integrated triangle waves: a bounded, discontinuous second derivative.

    Sums of quadratic Euler splines ``S(t) = 1 - 16 t^2`` (|t| <= 1/4), as in
    "analytic". The gradient is Lipschitz and has kinks: f belongs to every class
    alpha <= 2 and to none beyond, with no logarithm at alpha = 2. Options as in
    :class:`Analytic`.

    Notes
    -----
    L: see :func:`nwsim.dgp.functions.wave.seminorm_bound`, with sup |S'|, |S''| = 8, 32.
    """

    name: ClassVar[str] = "c11"
    label: ClassVar[str] = "Quadratic spline"
    source: ClassVar[str] = "Schoenberg, Cardinal Spline Interpolation (1973), lecture 4"
    roughness: ClassVar[str] = "points"
    shape: ClassVar[Shape] = QUADRATIC
    mean_square: ClassVar[float] = 8.0 / 15.0
    max_alpha: ClassVar[float] = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PolynomialFunction(RegressionFunction):
    """``<slope, z> + z' curvature z / 2``, z = x minus the centre of the cube."""

    slope: FloatArray
    curvature: FloatArray

    @property
    def smooth(self) -> bool:
        """Always true."""
        return True

    def _evaluate(self, points: FloatArray) -> FloatArray:
        # Column by column: a matrix product's last bits would depend on the batch.
        z = points - 0.5
        values = np.zeros(points.shape[0])
        for j in range(self.dim):
            column = np.full(points.shape[0], self.slope[j])
            for k in range(self.dim):
                column += 0.5 * self.curvature[j, k] * z[:, k]
            values += z[:, j] * column
        return values

    def _gradient(self, points: FloatArray) -> FloatArray:
        gradient = np.tile(self.slope, (points.shape[0], 1))
        for k in range(self.dim):
            gradient += self.curvature[k] * (points[:, k] - 0.5)[:, np.newaxis]
        return gradient

    def _laplacian(self, points: FloatArray) -> FloatArray:
        return np.full(points.shape[0], np.trace(self.curvature))


@register_world
@dataclass(frozen=True, kw_only=True)
class Polynomial(World):
    """Random polynomials of degree 1 or 2 about the centre of the cube; not periodic.

    ``f = <g, z> + z'Az/2``, z = x - 1/2, g and A with independent normal entries
    (A symmetric). The reference for leading terms of bias: they are exact here.

    Parameters
    ----------
    degree : {1, 2}
        1 leaves A out.
    amplitude : float
        Standard deviation of an entry of g (and of A, up to symmetry).

    Notes
    -----
    L holds on the cube, of diameter sqrt(d): with M the largest norm of the derivative of
    order l + 1 there, ``L = M sqrt(d)^(1 - beta)``, beta = alpha - l.
    """

    alpha: float = 2.0
    degree: int = 2
    amplitude: float = 1.0

    name: ClassVar[str] = "polynomial"
    label: ClassVar[str] = "Polynomial"
    source: ClassVar[str] = "Fan & Gijbels, Local Polynomial Modelling (1996), section 3.2"
    roughness: ClassVar[str] = "none"
    domains: ClassVar[Sequence[str]] = ("cube",)

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("degree", check_integer("degree", self.degree, minimum=1, maximum=2))
        self._set("amplitude", check_real("amplitude", self.amplitude, above=0.0))

    def draw(self, rng: np.random.Generator) -> PolynomialFunction:
        """Draw the coefficients."""
        slope = self.amplitude * rng.standard_normal(self.dim)
        square = self.amplitude * rng.standard_normal((self.dim, self.dim))
        curvature = 0.5 * (square + square.T) * (self.degree == 2)
        order = derivative_order(self.alpha)
        bend = float(np.linalg.norm(curvature, 2))
        diameter = math.sqrt(self.dim)
        largest = {0: float(np.linalg.norm(slope)) + 0.5 * bend * diameter, 1: bend}
        return PolynomialFunction(
            world=self,
            holder_constant=largest.get(order, 0.0) * diameter ** (1.0 + order - self.alpha),
            slope=read_only(slope),
            curvature=read_only(curvature),
        )
