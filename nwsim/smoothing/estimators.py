"""Nadaraya-Watson and local linear smoothers with scikit-learn's protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_choice, check_real
from nwsim.exceptions import ParameterError
from nwsim.smoothing.bandwidths import USES_Y, BandwidthSelection, select_bandwidth
from nwsim.smoothing.engines import check_engine, lay_out, layout_for
from nwsim.smoothing.fits import (
    EMPTY_WINDOW_POLICIES,
    LocalFit,
    apply_policy,
    fallback_weights,
    local_fit,
    refuse_empty,
)
from nwsim.smoothing.inputs import (
    as_columns,
    as_noise,
    as_values,
    check_size,
    given_bandwidth,
    prior_weights,
    refuse_masked,
)
from nwsim.smoothing.kernels import Kernel, get_kernel
from nwsim.smoothing.sums import MomentSums, WeightedSample


@dataclass(frozen=True)
class QuerySummary:
    """What happened at a set of queries: the engine, and windows out of the ordinary.

    Attributes
    ----------
    engine : str
    n_queries : int
    n_empty : int
        Windows without usable weight, filled by the policy.
    n_singular : int
        Local linear fits that fell back to the local constant one.
    n_pointwise : int
        Windows that a fast engine left to a sum over their points, as its error bound exceeded
        ``tol`` or their weights were about to underflow. Each costs what a direct sum costs:
        where most do, another engine is faster. 0 for "direct", "window" and "cells", which
        sum every window so.
    """

    engine: str
    n_queries: int
    n_empty: int
    n_singular: int
    n_pointwise: int = 0


class KernelSmoother(RegressorMixin, BaseEstimator):
    """What the local constant and the local linear smoother share.

    Subclasses set ``_degree``, the degree of the local polynomial.
    """

    _degree: ClassVar[int]

    def __init__(
        self,
        bandwidth: float | ArrayLike | str = 1.0,
        kernel: str | Kernel = "gaussian",
        empty_window: str = "nan",
        engine: str = "auto",
        tol: float = 1e-12,
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.empty_window = empty_window
        self.engine = engine
        self.tol = tol

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: several outputs are fine."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Store the sample and settle the bandwidth.

        Parameters
        ----------
        X : array_like, (n, d) or (n,)
            Inputs; one axis means one column.
        y : array_like, (n,) or (n, p)
            Responses.
        sample_weight : array_like, (n,), optional
            Prior weight of each sample, nonnegative and not all zero; it multiplies the
            kernel. Means and their variances depend on ratios alone. If some positive weight
            is not within 1e-50 to 1e50, all are divided by the power of two next below the
            largest, and those below 1e-100 of it count as zero.

        Returns
        -------
        self
            With ``bandwidth_`` (float, or (d,) if given by coordinate), ``engine_``,
            ``bandwidth_selection_`` (a record, or None if the bandwidth was given).

        Raises
        ------
        ParameterError
            For a parameter or an array outside its accepted values.
        """
        kernel = get_kernel(self.kernel)
        check_choice("empty_window", self.empty_window, EMPTY_WINDOW_POLICIES)
        check_real("tol", self.tol, above=0.0, maximum=1.0)
        inputs, targets = self._validated(X, y)
        prior = prior_weights(sample_weight, inputs)
        n, d = inputs.shape
        given = given_bandwidth(self.bandwidth, d)
        engine = check_engine(self.engine, kernel, d, self._degree)
        layout = lay_out(inputs, layout_for(engine, kernel, d, self._degree))
        self._y_shape = targets.shape
        start = np.ones(d) if given is None else np.array(np.broadcast_to(given, d))
        tol = float(self.tol)
        flat = sample_weight is None
        sample = WeightedSample(
            layout, kernel, start, prior if flat else layout.arrange(prior), engine, tol, flat
        )
        self.bandwidth_selection_: BandwidthSelection | None = None
        if given is None:
            self.bandwidth_selection_ = select_bandwidth(
                str(self.bandwidth),
                sample,
                inputs[layout.order],
                targets.reshape(n, -1)[layout.order],
                self._degree,
            )
            self.bandwidth_: float | FloatArray = self.bandwidth_selection_.bandwidth
            sample = replace(sample, bandwidth=np.full(d, self.bandwidth_))
        else:
            self.bandwidth_ = float(given) if given.ndim == 0 else given
        self._sample = sample
        self._columns = sample.columns(targets.reshape(n, -1).T)
        return self

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        refuse_masked(X=X, y=y)
        inputs, targets = validate_data(
            self,
            as_columns(X),
            y,
            dtype=np.float64,
            order="C",
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2 if isinstance(self.bandwidth, str) else 1,
        )
        return inputs, check_size("y", np.asarray(targets, dtype=np.float64))

    @property
    def engine_(self) -> str:
        """Name of the engine that serves as many queries as there are samples."""
        check_is_fitted(self, "bandwidth_")
        return self._sample.engine_for(self._y_shape[0], len(self._columns), self._degree)

    @property
    def bandwidth_uses_y(self) -> bool:
        """Whether the responses chose the bandwidth, so that the fit is not linear in y.

        It tells of the last fit, whatever the parameters have been set to since.
        """
        check_is_fitted(self, "bandwidth_")
        chosen = self.bandwidth_selection_
        return chosen is not None and chosen.method in USES_Y

    def at_bandwidth(self, bandwidth: float | ArrayLike) -> Self:
        """Return a fitted copy with another bandwidth.

        The copy shares the laid-out sample, so a path of bandwidths orders it only once. It
        counts as given: that it may come from the responses is the caller's to know.

        Parameters
        ----------
        bandwidth : float or array_like (d,)
            Positive.
        """
        check_is_fitted(self, "bandwidth_")
        given = given_bandwidth(bandwidth, self.n_features_in_)
        if given is None:
            raise ParameterError("bandwidth must be a number here; selectors need fit")
        other = type(self)(**{**self.get_params(), "bandwidth": bandwidth})
        if hasattr(self, "feature_names_in_"):
            other.feature_names_in_ = self.feature_names_in_
        sample = replace(
            self._sample, bandwidth=np.array(np.broadcast_to(given, self.n_features_in_))
        )
        other.__dict__.update(
            n_features_in_=self.n_features_in_,
            bandwidth_selection_=None,
            bandwidth_=float(given) if given.ndim == 0 else given,
            _y_shape=self._y_shape,
            _columns=self._columns,
            _sample=sample,
        )
        return other

    def predict(self, X_query: ArrayLike) -> FloatArray:
        """Return the fitted values at the queries, (m,) or (m, p) as y was; no state changes.

        Parameters
        ----------
        X_query : array_like, (m, d), or (m,) if d = 1

        Raises
        ------
        EmptyWindowError
            Under ``empty_window="raise"``, if a window holds no weight.
        """
        fit = self._fit_at(self._queries(X_query), self._columns, np.empty(0))
        return fit.mean[:, 0] if len(self._y_shape) == 1 else fit.mean

    def weights(self, X_query: ArrayLike) -> FloatArray:
        """Return the smoothing weights, (m, n): predictions are ``weights @ y``.

        Rows of empty windows follow the policy.
        """
        Q = self._queries(X_query)
        sample = self._sample
        # Rows are made point by point, and so are the sums they are divided by.
        sums = replace(sample, engine="direct").sums(Q, sample.prior[None], degree=self._degree)
        fit = local_fit(sums, sample.kernel.signed)
        check_choice("empty_window", self.empty_window, EMPTY_WINDOW_POLICIES)
        refuse_empty(fit.empty, self.empty_window)
        rows = sample.rows(Q, sums.log_scale)
        linear = np.broadcast_to(fit.solution[:, :1], rows.shape).copy()
        for a in range(fit.solution.shape[1] - 1):
            in_order = np.empty(sample.prior.size)
            in_order[sample.layout.order] = sample.layout.X[a]
            phi = (in_order[None, :] - Q[:, a, None]) / sample.bandwidth[a]
            linear += fit.solution[:, a + 1, None] * phi
        # NaN solutions belong to empty windows, whose rows are replaced next.
        rows *= np.where(fit.empty[:, None], 0.0, linear)
        empty = np.flatnonzero(fit.empty)
        if empty.size:
            filled = np.empty((empty.size, sample.prior.size))
            filled[:, sample.layout.order] = fallback_weights(
                sample, np.ascontiguousarray(Q[empty]), self.empty_window
            )
            rows[empty] = filled
        return rows

    def summary(self, X_query: ArrayLike) -> QuerySummary:
        """Return the engine and the numbers of windows out of the ordinary at the queries.

        As in :meth:`predict`; noise variances of :meth:`moment_sums` may leave more windows in
        doubt than means do.
        """
        Q = self._queries(X_query)
        sample = self._sample
        engine = sample.engine_for(Q.shape[0], len(self._columns), self._degree)
        sums = replace(sample, engine=engine).sums(Q, sample.prior[None], degree=self._degree)
        fit = local_fit(sums, sample.kernel.signed)
        n_empty, n_singular = int(fit.empty.sum()), int(fit.singular.sum())
        return QuerySummary(engine, Q.shape[0], n_empty, n_singular, sums.n_pointwise)

    def moment_sums(
        self, X_query: ArrayLike, values: ArrayLike, noise_variance: float | ArrayLike
    ) -> MomentSums:
        """Return, in one pass, the sums over each query's window.

        Parameters
        ----------
        X_query : array_like, (m, d), or (m,) if d = 1
        values : array_like, (n,) or (n, p)
            In the order of the fitted sample.
        noise_variance : float or array_like (n,)
            Nonnegative.

        Returns
        -------
        MomentSums
            ``sum_k`` (m,), ``sum_kv`` (m, p), ``sum_k2s2`` (m,), and the moments behind
            them; weights are prior_i K((q - x_i) / h), with the prior weights as :meth:`fit`
            keeps them, and empty windows are left as they are.
        """
        Q = self._queries(X_query)
        columns, squares = self._columns_of(values, noise_variance)
        return self._sample.sums(Q, columns, squares, self._degree)

    def head_moments(
        self, X_query: ArrayLike, values: ArrayLike, noise_variance: float | ArrayLike
    ) -> tuple[FloatArray, FloatArray, int]:
        """Return smoothed values and noise covariance, empty windows by the policy.

        A single smoother is an ensemble of one head.

        Parameters
        ----------
        X_query, values, noise_variance
            As in :meth:`moment_sums`.

        Returns
        -------
        mean : (m, 1, p)
        noise_covariance : (m, 1, 1)
        n_empty : int
        """
        fit = self._fit_at(self._queries(X_query), *self._columns_of(values, noise_variance))
        return fit.mean[:, None, :], fit.noise_variance[:, None, None], int(fit.empty.sum())

    def _fit_at(self, Q: FloatArray, columns: FloatArray, squares: FloatArray) -> LocalFit:
        sample = self._sample
        check_choice("empty_window", self.empty_window, EMPTY_WINDOW_POLICIES)
        sums = sample.sums(Q, columns, squares, self._degree)
        fit = local_fit(sums, sample.kernel.signed)
        return apply_policy(fit, sample, Q, columns, squares, self.empty_window)

    def _columns_of(
        self, values: ArrayLike, noise_variance: float | ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        n, sample = self._y_shape[0], self._sample
        noise = sample.layout.arrange(as_noise(noise_variance, n))
        return sample.columns(as_values(values, n).T), sample.squares(noise)

    def _queries(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self, "bandwidth_")
        refuse_masked(X_query=X)
        queries = as_columns(X) if self.n_features_in_ == 1 else X
        checked: FloatArray = validate_data(self, queries, dtype=np.float64, order="C", reset=False)
        return checked


class NadarayaWatson(KernelSmoother):
    r"""Nadaraya-Watson kernel regression.

    Parameters
    ----------
    bandwidth : float, array_like (d,) or {"loo", "gcv", "aicc", "rot"}, default 1.0
        Positive; by coordinate if an array; or a rule that chooses a scalar. For the
        Gaussian kernel it is the standard deviation, for compact kernels the radius.
    kernel : str or Kernel, default "gaussian"
        A registered name, see :func:`nwsim.smoothing.kernel_names`.
    empty_window : {"nan", "zero", "nearest", "mean", "raise"}, default "nan"
        What a query whose window holds no weight receives.
    engine : {"auto", "direct", "window", "cells", "prefix", "recursive", "expansion", "nufft"}
        How predictions and moment sums are computed; results agree to ``tol``. "auto", the
        default, takes the engine that costs least for the number of queries asked, by constants
        that come with the package. Name "direct", "window" or "cells" where the last bits must
        not depend on which queries are asked together. Bandwidth rules go along whole paths
        of bandwidths by routes of their own.
    tol : float, default 1e-12
        How far an engine that approximates may be off, as a part of a window's sum of weights,
        at most 1. Where its error bound is larger, the window is summed point by point; below
        some 1e-14 that is every window.

    Attributes
    ----------
    bandwidth_ : float or ndarray (d,)
    engine_ : str
        The engine for as many queries as there are samples; :meth:`summary` tells it for others.
    bandwidth_selection_ : BandwidthSelection or None

    Notes
    -----
    .. math:: m(x) = \sum_i w_i(x) y_i, \quad
        w_i(x) = p_i K((x - X_i) / h) / \sum_j p_j K((x - X_j) / h)

    with prior weights p_i. Kernels with infinite support never meet an empty window: where
    all weights would underflow, the exponent is shifted by its maximum and the nearest
    sample wins.

    References
    ----------
    Nadaraya (1964); Watson (1964); Wand & Jones (1995), "Kernel Smoothing", section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from nwsim import NadarayaWatson
    >>> model = NadarayaWatson(bandwidth=1.0).fit([0.0, 1.0], [0.0, 1.0])
    >>> model.predict([0.0]).round(6)
    array([0.377541])
    """

    _degree = 0


class LocalLinear(KernelSmoother):
    """Local linear kernel regression; parameters as for :class:`NadarayaWatson`.

    Notes
    -----
    At each query a line is fitted by least squares with the kernel's weights; its value
    there is the estimate. A window whose points do not determine a line falls back to the
    Nadaraya-Watson value and is counted by :meth:`summary`.

    Moments are taken about the query, and those of a window whose points lie close together but
    away from it cancel. With c the reciprocal condition number of its moments (diagonal scaled
    to one), some (s / 2a)^2 for points that spread by a standard deviation s at a distance a, the
    noise variance is off by up to some 1e-15 / c of itself, and the mean by as much of
    sum |W_i| max |y_i|. So both keep some five digits at c = 1e-10, below which a window counts
    as singular, and twelve at c = 1e-3; W are the smoothing weights, and rows of :meth:`weights`
    lose as much.

    References
    ----------
    Fan & Gijbels (1996), "Local Polynomial Modelling and Its Applications", chapter 3.
    """

    _degree = 1
