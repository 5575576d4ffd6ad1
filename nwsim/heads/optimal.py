"""Weights that minimise the mean squared error of an ensemble, with a proof of optimality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import nnls

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array
from nwsim.exceptions import ParameterError
from nwsim.heads.angles import check_semidefinite
from nwsim.heads.weights import check_head_weights

# Eigenvalues below this part of the largest are zero: some thousand roundings.
_SINGULAR_TOL = 1e-12


@dataclass(frozen=True, eq=False)
class OptimalWeights:
    """Solution of ``min a'Ma, sum a = 1``, and how far it can be from the optimum.

    Attributes
    ----------
    weights : ndarray, shape (H,)
        The minimiser a.
    value : float
        ``a'Ma``.
    kkt : float
        Largest violation of the Karush-Kuhn-Tucker conditions, over the largest entry of M:
        free weights need ``(Ma)_k = a'Ma`` for all k, nonnegative ones that where a_k > 0 and
        ``(Ma)_k >= a'Ma`` elsewhere. If all is well, of the size of rounding in a'Ma:
        ``(sum |a|)^2`` times the machine's precision.
    gap : float
        For nonnegative weights ``2 (a'Ma - min_k (Ma)_k)``, which bounds `value` minus the
        optimum (duality gap, in units of M); NaN for free weights.
    nonnegative : bool
        Whether weights were kept nonnegative.
    unique : bool
        Whether M is regular enough to decide the minimiser; if not, there may be others, and
        `optimal_weights` says which one is taken.
    """

    weights: FloatArray
    value: float
    kkt: float
    gap: float
    nonnegative: bool
    unique: bool


def error_moments(errors: ArrayLike, noise_covariance: ArrayLike | None = None) -> FloatArray:
    """Return the second-moment matrix M of the errors of heads.

    Parameters
    ----------
    errors : array_like, shape (..., H)
        Estimates minus truth by replicate and query point; on the conditional route the
        conditional biases.
    noise_covariance : array_like, shape (..., H, H), optional
        Conditional noise covariance that belongs to the errors, same leading axes.

    Returns
    -------
    ndarray, shape (H, H)
        Mean of ``e e' + N`` over all leading axes: ``a'Ma`` is the mean squared error under
        weights a that sum to one. Positive semidefinite always, as a corrected squared bias
        would not be.

    Raises
    ------
    ParameterError
        For non-finite input or shapes that do not match.
    """
    array = check_array("errors", errors, ndim=tuple(range(1, 9)))
    if array.size == 0:
        raise ParameterError(f"errors must not be empty; got shape {array.shape}")
    rows = array.reshape(-1, array.shape[-1])
    moments = rows.T @ rows / len(rows)
    if noise_covariance is not None:
        noise = check_array("noise_covariance", noise_covariance, ndim=array.ndim + 1)
        if noise.shape != (*array.shape, array.shape[-1]):
            raise ParameterError(
                f"noise_covariance must have shape {(*array.shape, array.shape[-1])}; "
                f"got {noise.shape}"
            )
        moments += noise.reshape(-1, *moments.shape).mean(axis=0)
    return 0.5 * (moments + moments.T)


def optimal_weights(moments: ArrayLike, *, nonnegative: bool = True) -> OptimalWeights:
    """Minimise ``a'Ma`` over weights that sum to one.

    Parameters
    ----------
    moments : array_like, shape (H, H)
        Second moments M of the errors of heads, symmetric positive semidefinite, as from
        `error_moments`.
    nonnegative : bool, default True
        Whether to ask for ``a >= 0``.

    Returns
    -------
    OptimalWeights

    Raises
    ------
    ParameterError
        If M is not square, finite, symmetric and positive semidefinite.

    Notes
    -----
    *Free weights.* With Z an orthonormal basis of the vectors that sum to zero,
    ``a = 1/H - Z (Z'MZ)^+ Z'M 1/H``; for regular M this is ``M^-1 1 / 1'M^-1 1``. No ridge is
    added. Eigenvalues of Z'MZ below 1e-12 of the largest of M count as zero; the pseudo-inverse
    then picks, of all minimisers, the one with the least ``sum a^2``: heads that cannot be told
    apart share equally.

    *Nonnegative weights.* With ``M = L'L``, every nonnegative b is ``s a`` with a on the simplex,
    and ``|Lb|^2 + (sum b - 1)^2 = s^2 a'Ma + (s-1)^2`` is least at ``s = 1/(1 + a'Ma)`` with value
    ``a'Ma / (1 + a'Ma)``, increasing in ``a'Ma``. The nonnegative least-squares solution, scaled
    to sum one, is therefore the exact optimum; no penalty is involved. Where several are
    optimal, the least-norm one on the heads with ``(Ma)_k = a'Ma`` is taken if it is
    nonnegative.

    References
    ----------
    C. L. Lawson, R. J. Hanson (1974), *Solving Least Squares Problems*, ch. 23 (the solver,
    `scipy.optimize.nnls`). P. Wolfe (1976), Finding the nearest point in a polytope, *Math.
    Program.* 11, 128-149 (the problem).
    """
    matrix = check_semidefinite("moments", moments)
    scale = float(np.abs(matrix).max())
    if scale == 0.0:
        # Perfect heads: every choice is optimal.
        n_heads = len(matrix)
        return OptimalWeights(
            np.full(n_heads, 1.0 / n_heads), 0.0, 0.0, 0.0, nonnegative, unique=n_heads == 1
        )
    scaled = matrix / scale
    weights, unique = _free(scaled)
    if nonnegative and weights.min() < 0.0:
        weights, unique = _on_simplex(scaled)
    violation, gap = _optimality(scaled, weights, nonnegative)
    # M is semidefinite; huge weights of opposite sign can round below.
    value = max(0.0, float(weights @ matrix @ weights))
    return OptimalWeights(weights, value, violation, scale * gap, nonnegative, unique)


def _free(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return the least-norm minimiser with sum one, and whether it is the only one."""
    size = len(matrix)
    centre = np.full(size, 1.0 / size)
    if size == 1:
        return centre, True
    contrasts = helmert(size).T
    values, vectors = np.linalg.eigh(contrasts.T @ matrix @ contrasts)
    kept = values > _SINGULAR_TOL * np.linalg.norm(matrix, ord=2)
    basis = vectors[:, kept]
    step = basis @ ((basis.T @ (contrasts.T @ (matrix @ centre))) / values[kept])
    weights = centre - contrasts @ step
    return weights / weights.sum(), bool(kept.all())


