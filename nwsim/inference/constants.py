"""What asymptotic theory says about kernel regression: constants and exponents.

`mu2` and `roughness` are those of the normalised kernel on R^d: with a radial kernel
``int u u' K(u) du = mu2 I`` and ``roughness = int K(u)^2 du``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_integer, check_real
from nwsim.exceptions import ParameterError


def asymptotic_bias(
    bandwidth: float,
    mu2: float,
    laplacian: ArrayLike,
    gradient: ArrayLike | None = None,
    score: ArrayLike | None = None,
) -> FloatArray:
    """Leading term of the bias of Nadaraya-Watson at interior points, order-2 kernel.

    Parameters
    ----------
    bandwidth : float
        h > 0, in the unit of the inputs.
    mu2 : float
        Second moment of the kernel, >= 0.
    laplacian : array_like, shape (m,)
        Laplacian of the regression function at the points.
    gradient, score : array_like, shape (m, d), optional
        Gradients of the regression function and of the log density of the inputs. Both or
        neither: without them the design term is left out, which is right for a uniform
        design and for the local linear estimator.

    Returns
    -------
    ndarray, shape (m,)
        ``h^2 mu2 / 2 (laplacian + 2 <gradient, score>)``, in the unit of the response.

    Raises
    ------
    ParameterError
        On bad numbers, shapes that differ, or one of gradient and score alone.

    References
    ----------
    Ruppert, D. and Wand, M. P. (1994). Multivariate locally weighted least squares
    regression. Annals of Statistics 22, 1346-1370.
    Wand, M. P. and Jones, M. C. (1995). Kernel Smoothing, section 5.4. Chapman and Hall.
    """
    h = check_real("bandwidth", bandwidth, above=0.0)
    moment = check_real("mu2", mu2, minimum=0.0)
    curvature = check_array("laplacian", laplacian, ndim=1)
    if (gradient is None) != (score is None):
        raise ParameterError("gradient and score must be given together or not at all")
    if gradient is not None and score is not None:
        slopes = check_array("gradient", gradient, ndim=2)
        scores = check_array("score", score, ndim=2)
        if slopes.shape != scores.shape or slopes.shape[0] != curvature.shape[0]:
            raise ParameterError(
                f"gradient and score must have one shape (m, d) with m = {curvature.shape[0]}; "
                f"got {slopes.shape} and {scores.shape}"
            )
        curvature = curvature + 2.0 * np.einsum("md,md->m", slopes, scores)
    return np.asarray(0.5 * h * h * moment * curvature)


def asymptotic_variance(
    noise_variance: ArrayLike,
    roughness: float,
    n_obs: int,
    bandwidth: float,
    dim: int,
    density: ArrayLike,
) -> FloatArray:
    """Leading term of the variance of Nadaraya-Watson and local linear at interior points.

    Parameters
    ----------
    noise_variance : float or array_like, shape (m,)
        Noise variance s(x)^2 >= 0 at the points.
    roughness : float
        ``int K^2`` over R^d, > 0.
    n_obs, dim : int
        Sample size n and input dimension d, >= 1.
    bandwidth : float
        h > 0, in the unit of the inputs.
    density : float or array_like, shape (m,)
        Density of the inputs at the points, > 0.

    Returns
    -------
    ndarray, shape of the broadcast of noise_variance and density
        ``s^2 roughness / (n h^d density)``, in squared units of the response.

    Raises
    ------
    ParameterError
        On numbers outside these ranges or shapes that do not broadcast.

    References
    ----------
    Ruppert, D. and Wand, M. P. (1994). Multivariate locally weighted least squares
    regression. Annals of Statistics 22, 1346-1370.
    """
    variances = check_array("noise_variance", noise_variance, ndim=(0, 1))
    densities = check_array("density", density, ndim=(0, 1))
    n_obs = check_integer("n_obs", n_obs, minimum=1)
    dim = check_integer("dim", dim, minimum=1)
    h = check_real("bandwidth", bandwidth, above=0.0)
    constant = check_real("roughness", roughness, above=0.0)
    if variances.size == 0 or variances.min() < 0:
        raise ParameterError("noise_variance must be >= 0 and not empty")
    if densities.size == 0 or densities.min() <= 0:
        raise ParameterError("density must be > 0 and not empty")
    if densities.size not in (1, variances.size) and variances.size != 1:
        raise ParameterError(
            f"noise_variance and density must have one length; got {variances.size} and "
            f"{densities.size}"
        )
    shape = np.broadcast_shapes(np.shape(noise_variance), np.shape(density))
    return np.reshape(variances * constant / (n_obs * h**dim * densities), shape)


def optimal_bandwidth(
    squared_bias_constant: float, variance_constant: float, n_obs: int, dim: int, order: int = 2
) -> float:
    """Bandwidth that minimises the asymptotic mean (integrated) squared error.

    Parameters
    ----------
    squared_bias_constant : float
        B > 0 with squared bias ``B h^(2 order)``; for order 2 the (integrated) square of
        ``mu2/2 (laplacian + 2 <gradient, score>)``.
    variance_constant : float
        V > 0 with variance ``V / (n h^d)``; the (integrated) ``s^2 roughness / density``.
    n_obs, dim : int
        Sample size and input dimension, >= 1.
    order : int, default 2
        Order of the kernel, even and >= 2.

    Returns
    -------
    float
        ``(d V / (2 order B n))^(1 / (2 order + d))``, in the unit of the inputs.

    Raises
    ------
    ParameterError
        On numbers outside these ranges (B = 0 has no finite optimum).

    References
    ----------
    Wand, M. P. and Jones, M. C. (1995). Kernel Smoothing, sections 2.5 and 2.8. Chapman and
    Hall.
    """
    bias2 = check_real("squared_bias_constant", squared_bias_constant, above=0.0)
    variance = check_real("variance_constant", variance_constant, above=0.0)
    n_obs = check_integer("n_obs", n_obs, minimum=1)
    dim = check_integer("dim", dim, minimum=1)
    order = _check_order(order)
    exponent = 1.0 / (2 * order + dim)
    return math.pow(dim * variance / (2 * order * bias2 * n_obs), exponent)


def rate_exponent(alpha: float, dim: int) -> float:
    """Minimax exponent of n in the mean squared error over a Hölder class.

    Parameters
    ----------
    alpha : float
        Hölder exponent > 0.
    dim : int
        Input dimension d >= 1.

    Returns
    -------
    float
        ``-2 alpha / (2 alpha + d)``.

    Raises
    ------
    ParameterError
        On numbers outside these ranges.

    References
    ----------
    Stone, C. J. (1982). Optimal global rates of convergence for nonparametric regression.
    Annals of Statistics 10, 1040-1053.
    Tsybakov, A. B. (2009). Introduction to Nonparametric Estimation, section 1.6. Springer.
    """
    alpha = check_real("alpha", alpha, above=0.0)
    dim = check_integer("dim", dim, minimum=1)
    return -2.0 * alpha / (2.0 * alpha + dim)


@dataclass(frozen=True)
class RateExponents:
    """Exponents of n as ``n^exponent``.

    Attributes
    ----------
    bandwidth : float
        Of the bandwidth; negative.
    bias2, variance : float
        Of the integrated squared bias and variance.
    mse : float
        Of their sum: the larger of the two, which decays more slowly.
    """

    bandwidth: float
    bias2: float
    variance: float
    mse: float


def rate_exponents(
    alpha: float,
    dim: int,
    *,
    order: int = 2,
    boundary: bool = False,
    bandwidth_exponent: float | None = None,
) -> RateExponents:
    """Exponents that one kernel, bandwidth rule and region of integration reach.

    Parameters
    ----------
    alpha : float
        Hölder exponent of the regression function, > 0, at every point of the region.
    dim : int
        Input dimension d >= 1.
    order : int, default 2
        Order of the kernel, even and >= 2; 2 for a nonnegative kernel.
    boundary : bool, default False
        Whether the region holds the boundary of the design, for Nadaraya-Watson with a
        density bounded away from 0 there. Local linear has no such effect.
    bandwidth_exponent : float, optional
        b in (-1/d, 0) for ``h ~ n^b``; default ``-1 / (2 alpha + d)``, the theorem's. The
        kernel's own best rule is ``-1 / (2 min(alpha, order) + d)`` in the interior.

    Returns
    -------
    RateExponents

    Raises
    ------
    ParameterError
        On numbers outside these ranges.

    Notes
    -----
    The squared bias is ``h^(2 min(alpha, order))`` in the interior (saturation: smoothness
    beyond the order is not used). Within h of the boundary the bias of Nadaraya-Watson is
    only ``h^min(alpha, 1)``, and that layer has volume h, which adds
    ``h^(2 min(alpha, 1) + 1)``: the larger term once alpha > 3/2, unless the normal
    derivative vanishes there. The variance is ``1 / (n h^d)``.

    References
    ----------
    Tsybakov, A. B. (2009). Introduction to Nonparametric Estimation, sections 1.2 and 1.6.
    Wand, M. P. and Jones, M. C. (1995). Kernel Smoothing, sections 2.8, 2.11 and 5.5.
    """
    alpha = check_real("alpha", alpha, above=0.0)
    dim = check_integer("dim", dim, minimum=1)
    used = min(alpha, float(_check_order(order)))
    if bandwidth_exponent is None:
        power = -1.0 / (2.0 * alpha + dim)
    else:
        power = check_real("bandwidth_exponent", bandwidth_exponent, above=-1.0 / dim)
        if power >= 0:
            raise ParameterError(f"bandwidth_exponent must be < 0; got {bandwidth_exponent!r}")
    in_h = min(2.0 * used, 2.0 * min(alpha, 1.0) + 1.0) if boundary else 2.0 * used
    bias2 = in_h * power
    variance = -1.0 - dim * power
    return RateExponents(power, bias2, variance, max(bias2, variance))


def _check_order(order: int) -> int:
    order = check_integer("order", order, minimum=2)
    if order % 2:
        raise ParameterError(f"order must be even (a symmetric kernel); got {order}")
    return order
