"""Functions that are sums of waves of one shape, and the bound of their seminorm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nwsim._typing import FloatArray
from nwsim.dgp.functions.base import RegressionFunction, World, derivative_order, read_only
from nwsim.numerics.waves import COSINE, N_COEFFICIENTS, wave_sum

TURN = 2.0 * math.pi
HIGHEST_FREQUENCY = 2.0**26
"""Above it the phase of a point near 1 is known to less than 1e-8 turns."""


@dataclass(frozen=True)
class Shape:
    """A wave of period 1 with values in [-1, 1], S(0) = 1, even, odd about a quarter turn.

    Triangle, quadratic and cubic are Euler splines: each is up to a factor the integral
    of the one before, shifted by a quarter turn (Schoenberg, Cardinal Spline
    Interpolation, 1973, lecture 4).
    """

    name: str
    polynomial: tuple[float, ...]
    absolute: bool = False

    @property
    def coefficients(self) -> FloatArray:
        """Coefficients in the layout of :func:`nwsim.numerics.waves.wave_sum`."""
        padded = np.zeros(N_COEFFICIENTS)
        padded[: len(self.polynomial)] = self.polynomial
        return padded

    def derivative(self) -> tuple[float, Shape] | None:
        """Return (c, D) with S'(t) = c D(t - 1/4), or None at a kink."""
        found = _DERIVATIVES.get(self.name)
        return None if found is None else (found[0], _SHAPES[found[1]])

    def integral(self) -> tuple[float, Shape] | None:
        """Return (c, A) with S(t) = (c A(t + 1/4))', or None if A is no shape here."""
        for name, (factor, below) in _DERIVATIVES.items():
            if below == self.name:
                # A'(t + 1/4) = factor * S(t).
                return 1.0 / factor, _SHAPES[name]
        return None

    def supremum(self, order: int) -> float:
        """Return the (essential) supremum of the derivative of this order."""
        if order == 0:
            return 1.0
        below = self.derivative()
        if below is None:
            # The triangle's slope; its second derivative is not a function.
            return 4.0 if order == 1 else math.inf
        return abs(below[0]) * below[1].supremum(order - 1)


SINUSOID = Shape("cosine", COSINE)
TRIANGLE = Shape("triangle", (4.0,))
QUADRATIC = Shape("quadratic", (8.0, -16.0), absolute=True)
CUBIC = Shape("cubic", (6.0, -32.0))
_SHAPES = {shape.name: shape for shape in (SINUSOID, TRIANGLE, QUADRATIC, CUBIC)}
_DERIVATIVES = {
    "cosine": (-TURN, "cosine"),
    "quadratic": (-8.0, "triangle"),
    "cubic": (-6.0, "quadratic"),
}


def seminorm_bound(
    shape: Shape, frequencies: FloatArray, weights: FloatArray, alpha: float
) -> float:
    """Return an upper bound of the Hölder seminorm of a sum of waves.

    Parameters
    ----------
    shape : Shape
        The common shape S.
    frequencies : (k, d) array
        Wave vectors u_k, not 0.
    weights : (k,) array
        Weights w_k.
    alpha : float
        Hölder exponent; l is the greatest integer below it, beta = alpha - l.

    Notes
    -----
    Along any unit vector the derivative of order l of term k has increments over a
    distance h of at most ``min(2 B_k, D_k h)``, ``B_k = |w_k| |u_k|^l sup|S^(l)|``,
    ``D_k = |w_k| |u_k|^(l+1) sup|S^(l+1)|``. The seminorm is at most
    ``sup_h h^(-beta) sum_k min(2 B_k, D_k h)``. Between two breakpoints
    ``h_k = 2 B_k / D_k`` that function is ``c h^(-beta) + e h^(1-beta)``, which has no
    inner maximum, so the supremum is taken over the breakpoints. It holds on R^d, and so
    on the torus with its own distance.
    """
    order = derivative_order(alpha)
    norms = np.sqrt(np.sum(frequencies**2, axis=1))
    ceilings = 2.0 * np.abs(weights) * norms**order * shape.supremum(order)
    slopes = np.abs(weights) * norms ** (order + 1) * shape.supremum(order + 1)
    gaps = 2.0 * shape.supremum(order) / (shape.supremum(order + 1) * norms)
    increments = np.minimum(ceilings, slopes * gaps[:, np.newaxis]).sum(axis=1)
    return float(np.max(increments * gaps ** (order - alpha)))


