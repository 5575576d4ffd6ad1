"""Bias, variance and head covariance of an ensemble of heads, over replicates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array
from nwsim.exceptions import ParameterError
from nwsim.inference.jackknife import (
    mean_mcse,
    second_moment_mcse,
    squared_bias_mcse,
    warn_single_replicate,
)

# Sums of signed weights (order-4 kernels, spectral engines) leave variances this far below 0.
_ROUNDING = 1e-9
_LARGEST = 1e100


@dataclass(frozen=True)
class Decomposition:
    """Mean squared error and its parts, integrated over the query points.

    All but the counts are in squared units of the response, and
    ``bias2 + variance + head_covariance == mse`` to rounding error.

    Attributes
    ----------
    bias2, bias2_mcse : float
        Corrected squared bias of the ensemble; may be negative, and is then kept.
    variance, variance_mcse : float
        ``sum_k a_k^2 V_k``.
    head_covariance, head_covariance_mcse : float
        ``sum_{k != l} a_k a_l C_kl``; 0 for one head.
    mse, mse_mcse : float
        Mean squared error of the ensemble.
    n_sim, n_heads : int
        Numbers of replicates and of heads.
    """

    bias2: float
    bias2_mcse: float
    variance: float
    variance_mcse: float
    head_covariance: float
    head_covariance_mcse: float
    mse: float
    mse_mcse: float
    n_sim: int
    n_heads: int


def decompose(
    estimates: ArrayLike,
    truth: ArrayLike,
    head_weights: ArrayLike | None = None,
    noise_covariance: ArrayLike | None = None,
    query_weights: ArrayLike | None = None,
) -> Decomposition:
    r"""Split the mean squared error of an ensemble into squared bias, variance, covariance.

    Parameters
    ----------
    estimates : array_like, shape (R, m, H) or (R, m)
        R independent replicates of H heads at m query points (H = 1 if two axes). On the
        *plain* route these are estimates from noisy responses; on the *conditional*
        (Rao-Blackwell) route they are means given the inputs, and `noise_covariance` is
        given.
    truth : array_like, shape (m,)
        The regression function f at the query points.
    head_weights : array_like, shape (H,), optional
        Weights a; default 1/H each. They need not sum to one: the ensemble's bias then
        holds ``(sum a - 1) f`` as well.
    noise_covariance : array_like, shape (m, H, H) or (R, m, H, H), optional
        Covariance of the heads given the inputs, fixed or by replicate, as from
        `conditional_moments`; for H = 1 also (m,) or (R, m).
    query_weights : array_like, shape (m,), optional
        Nonnegative integration weights, normalised here to sum to one; default uniform.

    Returns
    -------
    Decomposition
        For R = 1 only ``mse`` is a number, the rest is NaN, and a
        :class:`~nwsim.exceptions.PrecisionWarning` is given. For R = 2 all of it is finite.

    Raises
    ------
    ParameterError
        On NaN or infinity, an empty array, shapes that do not match, negative query weights
        or a noise covariance that is asymmetric or has a negative diagonal.

    Notes
    -----
    With :math:`g_r(x)` the heads of replicate r, :math:`\hat C` their covariance (ddof 1),
    :math:`\bar N` the mean noise covariance and :math:`\bar e = a'\bar g - f`,

    .. math::
        \text{bias2} &= \int \bar e^2 - a'\hat C a / R, \\
        \text{variance} &= \int \sum_k a_k^2 (\hat C_{kk} + \bar N_{kk}), \\
        \text{head\_covariance} &= \int \sum_{k \neq l} a_k a_l (\hat C_{kl} + \bar N_{kl}), \\
        \text{mse} &= \int R^{-1} \sum_r \{(a'g_r - f)^2 + a'N_r a\},

    the first three unbiased, and adding up to the fourth. bias2 is the square of the *mean*
    head bias, never a mean of squares.

    The MCSEs are over replicates: sd / sqrt(R) for mse, and for the parts the jackknife of
    the same integrated functional, in closed form. The jackknife variance is never too small
    on average (Efron and Stein 1981); where the bias is far below sd / sqrt(R), bias2 is a
    degenerate U-statistic and its MCSE is up to sqrt(2) too large. For R = 2, where the
    jackknife of a second-order part does not exist, normal theory stands in: sd of a
    variance :math:`\sqrt 2\,\hat\sigma^2`, of bias2
    :math:`(2 \bar e^2 \hat\sigma^2 + \hat\sigma^4)^{1/2}`, of a quadratic form t
    :math:`\sqrt 2\,|t|`, each averaged over the query points, which is an upper bound for
    the sd of the average.

    References
    ----------
    Ueda, N. and Nakano, R. (1996). Generalization error of ensemble estimators. Proceedings
    of ICNN'96, 90-95.
    Efron, B. and Stein, C. (1981). The jackknife estimate of variance. Annals of
    Statistics 9, 586-596.
    """
    heads = check_array("estimates", estimates, ndim=(2, 3))
    if heads.ndim == 2:
        heads = heads[:, :, np.newaxis]
    if heads.size == 0:
        raise ParameterError(
            f"estimates must not be empty along any axis; got shape {np.shape(estimates)}"
        )
    n_sim, n_query, n_heads = heads.shape
    for name, array in (("estimates", heads), ("truth", np.asarray(truth, dtype=np.float64))):
        if array.size and np.abs(array).max() > _LARGEST:
            raise ParameterError(f"{name} must be at most {_LARGEST:g}: errors are squared")
    target = _check_shape("truth", check_array("truth", truth, ndim=1), (n_query,))
    weights = _check_head_weights(head_weights, n_heads)
    region = _check_query_weights(query_weights, n_query)
    noise_diagonal, noise_total = _integrate_noise(
        noise_covariance, (n_sim, n_query, n_heads), weights, region
    )

    # Subtracting f from every head first keeps all sums at the size of the errors.
    weighted = heads - target[:, np.newaxis]
    weighted *= weights
    offset = (math.fsum(weights) - 1.0) * target
    errors = weighted.sum(axis=2) + offset
    squared_errors = _integrate(np.square(errors), region) + noise_total
    mse = float(squared_errors.mean())
    if n_sim == 1:
        warn_single_replicate()
        nan = math.nan
        return Decomposition(nan, nan, nan, nan, nan, nan, mse, nan, n_sim, n_heads)

    head_means = weighted.mean(axis=0)
    mean_error = head_means.sum(axis=1) + offset
    weighted -= head_means
    deviations = weighted.sum(axis=2)
    own = np.einsum("rmk,rmk->rm", weighted, weighted)
    total = np.square(deviations)
    shared = total - own  # exactly 0 for one head

    own_r = _integrate(own, region)
    shared_r = _integrate(shared, region)
    total_r = _integrate(total, region)
    noise_shared = noise_total - noise_diagonal
    plug_in = float(_integrate(np.square(mean_error), region))

    if n_sim == 2:
        shared_terms = _integrate(np.abs(shared), region)
        pooled = total.sum(axis=0)
        bias2_mcse = float(
            _integrate(np.sqrt(2.0 * np.square(mean_error) * pooled + np.square(pooled)), region)
        )
    else:
        shared_terms = shared_r
        bias2_mcse = squared_bias_mcse(total_r, _integrate(deviations * mean_error, region))
    return Decomposition(
        bias2=plug_in - float(total_r.sum()) / (n_sim * (n_sim - 1)),
        bias2_mcse=bias2_mcse,
        variance=float(own_r.sum()) / (n_sim - 1) + float(noise_diagonal.mean()),
        variance_mcse=second_moment_mcse(own_r, noise_diagonal),
        head_covariance=float(shared_r.sum()) / (n_sim - 1) + float(noise_shared.mean()),
        head_covariance_mcse=second_moment_mcse(shared_terms, noise_shared),
        mse=mse,
        mse_mcse=mean_mcse(squared_errors),
        n_sim=n_sim,
        n_heads=n_heads,
    )


def _integrate(values: FloatArray, region: FloatArray) -> FloatArray:
    """Weighted mean over the query axis, the last one; no BLAS, so the same bits anywhere."""
    return np.asarray(np.einsum("...m,m->...", values, region))


def _check_shape(name: str, array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    if array.shape != shape:
        raise ParameterError(
            f"{name} must have shape {shape} to match estimates; got {array.shape}"
        )
    return array


def _check_head_weights(head_weights: ArrayLike | None, n_heads: int) -> FloatArray:
    if head_weights is None:
        return np.full(n_heads, 1.0 / n_heads)
    weights = check_array("head_weights", head_weights, ndim=1)
    return _check_shape("head_weights", weights, (n_heads,))


def _check_query_weights(query_weights: ArrayLike | None, n_query: int) -> FloatArray:
    if query_weights is None:
        return np.full(n_query, 1.0 / n_query)
    weights = check_array("query_weights", query_weights, ndim=1)
    _check_shape("query_weights", weights, (n_query,))
    largest = weights.max()
    if weights.min() < 0 or largest == 0:
        raise ParameterError("query_weights must be >= 0 and not all 0")
    weights = weights / largest  # so that their sum cannot overflow
    return np.asarray(weights / weights.sum())


def _integrate_noise(
    noise_covariance: ArrayLike | None,
    shape: tuple[int, int, int],
    weights: FloatArray,
    region: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return per replicate the integrals of ``sum a_k^2 N_kk`` and of ``a' N a``."""
    n_sim, n_query, n_heads = shape
    if noise_covariance is None:
        return np.zeros(n_sim), np.zeros(n_sim)
    short = (1, 2) if n_heads == 1 else ()
    noise = check_array("noise_covariance", noise_covariance, ndim=(*short, 3, 4))
    if noise.ndim <= 2:
        noise = noise[..., np.newaxis, np.newaxis]
    fixed = (n_query, n_heads, n_heads)
    if noise.shape not in (fixed, (n_sim, *fixed)):
        raise ParameterError(
            f"noise_covariance must have shape {fixed} or {(n_sim, *fixed)} to match "
            f"estimates; got {np.shape(noise_covariance)}"
        )
    diagonal = np.einsum("...kk->...k", noise)
    slack = _ROUNDING * max(float(noise.max()), -float(noise.min()))
    if diagonal.min() < -slack:
        raise ParameterError("noise_covariance must have a diagonal >= 0")
    for k in range(n_heads):
        for other in range(k):
            if np.abs(noise[..., k, other] - noise[..., other, k]).max() > slack:
                raise ParameterError("noise_covariance must be symmetric in its last two axes")
    own = np.einsum("...k,k->...", diagonal, np.square(weights))
    full = np.einsum("...l,l->...", np.einsum("...kl,k->...l", noise, weights), weights)
    full = own if n_heads == 1 else full
    return (
        np.broadcast_to(_integrate(own, region), (n_sim,)),
        np.broadcast_to(_integrate(full, region), (n_sim,)),
    )
