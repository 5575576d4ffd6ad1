"""Bandwidths of Gaussian attention that differ by query or by key, or are learned.

They go into :func:`~nwsim.attention.weights.gaussian_weights`: those by query as
``bandwidth``, those by key as ``key_scale``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_integer, check_real
from nwsim.attention.leave_one_out import LeaveOneOut, descend, near_first, row_blocks
from nwsim.attention.weights import gaussian_weights
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.smoothing import get_kernel
from nwsim.smoothing.bandwidths import search_range

BANDWIDTH_KINDS = ("global", "coordinate", "position", "neighbors")
"""What a learned bandwidth may depend on: see :func:`learn_bandwidth`."""

_LARGEST = 1e300
_TINY = (
    2.0**-500
)  # in units of the largest entry: squares of such distances are not to be relied on
_STEP = math.log(2.0)  # of the grid that a descent starts from
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
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1, maximum=keys.shape[0])
    # Trees work with squares: a power of two changes no digit and keeps these in range.
    power = math.frexp(max(np.abs(queries).max(initial=0.0), np.abs(keys).max()))[1]
    q_part, k_part = np.ldexp(queries, -power), np.ldexp(keys, -power)
    found = np.asarray(cKDTree(k_part).query(q_part, k=[n_neighbors])[0])[:, 0]
    close = np.flatnonzero(found < _TINY)
    with np.errstate(over="ignore"):
        found = np.ldexp(found, power)
        if close.size:
            found[close] = _close_distances(queries[close], keys, n_neighbors, power)
    if not np.isfinite(found).all():
        raise ParameterError("q and k must be so near that distances are finite")
    return found


def _close_distances(q: FloatArray, k: FloatArray, n_neighbors: int, power: int) -> FloatArray:
    """Return distances of queries whose n-th key is the same point, or all but that."""
    # With 0 added, both zeros are one.
    distinct, counts = np.unique(k + 0.0, axis=0, return_counts=True)
    if len(distinct) == 1:
        found = _lengths(q - distinct)
        if not found.all():
            raise ParameterError("k must hold a key away from each query; all coincide with one")
        return found
    tree = cKDTree(np.ldexp(distinct, -power))
    distance, index = (np.asarray(a) for a in tree.query(np.ldexp(q, -power), k=2))
    found = _lengths(q - distinct[index[:, 0]])
    found = np.where(found > 0.0, found, np.ldexp(distance[:, 1], power))
    # Where even the second is that close, in the order of distances whose squares are 0.
    for i in np.flatnonzero(distance[:, 1] < _TINY):
        own = _lengths(q[i] - distinct)
        order = np.argsort(own)
        nth = order[np.searchsorted(np.cumsum(counts[order]), n_neighbors)]
        found[i] = own[nth] if own[nth] > 0.0 else own[own > 0.0].min()
    return found


def _lengths(rows: FloatArray) -> FloatArray:
    """Return Euclidean lengths, without squares."""
    return np.asarray(np.hypot.reduce(np.abs(rows), axis=1))


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
        # From one of them: far from 0 they would lose the digits that tell them apart.
        scaled = (keys - keys[0]) / h
    if not np.isfinite(scaled).all():
        raise ParameterError("pilot_bandwidth must not be so small that k over it is infinite")
    density = np.empty(keys.shape[0])
    for rows in row_blocks(keys.shape[0]):
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
        queries = check_array("q", q, ndim=2, minimum_rows=0)
        if queries.shape[1] != self.keys.shape[1]:
            raise ParameterError(
                f"q must have {self.keys.shape[1]} columns, as x had; got shape {queries.shape}"
            )
        if self.kind == "global":
            return float(np.exp(self.parameters[0]))
        if self.kind == "coordinate":
            return np.exp(self.parameters)
        features = _features(self.kind, queries, self.keys, self.n_neighbors)
        features = (np.clip(features, self.low, self.high) - self.centre) / self.deviation
        log_h = self.parameters[0] + features @ self.parameters[1:]
        return np.exp(near_first(log_h, self.parameters))

    def weights(self, q: ArrayLike) -> FloatArray:
        """Return the weights (m, n) of the sample's observations at queries (m, d)."""
        h = self.at(q)
        if self.kind != "coordinate":
            return gaussian_weights(q, self.keys, h)
        queries = check_array("q", q, ndim=2, minimum_rows=0)
        with np.errstate(over="ignore"):
            scaled = (queries - self.keys[0]) / h
        if not np.isfinite(scaled).all():
            raise ParameterError("q must be so near the sample that q in bandwidths is finite")
        return gaussian_weights(scaled, (self.keys - self.keys[0]) / h, 1.0)


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
        Bandwidth to start from, > 0, or the bound next to it; default the best of a grid over
        the bounds, with steps of a factor of 2 or less. Descent finds a local minimum: from a
        start of one's own that is far too wide it may not come back.
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
        If the descent did not converge; the record says so too. Without `start`, if h, or the one
        h for all from which the other kinds start, ended at one of its bounds: at the wide one
        the inputs say nothing that averaging would show.

    Notes
    -----
    Minimises ``mean_i |y_i - m_i|^2``, ``m_i = sum_{j != i} w_ij y_j``, by L-BFGS-B. With
    ``D_ij = |x_i - x_j|^2 / h_i^2``

        d m_i / d log h_i = sum_j w_ij D_ij (y_j - m_i),

    and with one h a coordinate, D_ij holds the distance in that one alone. Kinds other than
    "global" start where the global descent ended, so their criterion is never above its. The
    bandwidth is bounded: by half the distance between close neighbours, or 1e-9 of the span of
    the inputs if that is more, and by twice the span, as in the search on a grid of
    :class:`~nwsim.NadarayaWatson`; slopes by 2 a standard deviation of u, or for "neighbors" 2
    in all.
    """
    inputs = check_array("x", x, ndim=2, minimum_rows=3)
    values = check_array("y", y, ndim=(1, 2))
    n, d = inputs.shape
    check_choice("kind", kind, BANDWIDTH_KINDS)
    if values.shape[0] != n:
        raise ParameterError(f"y must have as many rows as x, {n}; got shape {values.shape}")
    values = values.reshape(n, -1)
    check_spread("x", inputs)
    check_spread("y", values)
    values = values - _mean(values)
    scale = math.sqrt(float(np.mean(values**2)))
    neighbors = math.ceil(math.sqrt(n)) if n_neighbors is None else n_neighbors
    neighbors = check_integer("n_neighbors", neighbors, minimum=1, maximum=n - 1)
    max_iter = check_integer("max_iter", max_iter, minimum=1)

    lowest, highest = search_range(inputs, get_kernel("gaussian"))
    box = (math.log(lowest), math.log(highest))
    scaled = values / scale
    # Moved to where they are: far from 0 they could be infinite in bandwidths.
    near = inputs - inputs[0]
    error = LeaveOneOut(near, scaled, np.ones((n, 1)))
    if start is None:
        grid = np.linspace(box[0], box[1], math.ceil((box[1] - box[0]) / _STEP) + 1)
        first = min(grid[:, np.newaxis], key=lambda at: error(at)[0])
    else:
        first = np.clip([math.log(check_real("start", start, above=0.0))], *box)
    found = descend(error, first, [box], max_iter)

    raw: FloatArray = np.zeros((n, 0))
    centre: FloatArray = np.zeros(0)
    deviation = centre
    if kind == "coordinate":
        error = LeaveOneOut(near, scaled, None)
        then = descend(error, np.full(d, found.x[0]), [box] * d, max_iter)
    elif kind != "global":
        # In the sample an observation is no neighbour of its own.
        raw = _features(kind, inputs, inputs, neighbors + 1)
        centre = _mean(raw)
        deviation = np.ones(raw.shape[1])
        if kind == "position":
            spread = np.sqrt(np.mean((raw - centre) ** 2, axis=0))
            deviation = np.where(spread > 0.0, spread, 1.0)
        shown: FloatArray = (raw - centre) / deviation
        error = LeaveOneOut(near, scaled, np.column_stack([np.ones(n), shown]))
        slopes = [(-_SLOPE, _SLOPE)] * shown.shape[1]
        at = np.concatenate([found.x, np.zeros(shown.shape[1])])
        then = descend(error, at, [box, *slopes], max_iter)
    else:
        then = found
    converged = found.converged and then.converged
    if not converged:
        warnings.warn(
            f"learn_bandwidth did not converge within max_iter={max_iter}: {then.message}",
            PrecisionWarning,
            stacklevel=2,
        )
    # Where one h for all is best at a bound, kinds that start from it have nothing to start from.
    ends = found.x, then.x if kind == "coordinate" else then.x[:1]
    for end, stopped in (
        ("narrow", any((log_h <= box[0]).all() for log_h in ends)),
        ("wide", any((log_h >= box[1]).all() for log_h in ends)),
    ):
        if start is None and stopped:
            warnings.warn(
                f"learn_bandwidth ended at the {end} end of its bounds, "
                f"[{lowest:.6g}, {highest:.6g}]",
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
        keys=inputs.copy(),
        n_neighbors=neighbors,
        centre=centre,
        deviation=deviation,
        low=raw.min(axis=0),
        high=raw.max(axis=0),
    )


def check_spread(name: str, array: FloatArray) -> None:
    """Refuse data that do not vary, or whose squares or sums would leave the range of float64."""
    if np.abs(array).max(initial=0.0) > _LARGEST:
        raise ParameterError(f"{name} must be at most {_LARGEST:g} in absolute value")
    # Halves: the difference of two huge numbers could itself overflow.
    spread = 2.0 * float((array.max(axis=0) / 2.0 - array.min(axis=0) / 2.0).max(initial=0.0))
    if not 1e-100 <= spread <= 1e100:
        raise ParameterError(
            f"{name} must vary, over a range between 1e-100 and 1e100: no bandwidth can be told "
            f"from another; got {spread:.3g}"
        )


def _mean(array: FloatArray) -> FloatArray:
    """Return the means of columns, of those that do not vary without rounding."""
    return np.where(array.max(axis=0) > array.min(axis=0), array.mean(axis=0), array[0])


def _features(kind: str, q: FloatArray, k: FloatArray, n_neighbors: int) -> FloatArray:
    """Return what the log bandwidth depends on, (m, r)."""
    if kind == "position":
        return q
    return np.log(knn_bandwidths(q, k, n_neighbors))[:, np.newaxis]
