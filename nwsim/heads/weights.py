"""Weights of heads that follow from a rule: equal, geometric, Fibonacci, inverse variance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_integer, check_real
from nwsim.exceptions import ParameterError

_SUM_TOL = 1e-8

FIBONACCI_FLOOR = math.sqrt(5.0) - 2.0
"""Limit of ``sum a^2`` of Fibonacci weights, ``geometric_floor`` at the inverse golden ratio."""


def check_head_weights(
    weights: Any, n_heads: int, *, sum_to_one: bool = True, name: str = "head_weights"
) -> FloatArray:
    """Return the weights of heads as an array.

    Parameters
    ----------
    weights : "uniform" or array_like, shape (H,)
        One finite weight a head, of any sign.
    n_heads : int
        Number of heads H.
    sum_to_one : bool, default True
        Whether they must sum to one, within 1e-8 of ``sum |a|``.
    name : str
        What errors call the argument.

    Returns
    -------
    ndarray, shape (H,)

    Raises
    ------
    ParameterError
        For another word, a wrong number of weights, NaN, or a sum that is not one.
    """
    if isinstance(weights, str):
        if weights != "uniform":
            raise ParameterError(f"{name} must be 'uniform' or an array (H,); got {weights!r}")
        return uniform_weights(n_heads)
    array = check_array(name, weights, ndim=1)
    if array.shape[0] != n_heads:
        raise ParameterError(f"{name} must have one weight a head: {n_heads}; got {len(array)}")
    total = float(array.sum())
    if sum_to_one and abs(total - 1.0) > _SUM_TOL * max(1.0, float(np.abs(array).sum())):
        raise ParameterError(f"{name} must sum to 1; they sum to {total!r}")
    return array


def uniform_weights(n_heads: int) -> FloatArray:
    """Return 1/H for each of H heads."""
    n_heads = check_integer("n_heads", n_heads, minimum=1)
    return np.full(n_heads, 1.0 / n_heads)


def geometric_weights(n_heads: int, rho: float) -> FloatArray:
    """Return weights proportional to ``rho^k``, k = 0…H-1, that sum to one.

    Parameters
    ----------
    n_heads : int
        Number of heads H, best first.
    rho : float
        Ratio in (0, 1]; 1 gives uniform weights.

    Returns
    -------
    ndarray, shape (H,)
        Their ``sum a^2`` is ``(1-rho)(1+rho^H) / ((1+rho)(1-rho^H))``, see `geometric_floor`.

    Raises
    ------
    ParameterError
        For `rho` outside (0, 1].
    """
    n_heads = check_integer("n_heads", n_heads, minimum=1)
    rho = check_real("rho", rho, above=0.0, maximum=1.0)
    powers = rho ** np.arange(n_heads)
    return powers / powers.sum()


def fibonacci_weights(n_heads: int) -> FloatArray:
    """Return weights proportional to Fibonacci numbers, largest first, that sum to one.

    Parameters
    ----------
    n_heads : int
        Number of heads H, best first: weights ``F_H, …, F_2, F_1`` over ``F_(H+2) - 1``.

    Returns
    -------
    ndarray, shape (H,)
    """
    n_heads = check_integer("n_heads", n_heads, minimum=1)
    golden = (1.0 + math.sqrt(5.0)) / 2.0
    order = np.arange(n_heads, 0, -1)
    # Binet's formula over golden^H, which no number of heads overflows.
    scaled = golden ** (order - n_heads) * (1.0 - (-1.0 / golden**2) ** order)
    return scaled / scaled.sum()


def inverse_variance_weights(variances: ArrayLike) -> FloatArray:
    """Return weights proportional to ``1/V_k`` that sum to one.

    Parameters
    ----------
    variances : array_like, shape (H,)
        Positive variances, or mean squared errors, of heads.

    Returns
    -------
    ndarray, shape (H,)
        Optimal for uncorrelated heads; correlations are ignored.

    Raises
    ------
    ParameterError
        If a variance is not positive and finite.
    """
    array = check_array("variances", variances, ndim=1)
    if array.min() <= 0.0:
        raise ParameterError("variances must be > 0: a head without variance would take all")
    precision = array.min() / array
    return precision / precision.sum()


def order_weights(weights: ArrayLike, losses: ArrayLike) -> FloatArray:
    """Hand weights out by quality: the largest to the head with the smallest loss.

    Parameters
    ----------
    weights : array_like, shape (H,)
        A profile, as from `geometric_weights`, in any order.
    losses : array_like, shape (H,)
        Loss of each head, from replicates that do not score the result.

    Returns
    -------
    ndarray, shape (H,)
        The same weights in the order of the heads; tied heads keep their order.

    Raises
    ------
    ParameterError
        If lengths differ or a value is not finite.
    """
    profile = check_array("weights", weights, ndim=1)
    scores = check_array("losses", losses, ndim=1)
    if len(profile) != len(scores):
        raise ParameterError(
            f"losses must have one entry a weight: {len(profile)}; got {len(scores)}"
        )
    ordered = np.empty_like(profile)
    ordered[np.argsort(scores, kind="stable")] = np.sort(profile)[::-1]
    return ordered


def sum_of_squares(weights: ArrayLike) -> float:
    """Return ``sum a^2``: variance of the ensemble over that of one of H uncorrelated heads."""
    return float((check_array("weights", weights, ndim=1) ** 2).sum())


def geometric_floor(rho: float) -> float:
    """Return ``(1-rho)/(1+rho)``, below which ``sum a^2`` of geometric weights never falls.

    Parameters
    ----------
    rho : float
        Ratio in (0, 1].

    Returns
    -------
    float
        The limit for many heads, where uniform weights reach 0.

    Raises
    ------
    ParameterError
        For `rho` outside (0, 1].
    """
    rho = check_real("rho", rho, above=0.0, maximum=1.0)
    return (1.0 - rho) / (1.0 + rho)
