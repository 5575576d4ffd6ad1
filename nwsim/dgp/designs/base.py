"""What every design offers, and designs by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_choice, check_integer
from nwsim.dgp.domains import as_points
from nwsim.dgp.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Design(ABC):
    """A law over points of R^dim.

    Parameters
    ----------
    dim : int
        Dimension, at least 1.
    domain : {"cube", "torus", "space"}
        "cube": [0, 1]^d with edges; "torus": [0, 1)^d without; "space": R^d. Each family
        accepts those that fit it; None takes its own.
    """

    dim: int = 1
    domain: str | None = None

    name: ClassVar[str]
    label: ClassVar[str]
    domains: ClassVar[Sequence[str]]

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        self._set("dim", check_integer("dim", self.dim, minimum=1))
        domain = self.domains[0] if self.domain is None else self.domain
        self._set("domain", check_choice("domain", domain, self.domains))

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    @final
    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n independent points, (n, dim)."""
        n = check_integer("n", n, minimum=1)
        return np.ascontiguousarray(self._draw(rng, n))

    @final
    def density(self, X: ArrayLike) -> FloatArray:
        """Return the density at the rows of X, (n,); 0 outside the support."""
        return self._density(as_points(X, self.dim))

    @final
    def score(self, X: ArrayLike) -> FloatArray:
        """Return the gradient of the log density at the rows of X, (n, dim).

        NaN outside the support, where it is not defined.
        """
        return self._score(as_points(X, self.dim))

    @property
    @abstractmethod
    def covariance(self) -> FloatArray:
        """Covariance matrix, (dim, dim)."""

    @abstractmethod
    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray: ...

    @abstractmethod
    def _density(self, points: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _score(self, points: FloatArray) -> FloatArray: ...


DESIGNS: Registry[Design] = Registry("design")
D = TypeVar("D", bound=Design)


def register_design(cls: type[D]) -> type[D]:
    """Register a design class under its name; usable as a decorator."""
    DESIGNS.add(cls)
    return cls


def design_names() -> tuple[str, ...]:
    """Return the names of all designs."""
    return DESIGNS.names()


def make_design(name: str, dim: int = 1, domain: str | None = None, **options: Any) -> Design:
    """Return a design by name.

    Parameters
    ----------
    name : str
        One of :func:`design_names`.
    dim : int
        Dimension.
    domain : {"cube", "torus", "space"}, optional
        None takes the family's own domain.
    **options
        The family's own options: see its class.

    Raises
    ------
    ParameterError
        For an unknown name or option (the known ones are listed) or a bad value.
    """
    return DESIGNS.build(name, {"dim": dim, "domain": domain, **options})
