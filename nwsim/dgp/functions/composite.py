"""Functions of several variables made of functions of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_array
from nwsim.dgp.functions.base import RegressionFunction, World, read_only
from nwsim.dgp.registry import make_world, register_world
from nwsim.exceptions import ParameterError

_COMPOSITES = ("additive", "single_index")


@dataclass(frozen=True, kw_only=True)
class _Composite(World):
    inner: str = "lacunary"
    inner_options: Mapping[str, Any] | Sequence[tuple[str, Any]] = ()

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        if self.inner in _COMPOSITES:
            raise ParameterError(
                f"inner must name a world of one variable, not a composite; got {self.inner!r}"
            )
        try:
            options = dict(self.inner_options)
        except (TypeError, ValueError):
            raise ParameterError(
                f"inner_options must map option names to values; got {self.inner_options!r}"
            ) from None
        self._set("inner_options", tuple(sorted(options.items())))
        # Building it once reports bad options here, and not at the first draw.
        _ = self.inner_world

    @property
    def inner_world(self) -> World:
        """The world of one variable."""
        return make_world(
            self.inner, alpha=self.alpha, dim=1, domain=self.domain, **dict(self.inner_options)
        )

    # Composites are as rough as their inner functions.
    @property
    def roughness(self) -> str:  # type: ignore[override]
        """Roughness of the inner world."""
        return self.inner_world.roughness


@dataclass(frozen=True, kw_only=True, eq=False)
class AdditiveFunction(RegressionFunction):
    """``sum_j (g_j(x_j) - mean g_j)``."""

    parts: tuple[RegressionFunction, ...]
    means: tuple[float, ...]

    @property
    def smooth(self) -> bool:
        """Whether the parts are."""
        return self.parts[0].smooth

    def _evaluate(self, points: FloatArray) -> FloatArray:
        values = np.zeros(points.shape[0])
        for j, (part, mean) in enumerate(zip(self.parts, self.means, strict=True)):
            values += part(points[:, j]) - mean
        return values

    def _gradient(self, points: FloatArray) -> FloatArray:
        columns = [part.gradient(points[:, j])[:, 0] for j, part in enumerate(self.parts)]
        return np.stack(columns, axis=1)

    def _laplacian(self, points: FloatArray) -> FloatArray:
        values = np.zeros(points.shape[0])
        for j, part in enumerate(self.parts):
            values += part.laplacian(points[:, j])
        return values


@register_world
@dataclass(frozen=True, kw_only=True)
class Additive(_Composite):
    """``f(x) = sum_j g_j(x_j)``: independent draws of a world of one variable.

    Each g_j is centred to mean zero over [0, 1] (in closed form for wave sums other than
    cubic splines, else by the midpoint rule on 2^14 points), so that f has mean zero under
    the uniform design.

    Parameters
    ----------
    inner : str
        Name of the world of the g_j, not a composite.
    inner_options : mapping
        Its options.

    Notes
    -----
    L, with l = greatest integer below alpha, beta = alpha - l and L_j that of g_j:
    ``|D_v^l f(x) - D_v^l f(y)| <= sum_j L_j |v_j|^l |x_j - y_j|^beta``. For alpha < 2
    Hölder's inequality gives ``(sum_j L_j^(2/(2-alpha)))^((2-alpha)/2)``; for
    alpha >= 2, as ``sum_j |a_j|^l |b_j|^beta <= 1`` for unit a and b, ``max_j L_j``.
    """

    name: ClassVar[str] = "additive"
    label: ClassVar[str] = "Additive"
    source: ClassVar[str] = "Stone, Additive regression (1985)"

    def draw(self, rng: np.random.Generator) -> AdditiveFunction:
        """Draw one function for each coordinate."""
        inner = self.inner_world
        parts = tuple(inner.draw(rng) for _ in range(self.dim))
        constants = np.array([part.holder_constant for part in parts])
        bound = float(constants.max())
        # Scaling by the largest keeps the powers in range as alpha nears 2.
        if self.alpha < 2.0 and bound > 0.0:
            power = 2.0 / (2.0 - self.alpha)
            bound *= float(np.sum((constants / bound) ** power) ** (1.0 / power))
        return AdditiveFunction(
            world=self,
            holder_constant=bound,
            parts=parts,
            means=tuple(part.interval_mean() for part in parts),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SingleIndexFunction(RegressionFunction):
    """``g(offset + <direction, x>)``."""

    inner: RegressionFunction
    direction: FloatArray
    offset: float

    @property
    def smooth(self) -> bool:
        """Whether the inner function is."""
        return self.inner.smooth

    def _index(self, points: FloatArray) -> FloatArray:
        # Term by term: a matrix product's last bits would depend on the batch.
        index = np.full(points.shape[0], self.offset)
        for j in range(self.dim):
            index += self.direction[j] * points[:, j]
        return index

    def _evaluate(self, points: FloatArray) -> FloatArray:
        return self.inner(self._index(points))

    def _gradient(self, points: FloatArray) -> FloatArray:
        return self.inner.gradient(self._index(points)) * self.direction

    def _laplacian(self, points: FloatArray) -> FloatArray:
        return self.inner.laplacian(self._index(points)) * float(np.sum(self.direction**2))


@register_world
@dataclass(frozen=True, kw_only=True)
class SingleIndex(_Composite):
    """``f(x) = g(1/2 + <v, x - 1/2>)``, g from a world of one variable, |v| = 1.

    On the torus ``f(x) = g(<v, x>)`` with an integer vector v, which keeps the period.

    Parameters
    ----------
    inner : str
        Name of the world of g, not a composite.
    inner_options : mapping
        Its options.
    direction : (dim,) sequence, optional
        v; on the cube it is scaled to length 1, on the torus its entries must be whole
        numbers. None draws it: uniform on the sphere, or (torus) uniform on the
        vectors of -1, 0, 1 that are not 0.

    Notes
    -----
    L = L_g |v|^alpha. For a polynomial g the bound holds where the index is in [0, 1].
    """

    direction: Sequence[float] | None = None

    name: ClassVar[str] = "single_index"
    label: ClassVar[str] = "Single index"
    source: ClassVar[str] = "Ichimura (1993); Härdle, Hall & Ichimura (1993)"

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        if self.direction is None:
            return
        vector = check_array("direction", self.direction, ndim=1)
        if vector.shape != (self.dim,) or not vector.any():
            raise ParameterError(
                f"direction must be a vector of length {self.dim}, not 0; got {self.direction!r}"
            )
        if self.domain == "torus":
            if (vector != np.rint(vector)).any():
                raise ParameterError(
                    f"direction must hold whole numbers on the torus; got {self.direction!r}"
                )
        else:
            vector = vector / np.linalg.norm(vector)
        self._set("direction", tuple(vector.tolist()))

    def _draw_direction(self, rng: np.random.Generator) -> FloatArray:
        if self.domain == "torus":
            while True:
                vector = rng.integers(-1, 2, size=self.dim)
                if vector.any():
                    return vector.astype(np.float64)
        normal = rng.standard_normal(self.dim)
        return normal / np.linalg.norm(normal)

    def draw(self, rng: np.random.Generator) -> SingleIndexFunction:
        """Draw the direction (unless given) and the inner function."""
        if self.direction is None:
            vector = self._draw_direction(rng)
        else:
            vector = np.array(self.direction, dtype=np.float64)
        inner = self.inner_world.draw(rng)
        offset = 0.0 if self.domain == "torus" else 0.5 - 0.5 * float(vector.sum())
        length = math.sqrt(float(np.sum(vector**2)))
        return SingleIndexFunction(
            world=self,
            holder_constant=inner.holder_constant * length**self.alpha,
            inner=inner,
            direction=read_only(vector),
            offset=offset,
        )


__all__ = ["Additive", "AdditiveFunction", "SingleIndex", "SingleIndexFunction"]
