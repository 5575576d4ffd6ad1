"""Bandwidths of Gaussian attention that differ by query or by key, or are learned.

They go into :func:`~nwsim.attention.weights.gaussian_weights`: those by query as
``bandwidth``, those by key as ``key_scale``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_integer, check_real
from nwsim.attention.weights import gaussian_weights
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.smoothing import get_kernel
from nwsim.smoothing.bandwidths import rule_of_thumb, search_range

BANDWIDTH_KINDS = ("global", "coordinate", "position", "neighbors")
"""What a learned bandwidth may depend on: see :func:`learn_bandwidth`."""

_CELLS = 2**15  # of an array of queries by keys that is computed at a time: they stay in cache
_SLOPE = 2.0  # largest slope of log h; on standardised inputs a factor of e^2 a deviation


def knn_bandwidths(q: ArrayLike, k: ArrayLike, n_neighbors: int) -> FloatArray:
    """Return the distance of each query to its n-th nearest key.

    Parameters
    ----------
    q : (m, d) array_like
        Queries, finite.
    k : (n, d) array_like
        Keys, finite.
    n_neighbors : int
        From 1 to n. Keys that coincide count one by one, so ties need no rule: the n-th
        smallest distance is the same whichever of them comes first.

    Returns
    -------
    (m,) ndarray
        Distances, > 0. Where ``n_neighbors`` keys or more coincide with a query, the distance
        to its nearest other key.

    Raises
    ------
    ParameterError
        If an argument is not as described, or all keys coincide with a query.

    Notes
    -----
    Loftsgaarden and Quesenberry (1965); as a bandwidth of regression Mack and Rosenblatt
    (1979). It falls like p(x)^(-1/d) in the density of keys, while the best bandwidth for a
    given curvature falls like p(x)^(-1/(d + 4)): it adapts too much.

    References
    ----------
    Mack, Y. P. and Rosenblatt, M. (1979). Multivariate k-nearest neighbor density estimates.
    Journal of Multivariate Analysis 9, 1-15.
    """
    queries, keys = check_array("q", q, ndim=2, minimum_rows=0), check_array("k", k, ndim=2)
    if queries.shape[1] != keys.shape[1] or keys.shape[1] == 0:
        raise ParameterError(
            f"q and k must have as many columns, at least 1; got shapes {queries.shape} and "
            f"{keys.shape}"
        )
    check_integer("n_neighbors", n_neighbors, minimum=1, maximum=keys.shape[0])
    found = np.asarray(cKDTree(keys).query(queries, k=[n_neighbors])[0])[:, 0]
    lost = np.flatnonzero(found == 0.0)
    if lost.size:
        distinct = np.unique(keys, axis=0)
        if len(distinct) == 1:
            raise ParameterError("k must hold a key away from each query; all coincide with one")
        found[lost] = np.asarray(cKDTree(distinct).query(queries[lost], k=[2])[0])[:, 0]
    if not np.isfinite(found).all():
        raise ParameterError("q and k must be so near that squared distances are finite")
    return found


def abramson_scales(k: ArrayLike, pilot_bandwidth: float, clip: float = 10.0) -> FloatArray:
    """Return a factor of the bandwidth for each key: wide where keys are few.

    Parameters
    ----------
    k : (n, d) array_like
        Keys, finite.
    pilot_bandwidth : float
        Standard deviation of the Gaussian kernel of the pilot density, > 0.
    clip : float, default 10
        Factors are kept within [1/clip, clip]; at least 1.

    Returns
    -------
    (n,) ndarray
        s_j = (p(k_j) / g)^(-1/2), p the pilot density with key j itself, g the geometric mean
        of p over the keys.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Notes
    -----
    Abramson (1982); Silverman (1986), section 5.3, with sensitivity 1/2. A density estimate
    divides each kernel by (h s_j)^d. In regression that factor is a choice, since weights are
    normalised: with it, ``log_prior = -d log s_j``, a key counts as much as any other in the
    sum over queries; without it, keys where the density is low reach further at full height
    and outweigh the near keys of queries beside them.

    References
    ----------
    Abramson, I. S. (1982). On bandwidth variation in kernel estimates - a square root law.
    Annals of Statistics 10, 1217-1223.
    Silverman, B. W. (1986). Density Estimation for Statistics and Data Analysis. Chapman and
    Hall.
    """
    keys = check_array("k", k, ndim=2)
    h = check_real("pilot_bandwidth", pilot_bandwidth, above=0.0)
    limit = check_real("clip", clip, minimum=1.0)
    with np.errstate(over="ignore"):
        scaled = keys / h
    if not np.isfinite(scaled).all():
        raise ParameterError("pilot_bandwidth must not be so small that k over it is infinite")
    density = np.empty(keys.shape[0])
    for rows in _blocks(keys.shape[0]):
        # A key's own term is 1, so that the sum is at least that.
        density[rows] = np.exp(-0.5 * cdist(scaled[rows], scaled, "sqeuclidean")).sum(axis=1)
    log_scale = -0.5 * (np.log(density) - np.log(density).mean())
    return np.clip(np.exp(log_scale), 1.0 / limit, limit)


@dataclass(frozen=True, eq=False)
class LearnedBandwidth:
    """A bandwidth that minimises the leave-one-out error of a sample.

    Attributes
    ----------
    kind : str
        One of :data:`BANDWIDTH_KINDS`.
    parameters : ndarray
        log h; for "coordinate" log h of each coordinate, (d,); for "position" and "neighbors"
        the log of the bandwidth at the mean of its features, then their slopes.
    criterion : float
        Mean squared leave-one-out error there, over observations and columns of y.
    n_iter : int
        Iterations of the optimiser.
    converged : bool
        Whether it stopped because nothing was to be gained.
    at_edge : bool
        Whether a parameter stopped at a bound.
    keys : (n, d) ndarray
        Inputs of the sample.
    n_neighbors : int
        Whose distance is the feature of "neighbors".
    centre, deviation, low, high : ndarray
        What features are centred at and divided by; their range in the sample.
    """

    kind: str
    parameters: FloatArray
    criterion: float
    n_iter: int
    converged: bool
    at_edge: bool
    keys: FloatArray
    n_neighbors: int
    centre: FloatArray
    deviation: FloatArray
    low: FloatArray
    high: FloatArray

    def at(self, q: ArrayLike) -> float | FloatArray:
        """Return the bandwidth at queries (m, d): a float, (d,) by coordinate, or (m,).

        Beyond the range of its features in the sample the bandwidth goes on as at its end.
        """
        if self.kind == "global":
            return float(np.exp(self.parameters[0]))
        if self.kind == "coordinate":
            return np.exp(self.parameters)
        queries = check_array("q", q, ndim=2, minimum_rows=0)
        features = _features(self.kind, queries, self.keys, self.n_neighbors)
        features = (np.clip(features, self.low, self.high) - self.centre) / self.deviation
        return np.exp(self.parameters[0] + features @ self.parameters[1:])

    def weights(self, q: ArrayLike) -> FloatArray:
        """Return the weights (m, n) of the sample's observations at queries (m, d)."""
        h = self.at(q)
        if self.kind == "coordinate":
            return gaussian_weights(np.asarray(q, dtype=np.float64) / h, self.keys / h, 1.0)
        return gaussian_weights(q, self.keys, h)