def _on_simplex(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return a minimiser on the simplex by nonnegative least squares, polished on its support."""
    values, vectors = np.linalg.eigh(matrix)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    size = len(matrix)
    target = np.append(np.zeros(size), 1.0)
    found, _ = nnls(np.vstack([root, np.ones(size)]), target, maxiter=max(100, 30 * size))
    weights = found / found.sum()
    reduced = matrix @ weights - weights @ matrix @ weights
    best = _optimality(matrix, weights, True)[0]
    # First the heads that could join without loss, for the least norm; then those in use.
    rounding = 16.0 * size * np.finfo(np.float64).eps
    ties = reduced <= rounding
    joint = ties | (weights > 0.0)
    unique = _free(matrix[np.ix_(joint, joint)])[1]
    for support in (joint, weights > 0.0):
        candidate = np.zeros(size)
        candidate[support] = _free(matrix[np.ix_(support, support)])[0]
        violation = _optimality(matrix, candidate, True)[0]
        if candidate.min() >= 0.0 and violation <= max(best, rounding):
            return candidate, unique
    return weights, unique


def _optimality(matrix: FloatArray, weights: FloatArray, nonnegative: bool) -> tuple[float, float]:
    """Return the largest violation of the optimality conditions and the duality gap."""
    gradient = matrix @ weights
    reduced = gradient - weights @ gradient
    if not nonnegative:
        return float(np.abs(reduced).max()), float("nan")
    used = weights > 0.0
    violation = max(float(np.abs(reduced[used]).max()), float(-reduced.min()), 0.0)
    return violation, max(0.0, -2.0 * float(reduced.min()))


@dataclass(frozen=True)
class WeightScore:
    """Mean squared error of weights where they were not chosen.

    Attributes
    ----------
    mse : float
        ``a'Ma`` under the scoring moments.
    optimum : float
        The least value that weights of the same kind reach there.
    regret : float
        ``mse - optimum``, at least 0 up to rounding.
    relative_regret : float
        ``mse / optimum - 1``; NaN if the optimum is 0 to rounding.
    """

    mse: float
    optimum: float
    regret: float
    relative_regret: float


def score_weights(
    weights: ArrayLike, moments: ArrayLike, *, nonnegative: bool = True
) -> WeightScore:
    """Score weights on moments of replicates that did not choose them.

    Parameters
    ----------
    weights : array_like, shape (H,)
        Weights that sum to one.
    moments : array_like, shape (H, H)
        `error_moments` of the scoring replicates.
    nonnegative : bool, default True
        Whether the optimum to compare with is kept nonnegative.

    Returns
    -------
    WeightScore

    Raises
    ------
    ParameterError
        As `optimal_weights`; if weights do not sum to one or, with `nonnegative`, one is
        negative.
    """
    best = optimal_weights(moments, nonnegative=nonnegative)
    chosen = check_head_weights(weights, len(best.weights), name="weights")
    if nonnegative and chosen.min() < 0.0:
        raise ParameterError("weights must be >= 0 against a nonnegative optimum")
    mse = float(chosen @ np.asarray(moments, dtype=np.float64) @ chosen)
    rounding = 16.0 * len(chosen) * np.finfo(np.float64).eps * np.abs(moments).max()
    relative = mse / best.value - 1.0 if best.value > rounding else float("nan")
    return WeightScore(mse, best.value, mse - best.value, relative)
