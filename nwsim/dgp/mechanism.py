"""A data-generating mechanism and the samples it draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_array, check_integer, check_same_length
from nwsim.dgp.designs import Design
from nwsim.dgp.functions.base import RegressionFunction, read_only
from nwsim.dgp.noise import Noise
from nwsim.exceptions import ParameterError


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample; its arrays are read-only copies.

    Parameters
    ----------
    X : (n, d) array
        Inputs.
    f : (n,) array
        Regression function at X.
    y : (n,) array
        Responses, f plus noise.
    noise_variance : (n,) array
        s(X)^2, at least 0.

    Raises
    ------
    ParameterError
        For NaN or infinity, wrong axes, or lengths that differ.
    """

    X: FloatArray
    f: FloatArray
    y: FloatArray
    noise_variance: FloatArray

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        for name, axes in (("X", 2), ("f", 1), ("y", 1), ("noise_variance", 1)):
            array = check_array(name, getattr(self, name), ndim=axes)
            object.__setattr__(self, name, read_only(array))
        check_same_length(X=self.X, f=self.f, y=self.y, noise_variance=self.noise_variance)
        if (self.noise_variance < 0.0).any():
            raise ParameterError("noise_variance must be at least 0 everywhere")

    @property
    def n_obs(self) -> int:
        """Number of observations."""
        return int(self.X.shape[0])

    @property
    def dim(self) -> int:
        """Input dimension."""
        return int(self.X.shape[1])


@dataclass(frozen=True, eq=False)
class Mechanism:
    """``X ~ design, y = f(X) + noise``.

    Parameters
    ----------
    regression_function : RegressionFunction
        f, already drawn from its world: it stays the same over the samples.
    design : Design
        Law of X, of the same dimension. A design on the torus needs a periodic f.
    noise : Noise
        Law of y - f(X) given X.

    Raises
    ------
    ParameterError
        For a part of the wrong kind, or parts that do not fit each other.
    """

    regression_function: RegressionFunction
    design: Design
    noise: Noise

    def __post_init__(self) -> None:
        """Check the fields and put them in plain form."""
        parts = {"regression_function": RegressionFunction, "design": Design, "noise": Noise}
        for name, kind in parts.items():
            if not isinstance(getattr(self, name), kind):
                raise ParameterError(
                    f"{name} must be a {kind.__name__}; got {type(getattr(self, name)).__name__}"
                )
        if self.regression_function.dim != self.design.dim:
            raise ParameterError(
                f"design must have the dim of the regression function, "
                f"{self.regression_function.dim}; got {self.design.dim}"
            )
        if self.design.domain == "torus" and self.regression_function.domain != "torus":
            raise ParameterError(
                "design must not be on the torus: the regression function is not periodic "
                "(make its world with domain='torus')"
            )

    def draw(self, rng: np.random.Generator, n_obs: int) -> Sample:
        """Return a sample of n_obs observations: inputs are drawn first, then noise."""
        n_obs = check_integer("n_obs", n_obs, minimum=1)
        X = self.design.draw(rng, n_obs)
        values = self.regression_function(X)
        return Sample(
            X=X,
            f=values,
            y=values + self.noise.draw(rng, X),
            noise_variance=self.noise.variance(X),
        )
