"""Exact moments of linear smoothers given the inputs: no noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_real
from nwsim.exceptions import ParameterError
from nwsim.inference.decomposition import Decomposition, decompose


class LinearSmoother(Protocol):
    """What `conditional_moments` asks of an estimator: a fitted, linear smoother."""

    @property
    def bandwidth_uses_y(self) -> bool:
        """Whether the responses chose anything that the weights depend on."""
        ...

    def head_moments(
        self, X_query: FloatArray, values: FloatArray, noise_variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, int]:
        """Return the heads' means (m, H, p), noise covariances (m, H, H) and empty windows."""
        ...


class InputSample(Protocol):
    """A design: inputs X (n, d), the function f (n,) and the noise variance (n,) there."""

    @property
    def X(self) -> FloatArray:
        """Inputs, (n, d)."""
        ...

    @property
    def f(self) -> FloatArray:
        """The regression function at the inputs, (n,)."""
        ...

    @property
    def noise_variance(self) -> FloatArray:
        """Variance of the noise at the inputs, (n,)."""
        ...


@dataclass(frozen=True)
class ConditionalMoments:
    """Moments of H heads at m query points, given the training inputs.

    Attributes
    ----------
    mean : ndarray, shape (m, H)
        ``sum_i w_ki(x) f(X_i)``.
    bias : ndarray, shape (m, H)
        ``mean - f(x)``.
    noise_covariance : ndarray, shape (m, H, H)
        ``sum_i s(X_i)^2 w_ki(x) w_li(x)``.
    n_empty : int
        Number of empty windows met, treated by the estimator's policy.
    """

    mean: FloatArray
    bias: FloatArray
    noise_covariance: FloatArray
    n_empty: int


def conditional_moments(
    estimator: LinearSmoother,
    X_query: ArrayLike,
    f_train: ArrayLike,
    f_query: ArrayLike,
    noise_variance: ArrayLike,
) -> ConditionalMoments:
    """Exact bias and noise covariance of a linear smoother given its training inputs.

    Parameters
    ----------
    estimator : LinearSmoother
        A fitted smoother whose weights do not depend on the responses.
    X_query : array_like, shape (m, d) or (m,)
        Query points, one row a point.
    f_train : array_like, shape (n,)
        The regression function at the training inputs, in the order of the fit.
    f_query : array_like, shape (m,)
        The regression function at the query points.
    noise_variance : float or array_like, shape (n,)
        Variance of the noise at the training inputs, >= 0.

    Returns
    -------
    ConditionalMoments
        NaN where the estimator's policy for empty windows gives NaN; `decompose` refuses
        those.

    Raises
    ------
    ParameterError
        If the responses chose the bandwidth (the estimator is then not linear in them and
        these moments are not its own), if it is no such smoother, or if an array does not
        match. An unfitted estimator may raise its own ``NotFittedError`` (a ``ValueError``).

    Notes
    -----
    Given the inputs, ``m_k(x) = sum_i w_ki(x) Y_i`` has mean ``sum_i w_ki(x) f(X_i)`` and
    covariance ``sum_i s(X_i)^2 w_ki(x) w_li(x)`` between heads k and l.

    References
    ----------
    Fan, J. and Gijbels, I. (1996). Local Polynomial Modelling and Its Applications, section
    3.2.1. Chapman and Hall.
    """
    try:
        uses_y = bool(estimator.bandwidth_uses_y)
        head_moments = estimator.head_moments
    except AttributeError as error:
        raise ParameterError(
            "estimator must be a fitted smoother with bandwidth_uses_y and head_moments; "
            f"got {type(estimator).__name__}: {error}"
        ) from error
    if uses_y:
        raise ParameterError(
            "estimator must have a bandwidth that does not depend on the responses: it is not "
            "linear in them, so draw noisy responses and decompose the estimates instead"
        )
    queries = check_array("X_query", X_query, ndim=(1, 2))
    at_train = check_array("f_train", f_train, ndim=1)
    at_query = check_array("f_query", f_query, ndim=1)
    if at_query.shape[0] != queries.shape[0]:
        raise ParameterError(
            f"f_query must have one value a row of X_query, {queries.shape[0]}; "
            f"got {at_query.shape[0]}"
        )
    variances = _check_noise_variance(noise_variance, at_train.shape[0])
    mean, noise_covariance, n_empty = head_moments(queries, at_train[:, np.newaxis], variances)
    heads = np.ascontiguousarray(mean[:, :, 0])
    return ConditionalMoments(
        mean=heads,
        bias=heads - at_query[:, np.newaxis],
        noise_covariance=noise_covariance,
        n_empty=int(n_empty),
    )


def design_moments(
    fit: Callable[[FloatArray, FloatArray], LinearSmoother],
    samples: Iterable[InputSample],
    X_query: ArrayLike,
    f_query: ArrayLike,
) -> list[ConditionalMoments]:
    """Return the conditional moments of one smoother on each of several designs.

    Parameters
    ----------
    fit : callable
        ``fit(X, y)`` returns a fitted smoother. It is called with the regression function in
        place of responses, as weights that depend on responses have no conditional moments.
    samples : iterable of InputSample
        Designs, such as those of a :class:`~nwsim.dgp.Replicate`.
    X_query, f_query : array_like, shapes (m, d) and (m,)
        Queries, the same for all designs, and the function there.

    Returns
    -------
    list of ConditionalMoments
        For `decompose_conditional`.

    Raises
    ------
    ParameterError
        As `conditional_moments`.
    """
    return [
        conditional_moments(
            fit(sample.X, sample.f), X_query, sample.f, f_query, sample.noise_variance
        )
        for sample in samples
    ]


def decompose_conditional(
    per_design: Sequence[ConditionalMoments],
    truth: ArrayLike,
    head_weights: ArrayLike | None = None,
    query_weights: ArrayLike | None = None,
) -> Decomposition:
    """Split the error of a smoother seen through R designs, on the conditional route.

    Parameters
    ----------
    per_design : sequence of ConditionalMoments, length R
        One a design, all at the same queries.
    truth : array_like, shape (m,)
        The regression function at the queries.
    head_weights, query_weights : array_like, optional
        As in `decompose`.

    Returns
    -------
    Decomposition

    Raises
    ------
    ParameterError
        If no design is given, and as `decompose` does.
    """
    if not per_design:
        raise ParameterError("per_design must hold the moments of at least one design")
    return decompose(
        np.stack([moments.mean for moments in per_design]),
        truth,
        head_weights=head_weights,
        noise_covariance=np.stack([moments.noise_covariance for moments in per_design]),
        query_weights=query_weights,
    )


def _check_noise_variance(noise_variance: ArrayLike, n_obs: int) -> FloatArray:
    if np.ndim(noise_variance) == 0:
        scalar = np.asarray(noise_variance).item()
        return np.full(n_obs, check_real("noise_variance", scalar, minimum=0.0))
    variances = check_array("noise_variance", noise_variance, ndim=1)
    if variances.shape[0] != n_obs:
        raise ParameterError(
            f"noise_variance must be a number or have one value an entry of f_train, {n_obs}; "
            f"got {variances.shape[0]}"
        )
    if variances.min() < 0:
        raise ParameterError(f"noise_variance must be >= 0; got {variances.min()!r}")
    return variances
