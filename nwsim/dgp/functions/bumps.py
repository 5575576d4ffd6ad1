"""Bumps of random sign on a grid: the functions of the minimax lower bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_real
from nwsim.dgp.functions.base import RegressionFunction, World, derivative_order, read_only
from nwsim.dgp.registry import register_world
from nwsim.exceptions import ParameterError

MAX_CELLS = 2**24


@dataclass(frozen=True, kw_only=True, eq=False)
class BumpFunction(RegressionFunction):
    """``height sum_j sign_j phi((x - x_j)/width)`` over the cells of a grid."""

    signs: FloatArray
    width: float
    height: float

    def _evaluate(self, points: FloatArray) -> FloatArray:
        side = self.signs.shape[0]
        scaled = points * side
        cells = np.floor(scaled)
        offsets = scaled - cells - 0.5
        inside = np.ones(points.shape[0], dtype=np.bool_)
        if self.domain == "torus":
            cells = np.mod(cells, side)
        else:
            inside = ((cells >= 0) & (cells < side)).all(axis=1)
        index = np.clip(cells, 0, side - 1).astype(np.int64)
        values = self.height * np.prod(np.cos(math.pi * offsets) ** 4, axis=1)
        return np.where(inside, values * self.signs[tuple(index.T)], 0.0)


@register_world
@dataclass(frozen=True, kw_only=True)
class Bumps(World):
    """``f(x) = amplitude w^alpha sum_j e_j phi((x - x_j)/w)``, e_j = +-1 independent.

    The unit cube is cut into (1/w)^d cells with midpoints x_j; phi is the product of
    ``cos(pi u)^4`` on |u| <= 1/2 in each coordinate. Outside the cube f is 0 ("cube") or
    continued with period 1 ("torus"). 0 < alpha <= 4.

    Parameters
    ----------
    scale : float
        Wanted width of a bump, in (0, 1]; the width used is 1/round(1/scale), see
        :attr:`width`. A lower-bound study lets it follow the bandwidth, which makes
        the class uniformly hard at every n; with the scale fixed f is merely C^3.
    amplitude : float
        Height of a bump over w^alpha.

    Notes
    -----
    L. phi agrees on its support with a trigonometric polynomial with values in [0, 1] and
    angular frequencies of at most ``W = 4 pi sqrt(d)`` along a unit vector, so that
    Bernstein's inequality gives ``|D^l phi| <= W^l/2`` for l >= 1; interpolating between
    order l and l + 1, with beta = alpha - l, its seminorm is at most
    ``W^alpha 2^(-beta)``. All derivatives up to order 3 vanish on the faces of a cell, so
    a path between cells with values of opposite sign adds at most two such increments:
    a factor ``2^(1-beta)``. Together
    ``L = amplitude 2^(1 - 2 beta) W^alpha``.
    """

    alpha: float = 0.5
    scale: float = 0.05
    amplitude: float = 1.0

    name: ClassVar[str] = "bumps"
    label: ClassVar[str] = "Random-sign bumps"
    source: ClassVar[str] = "Tsybakov (2009), section 2.6.1"
    roughness: ClassVar[str] = "scale"
    max_alpha: ClassVar[float] = 4.0

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("scale", check_real("scale", self.scale, above=0.0, maximum=1.0))
        self._set("amplitude", check_real("amplitude", self.amplitude, above=0.0))
        if self._side**self.dim > MAX_CELLS:
            raise ParameterError(
                f"scale must give at most {MAX_CELLS} cells in dim {self.dim}; "
                f"{self.scale!r} gives {self._side**self.dim}"
            )

    @property
    def _side(self) -> int:
        return max(1, round(1.0 / self.scale))

    @property
    def width(self) -> float:
        """Width of a cell, 1/round(1/scale)."""
        return 1.0 / self._side

    def draw(self, rng: np.random.Generator) -> BumpFunction:
        """Draw the signs."""
        beta = self.alpha - derivative_order(self.alpha)
        reach = 4.0 * math.pi * math.sqrt(self.dim)
        signs = 2.0 * rng.integers(0, 2, size=(self._side,) * self.dim) - 1.0
        return BumpFunction(
            world=self,
            holder_constant=self.amplitude * 2.0 ** (1.0 - 2.0 * beta) * reach**self.alpha,
            signs=read_only(signs),
            width=self.width,
            height=self.amplitude * self.width**self.alpha,
        )
