"""The exact risk of an ensemble of heads as a function of their projections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array
from nwsim.exceptions import ParameterError
from nwsim.heads import check_head_weights, uniform_weights


class QueriedSample(NamedTuple):
    """A sample and the queries at which it is to predict.

    Attributes
    ----------
    X : (n, d) inputs
    f : (n,) the regression function there
    noise_variance : (n,) variance of the noise there, >= 0
    queries : (m, d)
    truth : (m,) the regression function at the queries
    """

    X: FloatArray
    f: FloatArray
    noise_variance: FloatArray
    queries: FloatArray
    truth: FloatArray


@dataclass(frozen=True, eq=False)
class FrameRisk:
    r"""Conditional mean squared error of Gaussian heads, by projection.

    Parameters
    ----------
    samples : iterable of QueriedSample
        At least one, all of the same d. Samples may have queries of their own: each counts by
        its number of queries.
    head_weights : array_like, shape (H,), optional
        Weights a, summing to one; None gives 1/H to each of as many heads as there are.

    Raises
    ------
    ParameterError
        For arrays that are not finite or do not fit each other.

    Notes
    -----
    Given the inputs, the mean over the noise of the squared error at x is

    .. math:: V(x) = e(x)^2 + \sum_i s_i^2 u_i(x)^2, \quad u_i = \sum_k a_k w_{ki}, \quad
        e = \sum_i u_i f(X_i) - f(x),

    with :math:`w_{ki} \propto \exp(-|P_k'(x - X_i)|^2 / 2h_k^2)`. No noise is drawn. With
    :math:`c_i = 2(e f(X_i) + s_i^2 u_i)`, the derivative of V in u_i, and
    :math:`\bar c_k = \sum_i w_{ki} c_i`, the softmax gives

    .. math:: \frac{\partial V}{\partial P_k} = -\frac{a_k}{h_k^2} \sum_i
        w_{ki} (c_i - \bar c_k) (x - X_i)(x - X_i)' P_k .

    V depends on P_k through P_k P_k' alone: a rotation of the columns changes nothing.

    References
    ----------
    Fan, J. and Gijbels, I. (1996). Local Polynomial Modelling and Its Applications, section
    3.2.1 (conditional moments). Chapman and Hall.
    """

    samples: tuple[QueriedSample, ...]
    head_weights: FloatArray | None = None

    def __init__(
        self, samples: Iterable[QueriedSample], head_weights: ArrayLike | None = None
    ) -> None:
        checked = tuple(_checked(sample) for sample in samples)
        if not checked:
            raise ParameterError("samples must hold at least one QueriedSample")
        if len({sample.X.shape[1] for sample in checked}) > 1:
            raise ParameterError("samples must have one number of columns of X")
        object.__setattr__(self, "samples", checked)
        weights = None
        if head_weights is not None:
            size = check_array("head_weights", head_weights, ndim=1).size
            weights = check_head_weights(head_weights, size)
        object.__setattr__(self, "head_weights", weights)

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return int(self.samples[0].X.shape[1])

    def value(self, frames: ArrayLike, bandwidth: ArrayLike) -> float:
        """Return the mean of V over all queries of all samples.

        Parameters
        ----------
        frames : array_like, shape (H, d, d_k)
            Projections; they need not be orthonormal.
        bandwidth : float or array_like (H,)
            Positive.
        """
        return self._pass(frames, bandwidth, with_gradient=False)[0]

    def value_and_gradient(
        self, frames: ArrayLike, bandwidth: ArrayLike
    ) -> tuple[float, FloatArray]:
        """Return the value and its gradient in the projections, (H, d, d_k)."""
        return self._pass(frames, bandwidth, with_gradient=True)

    def _pass(
        self, frames: ArrayLike, bandwidth: ArrayLike, *, with_gradient: bool
    ) -> tuple[float, FloatArray]:
        from nwsim.numerics.frames import ensemble_risk

        P = check_array("frames", frames, ndim=3)
        n_heads, dim, _ = P.shape
        if dim != self.dim:
            raise ParameterError(f"frames must have {self.dim} rows, the columns of X; got {dim}")
        weights = uniform_weights(n_heads) if self.head_weights is None else self.head_weights
        if weights.size != n_heads:
            raise ParameterError(f"frames must hold {weights.size} heads; got {n_heads}")
        h = _bandwidths(bandwidth, n_heads)
        columns = np.ascontiguousarray(P.transpose(1, 0, 2).reshape(dim, -1))
        gradient = np.zeros(P.shape)
        total, count = 0.0, 0
        for sample in self.samples:
            risk = np.empty(sample.truth.size)
            ensemble_risk(
                np.ascontiguousarray(sample.X.T),
                np.ascontiguousarray((sample.X @ columns).T),
                sample.queries,
                np.ascontiguousarray(sample.queries @ columns),
                sample.f,
                sample.truth,
                sample.noise_variance,
                h,
                weights,
                with_gradient,
                risk,
                gradient,
            )
            total += float(risk.sum())
            count += risk.size
        if not (np.isfinite(total) and np.isfinite(gradient).all()):
            raise ParameterError(
                "bandwidth is too small, or frames are too long, for the distances between "
                "queries and X: exponents leave the range of floats"
            )
        return total / count, gradient / count


def _bandwidths(bandwidth: ArrayLike, n_heads: int) -> FloatArray:
    """Return one positive bandwidth a head, (H,)."""
    h = check_array("bandwidth", bandwidth, ndim=(0, 1))
    if h.shape not in ((), (1,), (n_heads,)) or (h <= 0.0).any():
        raise ParameterError(
            f"bandwidth must be a positive number or {n_heads} of them; got {bandwidth!r}"
        )
    return np.array(np.broadcast_to(h, n_heads))


def _checked(sample: QueriedSample) -> QueriedSample:
    if not isinstance(sample, QueriedSample):
        raise ParameterError(f"samples must hold QueriedSample; got {type(sample).__name__}")
    X, queries = (
        check_array(name, getattr(sample, name), ndim=2, minimum_rows=1)
        for name in ("X", "queries")
    )
    f, noise, truth = (
        check_array(name, getattr(sample, name), ndim=1)
        for name in ("f", "noise_variance", "truth")
    )
    if queries.shape[1] != X.shape[1]:
        raise ParameterError(
            f"queries must have {X.shape[1]} columns, as X; got {queries.shape[1]}"
        )
    for name, array, rows in (
        ("f", f, X), ("noise_variance", noise, X), ("truth", truth, queries),
    ):  # fmt: skip
        if array.size != rows.shape[0]:
            raise ParameterError(f"{name} must have {rows.shape[0]} entries; got {array.size}")
    if noise.min() < 0.0:
        raise ParameterError(f"noise_variance must be >= 0; got {noise.min()!r}")
    return QueriedSample(X, f, noise, queries, truth)