def wave_vectors(
    rng: np.random.Generator, magnitudes: FloatArray, dim: int, domain: str
) -> FloatArray:
    """Return vectors (k, dim) of the given lengths in uniformly random directions.

    On the torus they are rounded to integers; one that would round to 0 becomes the
    unit vector of its largest coordinate.
    """
    normal = rng.standard_normal((len(magnitudes), dim))
    vectors = normal * (magnitudes / np.sqrt(np.sum(normal**2, axis=1)))[:, np.newaxis]
    if domain == "torus":
        rounded = np.rint(vectors)
        for row in np.flatnonzero(~rounded.any(axis=1)):
            largest = np.argmax(np.abs(vectors[row]))
            rounded[row, largest] = math.copysign(1.0, vectors[row, largest])
        vectors = rounded
    return vectors


@dataclass(frozen=True, kw_only=True, eq=False)
class WaveSum(RegressionFunction):
    """``sum_k w_k S(<u_k, x> + phase_k)``, evaluated by a compiled loop.

    Parameters
    ----------
    shape : Shape
        The wave S.
    frequencies : (k, dim) array
        u_k in turns per unit length.
    phases, weights : (k,) arrays
        Phases in turns; weights.
    """

    shape: Shape
    frequencies: FloatArray
    phases: FloatArray
    weights: FloatArray

    @classmethod
    def build(
        cls,
        world: World,
        shape: Shape,
        frequencies: FloatArray,
        phases: FloatArray,
        weights: FloatArray,
    ) -> WaveSum:
        """Freeze the arrays and bound the seminorm at the world's exponent."""
        return cls(
            world=world,
            holder_constant=seminorm_bound(shape, frequencies, weights, world.alpha),
            shape=shape,
            frequencies=read_only(frequencies),
            phases=read_only(phases),
            weights=read_only(weights),
        )

    @property
    def smooth(self) -> bool:
        """True if the second derivative exists and the world calls itself smooth."""
        first = self.shape.derivative()
        twice = first is not None and first[1].derivative() is not None
        return twice and self.world.roughness != "everywhere"

    def _sum(
        self, points: FloatArray, shape: Shape, weights: FloatArray, shift: float
    ) -> FloatArray:
        out = np.empty(points.shape[0])
        wave_sum(
            points,
            self.frequencies,
            self.phases + shift,
            np.ascontiguousarray(weights),
            shape.coefficients,
            shape.absolute,
            out,
        )
        return out

    def _evaluate(self, points: FloatArray) -> FloatArray:
        return self._sum(points, self.shape, self.weights, 0.0)

    def _gradient(self, points: FloatArray) -> FloatArray:
        first = self.shape.derivative()
        assert first is not None
        factor, shape = first
        columns = [
            self._sum(points, shape, factor * self.weights * self.frequencies[:, j], -0.25)
            for j in range(self.dim)
        ]
        return np.stack(columns, axis=1)

    def _laplacian(self, points: FloatArray) -> FloatArray:
        first = self.shape.derivative()
        assert first is not None
        second = first[1].derivative()
        assert second is not None
        squares = np.sum(self.frequencies**2, axis=1)
        return self._sum(points, second[1], first[0] * second[0] * self.weights * squares, -0.5)

    def _interval_mean(self) -> float:
        above = self.shape.integral()
        if above is None:
            return super()._interval_mean()
        factor, shape = above
        ends = self._sum(
            np.array([[0.0], [1.0]]),
            shape,
            factor * self.weights / self.frequencies[:, 0],
            0.25,
        )
        return float(ends[1] - ends[0])
