"""Kernels: one record each, and their registry.

A kernel is a radial function K(u) of |u|, u in R^d, of one of three families (see
:mod:`nwsim.numerics.tiles`) times a polynomial in |u|^2. The scale of K cancels in
every smoother, so records carry no unit mass; moment constants are those of the
normalised kernel. Formulas: Wand & Jones (1995), "Kernel Smoothing", sections 2.5-2.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import beta, gamma

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_integer
from nwsim.exceptions import ParameterError

# Codes of nwsim.numerics.tiles, restated so that asking for a kernel's constants does
# not compile anything; a test holds them equal.
FAMILIES = {"compact": 0, "gaussian": 1, "laplace": 2}


def _one(dim: int) -> tuple[float, ...]:
    return (1.0,)


@dataclass(frozen=True)
class Kernel:
    """A radial kernel.

    Parameters
    ----------
    name : str
        File-safe name by which estimators ask for it.
    label : str
        Name in figures.
    family : {"compact", "gaussian", "laplace"}
        ``compact``: (1 - |u|^power)^exponent P(|u|^2) on |u| <= 1;
        ``gaussian``: exp(-|u|^2/2) P(|u|^2); ``laplace``: exp(-|u|) P(|u|^2).
    power : {1, 2, 3}
        For the compact family.
    exponent : {0, 1, 2, 3}
        For the compact family.
    coefficients : callable
        ``coefficients(dim)`` gives those of P, constant first. They may depend on the
        dimension: a kernel of order 4 needs its own in each.
    order : int
        Order of the first moment that does not vanish, 2 or 4.
    source : str
        Where the formula stands.
    """

    name: str
    label: str
    family: str
    source: str
    power: int = 2
    exponent: int = 1
    coefficients: Callable[[int], tuple[float, ...]] = _one
    order: int = 2

    def __post_init__(self) -> None:
        """Refuse a record that no compiled loop could serve."""
        if not (self.name.isidentifier() and self.name == self.name.lower()):
            raise ParameterError(f"name must be a lower-case identifier; got {self.name!r}")
        if self.family not in FAMILIES:
            raise ParameterError(
                f"family must be one of {', '.join(FAMILIES)}; got {self.family!r}"
            )
        if self.power not in (1, 2, 3):
            raise ParameterError(f"power must be 1, 2 or 3; got {self.power!r}")
        if self.exponent not in (0, 1, 2, 3):
            raise ParameterError(f"exponent must be 0, 1, 2 or 3; got {self.exponent!r}")
        if self.order not in (2, 4):
            raise ParameterError(f"order must be 2 or 4; got {self.order!r}")

    @property
    def support(self) -> float:
        """Radius beyond which K vanishes: 1 for compact kernels, else infinity."""
        return 1.0 if self.family == "compact" else math.inf

    @property
    def signed(self) -> bool:
        """Whether K takes negative values (every kernel of order 4 does)."""
        return self.order > 2

    def polynomial(self, dim: int) -> FloatArray:
        """Return the coefficients of P in dimension ``dim``, constant first, (k,)."""
        return np.array(self.coefficients(check_integer("dim", dim, minimum=1)), dtype=float)

    def __call__(self, u: ArrayLike, dim: int = 1) -> FloatArray:
        """Return K at distances |u| in dimension ``dim``, up to scale, shape of ``u``."""
        r = np.abs(np.asarray(u, dtype=float))
        p = np.polynomial.polynomial.polyval(r * r, self.polynomial(dim))
        if self.family == "gaussian":
            return np.exp(-0.5 * r * r) * p
        if self.family == "laplace":
            return np.exp(-r) * p
        inside = r <= 1.0
        return np.where(inside, (1.0 - np.where(inside, r, 0.0) ** self.power), 0.0) ** (
            self.exponent
        ) * np.where(inside, p, 0.0)

    def _radial(self, dim: int, degree: int, times: int) -> float:
        """Return the integral over r > 0 of r^degree K(r)^times, times 1 or 2.

        Each monomial of P gives a beta or a gamma function.
        """
        c = self.polynomial(dim)
        if times == 2:
            c = np.convolve(c, c)
        result = 0.0
        for j, weight in enumerate(c):
            s = degree + 2 * j + 1
            if self.family == "gaussian":
                # integral of r^(s-1) exp(-times r^2 / 2)
                part = 0.5 * (2.0 / times) ** (s / 2) * gamma(s / 2)
            elif self.family == "laplace":
                part = gamma(s) / times**s
            else:
                part = beta(s / self.power, times * self.exponent + 1) / self.power
            result += weight * part
        return float(result)

    def mass(self, dim: int = 1) -> float:
        """Return the integral of K over R^dim, by which moments are normalised."""
        return sphere_area(dim) * self._radial(dim, dim - 1, 1)

    def moment(self, degree: int, dim: int = 1) -> float:
        """Return the integral of |u_1|^degree K(u) over R^dim, K normalised.

        Uses E|s_1|^degree for s uniform on the unit sphere.
        """
        degree = check_integer("degree", degree)
        direction = (
            gamma((degree + 1) / 2) * gamma(dim / 2) / (gamma(0.5) * gamma((degree + dim) / 2))
        )
        radial = self._radial(dim, degree + dim - 1, 1) / self._radial(dim, dim - 1, 1)
        return float(direction * radial)

    def mu2(self, dim: int = 1) -> float:
        """Return the second moment of one coordinate, int u_1^2 K(u) du, K normalised."""
        return self.moment(2, dim)

    def roughness(self, dim: int = 1) -> float:
        """Return R(K) = int K(u)^2 du over R^dim, K normalised."""
        return sphere_area(dim) * self._radial(dim, dim - 1, 2) / self.mass(dim) ** 2

    def canonical_bandwidth(self, dim: int = 1) -> float:
        """Return delta_0 = (R(K) / mu2^2)^(1/(dim + 4)) for a kernel of order 2.

        Bandwidths of two kernels in the ratio of their delta_0 smooth alike (Marron &
        Nolan 1988). For order 4, where mu2 = 0, the fourth moment takes its place.
        """
        if self.order == 2:
            return float((self.roughness(dim) / self.mu2(dim) ** 2) ** (1 / (dim + 4)))
        return float((self.roughness(dim) / self.moment(4, dim) ** 2) ** (1 / (dim + 8)))


def monomials(kernel: Kernel, dim: int) -> tuple[FloatArray, int]:
    """Return a compact kernel on its window as a polynomial in |u|^step, and the step.

    Expands (1 - |u|^power)^exponent P(|u|^2). Coefficients (k,) are constant first.
    """
    factor = np.zeros(kernel.power + 1)
    factor[0], factor[-1] = 1.0, -1.0
    even = np.zeros(2 * kernel.polynomial(dim).size - 1)
    even[::2] = kernel.polynomial(dim)
    for _ in range(kernel.exponent):
        even = np.convolve(even, factor)
    degrees = np.flatnonzero(even)
    step = next(s for s in (3, 2, 1) if not np.any(degrees % s))
    return np.ascontiguousarray(even[::step]), step


def sphere_area(dim: int) -> float:
    """Return the area of the unit sphere in R^dim (2 for dim = 1)."""
    dim = check_integer("dim", dim, minimum=1)
    return float(2.0 * math.pi ** (dim / 2) / gamma(dim / 2))


def _cosine(dim: int) -> tuple[float, ...]:
    """Return P with cos(pi u / 2) = (1 - u^2) P(u^2), to rounding on |u| <= 1.

    Partial sums of the Taylor coefficients of cos, which add up to zero at u = 1.
    Writing the zero as a factor keeps K exactly 0 at the edge and positive inside.
    """
    terms = [(-1) ** j * (math.pi / 2) ** (2 * j) / math.factorial(2 * j) for j in range(14)]
    return tuple(math.fsum(terms[: j + 1]) for j in range(11))


def _gaussian4(dim: int) -> tuple[float, ...]:
    # int u_1^2 (a - v) exp(-v/2) = 0 in R^d gives a = d + 2.
    return (1.0 + dim / 2, -0.5)


def _epanechnikov4(dim: int) -> tuple[float, ...]:
    # int |u|^2 (1 - |u|^2)(1 - c |u|^2) = 0 over the unit ball gives c = (d + 6)/(d + 2).
    return (1.0, -(dim + 6) / (dim + 2))


_WAND_JONES = "Wand & Jones (1995), Kernel Smoothing, table 2.1"
_ORDER_FOUR = "Wand & Jones (1995), section 2.8: K times a polynomial with int u^2 K = 0"
_registry: dict[str, Kernel] = {}


def register_kernel(kernel: Kernel) -> Kernel:
    """Add a kernel under its name, for estimators to ask for; names are taken once."""
    if not isinstance(kernel, Kernel):
        raise ParameterError(f"kernel must be a Kernel record; got {type(kernel).__name__}")
    if kernel.name in _registry and _registry[kernel.name] != kernel:
        raise ParameterError(f"kernel {kernel.name!r} is registered already")
    _registry[kernel.name] = kernel
    return kernel


def user_registrations() -> tuple[Kernel, ...]:
    """Return the kernels that are not this module's own, for processes that lack them."""
    return tuple(kernel for name, kernel in _registry.items() if name not in _BUILT_IN)


