"""Designs on the cube and the torus: uniform, grid, beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_real
from nwsim.dgp.designs.base import Design, register_design
from nwsim.exceptions import ParameterError


@register_design
@dataclass(frozen=True, kw_only=True)
class Uniform(Design):
    """Uniform on the cube or the torus."""

    name: ClassVar[str] = "uniform"
    label: ClassVar[str] = "Uniform"
    domains: ClassVar[Sequence[str]] = ("cube", "torus")

    @property
    def covariance(self) -> FloatArray:
        """I/12, in the coordinates of [0, 1)^d."""
        return np.asarray(np.eye(self.dim) / 12.0)

    def _inside(self, points: FloatArray) -> FloatArray:
        if self.domain == "torus":
            return np.ones(points.shape[0])
        return np.all((points >= 0.0) & (points <= 1.0), axis=1).astype(np.float64)

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.random((n, self.dim))

    def _density(self, points: FloatArray) -> FloatArray:
        return self._inside(points)

    def _score(self, points: FloatArray) -> FloatArray:
        score = np.zeros(points.shape)
        score[self._inside(points) == 0.0] = np.nan
        return score


@register_design
@dataclass(frozen=True, kw_only=True)
class Grid(Uniform):
    """The midpoints (i + 1/2)/m of a regular grid, m = n^(1/d): deterministic.

    ``draw`` takes nothing from the rng; n must be a d-th power, anything else is
    refused. Density, score and covariance are those of the uniform limit.
    """

    name: ClassVar[str] = "grid"
    label: ClassVar[str] = "Fixed grid"

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        side = round(n ** (1.0 / self.dim))
        if side**self.dim != n:
            raise ParameterError(
                f"n must be a whole number to the power dim = {self.dim} for the grid design "
                f"(such as {side**self.dim} or {(side + 1) ** self.dim}); got {n}"
            )
        axis = (np.arange(side) + 0.5) / side
        mesh = np.meshgrid(*([axis] * self.dim), indexing="ij")
        return np.stack([coordinate.ravel() for coordinate in mesh], axis=1)


@register_design
@dataclass(frozen=True, kw_only=True)
class Beta(Design):
    """Independent Beta(a, b) coordinates on the cube.

    Parameters
    ----------
    a, b : float
        Shape parameters, > 0; (2, 2) by default.
    """

    a: float = 2.0
    b: float = 2.0

    name: ClassVar[str] = "beta"
    label: ClassVar[str] = "Beta"
    domains: ClassVar[Sequence[str]] = ("cube",)

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("a", check_real("a", self.a, above=0.0))
        self._set("b", check_real("b", self.b, above=0.0))

    @property
    def covariance(self) -> FloatArray:
        """``ab/((a+b)^2 (a+b+1)) I``."""
        total = self.a + self.b
        return self.a * self.b / (total**2 * (total + 1.0)) * np.eye(self.dim)

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.beta(self.a, self.b, size=(n, self.dim))

    def _density(self, points: FloatArray) -> FloatArray:
        inside = np.all((points > 0.0) & (points < 1.0), axis=1)
        x = np.where(inside[:, np.newaxis], points, 0.5)
        constant = math.lgamma(self.a + self.b) - math.lgamma(self.a) - math.lgamma(self.b)
        logs = (self.a - 1.0) * np.log(x) + (self.b - 1.0) * np.log1p(-x)
        return np.where(inside, np.exp(np.sum(logs + constant, axis=1)), 0.0)

    def _score(self, points: FloatArray) -> FloatArray:
        inside = np.all((points > 0.0) & (points < 1.0), axis=1)[:, np.newaxis]
        x = np.where(inside, points, 0.5)
        return np.where(inside, (self.a - 1.0) / x - (self.b - 1.0) / (1.0 - x), np.nan)
