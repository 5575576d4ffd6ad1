"""Rough families: lacunary sums, Takagi sums, Matérn fields, cusps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_integer, check_real
from nwsim.dgp.functions.base import RegressionFunction, World, derivative_order, read_only
from nwsim.dgp.functions.wave import (
    HIGHEST_FREQUENCY,
    SINUSOID,
    TRIANGLE,
    TURN,
    Shape,
    WaveSum,
    wave_vectors,
)
from nwsim.dgp.registry import register_world
from nwsim.exceptions import ParameterError

FINEST_SCALE = 1e-3


def default_highest(alpha: float) -> float:
    """Return the default top frequency, in turns per unit length.

    Increments over h lose a share of about ``(highest h)^(-2 alpha)`` of their variance
    to the frequencies left out; the default keeps it below 1% down to h = 1e-3, up to
    2^26 (reached below alpha = 0.21), where float64 phases end.
    """
    return min(HIGHEST_FREQUENCY, 100.0 ** (0.5 / alpha) / FINEST_SCALE)


def _default_lowest(domain: str) -> float:
    return 1.0 if domain == "torus" else 0.25


@dataclass(frozen=True, kw_only=True)
class _Lacunary(World):
    base: float = math.sqrt(2.0)
    lowest: float | None = None
    highest: float | None = None
    amplitude: float = 1.0

    shape: ClassVar[Shape]
    mean_square: ClassVar[float]

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("base", check_real("base", self.base, above=1.0, maximum=64.0))
        self._set("amplitude", check_real("amplitude", self.amplitude, above=0.0))
        lowest = _default_lowest(self.domain) if self.lowest is None else self.lowest
        smallest = 1.0 if self.domain == "torus" else 2.0**-26
        self._set("lowest", check_real("lowest", lowest, minimum=smallest, maximum=2.0**20))
        highest = default_highest(self.alpha) if self.highest is None else self.highest
        highest = check_real("highest", highest, maximum=HIGHEST_FREQUENCY)
        if highest < self._lowest * self.base:
            raise ParameterError(
                f"highest must be at least lowest * base = {self._lowest * self.base:g}; "
                f"got {highest!r}"
            )
        self._set("highest", highest)
        if self.n_terms > 4096:
            raise ParameterError(
                f"base must give at most 4096 terms between lowest and highest; "
                f"{self.base!r} gives {self.n_terms}"
            )

    @property
    def _lowest(self) -> float:
        assert self.lowest is not None
        return self.lowest

    @property
    def n_terms(self) -> int:
        """Number of waves: the frequencies lie within [lowest, highest]."""
        assert self.highest is not None
        octaves = math.log(self.highest / self._lowest) / math.log(self.base)
        return max(1, math.floor(octaves + 1e-9))

    def draw(self, rng: np.random.Generator) -> WaveSum:
        """Draw the scale, the directions and the phases."""
        exponents = np.arange(self.n_terms) + rng.random()
        lengths = self._lowest * np.exp(math.log(self.base) * exponents)
        frequencies = wave_vectors(rng, lengths, self.dim, self.domain)
        phases = rng.random(self.n_terms)
        norms = np.sqrt(np.sum(frequencies**2, axis=1))
        # Mean over the random scale of sum (|u_k|/lowest)^(-2 alpha): a geometric integral.
        rate = 2.0 * self.alpha * math.log(self.base)
        total = -math.expm1(-rate * self.n_terms) / rate
        weights = (norms / self._lowest) ** -self.alpha
        weights *= self.amplitude / math.sqrt(self.mean_square * total)
        return WaveSum.build(self, self.shape, frequencies, phases, weights)


@register_world
@dataclass(frozen=True, kw_only=True)
class Lacunary(_Lacunary):
    """Random-phase Weierstrass sums.

    ``f(x) = c sum_k |u_k|^(-alpha) cos(2 pi (<u_k, x> + phase_k))``, ``|u_k| = lowest
    base^(k + U)``, U uniform on (0, 1) once per function, directions uniform on the
    sphere, phases uniform. Any alpha > 0.

    Parameters
    ----------
    base : float
        Ratio of neighbouring frequencies, > 1. The random scale U makes the mean squared
        increments an exact power of h up to the two cut-offs for any base; a small base
        (default sqrt 2) keeps the log-periodic wiggle of each single function small.
    lowest : float, optional
        Lower end of the frequencies, turns per unit length: 0.25 on the cube (below
        1/range, so that the power law holds up to h of order 1), 1 on the torus (its
        smallest frequency).
    highest : float, optional
        Upper end, at most 2^26; default :func:`default_highest`. A study that goes
        below h = 1e-3 sets it so that highest * h >> 1 at its smallest bandwidth.
    amplitude : float
        Standard deviation of f(x) over the draw of f: exact on the cube, up to the
        rounding of the lowest wave vectors on the torus.

    Notes
    -----
    L: see :func:`nwsim.dgp.functions.wave.seminorm_bound`. At an even integer alpha the
    derivative of order alpha of the infinite sum does not exist: at alpha = 2 the bias
    of a second-order kernel has a logarithmic factor, and L grows with log(highest). Use
    "c2" or "c11" for a class that is exactly 2. At alpha = 1 a symmetric kernel sees no
    logarithm, though L grows in the same way.
    """

    name: ClassVar[str] = "lacunary"
    label: ClassVar[str] = "Random-phase lacunary sum"
    source: ClassVar[str] = "Hardy, Weierstrass's non-differentiable function (1916)"
    roughness: ClassVar[str] = "everywhere"
    shape: ClassVar[Shape] = SINUSOID
    mean_square: ClassVar[float] = 0.5


@register_world
@dataclass(frozen=True, kw_only=True)
class Takagi(_Lacunary):
    """Generalised Takagi sums: triangle waves with weights |u_k|^(-alpha), alpha <= 1.

    The same construction and options as :class:`Lacunary`, with base 2 and the triangle
    wave in place of the cosine.

    Notes
    -----
    At alpha = 1 the infinite sum has modulus of continuity h log(1/h), not h: it is in
    every class alpha' < 1 and in the class alpha = 1 only up to the logarithm. The
    finite sum is Lipschitz and ``holder_constant`` is valid, but grows with log(highest).
    """

    base: float = 2.0

    name: ClassVar[str] = "takagi"
    label: ClassVar[str] = "Takagi sum"
    source: ClassVar[str] = "Takagi (1903); Allaart & Kawamura, The Takagi function (2012)"
    roughness: ClassVar[str] = "everywhere"
    shape: ClassVar[Shape] = TRIANGLE
    mean_square: ClassVar[float] = 1.0 / 3.0
    max_alpha: ClassVar[float] = 1.0


@register_world
@dataclass(frozen=True, kw_only=True)
class Matern(World):
    """Gaussian fields with Matérn covariance of smoothness nu = alpha.

    Random Fourier features under the Student-t spectral density with 2 nu degrees of
    freedom, stratified: the log-frequency axis is cut into ``n_features`` strata, each
    gives one uniformly placed frequency with its share of the spectral mass, a random
    direction and phase, and a Rayleigh amplitude. Given its frequencies the sum is
    exactly Gaussian; unlike independent features it has every scale down to 1/highest.

    Parameters
    ----------
    length_scale : float
        l in ``k(r) ~ (sqrt(2 nu) r/l)^nu K_nu(sqrt(2 nu) r/l)``.
    n_features : int
        Number of strata.
    highest : float, optional
        Top frequency, turns per unit length, at most 2^26; default as in "lacunary".
    amplitude : float
        Standard deviation of f(x).

    Notes
    -----
    Mean squared increments are of order h^(2 nu) (nu < 1), while sample paths are
    almost surely Hölder of every exponent below nu, not of nu itself: ``holder_constant``
    holds for the band-limited sum and grows with ``highest``. On the torus wave vectors
    are rounded to integers: a periodic field with nearly the same spectrum at high frequency.
    """

    alpha: float = 0.5
    length_scale: float = 0.25
    n_features: int = 256
    highest: float | None = None
    amplitude: float = 1.0

    name: ClassVar[str] = "matern"
    label: ClassVar[str] = "Matérn field"
    source: ClassVar[str] = (
        "Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), 4.2.1; "
        "Rahimi & Recht, Random features (2007)"
    )
    roughness: ClassVar[str] = "everywhere"

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("length_scale", check_real("length_scale", self.length_scale, above=0.0))
        self._set(
            "n_features", check_integer("n_features", self.n_features, minimum=16, maximum=2**16)
        )
        self._set("amplitude", check_real("amplitude", self.amplitude, above=0.0))
        highest = default_highest(self.alpha) if self.highest is None else self.highest
        highest = check_real("highest", highest, maximum=HIGHEST_FREQUENCY)
        if highest < 10.0 * self._lowest:
            raise ParameterError(
                f"highest must be at least {10.0 * self._lowest:g} (ten times the lowest "
                f"frequency); got {highest!r}"
            )
        self._set("highest", highest)

    @property
    def _lowest(self) -> float:
        # A thousandth of the corner frequency; on the torus nothing lies below 1.
        corner = 1.0 / (TURN * self.length_scale)
        return 0.5 if self.domain == "torus" else 1e-3 * corner

    def _mass(self, frequency: FloatArray, step: float) -> FloatArray:
        """Share of the spectral mass of a log-stratum, up to a constant."""
        scaled = (TURN * self.length_scale * frequency) ** 2
        tail = (1.0 + scaled / (2.0 * self.alpha)) ** -(self.alpha + 0.5 * self.dim)
        return scaled ** (0.5 * self.dim) * tail * step

    def draw(self, rng: np.random.Generator) -> WaveSum:
        """Draw frequencies, directions, phases and amplitudes."""
        assert self.highest is not None
        count = self.n_features
        step = math.log(self.highest / self._lowest) / count
        frequency = self._lowest * np.exp(step * (np.arange(count) + rng.random(count)))
        middle = self._lowest * np.exp(step * (np.arange(count) + 0.5))
        vectors = wave_vectors(rng, frequency, self.dim, self.domain)
        phases = rng.random(count)
        share = self._mass(frequency, step) / self._mass(middle, step).sum()
        weights = self.amplitude * np.sqrt(2.0 * share * rng.standard_exponential(count))
        return WaveSum.build(self, SINUSOID, vectors, phases, weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class CuspFunction(RegressionFunction):
    """``amplitude r(x)^alpha``, r the distance to one centre."""

    centre: FloatArray
    amplitude: float

    def singular_points(self) -> FloatArray:
        """Return the centre, (1, dim)."""
        return self.centre[np.newaxis, :]

    def _evaluate(self, points: FloatArray) -> FloatArray:
        offsets = points - self.centre
        if self.domain == "torus":
            offsets = np.sin(math.pi * (offsets - np.rint(offsets))) / math.pi
        return self.amplitude * np.sum(offsets**2, axis=1) ** (0.5 * self.alpha)


@register_world
@dataclass(frozen=True, kw_only=True)
class Cusp(World):
    """``f(x) = amplitude |x - c|^alpha``, c uniform on [1/4, 3/4]^d, 0 < alpha < 2.

    On the torus the coordinates of x - c enter as ``sin(pi .)/pi`` (half a chord).

    Parameters
    ----------
    amplitude : float
        Factor of |x - c|^alpha.

    Notes
    -----
    One cusp does not slow an integrated rate: the roughness is at one point. L, with a
    the amplitude: alpha <= 1: ``||a|^alpha - |b|^alpha| <= |a - b|^alpha`` gives a. alpha
    in (1, 2): the gradient is ``alpha |v|^(alpha-2) v`` and
    ``||v|^(p-2) v - |w|^(p-2) w| <= 2^(2-p) |v - w|^(p-1)`` (Lindqvist, Notes on the
    p-Laplace equation, 2006, section 10) give ``a alpha 2^(2-alpha)``. On the torus the
    half-chord map Z has |Z'| <= 1 and a derivative with increments of at most
    ``min(2, 2 pi h) <= 2 (pi h)^(alpha-1)``, while the gradient is at most
    ``alpha (sqrt(d)/pi)^(alpha-1)``: the product rule adds ``2 a alpha d^((alpha-1)/2)``.
    """

    amplitude: float = 1.0

    name: ClassVar[str] = "cusp"
    label: ClassVar[str] = "Cusp"
    source: ClassVar[str] = "Tsybakov (2009), section 1.2; Lindqvist (2006), section 10"
    roughness: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        if self.alpha >= 2.0:
            raise ParameterError(
                f"alpha must be > 0 and < 2 for a cusp (at 2 it is a parabola); got {self.alpha!r}"
            )
        self._set("amplitude", check_real("amplitude", self.amplitude, above=0.0))

    def draw(self, rng: np.random.Generator) -> CuspFunction:
        """Draw the centre."""
        bound = 1.0
        if derivative_order(self.alpha) == 1:
            bound = 2.0 ** (2.0 - self.alpha)
            if self.domain == "torus":
                bound += 2.0 * self.dim ** (0.5 * (self.alpha - 1.0))
            bound *= self.alpha
        return CuspFunction(
            world=self,
            holder_constant=self.amplitude * bound,
            centre=read_only(0.25 + 0.5 * rng.random(self.dim)),
            amplitude=self.amplitude,
        )
