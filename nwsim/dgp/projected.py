"""What a projected head can know of a function: its mean given the projection.

No sample size removes the rest, so this is the floor under the bias of a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array
from nwsim.dgp.domains import as_points
from nwsim.dgp.functions.base import RegressionFunction
from nwsim.dgp.functions.composite import AdditiveFunction, SingleIndexFunction
from nwsim.dgp.functions.wave import SINUSOID, TURN, WaveSum
from nwsim.exceptions import ParameterError
from nwsim.heads import orthonormal_bases
from nwsim.numerics.waves import wave_sum


class _Waves(NamedTuple):
    """``constant + sum_k weights_k cos(2 pi (<frequencies_k, x> + phases_k))``."""

    frequencies: FloatArray  # (k, d)
    phases: FloatArray  # (k,)
    weights: FloatArray  # (k,)
    constant: float


def projected_mean(
    function: RegressionFunction, frame: ArrayLike, covariance: ArrayLike, X: ArrayLike
) -> FloatArray:
    r"""Return ``E[f(Z) | P'Z = P'x]`` for Z ~ N(0, covariance), in closed form.

    Parameters
    ----------
    function : RegressionFunction
        A sum of sinusoids ("matern", "lacunary", "analytic"), or an additive or single-index
        function made of such sums.
    frame : array_like, shape (d, d_k)
        P, with independent columns.
    covariance : array_like, shape (d, d)
        Covariance S of the inputs, symmetric and positive definite.
    X : array_like, shape (m, d)
        Points x.

    Returns
    -------
    ndarray, shape (m,)

    Raises
    ------
    ParameterError
        If the function is none of these, or an array does not fit it.

    Notes
    -----
    Given ``P'Z = P'x``, Z is normal with mean ``M x``, ``M = S P (P'SP)^{-1} P'``, and
    covariance ``S - M S``. With :math:`\omega = 2 \pi u` the characteristic function of the
    normal law gives, for each wave,

    .. math::
        E[\cos(\omega'Z + \phi) \mid P'Z = P'x]
            = \exp\{-\tfrac12 \omega'(S - MS)\omega\} \cos(\omega'Mx + \phi).

    References
    ----------
    Anderson, T. W. (2003). An Introduction to Multivariate Statistical Analysis, theorem
    2.5.1 (conditional law) and section 2.6 (characteristic function). Wiley.
    """
    waves = _as_waves(function)
    dim = function.dim
    points = as_points(X, dim)
    P = check_array("frame", frame, ndim=2)
    S = check_array("covariance", covariance, ndim=2)
    if P.shape[0] != dim or not 1 <= P.shape[1] <= dim:
        raise ParameterError(
            f"frame must have {dim} rows, the dimension of function, and 1 to {dim} columns; "
            f"got shape {P.shape}"
        )
    if S.shape != (dim, dim) or not np.allclose(S, S.T, rtol=1e-12, atol=1e-12 * np.abs(S).max()):
        raise ParameterError(f"covariance must be symmetric of shape {(dim, dim)}; got {S.shape}")
    if np.linalg.eigvalsh(S)[0] <= 0.0:
        raise ParameterError("covariance must be positive definite")
    # The answer depends on the range alone, and an orthonormal basis of it loses no digits.
    try:
        (basis,) = orthonormal_bases([P])
    except ParameterError:
        raise ParameterError("frame must have linearly independent columns") from None
    M = S @ basis @ np.linalg.solve(basis.T @ S @ basis, basis.T)
    rest = S - M @ S
    spread = np.einsum("kd,de,ke->k", waves.frequencies, rest, waves.frequencies)
    damped = waves.weights * np.exp(-0.5 * TURN**2 * np.maximum(spread, 0.0))
    values = np.empty(points.shape[0])
    wave_sum(
        points,
        np.ascontiguousarray(waves.frequencies @ M),
        waves.phases,
        damped,
        SINUSOID.coefficients,
        SINUSOID.absolute,
        values,
    )
    return values + waves.constant


def projected_errors(
    function: RegressionFunction, frames: Iterable[ArrayLike], covariance: ArrayLike, X: ArrayLike
) -> FloatArray:
    """Return what each head gets wrong however large the sample: ``E[f | P_k'X] - f``.

    Parameters
    ----------
    function : RegressionFunction
        As for :func:`projected_mean`.
    frames : iterable of array_like, shape (d, d_k)
        One frame a head; a stack of shape (H, d, d_k) is one.
    covariance : array_like, shape (d, d)
        Covariance of the normal inputs.
    X : array_like, shape (m, d)
        Points.

    Returns
    -------
    ndarray, shape (m, H)
        The limit of the heads' bias as n grows and h falls.

    Raises
    ------
    ParameterError
        As `projected_mean`, or if there is no frame.
    """
    known = [projected_mean(function, frame, covariance, X) for frame in frames]
    if not known:
        raise ParameterError("frames must hold at least one frame")
    return np.stack(known, axis=1) - function(as_points(X, function.dim))[:, np.newaxis]


def _as_waves(function: RegressionFunction) -> _Waves:
    """Return a function as waves in all its variables."""
    if isinstance(function, WaveSum) and function.shape == SINUSOID:
        return _Waves(function.frequencies, function.phases, function.weights, 0.0)
    if isinstance(function, SingleIndexFunction):
        inner = _as_waves(function.inner)
        along = inner.frequencies[:, 0]
        return _Waves(
            along[:, np.newaxis] * function.direction,
            inner.phases + along * function.offset,
            inner.weights,
            inner.constant,
        )
    if isinstance(function, AdditiveFunction):
        parts = [_as_waves(part) for part in function.parts]
        axes = np.eye(function.dim)
        return _Waves(
            np.concatenate([p.frequencies * e for p, e in zip(parts, axes, strict=True)]),
            np.concatenate([part.phases for part in parts]),
            np.concatenate([part.weights for part in parts]),
            math.fsum(part.constant for part in parts) - math.fsum(function.means),
        )
    world = getattr(getattr(function, "world", None), "name", "none")
    raise ParameterError(
        "function must be a sum of sinusoids, or additive or single-index of such sums; "
        f"got {type(function).__name__} of world {world!r}"
    )