def register_missing(kernels: Iterable[Kernel]) -> None:
    """Register the kernels whose names are not known yet."""
    for kernel in kernels:
        if kernel.name not in _registry:
            register_kernel(kernel)


def kernel_names() -> tuple[str, ...]:
    """Return the registered names, in order of registration."""
    return tuple(_registry)


def get_kernel(name: str | Kernel) -> Kernel:
    """Return the kernel of that name; an unknown name is refused with the known ones."""
    if isinstance(name, Kernel):
        return name
    if not isinstance(name, str) or name not in _registry:
        raise ParameterError(f"kernel must be one of {', '.join(_registry)}; got {name!r}")
    return _registry[name]


for _kernel in (
    Kernel("gaussian", "Gaussian", "gaussian", _WAND_JONES),
    Kernel("epanechnikov", "Epanechnikov", "compact", _WAND_JONES),
    Kernel("triangular", "triangular", "compact", _WAND_JONES, power=1),
    Kernel("uniform", "uniform", "compact", _WAND_JONES, exponent=0),
    Kernel("biweight", "biweight", "compact", _WAND_JONES, exponent=2),
    Kernel("triweight", "triweight", "compact", _WAND_JONES, exponent=3),
    Kernel("tricube", "tricube", "compact", "Cleveland (1979)", power=3, exponent=3),
    Kernel("cosine", "cosine", "compact", "Eubank (1988)", coefficients=_cosine),
    Kernel("laplace", "Laplace", "laplace", "exp(-|u|)"),
    Kernel(
        "gaussian4",
        "Gaussian, order 4",
        "gaussian",
        _ORDER_FOUR,
        coefficients=_gaussian4,
        order=4,
    ),
    Kernel(
        "epanechnikov4",
        "Epanechnikov, order 4",
        "compact",
        _ORDER_FOUR,
        coefficients=_epanechnikov4,
        order=4,
    ),
):
    register_kernel(_kernel)

_BUILT_IN = frozenset(_registry)