def learn_bandwidth(
    x: ArrayLike,
    y: ArrayLike,
    kind: str = "global",
    *,
    start: float | None = None,
    n_neighbors: int | None = None,
    max_iter: int = 100,
) -> LearnedBandwidth:
    """Learn the bandwidth of Gaussian attention by gradient descent.

    Parameters
    ----------
    x : (n, d) array_like
        Inputs, at least three; both keys and queries.
    y : (n,) or (n, p) array_like
        Responses.
    kind : {"global", "coordinate", "position", "neighbors"}
        One bandwidth h; one for each coordinate; or one for each query, ``log h = a + b . u``
        with the coordinates of the query or the log distance to its n-th nearest key as u.
        (With b = 0 both are global, and "neighbors" with b = 1 is a multiple of that distance.)
    start : float, optional
        Bandwidth to start from, > 0; default the rule of thumb. Descent finds a local minimum:
        from far too wide a start it may not come back.
    n_neighbors : int, optional
        For "neighbors"; default the square root of n, rounded up.
    max_iter : int, default 100
        Iterations of the optimiser, for each of its two descents.

    Returns
    -------
    LearnedBandwidth

    Raises
    ------
    ParameterError
        If an argument is not as described, or x or y does not vary.

    Warns
    -----
    PrecisionWarning
        If the descent did not converge; the record says so too.

    Notes
    -----
    Minimises ``mean_i |y_i - m_i|^2``, ``m_i = sum_{j != i} w_ij y_j``, by L-BFGS-B. With
    ``D_ij = |x_i - x_j|^2 / h_i^2``

        d m_i / d log h_i = sum_j w_ij D_ij (y_j - m_i),

    and with one h a coordinate, D_ij holds the distance in that one alone. Kinds other than
    "global" start where the global descent ended, so their criterion is never above its. The
    bandwidth is bounded: by half the distance between close neighbours and by twice the span of
    the inputs, as in the search on a grid of :class:`~nwsim.NadarayaWatson`; slopes by 2 a
    standard deviation of u, or for "neighbors" 2 in all.
    """
    inputs = check_array("x", x, ndim=2, minimum_rows=3)
    values = check_array("y", y, ndim=(1, 2))
    n, d = inputs.shape
    check_choice("kind", kind, BANDWIDTH_KINDS)
    if values.shape[0] != n:
        raise ParameterError(f"y must have as many rows as x, {n}; got shape {values.shape}")
    values = values.reshape(n, -1)
    _check_spread("x", inputs)
    _check_spread("y", values)
    scale = math.sqrt(float(np.mean((values - values.mean(axis=0)) ** 2)))
    neighbors = math.ceil(math.sqrt(n)) if n_neighbors is None else n_neighbors
    check_integer("n_neighbors", neighbors, minimum=1, maximum=n - 1)
    check_integer("max_iter", max_iter, minimum=1)

    kernel = get_kernel("gaussian")
    lowest, highest = search_range(inputs, kernel)
    first = rule_of_thumb(inputs, np.ones(n), kernel)
    if start is not None:
        first = check_real("start", start, above=0.0)
    box = (math.log(lowest), math.log(highest))
    scaled = (values - values.mean(axis=0)) / scale
    error = LeaveOneOut(inputs, scaled, np.ones((n, 1)))
    found = _descend(error, np.clip([math.log(first)], *box), [box], max_iter)

    raw, shown = np.zeros((n, 0)), np.zeros(0)
    centre, deviation = shown, shown
    if kind == "coordinate":
        error = LeaveOneOut(inputs, scaled, None)
        then = _descend(error, np.full(d, found.x[0]), [box] * d, max_iter)
    elif kind != "global":
        # In the sample an observation is no neighbour of its own.
        raw = _features(kind, inputs, inputs, neighbors + 1)
        centre = raw.mean(axis=0)
        deviation = raw.std(axis=0) if kind == "position" else np.ones(1)
        deviation = np.where(deviation > 0.0, deviation, 1.0)
        shown = (raw - centre) / deviation
        error = LeaveOneOut(inputs, scaled, np.column_stack([np.ones(n), shown]))
        slopes = [(-_SLOPE, _SLOPE)] * shown.shape[1]
        at = np.concatenate([found.x, np.zeros(shown.shape[1])])
        then = _descend(error, at, [box, *slopes], max_iter)
    else:
        then = found
    converged = found.converged and then.converged
    if not converged:
        warnings.warn(
            f"learn_bandwidth did not converge within max_iter={max_iter}: {then.message}",
            PrecisionWarning,
            stacklevel=2,
        )
    return LearnedBandwidth(
        kind=kind,
        parameters=then.x,
        criterion=then.value * scale**2,
        n_iter=found.n_iter + (0 if then is found else then.n_iter),
        converged=converged,
        at_edge=then.at_edge,
        keys=inputs,
        n_neighbors=neighbors,
        centre=centre,
        deviation=deviation,
        low=raw.min(axis=0),
        high=raw.max(axis=0),
    )


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Mean squared leave-one-out error of Gaussian attention, with its gradient.

    Parameters
    ----------
    x : (n, d) ndarray
    y : (n, p) ndarray
    features : (n, r) ndarray or None
        log h_i = features_i . parameters; None: the parameters are log h by coordinate.
    """

    x: FloatArray
    y: FloatArray
    features: FloatArray | None

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Return the error and its derivative in each parameter."""
        total, gradient = 0.0, np.zeros(len(parameters))
        for rows in _blocks(self.x.shape[0]):
            parts, per_row = self._distances(rows, parameters)
            distance = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
            own = (np.arange(distance.shape[0]), np.arange(rows.start, rows.stop))
            distance[own] = np.inf
            # Shifted by the nearest, so that an observation far from all others has it.
            weights = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True)))
            weights /= weights.sum(axis=1, keepdims=True)
            distance[own] = 0.0
            mean = weights @ self.y
            residual = mean - self.y[rows]
            total += float(np.sum(residual**2))
            for a, part in enumerate(parts):
                moved = weights * part
                slope = moved @ self.y - moved.sum(axis=1, keepdims=True) * mean
                push = 2.0 * np.sum(residual * slope, axis=1)
                if per_row is None:
                    gradient[a] += float(push.sum())
                else:
                    gradient += push @ per_row
        return total / self.y.size, gradient / self.y.size

    def _distances(
        self, rows: slice, parameters: FloatArray
    ) -> tuple[list[FloatArray], FloatArray | None]:
        """Return squared distances in bandwidths, one array a coordinate if h is by these."""
        if self.features is not None:
            h = np.exp(self.features[rows] @ parameters)[:, np.newaxis]
            squares = cdist(self.x[rows], self.x, "sqeuclidean")
            return [squares / h**2], self.features[rows]
        scaled = self.x / np.exp(parameters)
        columns = (scaled[:, a] for a in range(scaled.shape[1]))
        return [(column[rows, np.newaxis] - column) ** 2 for column in columns], None


