"""Designs on R^d: Gaussian, correlated, clustered, isotropic non-Gaussian."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_array, check_choice, check_integer, check_real
from nwsim.dgp.designs.base import Design, register_design
from nwsim.exceptions import ParameterError


@register_design
@dataclass(frozen=True, kw_only=True)
class Gaussian(Design):
    """Normal with independent coordinates.

    Parameters
    ----------
    mean, scale : float
        Mean and standard deviation of each coordinate.
    """

    mean: float = 0.0
    scale: float = 1.0

    name: ClassVar[str] = "gaussian"
    label: ClassVar[str] = "Gaussian"
    domains: ClassVar[Sequence[str]] = ("space",)

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("mean", check_real("mean", self.mean))
        self._set("scale", check_real("scale", self.scale, above=0.0))

    @property
    def covariance(self) -> FloatArray:
        """scale^2 I."""
        return self.scale**2 * np.eye(self.dim)

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        return self.mean + self.scale * rng.standard_normal((n, self.dim))

    def _density(self, points: FloatArray) -> FloatArray:
        z = (points - self.mean) / self.scale
        constant = (math.sqrt(2.0 * math.pi) * self.scale) ** self.dim
        return np.exp(-0.5 * np.sum(z**2, axis=1)) / constant

    def _score(self, points: FloatArray) -> FloatArray:
        return -(points - self.mean) / self.scale**2


@register_design
@dataclass(frozen=True, kw_only=True)
class CorrelatedGaussian(Design):
    """Centred normal with a stated covariance.

    Parameters
    ----------
    correlation : float
        Common correlation of unit-variance coordinates, in (-1/(dim-1), 1); used
        unless ``matrix`` is given. Ignored in dim 1.
    matrix : (dim, dim) array, optional
        Covariance matrix, symmetric and positive definite.
    """

    correlation: float = 0.8
    matrix: Sequence[Sequence[float]] | None = None

    name: ClassVar[str] = "correlated_gaussian"
    label: ClassVar[str] = "Correlated Gaussian"
    domains: ClassVar[Sequence[str]] = ("space",)

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        if self.matrix is None:
            lower = -math.inf if self.dim == 1 else -1.0 / (self.dim - 1)
            rho = check_real("correlation", self.correlation, above=lower)
            if rho >= 1.0:
                raise ParameterError(f"correlation must be below 1; got {rho!r}")
            covariance = np.full((self.dim, self.dim), rho)
            np.fill_diagonal(covariance, 1.0)
        else:
            covariance = check_array("matrix", self.matrix, ndim=2)
            if covariance.shape != (self.dim, self.dim):
                raise ParameterError(
                    f"matrix must have shape ({self.dim}, {self.dim}); got {covariance.shape}"
                )
            if not np.allclose(covariance, covariance.T, rtol=1e-12, atol=0.0):
                raise ParameterError("matrix must be symmetric")
        try:
            np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise ParameterError("matrix must be positive definite") from None
        # Plain tuples keep the value hashable and frozen.
        self._set("matrix", tuple(tuple(row) for row in covariance.tolist()))

    @property
    def covariance(self) -> FloatArray:
        """The stated covariance."""
        return np.array(self.matrix, dtype=np.float64)

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.standard_normal((n, self.dim)) @ np.linalg.cholesky(self.covariance).T

    def _density(self, points: FloatArray) -> FloatArray:
        factor = np.linalg.cholesky(self.covariance)
        z = np.linalg.solve(factor, points.T)
        constant = (2.0 * math.pi) ** (0.5 * self.dim) * float(np.prod(np.diag(factor)))
        return np.exp(-0.5 * np.sum(z**2, axis=0)) / constant

    def _score(self, points: FloatArray) -> FloatArray:
        return -np.asarray(np.linalg.solve(self.covariance, points.T).T, dtype=np.float64)


def _spread_centres(count: int, dim: int) -> FloatArray:
    """Return well-spread points in [0.15, 0.85]^dim: an additive recurrence.

    The generalised golden ratio (root of g^(dim+1) = g + 1) spreads any number of points
    without a seed: Roberts, The unreasonable effectiveness of quasirandom sequences (2018).
    """
    golden = 2.0
    for _ in range(60):
        golden = (1.0 + golden) ** (1.0 / (dim + 1.0))
    steps = golden ** -np.arange(1.0, dim + 1.0)
    return 0.15 + 0.7 * ((0.5 + np.arange(1, count + 1)[:, np.newaxis] * steps) % 1.0)


@register_design
@dataclass(frozen=True, kw_only=True)
class Clustered(Design):
    """Equal mixture of round normal clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; the default centres are fixed, spread over [0.15, 0.85]^d.
    spread : float
        Standard deviation of each cluster in each coordinate.
    centres : (k, dim) array, optional
        Own centres; replaces ``n_clusters``.
    """

    n_clusters: int = 5
    spread: float = 0.08
    centres: Sequence[Sequence[float]] | None = None

    name: ClassVar[str] = "clustered"
    label: ClassVar[str] = "Clustered"
    domains: ClassVar[Sequence[str]] = ("space",)

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        self._set("spread", check_real("spread", self.spread, above=0.0))
        if self.centres is None:
            count = check_integer("n_clusters", self.n_clusters, minimum=1, maximum=1000)
            centres = _spread_centres(count, self.dim)
        else:
            centres = check_array("centres", self.centres, ndim=2)
            if centres.shape[1] != self.dim:
                raise ParameterError(
                    f"centres must have {self.dim} columns; got shape {centres.shape}"
                )
        self._set("n_clusters", len(centres))
        self._set("centres", tuple(tuple(row) for row in centres.tolist()))

    @property
    def _centres(self) -> FloatArray:
        return np.array(self.centres, dtype=np.float64)

    @property
    def covariance(self) -> FloatArray:
        """spread^2 I plus the covariance of the centres."""
        offsets = self._centres - self._centres.mean(axis=0)
        return self.spread**2 * np.eye(self.dim) + offsets.T @ offsets / len(offsets)

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        member = rng.integers(0, self.n_clusters, size=n)
        return self._centres[member] + self.spread * rng.standard_normal((n, self.dim))

    def _log_parts(self, points: FloatArray) -> FloatArray:
        """Log density of each cluster, (clusters, n)."""
        constant = self.dim * math.log(math.sqrt(2.0 * math.pi) * self.spread)
        squares = [np.sum(((points - c) / self.spread) ** 2, axis=1) for c in self._centres]
        return -0.5 * np.stack(squares) - constant

    def _density(self, points: FloatArray) -> FloatArray:
        return np.exp(self._log_parts(points)).mean(axis=0)

    def _score(self, points: FloatArray) -> FloatArray:
        logs = self._log_parts(points)
        # Shifted by the largest, so that a far point still has its nearest cluster.
        share = np.exp(logs - logs.max(axis=0))
        share /= share.sum(axis=0)
        return (share.T @ self._centres - points) / self.spread**2


@register_design
@dataclass(frozen=True, kw_only=True)
class Isotropic(Design):
    """Rotation-invariant, not Gaussian: coordinates uncorrelated but dependent.

    Parameters
    ----------
    law : {"student", "laplace"}
        "student": multivariate t; "laplace": density proportional to exp(-|x|/s).
    df : float
        Degrees of freedom of "student", > 2.
    scale : float
        Standard deviation of each coordinate: the covariance is scale^2 I for both.
    """

    law: str = "student"
    df: float = 5.0
    scale: float = 1.0

    name: ClassVar[str] = "isotropic"
    label: ClassVar[str] = "Isotropic, non-Gaussian"
    domains: ClassVar[Sequence[str]] = ("space",)

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        super().__post_init__()
        check_choice("law", self.law, ("student", "laplace"))
        self._set("df", check_real("df", self.df, above=2.0))
        self._set("scale", check_real("scale", self.scale, above=0.0))

    @property
    def covariance(self) -> FloatArray:
        """scale^2 I."""
        return self.scale**2 * np.eye(self.dim)

    @property
    def _unit(self) -> float:
        if self.law == "student":
            return self.scale * math.sqrt((self.df - 2.0) / self.df)
        # |x|/s is Gamma(d), so E|x|^2 = s^2 d (d + 1).
        return self.scale / math.sqrt(self.dim + 1.0)

    def _draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        normal = rng.standard_normal((n, self.dim))
        if self.law == "student":
            radius = np.sqrt(self.df / rng.chisquare(self.df, size=n))
        else:
            radius = rng.gamma(self.dim, size=n) / np.sqrt(np.sum(normal**2, axis=1))
        return self._unit * radius[:, np.newaxis] * normal

    def _density(self, points: FloatArray) -> FloatArray:
        square = np.sum((points / self._unit) ** 2, axis=1)
        half = 0.5 * self.dim
        if self.law == "student":
            constant = math.lgamma(0.5 * self.df + half) - math.lgamma(0.5 * self.df)
            constant -= half * math.log(self.df * math.pi)
            logs = -(0.5 * self.df + half) * np.log1p(square / self.df)
        else:
            # Surface of the unit sphere times Gamma(d).
            constant = math.lgamma(half) - math.log(2.0) - half * math.log(math.pi)
            constant -= math.lgamma(self.dim)
            logs = -np.sqrt(square)
        return np.exp(constant + logs) / self._unit**self.dim

    def _score(self, points: FloatArray) -> FloatArray:
        square = np.sum((points / self._unit) ** 2, axis=1)
        if self.law == "student":
            factor = (self.df + self.dim) / (self.df + square) / self._unit**2
        else:
            # The peak at 0 has no gradient; 0 there by symmetry.
            factor = 1.0 / np.sqrt(np.where(square > 0.0, square, np.inf)) / self._unit**2
        return -points * factor[:, np.newaxis]
