"""Least-squares weights of heads, chosen on some points and scored on others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from nwsim._typing import ArrayLike, BoolArray, FloatArray
from nwsim._validation import check_array, check_integer
from nwsim.exceptions import ParameterError
from nwsim.heads.optimal import error_moments, optimal_weights
from nwsim.heads.projections import check_rng


def _check(predictions: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    columns = check_array("predictions", predictions, ndim=2)
    response = check_array("y", y, ndim=1)
    if len(columns) != len(response) or columns.shape[1] == 0:
        raise ParameterError(
            f"predictions must have shape ({len(response)}, H), H >= 1; got {columns.shape}"
        )
    return columns, response


def stacking_weights(
    predictions: ArrayLike, y: ArrayLike, *, nonnegative: bool = True, sum_to_one: bool = True
) -> FloatArray:
    """Return least-squares weights of heads.

    Parameters
    ----------
    predictions : array_like, shape (n, H)
        Predictions of each head at n points whose responses the heads have not seen.
    y : array_like, shape (n,)
        Responses there.
    nonnegative, sum_to_one : bool, default True
        Constraints; Breiman recommends the first.

    Returns
    -------
    ndarray, shape (H,)
        Of several solutions without constraints, the least-norm one; else as
        `optimal_weights`.

    Raises
    ------
    ParameterError
        For non-finite values or lengths that differ.

    References
    ----------
    L. Breiman (1996), Stacked regressions, *Machine Learning* 24, 49-64.
    """
    columns, response = _check(predictions, y)
    if sum_to_one:
        moments = error_moments(columns - response[:, None])
        return optimal_weights(moments, nonnegative=nonnegative).weights
    if nonnegative:
        return nnls(columns, response, maxiter=max(100, 30 * columns.shape[1]))[0]
    solution = np.asarray(np.linalg.lstsq(columns, response)[0], dtype=np.float64)
    return solution


@dataclass(frozen=True, eq=False)
class HeldOutStacking:
    """Stacking weights chosen on some points and scored on the others.

    Attributes
    ----------
    weights : ndarray, shape (H,)
        Chosen weights.
    chosen_mse : float
        Mean squared error where they were chosen: flattered.
    held_out_mse : float
        On the other points.
    uniform_mse : float
        Of uniform weights on the other points.
    best_head : int
        Head with the least error where weights were chosen.
    best_head_mse : float
        Its error on the other points.
    n_chosen, n_held_out : int
        Numbers of points.
    """

    weights: FloatArray
    chosen_mse: float
    held_out_mse: float
    uniform_mse: float
    best_head: int
    best_head_mse: float
    n_chosen: int
    n_held_out: int


def half_split(n_obs: int, rng: np.random.Generator) -> BoolArray:
    """Draw which points choose and which score.

    Parameters
    ----------
    n_obs : int
        Number of points, at least 2.
    rng : numpy.random.Generator
        Source of one permutation.

    Returns
    -------
    ndarray of bool, shape (n_obs,)
        True for the ``n_obs // 2`` points that choose.
    """
    n_obs = check_integer("n_obs", n_obs, minimum=2)
    chosen = np.zeros(n_obs, dtype=np.bool_)
    chosen[check_rng(rng).permutation(n_obs)[: n_obs // 2]] = True
    return chosen


def held_out_stacking(
    predictions: ArrayLike,
    y: ArrayLike,
    chosen: ArrayLike,
    *,
    nonnegative: bool = True,
    sum_to_one: bool = True,
) -> HeldOutStacking:
    """Choose stacking weights on some points and score them on the others.

    Parameters
    ----------
    predictions : array_like, shape (n, H)
        Predictions of each head at n points whose responses the heads have not seen.
    y : array_like, shape (n,)
        Responses there, or the regression function.
    chosen : array_like of bool, shape (n,)
        True where weights are chosen, False where they are scored; both must occur. Points
        that share noise belong on one side. See `half_split`.
    nonnegative, sum_to_one : bool, default True
        As in `stacking_weights`.

    Returns
    -------
    HeldOutStacking

    Raises
    ------
    ParameterError
        As `stacking_weights`; if `chosen` is not boolean, has another length, or leaves a side
        empty.

    References
    ----------
    L. Breiman (1996), Stacked regressions, *Machine Learning* 24, 49-64.
    """
    columns, response = _check(predictions, y)
    mask = np.asarray(chosen)
    if mask.dtype != np.bool_ or mask.shape != response.shape:
        raise ParameterError(
            f"chosen must be a boolean array of shape {response.shape}; "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    if mask.all() or not mask.any():
        raise ParameterError("chosen must leave points to choose on and points to score on")
    weights = stacking_weights(
        columns[mask], response[mask], nonnegative=nonnegative, sum_to_one=sum_to_one
    )
    best = int(((columns[mask] - response[mask, None]) ** 2).mean(axis=0).argmin())

    def mse(prediction: FloatArray, where: BoolArray) -> float:
        return float(((prediction - response)[where] ** 2).mean())

    return HeldOutStacking(
        weights=weights,
        chosen_mse=mse(columns @ weights, mask),
        held_out_mse=mse(columns @ weights, ~mask),
        uniform_mse=mse(columns.mean(axis=1), ~mask),
        best_head=best,
        best_head_mse=mse(columns[:, best], ~mask),
        n_chosen=int(mask.sum()),
        n_held_out=int((~mask).sum()),
    )
