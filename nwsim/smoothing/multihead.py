"""An ensemble of Nadaraya-Watson heads, each on a projection of the inputs."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from nwsim._typing import ArrayLike, BoolArray, FloatArray, IntArray
from nwsim._validation import check_choice, check_real
from nwsim.exceptions import ParameterError
from nwsim.heads import check_head_weights, check_projections
from nwsim.smoothing.engines import Layout, check_engine
from nwsim.smoothing.estimators import QuerySummary
from nwsim.smoothing.fits import EMPTY_WINDOW_POLICIES, fallback_weights, refuse_empty
from nwsim.smoothing.inputs import as_noise, as_values, check_size, prior_weights, refuse_masked
from nwsim.smoothing.kernels import FAMILIES, Kernel, get_kernel
from nwsim.smoothing.sums import FAINT, TOO_SMALL, WeightedSample, empty_windows

# The windows of different heads hold different points, and products of their weights need
# all of them: every query looks at the whole sample.
_ENGINE = "direct"


class _HeadMoments(NamedTuple):
    mean: FloatArray  # (m, H, p)
    noise_covariance: FloatArray  # (m, H, H)
    empty: BoolArray  # (m, H)


class EnsembleMoments(NamedTuple):
    """Moments of an ensemble given the inputs.

    Attributes
    ----------
    heads : (m, H) smoothed values of every head
    own_noise : (m, H) noise variance of every head
    noise : (m,) noise variance of the weighted mean of the heads
    """

    heads: FloatArray
    own_noise: FloatArray
    noise: FloatArray


class MultiHeadNadarayaWatson(RegressorMixin, BaseEstimator):
    r"""Nadaraya-Watson regression with many heads.

    Parameters
    ----------
    projections : array_like (H, d, d_k) or list of (d, d_k_h)
        Head h smooths on P_h' x. Columns must be linearly independent; their scale counts,
        since the bandwidth is a length after projection.
    bandwidth : float or array_like (H,), default 1.0
        Positive; by head if an array.
    kernel : str or Kernel, default "gaussian"
        As for :class:`NadarayaWatson`, radial in the d_k projected coordinates.
    head_weights : "uniform" or array_like (H,), default "uniform"
        Weights a of the ensemble, summing to one.
    empty_window : {"nan", "zero", "nearest", "mean", "raise"}, default "nan"
        What a head whose window holds no weight estimates.
    engine : {"auto", "direct"}, default "auto"
    tol : float, default 1e-12
        Accuracy asked of engines that approximate, at most 1; today's is exact to rounding.

    Attributes
    ----------
    engine_ : str
    bandwidth_ : ndarray (H,)
    head_weights_ : ndarray (H,)
    n_heads_ : int

    Notes
    -----
    .. math:: m_a(x) = \sum_h a_h m_h(x), \qquad
        m_h(x) = \sum_i w_{hi}(x) y_i, \quad w_{hi} \propto p_i K(P_h'(x - X_i) / h_h).

    Given the inputs, heads k and l have noise covariance
    :math:`N_{kl}(x) = \sum_i s_i^2 w_{ki}(x) w_{li}(x)`; :meth:`head_moments` returns it from
    one pass over the sample. Memory is O(H^2 m + H n).

    If the projections were fitted to the responses, the ensemble is not linear in them and
    its conditional moments are not its own; the estimator cannot know that.

    References
    ----------
    Nadaraya (1964); Watson (1964). Ensemble: arXiv 2605.20271, theorem 3.1.
    """

    def __init__(
        self,
        projections: Any,
        bandwidth: float | ArrayLike = 1.0,
        kernel: str | Kernel = "gaussian",
        head_weights: str | ArrayLike = "uniform",
        empty_window: str = "nan",
        engine: str = "auto",
        tol: float = 1e-12,
    ) -> None:
        self.projections = projections
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.head_weights = head_weights
        self.empty_window = empty_window
        self.engine = engine
        self.tol = tol

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: several outputs are fine."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def bandwidth_uses_y(self) -> bool:
        """Whether the responses chose the bandwidth: never, it is given."""
        return False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Project and store the sample.

        Parameters
        ----------
        X : array_like, (n, d)
        y : array_like, (n,) or (n, p)
        sample_weight : array_like, (n,), optional
            Prior weight of each sample, as for :class:`NadarayaWatson`.

        Raises
        ------
        ParameterError
            For a parameter or an array outside its accepted values.
        """
        kernel = get_kernel(self.kernel)
        check_choice("empty_window", self.empty_window, EMPTY_WINDOW_POLICIES)
        check_real("tol", self.tol, above=0.0, maximum=1.0)
        projections = check_projections(self.projections)
        refuse_masked(X=X, y=y)
        inputs, targets = validate_data(
            self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        dim = projections[0].shape[0]
        if inputs.shape[1] != dim:
            raise ParameterError(
                f"X must have {dim} columns, the rows of projections; got {inputs.shape[1]}"
            )
        if check_engine(self.engine, kernel, dim, 0) not in ("auto", _ENGINE):
            raise ParameterError(
                f"engine {self.engine!r} cannot serve many heads; use one of {_ENGINE}"
            )
        self.engine_ = _ENGINE
        self.n_heads_ = len(projections)
        self.bandwidth_ = self._bandwidths(self.bandwidth)
        self.head_weights_ = check_head_weights(self.head_weights, self.n_heads_)
        prior = prior_weights(sample_weight, inputs)
        self._y = check_size("y", np.array(targets, dtype=np.float64))
        self._projection = np.ascontiguousarray(np.concatenate(projections, axis=1))
        self._dims = [P.shape[1] for P in projections]
        self._sample = np.ascontiguousarray(self._projected(inputs).T)
        self._heads = tuple(
            WeightedSample(Layout("plain", Z), kernel, np.full(Z.shape[0], h), prior)
            for Z, h in zip(self._split(self._sample), self.bandwidth_, strict=True)
        )
        return self

    def _projected(self, X: FloatArray) -> FloatArray:
        """Return X (n, d) in the coordinates of all heads, (n, D), head after head."""
        from nwsim.numerics.heads import project

        out = np.zeros((X.shape[0], self._projection.shape[1]))
        project(X, self._projection, out)
        if not np.isfinite(out).all():
            raise ParameterError(
                "X and projections must keep projected inputs within the range of float64"
            )
        return out

    def _split(self, Z: FloatArray) -> list[FloatArray]:
        """Return the coordinates of each head, from those of all, (D, ...)."""
        ends = accumulate(self._dims)
        return [Z[end - dim : end] for dim, end in zip(self._dims, ends, strict=True)]

    def _bandwidths(self, bandwidth: Any) -> FloatArray:
        accepted = f"a positive number or {self.n_heads_} positive numbers, one a head"
        try:
            h = np.asarray(bandwidth, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            h = np.array(np.nan)
        right_shape = h.ndim == 0 or h.shape == (self.n_heads_,)
        wrong = isinstance(bandwidth, (bool, np.bool_, str)) or not right_shape
        if wrong or not np.all(np.isfinite(h) & (h > 0.0)):
            raise ParameterError(f"bandwidth must be {accepted}; got {bandwidth!r}")
        return np.array(np.broadcast_to(h, self.n_heads_))

    def predict(self, X_query: ArrayLike) -> FloatArray:
        """Return the ensemble's values at the queries, (m,) or (m, p) as y was."""
        heads = self.predict_heads(X_query)
        weighted = self._weights().reshape(-1, *[1] * (heads.ndim - 2)) * heads
        # One by one: the order of other sums depends on how many queries there are.
        return np.ascontiguousarray(np.add.accumulate(weighted, axis=1)[:, -1])

    def predict_heads(self, X_query: ArrayLike) -> FloatArray:
        """Return each head's values at the queries, (m, H) or (m, H, p) as y was."""
        Q = self._queries(X_query)
        values = np.ascontiguousarray(self._y.reshape(self._y.shape[0], -1).T)
        mean = self._moments(Q, values, None).mean
        return mean[:, :, 0] if self._y.ndim == 1 else mean

    def summary(self, X_query: ArrayLike) -> QuerySummary:
        """Return the engine and the number of heads' windows that are empty at the queries."""
        Q = self._queries(X_query)
        no_values = np.empty((0, self._y.shape[0]))
        sums, absolute, _, _ = self._sums(self._projected(Q), no_values, np.empty(0))
        empty = self._empty(Q, sums, absolute)
        return QuerySummary(self.engine_, Q.shape[0], int(empty.sum()), 0)

    def head_moments(
        self, X_query: ArrayLike, values: ArrayLike, noise_variance: float | ArrayLike
    ) -> tuple[FloatArray, FloatArray, int]:
        """Return smoothed values and noise covariances of the heads, from one pass.

        Parameters
        ----------
        X_query : array_like, (m, d)
        values : array_like, (n,) or (n, p)
        noise_variance : float or array_like (n,)

        Returns
        -------
        mean : (m, H, p)
        noise_covariance : (m, H, H)
        n_empty : int
            Empty windows, counted over heads and queries; filled by the policy.
        """
        Q = self._queries(X_query)
        n = self._y.shape[0]
        moments = self._moments(Q, as_values(values, n).T.copy(), as_noise(noise_variance, n))
        return moments.mean, moments.noise_covariance, int(moments.empty.sum())

    def ensemble_moments(
        self,
        X_query: ArrayLike,
        values: ArrayLike,
        noise_variance: float | ArrayLike,
        bandwidth: float | ArrayLike | None = None,
    ) -> EnsembleMoments:
        r"""Return the heads' moments and the noise of the ensemble, cheap for many heads.

        Parameters
        ----------
        X_query : array_like, (m, d)
        values : array_like, (n,)
        noise_variance : float or array_like (n,)
        bandwidth : float or array_like (H,), optional
            In place of the one fitted with, such as on a path.

        Returns
        -------
        EnsembleMoments
            As from :meth:`head_moments`, with :math:`a'N(x)a` in place of N(x).

        Raises
        ------
        ParameterError
            For a kernel other than "gaussian" and "laplace", whose windows are never empty,
            and for an array or a bandwidth outside its accepted values.

        Notes
        -----
        .. math:: a'N(x)a = \sum_i s_i^2 \bigl(\sum_h a_h w_{hi}(x)\bigr)^2

        takes O(H n) operations a query where N takes O(H^2 n).
        """
        from nwsim.numerics.ensembles import ensemble_sums

        Q = self._queries(X_query)
        n = self._y.shape[0]
        kernel = self._heads[0].kernel
        if kernel.support != np.inf or kernel.signed:
            raise ParameterError(
                "kernel must be 'gaussian' or 'laplace' for moments of the ensemble alone; "
                f"got {kernel.name!r}"
            )
        prior = self._heads[0].prior
        used = prior > 0.0
        Z = self._sample
        smoothed = np.ravel(as_values(values, n))
        if smoothed.size != n:
            raise ParameterError(f"values must be one column of {n} numbers; got {smoothed.size}")
        m, n_heads = Q.shape[0], self.n_heads_
        found = EnsembleMoments(np.zeros((m, n_heads)), np.zeros((m, n_heads)), np.zeros(m))
        ensemble_sums(
            # A copy of the sample is most of the work where queries are few.
            Z if used.all() else np.ascontiguousarray(Z[:, used]),
            self._projected(Q),
            np.concatenate([[0], np.cumsum(self._dims)]).astype(np.int64),
            self.bandwidth_ if bandwidth is None else self._bandwidths(bandwidth),
            FAMILIES[kernel.family],
            prior[used],
            np.ascontiguousarray(smoothed[used]),
            np.ascontiguousarray(as_noise(noise_variance, n)[used]),
            self._weights(),
            *found,
        )
        if not all(np.isfinite(part).all() for part in found):
            raise ParameterError(TOO_SMALL)
        return found

    def _weights(self) -> FloatArray:
        check_is_fitted(self, "head_weights_")
        weights: FloatArray = self.head_weights_
        return weights

    def _queries(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self, "head_weights_")
        refuse_masked(X_query=X)
        checked: FloatArray = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return checked

    def _moments(self, Q: FloatArray, values: FloatArray, noise: FloatArray | None) -> _HeadMoments:
        """Return the heads' moments; values (p, n), noise (n,) or None."""
        Z = self._projected(Q)
        sums, absolute, cross, gram = self._sums(Z, values, np.empty(0) if noise is None else noise)
        empty = self._empty(Q, sums, absolute)
        check_choice("empty_window", self.empty_window, EMPTY_WINDOW_POLICIES)
        refuse_empty(np.asarray(empty.any(axis=1)), self.empty_window)
        odd = empty | (absolute < FAINT * self._heads[0].prior.max())
        usable = np.where(odd, 1.0, sums)
        mean = cross / usable[:, :, None]
        covariance = gram / (usable[:, :, None] * usable[:, None, :])
        everyone = np.arange(self.n_heads_)
        for j in np.flatnonzero(odd.any(axis=1)):
            # The others keep their values, but covariances with them take their weights, too.
            wanted = np.flatnonzero(odd[j]) if noise is None else everyone
            W = self._dense_weights(Z[j], wanted, empty[j], odd[j])
            mean[j, wanted] = np.where(odd[j, wanted, None], W @ values.T, mean[j, wanted])
            if noise is not None:
                scaled = W * np.sqrt(noise)
                either = odd[j, :, None] | odd[j]
                # Exactly symmetric in this form.
                covariance[j] = np.where(either, scaled @ scaled.T, covariance[j])
        return _HeadMoments(mean, covariance, empty)

    def _empty(self, Q: FloatArray, sums: FloatArray, absolute: FloatArray) -> BoolArray:
        kernel = self._heads[0].kernel
        empty = empty_windows(sums, absolute, kernel.signed)
        # Weights of infinite support underflow; a window of theirs is never empty for that.
        return (
            empty & (absolute >= FAINT * self._heads[0].prior.max())
            if kernel.support == np.inf
            else empty
        )

    def _sums(
        self, Z: FloatArray, values: FloatArray, noise: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        from nwsim.numerics.heads import head_sums

        m, n_heads = Z.shape[0], self.n_heads_
        kernel = self._heads[0].kernel
        polynomials = [kernel.polynomial(dim) for dim in self._dims]
        coefficients = np.zeros((n_heads, max(p.size for p in polynomials)))
        for h, polynomial in enumerate(polynomials):
            coefficients[h, : polynomial.size] = polynomial
        sums, cross = np.zeros((m, n_heads)), np.zeros((m, n_heads, values.shape[0]))
        # Without negative weights the absolute sum is the sum, and the loop skips it.
        absolute = np.zeros((m if kernel.signed else 0, n_heads))
        gram = np.zeros((m, n_heads, n_heads))
        prior = self._heads[0].prior
        head_sums(
            self._sample,
            Z,
            np.concatenate([[0], np.cumsum(self._dims)]).astype(np.int64),
            self.bandwidth_,
            FAMILIES[kernel.family],
            kernel.power,
            kernel.exponent,
            coefficients,
            np.concatenate([prior[None], prior * values]),
            prior * prior * noise if noise.size else noise,
            sums,
            absolute,
            cross,
            gram,
        )
        return sums, absolute if kernel.signed else sums, cross, gram

    def _dense_weights(
        self, z: FloatArray, wanted: IntArray, empty: BoolArray, odd: BoolArray
    ) -> FloatArray:
        """Return the smoothing weights (k, n) of the heads wanted at one projected query (D,).

        empty, odd : (H,) whether a head's window is empty; whether that or faint
        """
        rows = []
        parts = self._split(z)
        for h in wanted:
            head, part = self._heads[h], parts[h][None]
            if empty[h]:
                rows.append(fallback_weights(head, part, self.empty_window)[0])
                continue
            scale = head.sums(part, head.prior[None]).log_scale if odd[h] else np.zeros(1)
            w = head.rows(part, scale)[0]
            rows.append(w / w.sum())
        return np.stack(rows)
