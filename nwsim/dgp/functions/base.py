"""What every world and every regression function offers.

A *world* is a law over functions (its dimension, its Hölder class, its options); drawing
from it gives one frozen function.

The Hölder class (alpha, L) is Tsybakov's: with l the greatest integer strictly below
alpha, every directional derivative ``D_v^l f`` (|v| = 1) satisfies
``|D_v^l f(x) - D_v^l f(y)| <= L |x - y|^(alpha - l)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_choice, check_integer, check_real
from nwsim.dgp.domains import FUNCTION_DOMAINS, as_points
from nwsim.exceptions import ParameterError

TSYBAKOV = "Tsybakov, Introduction to Nonparametric Estimation (2009), Definition 1.2"


def derivative_order(alpha: float) -> int:
    """Return the greatest integer strictly below ``alpha``."""
    return math.ceil(alpha) - 1


def read_only(array: ArrayLike) -> FloatArray:
    """Return a contiguous float64 copy that cannot be written to."""
    copy = np.array(array, dtype=np.float64, order="C", copy=True)
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, kw_only=True)
class World(ABC):
    """A law over regression functions.

    Parameters
    ----------
    alpha : float
        Hölder exponent, > 0 and within the family's range.
    dim : int
        Input dimension, at least 1.
    domain : {"cube", "torus"}
        "cube": not periodic, evaluable at any point; "torus": period 1 in each coordinate.

    Attributes
    ----------
    name, label, source : str
        File-safe name, name for figures, where the construction comes from.
    roughness : str
        Where the exponent is attained. "everywhere": increments have root mean square of
        order h^alpha; "points": at isolated points or kinks only; "scale": at the
        scale of the construction; "none": smoother than every stated alpha. A rate can be
        slow only where the roughness is "everywhere", or "scale" with the scale following
        the bandwidth.
    """

    alpha: float = 0.5
    dim: int = 1
    domain: str = "cube"

    name: ClassVar[str]
    label: ClassVar[str]
    source: ClassVar[str]
    roughness: ClassVar[str]
    max_alpha: ClassVar[float] = math.inf
    domains: ClassVar[Sequence[str]] = FUNCTION_DOMAINS

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        self._set("alpha", check_real("alpha", self.alpha, above=0.0, maximum=self.max_alpha))
        self._set("dim", check_integer("dim", self.dim, minimum=1))
        check_choice("domain", self.domain, self.domains)

    def _set(self, field: str, value: object) -> None:
        # Validation replaces a field by its plain form before the value is shared.
        object.__setattr__(self, field, value)

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> RegressionFunction:
        """Return one function; the same state of ``rng`` gives the same function."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionFunction(ABC):
    """One frozen function on R^d.

    Parameters
    ----------
    world : World
        The law it was drawn from: gives name, label, alpha, dim, domain and source.
    holder_constant : float
        Upper bound of the Hölder seminorm L of the world's exponent, as defined in
        :mod:`nwsim.dgp.functions.base`; each family says how it is derived.
    """

    world: World
    holder_constant: float

    @property
    def name(self) -> str:
        """Name of the world."""
        return self.world.name

    @property
    def label(self) -> str:
        """Label for figures."""
        return self.world.label

    @property
    def alpha(self) -> float:
        """Hölder exponent."""
        return self.world.alpha

    @property
    def dim(self) -> int:
        """Input dimension."""
        return self.world.dim

    @property
    def domain(self) -> str:
        """``"cube"`` or ``"torus"``."""
        return self.world.domain

    @property
    def source(self) -> str:
        """Where the construction comes from."""
        return self.world.source

    @property
    def smooth(self) -> bool:
        """Whether :meth:`gradient` and :meth:`laplacian` are defined."""
        return False

    @final
    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the values at the rows of X.

        Parameters
        ----------
        X : (n, dim) array
            Finite points; (n,) is one column when dim is 1.

        Returns
        -------
        (n,) array
            A value depends on its own row only, to the last bit.
        """
        return self._evaluate(as_points(X, self.dim))

    @final
    def gradient(self, X: ArrayLike) -> FloatArray:
        """Return the gradient at the rows of X, (n, dim); smooth functions only."""
        self._require_smooth("gradient")
        return self._gradient(as_points(X, self.dim))

    @final
    def laplacian(self, X: ArrayLike) -> FloatArray:
        """Return the Laplacian at the rows of X, (n,); smooth functions only."""
        self._require_smooth("laplacian")
        return self._laplacian(as_points(X, self.dim))

    def singular_points(self) -> FloatArray | None:
        """Return the points (k, dim) that hold the roughness, or None if it is spread out."""
        return None

    def interval_mean(self) -> float:
        """Return the mean over [0, 1] of a function of one variable.

        The midpoint rule on 2^14 points, unless the family has a closed form.
        """
        if self.dim != 1:
            raise ParameterError(f"interval_mean needs dim 1; this function has {self.dim}")
        return self._interval_mean()

    def _require_smooth(self, what: str) -> None:
        if not self.smooth:
            raise ParameterError(
                f"{what} is defined for smooth functions only; world {self.name!r} is not smooth"
            )

    @abstractmethod
    def _evaluate(self, points: FloatArray) -> FloatArray:
        """Return the values (n,) at checked points (n, dim)."""

    def _gradient(self, points: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _laplacian(self, points: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _interval_mean(self) -> float:
        middles = (np.arange(2**14) + 0.5) / 2**14
        return float(np.mean(self._evaluate(middles[:, np.newaxis])))
