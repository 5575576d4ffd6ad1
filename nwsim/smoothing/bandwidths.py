"""Choosing a bandwidth from the data.

- ``loo``: mean squared leave-one-out error (Härdle & Marron 1985).
- ``gcv``: n RSS / (n - tr S)^2 per observation (Craven & Wahba 1979).
- ``aicc``: log(RSS / n) + 1 + 2 (tr S + 1) / (n - tr S - 2) (Hurvich, Simonoff & Tsai 1998).
- ``rot``: the normal-reference rule of thumb from X alone (Silverman 1986, section 4.3.2),
  carried to other kernels by their canonical bandwidths (Marron & Nolan 1988).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from nwsim._typing import FloatArray
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.smoothing.fits import local_fit
from nwsim.smoothing.kernels import Kernel, get_kernel
from nwsim.smoothing.sums import WeightedSample

SELECTORS = ("loo", "gcv", "aicc", "rot")
USES_Y = ("loo", "gcv", "aicc")

_GRID = 96
_DIVISIONS = 6
_NEAR = 0.05
# The search starts at half the nearest-neighbour distance of the closest tenth of points.
_NEAR_QUANTILE = 0.1


@dataclass(frozen=True)
class BandwidthSelection:
    """How a bandwidth was chosen.

    Attributes
    ----------
    bandwidth : float
    method : str
    criterion : float
        Value of the criterion at the bandwidth; NaN for the rule of thumb.
    at_edge : {None, "lower", "upper"}
        Which end of the search range was hit, if any.
    search_range : (float, float)
    path : (k, 2) bandwidths tried and their criterion, by bandwidth
    """

    bandwidth: float
    method: str
    criterion: float
    at_edge: str | None
    search_range: tuple[float, float]
    path: FloatArray


def rule_of_thumb(X: FloatArray, prior: FloatArray, kernel: Kernel) -> float:
    """Return the normal-reference bandwidth of X (n, d) with prior weights (n,).

    sigma (4 / (d + 2))^(1 / (d + 4)) n_eff^(-1 / (d + 4)) for a Gaussian kernel, sigma the
    geometric mean over coordinates of min(sd, IQR / 1.349); coordinates that do not vary
    are left out.
    """
    d = X.shape[1]
    share = prior / prior.sum()
    n_eff = 1.0 / np.sum(share**2)
    deviation = np.sqrt(share @ (X - share @ X) ** 2)
    iqr = np.array([_weighted_iqr(X[:, a], share) for a in range(d)]) / 1.349
    scale = np.where(iqr > 0.0, np.minimum(deviation, iqr), deviation)
    sigma = float(np.exp(np.mean(np.log(scale[scale > 0.0]))))
    gaussian = (4.0 / (d + 2)) ** (1 / (d + 4)) * n_eff ** (-1 / (d + 4))
    return sigma * gaussian * _relative_to_gaussian(kernel, d)


def _weighted_iqr(x: FloatArray, share: FloatArray) -> float:
    order = np.argsort(x, kind="stable")
    cumulative = np.cumsum(share[order])
    low, high = np.searchsorted(cumulative, (0.25, 0.75))
    last = x.size - 1
    return float(x[order[min(high, last)]] - x[order[min(low, last)]])


def _relative_to_gaussian(kernel: Kernel, dim: int) -> float:
    gaussian = get_kernel("gaussian").canonical_bandwidth(dim)
    return kernel.canonical_bandwidth(dim) / gaussian


def search_range(X: FloatArray, kernel: Kernel) -> tuple[float, float]:
    """Return the range searched: from between neighbours to over the whole sample."""
    distinct = np.unique(X, axis=0)
    factor = _relative_to_gaussian(kernel, X.shape[1])
    distances = np.asarray(cKDTree(distinct).query(distinct, k=2)[0])[:, 1]
    span = float(np.linalg.norm(distinct.max(axis=0) - distinct.min(axis=0)))
    lower = 0.5 * float(np.quantile(distances, _NEAR_QUANTILE))
    return factor * max(lower, 1e-9 * span), factor * 2.0 * span


def criterion_function(
    method: str, sample: WeightedSample, X: FloatArray, y: FloatArray, degree: int
) -> Callable[[float], float]:
    """Return the criterion as a function of a scalar bandwidth.

    Parameters
    ----------
    method : "loo", "gcv" or "aicc"
    sample : laid-out sample; its bandwidth is replaced
    X : (n, d), y : (n, p), in the layout's order
    degree : 0 local constant, 1 local linear

    Notes
    -----
    An observation that no other supports is scored against the mean of y. Errors are
    averaged with the prior weights, and over the columns of y.
    """
    prior = sample.prior
    keep = np.flatnonzero(prior > 0.0)
    queries = np.ascontiguousarray(X[keep])
    share = prior[keep] / prior.sum()
    mean_y = prior @ y / prior.sum()
    at_zero = float(sample.kernel(0.0, X.shape[1]))
    values = np.ascontiguousarray(y.T)
    n = keep.size
    signed = sample.kernel.signed

    def criterion(h: float) -> float:
        at_h = replace(sample, bandwidth=np.full(X.shape[1], h))
        exclude = keep if method == "loo" else None
        sums = at_h.sums(queries, values, degree=degree, exclude=exclude)
        fit = local_fit(sums, signed)
        mean = np.where(fit.empty[:, None], mean_y, fit.mean)
        rss = float(np.mean((y[keep] - mean) ** 2, axis=1) @ share)
        if method == "loo":
            return rss
        own = fit.solution[:, 0] * at_zero * prior[keep]
        trace = float(np.where(fit.empty, 0.0, own).sum())
        # Signed weights can give a negative trace, which would reward a fit for nothing.
        if trace <= 0.0:
            return np.inf
        if method == "gcv":
            return rss / (1.0 - trace / n) ** 2 if trace < n else np.inf
        if trace + 2.0 >= n or rss <= 0.0:
            return np.inf
        return float(np.log(rss) + 1.0 + 2.0 * (trace + 1.0) / (n - trace - 2.0))

    return criterion


def select_bandwidth(
    method: str, sample: WeightedSample, X: FloatArray, y: FloatArray, degree: int
) -> BandwidthSelection:
    """Choose a scalar bandwidth; arguments as in :func:`criterion_function`.

    Raises
    ------
    ParameterError
        If X does not vary, so that no bandwidth can be told from another.
    """
    varying = X[sample.prior > 0.0]
    if varying.shape[0] < 2 or not np.any(varying.max(axis=0) > varying.min(axis=0)):
        raise ParameterError(
            f"bandwidth={method!r} cannot be chosen: all rows of X are equal; give a number"
        )
    if method == "rot":
        h = rule_of_thumb(X, sample.prior, sample.kernel)
        return BandwidthSelection(h, method, np.nan, None, (h, h), np.empty((0, 2)))
    low, high = search_range(varying, sample.kernel)
    criterion = criterion_function(method, sample, X, y, degree)
    path, best = minimise(criterion, low, high, logarithmic=method == "aicc")
    if not np.isfinite(path[best, 1]):
        raise ParameterError(
            f"bandwidth={method!r} cannot be chosen: its criterion is not finite at any "
            "bandwidth (too few observations); give a number"
        )
    at_edge = {0: "lower", len(path) - 1: "upper"}.get(best)
    if at_edge is not None:
        warnings.warn(
            f"bandwidth={method!r} hit the {at_edge} edge of its search range "
            f"[{low:.6g}, {high:.6g}]",
            PrecisionWarning,
            stacklevel=3,
        )
    return BandwidthSelection(
        float(path[best, 0]), method, float(path[best, 1]), at_edge, (low, high), path
    )


def minimise(
    criterion: Callable[[float], float], low: float, high: float, logarithmic: bool = False
) -> tuple[FloatArray, int]:
    """Minimise over [low, high] by nested logarithmic grids.

    Criteria of compact kernels jump as points enter windows, so that a line search may
    stop anywhere. Here every interval of the first grid that comes within a twentieth of
    the best value is divided, and then the neighbourhood of the best point once more.
    (Signed local linear weights give a criterion with poles; between two grid points it
    can be lower than anything found.)

    Parameters
    ----------
    criterion : callable
    low, high : float
    logarithmic : bool
        Whether the criterion is a logarithm, where a twentieth is a difference.

    Returns
    -------
    path : (k, 2) bandwidths tried, ascending, with their criterion
    best : int, row of the least value; of equal ones the largest bandwidth
    """
    tried: dict[float, float] = {}

    def at(bandwidths: FloatArray) -> FloatArray:
        for h in bandwidths.tolist():
            if h not in tried:
                tried[h] = criterion(h)
        return np.array([tried[h] for h in bandwidths.tolist()])

    grid = np.geomspace(low, high, _GRID)
    scores = at(grid)
    least = scores.min()
    near = least + _NEAR * (1.0 if logarithmic else abs(least))
    close = np.flatnonzero(np.minimum(scores[:-1], scores[1:]) <= near)
    for left in close:
        at(np.geomspace(grid[left], grid[left + 1], _DIVISIONS + 1))
    path = np.array(sorted(tried.items()))
    best = _last_least(path)
    left, right = path[max(best - 1, 0), 0], path[min(best + 1, len(path) - 1), 0]
    at(np.geomspace(left, right, 2 * _DIVISIONS + 1))
    path = np.array(sorted(tried.items()))
    return path, _last_least(path)


def _last_least(path: FloatArray) -> int:
    return path.shape[0] - 1 - int(np.argmin(path[::-1, 1]))