@dataclass(frozen=True, eq=False)
class _Descent:
    """Where a descent ended."""

    x: FloatArray
    value: float
    n_iter: int
    converged: bool
    at_edge: bool
    message: str


def _descend(
    error: LeaveOneOut, start: FloatArray, bounds: list[tuple[float, float]], max_iter: int
) -> _Descent:
    """Minimise within bounds."""
    found = minimize(
        error,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "ftol": 1e-11, "gtol": 1e-7},
    )
    low, high = np.array(bounds).T
    return _Descent(
        x=np.asarray(found.x, dtype=np.float64),
        value=float(found.fun),
        n_iter=int(found.nit),
        converged=bool(found.success),
        at_edge=bool(((found.x <= low) | (found.x >= high)).any()),
        message=str(found.message),
    )


def _check_spread(name: str, array: FloatArray) -> None:
    """Refuse data that do not vary, or whose squares would leave the range of float64."""
    # Halves: the difference of two huge numbers could itself overflow.
    spread = 2.0 * float((array.max(axis=0) / 2.0 - array.min(axis=0) / 2.0).max(initial=0.0))
    if not 1e-100 <= spread <= 1e100:
        raise ParameterError(
            f"{name} must vary, over a range between 1e-100 and 1e100: no bandwidth can be told "
            f"from another; got {spread:.3g}"
        )


def _features(kind: str, q: FloatArray, k: FloatArray, n_neighbors: int) -> FloatArray:
    """Return what the log bandwidth depends on, (m, r)."""
    if kind == "position":
        return q
    return np.log(knn_bandwidths(q, k, n_neighbors))[:, np.newaxis]


def _blocks(n: int) -> list[slice]:
    """Return slices of rows whose distances to n keys are few enough to be held."""
    step = max(1, _CELLS // n)
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]
