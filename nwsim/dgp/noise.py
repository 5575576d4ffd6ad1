"""Noise laws: y = f(X) + s(X) e, E e = 0, Var e = 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_real
from nwsim.dgp.registry import Registry
from nwsim.exceptions import ParameterError


@dataclass(frozen=True, kw_only=True)
class Noise(ABC):
    """Independent noise with exact variance s(x)^2.

    Parameters
    ----------
    base_scale : float
        Standard deviation where it is constant, at least 0 (0: no noise). The option
        ``scale`` of :func:`make_noise`; as a method, :meth:`scale` is s(x).
    """

    base_scale: float = field(default=1.0, metadata={"option": "scale"})

    name: ClassVar[str]
    label: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        self._set("base_scale", check_real("scale", self.base_scale, minimum=0.0))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @final
    def draw(self, rng: np.random.Generator, X: ArrayLike) -> FloatArray:
        """Return one noise value for each row of X, (n,)."""
        scale = self.scale(X)
        return scale * self._standard(rng, scale.shape[0])

    @final
    def scale(self, X: ArrayLike) -> FloatArray:
        """Return the standard deviation s(x) at the rows of X, (n,)."""
        return self._scale(check_array("X", X, ndim=(1, 2), minimum_rows=0))

    @final
    def variance(self, X: ArrayLike) -> FloatArray:
        """Return s(x)^2 at the rows of X, (n,)."""
        return self.scale(X) ** 2

    @abstractmethod
    def _standard(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n independent values of mean 0 and variance 1."""

    def _scale(self, points: FloatArray) -> FloatArray:
        return np.full(points.shape[0], self.base_scale)


NOISES: Registry[Noise] = Registry("noise")
N = TypeVar("N", bound=Noise)


def register_noise(cls: type[N]) -> type[N]:
    """Register a noise class under its name; usable as a decorator."""
    NOISES.add(cls)
    return cls


def noise_names() -> tuple[str, ...]:
    """Return the names of all noise laws."""
    return NOISES.names()


def make_noise(name: str, scale: float = 1.0, **options: Any) -> Noise:
    """Return a noise law by name.

    Parameters
    ----------
    name : str
        One of :func:`noise_names`.
    scale : float
        Standard deviation, at least 0; for "heteroskedastic" its level.
    **options
        "heteroskedastic": ``strength``; "student": ``df``; "contaminated": ``share``,
        ``inflation``.

    Raises
    ------
    ParameterError
        For an unknown name or option (the known ones are listed) or a bad value.
    """
    return NOISES.build(name, {"scale": scale, **options})


@register_noise
@dataclass(frozen=True, kw_only=True)
class GaussianNoise(Noise):
    """Normal noise of constant variance."""

    name: ClassVar[str] = "gaussian"
    label: ClassVar[str] = "Gaussian"

    def _standard(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.standard_normal(n)


@register_noise
@dataclass(frozen=True, kw_only=True)
class HeteroskedasticNoise(GaussianNoise):
    """Normal noise with ``s(x) = scale (1 + strength sin(2 pi x_1))``.

    Smooth and of period 1 in the first coordinate, so that it fits the torus; under the
    uniform design the mean of s^2 is ``scale^2 (1 + strength^2/2)``.

    Parameters
    ----------
    strength : float
        Relative swing, in [0, 1); at 0.5, the default, s varies by a factor of 3.
    """

    strength: float = 0.5

    name: ClassVar[str] = "heteroskedastic"
    label: ClassVar[str] = "Heteroskedastic"

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        strength = check_real("strength", self.strength, minimum=0.0)
        if strength >= 1.0:
            raise ParameterError(f"strength must be at least 0 and below 1; got {strength!r}")
        self._set("strength", strength)

    def _scale(self, points: FloatArray) -> FloatArray:
        first = points if points.ndim == 1 else points[:, 0]
        return self.base_scale * (1.0 + self.strength * np.sin(2.0 * math.pi * first))


@register_noise
@dataclass(frozen=True, kw_only=True)
class StudentNoise(Noise):
    """Student t noise, scaled to variance 1 before s.

    Parameters
    ----------
    df : float
        Degrees of freedom, > 2.
    """

    df: float = 5.0

    name: ClassVar[str] = "student"
    label: ClassVar[str] = "Student t"

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("df", check_real("df", self.df, above=2.0))

    def _standard(self, rng: np.random.Generator, n: int) -> FloatArray:
        return math.sqrt((self.df - 2.0) / self.df) * rng.standard_t(self.df, size=n)


@register_noise
@dataclass(frozen=True, kw_only=True)
class ContaminatedNoise(Noise):
    """Normal noise, a share of it with inflated standard deviation, scaled to variance 1.

    Parameters
    ----------
    share : float
        Probability of a contaminated value, in [0, 1]; 0.1 by default.
    inflation : float
        Ratio of the standard deviations, > 0; 5 by default.
    """

    share: float = 0.1
    inflation: float = 5.0

    name: ClassVar[str] = "contaminated"
    label: ClassVar[str] = "Contaminated normal"

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("share", check_real("share", self.share, minimum=0.0, maximum=1.0))
        self._set("inflation", check_real("inflation", self.inflation, above=0.0))

    def _standard(self, rng: np.random.Generator, n: int) -> FloatArray:
        normal = rng.standard_normal(n)
        factor = np.where(rng.random(n) < self.share, self.inflation, 1.0)
        return normal * factor / math.sqrt(1.0 + self.share * (self.inflation**2 - 1.0))
