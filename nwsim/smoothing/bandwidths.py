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
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from nwsim._typing import ArrayLike, FloatArray
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.smoothing.engines import lay_out
from nwsim.smoothing.kernels import Kernel, get_kernel
from nwsim.smoothing.paths import PathProblem, path_fits
from nwsim.smoothing.sums import WeightedSample

SELECTORS = ("loo", "gcv", "aicc", "rot")
USES_Y = ("loo", "gcv", "aicc")

_GRID = 96
_DIVISIONS = 6
_NEAR = 0.05
_INTERPOLATES = 1e-10
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
) -> Callable[[ArrayLike], FloatArray]:
    """Return the criterion as a function of an array of scalar bandwidths.

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

    A path of bandwidths costs little more than its widest one, so ask for many at once
    (see :mod:`nwsim.smoothing.paths`). In the last digits a value depends on which others
    are asked for with it.
    """
    problem, share = _path_problem(sample, X, y, degree, leave_out=method == "loo")
    targets = problem.values.T
    at_zero = float(sample.kernel(0.0, X.shape[1]))
    own_weight = at_zero * problem.sample.prior
    n = share.size

    def criterion(bandwidths: ArrayLike) -> FloatArray:
        h = np.asarray(bandwidths, dtype=float)
        ascending, inverse = np.unique(h.ravel(), return_inverse=True)
        rss, trace = np.zeros(ascending.size), np.zeros(ascending.size)
        for at, points, mean, solution in path_fits(problem, ascending):
            empty = np.isnan(solution)
            error = targets[points] - np.where(empty[:, :, None], 0.0, mean)
            rss[at] += np.mean(error * error, axis=2) @ share[points]
            trace[at] += np.where(empty, 0.0, solution) @ own_weight[points]
        score = rss if method == "loo" else _penalised(method, rss, trace, n)
        return score[inverse].reshape(h.shape)

    return criterion


def _path_problem(
    sample: WeightedSample, X: FloatArray, y: FloatArray, degree: int, leave_out: bool
) -> tuple[PathProblem, FloatArray]:
    """Return the fits to be made and each observation's share of the prior weight.

    Observations of no weight are left out, and the mean of y is taken off, which costs
    sums of y fewer digits.
    """
    keep = np.flatnonzero(sample.prior > 0.0)
    inputs, prior = X[keep], sample.prior[keep]
    share = prior / prior.sum()
    centred = y[keep] - share @ y[keep]
    # On the line, points in order serve every kernel.
    layout = lay_out(inputs, "line" if X.shape[1] == 1 else sample.layout.kind)
    kept = WeightedSample(layout, sample.kernel, sample.bandwidth, layout.arrange(prior))
    problem = PathProblem(kept, layout.arrange(centred.T), degree, leave_out)
    return problem, layout.arrange(share)


def _penalised(method: str, rss: FloatArray, trace: FloatArray, n: int) -> FloatArray:
    """Return GCV or AICc, infinite where it means nothing.

    Signed weights can give a negative trace, which would reward a fit for nothing. The
    GCV of a fit that interpolates is 0 / 0, however it is rounded.
    """
    score = np.full(rss.shape, np.inf)
    if method == "gcv":
        fine = (trace > 0.0) & (n - trace > _INTERPOLATES * n)
        score[fine] = rss[fine] / (1.0 - trace[fine] / n) ** 2
    else:
        fine = (trace > 0.0) & (trace + 2.0 < n) & (rss > 0.0)
        t = trace[fine]
        score[fine] = np.log(rss[fine]) + 1.0 + 2.0 * (t + 1.0) / (n - t - 2.0)
    return score


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
    _check_range(method, "X", varying)
    _check_range(method, "y", y)
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
    # On its own, so that the value reported does not depend on what else was tried.
    path[best, 1] = criterion(path[best, 0])
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


def _check_range(method: str, name: str, array: FloatArray) -> None:
    """Refuse data whose squared differences would leave the range of float64."""
    # Halves: the difference of two huge numbers could itself overflow.
    half = (array.max(axis=0) / 2 - array.min(axis=0) / 2).max()
    if half > 0.0 and not 1e-100 <= half <= 1e100:
        raise ParameterError(
            f"bandwidth={method!r} cannot be chosen: the range of {name} must be between 1e-100 "
            f"and 1e100, got {2 * half:.3g}; rescale {name} or give a number"
        )


def minimise(
    criterion: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    logarithmic: bool = False,
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
        Of an array of bandwidths.
    low, high : float
    logarithmic : bool
        Whether the criterion is a logarithm, where a twentieth is a difference.

    Returns
    -------
    path : (k, 2) bandwidths tried, ascending, with their criterion
    best : int, row of the least value; of equal ones the largest bandwidth
    """
    grid = np.geomspace(low, high, _GRID)
    path = np.column_stack([grid, criterion(grid)])
    least = path[:, 1].min()
    near = least + _NEAR * (1.0 if logarithmic else abs(least))
    close = np.flatnonzero(np.minimum(path[:-1, 1], path[1:, 1]) <= near)
    path = _extended(
        path, criterion, [np.geomspace(grid[i], grid[i + 1], _DIVISIONS + 1) for i in close]
    )
    best = _last_least(path)
    left, right = path[max(best - 1, 0), 0], path[min(best + 1, len(path) - 1), 0]
    path = _extended(path, criterion, [np.geomspace(left, right, 2 * _DIVISIONS + 1)])
    return path, _last_least(path)


def _extended(
    path: FloatArray, criterion: Callable[[FloatArray], FloatArray], grids: list[FloatArray]
) -> FloatArray:
    """Return the path with the criterion at those bandwidths of the grids it has not."""
    new = np.setdiff1d(np.concatenate([path[:0, 0], *grids]), path[:, 0])
    longer = np.vstack([path, np.column_stack([new, criterion(new)])]) if new.size else path
    return longer[np.argsort(longer[:, 0])]


def _last_least(path: FloatArray) -> int:
    return path.shape[0] - 1 - int(np.argmin(path[::-1, 1]))
