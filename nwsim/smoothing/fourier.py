"""Gaussian sums from non-uniform Fourier transforms.

A Gaussian made periodic is a Fourier series whose coefficients are those of its transform, as
long as the period keeps its copies apart (Poisson summation; Kunis, Potts & Steidl 2006). The
sample's coefficients come from one transform, the queries' sums from another, both by finufft
(Barnett, Magland & af Klinteberg 2019).
"""

from __future__ import annotations

import numpy as np

from nwsim._typing import FloatArray
from nwsim.exceptions import ParameterError
from nwsim.smoothing.engines import Layout, able_engines, in_words
from nwsim.smoothing.kernels import get_kernel

# The library reaches no better than this part of the weight of the sample.
FINEST = 1e-14
# Coefficients of a transform that fits in memory.
MOST_MODES = 2**24
_MARGIN = 1e-2
# A transform and its inverse are off by less than 1.0 eps of the weight in every trial (a
# test repeats some), so this bounds the error.
_WORST = 2.0


def typical_share(span: FloatArray, bandwidth: FloatArray) -> float:
    """Return the sum of weights at a query as a part of the sample's, for a uniform sample."""
    full = span / np.sqrt(2.0 * np.pi)
    shares = np.divide(bandwidth, full, out=np.ones_like(full), where=bandwidth < full)
    return float(np.prod(shares))


def precision(span: FloatArray, bandwidth: FloatArray, tol: float) -> float:
    """Return the precision asked of the transforms, as a part of the weight of the sample."""
    wanted = tol * typical_share(span, bandwidth) * _MARGIN
    return float(min(1e-3, max(FINEST, wanted)))


def thinnest(span: FloatArray, bandwidth: FloatArray, tol: float) -> float:
    """Return how thin the sample may be at a query, against the average, to meet ``tol``."""
    eps = precision(span, bandwidth, tol)
    allowed = tol * typical_share(span, bandwidth)
    return float(_WORST * eps / max(allowed, np.finfo(float).tiny))


def modes(extent: FloatArray, bandwidth: FloatArray, eps: float) -> tuple[FloatArray, FloatArray]:
    """Return the periods (d,) and the numbers of coefficients (d,), even."""
    depth = _depth(eps)
    with np.errstate(over="ignore"):  # a number that is infinite is refused, too
        period = extent + 1.1 * depth * bandwidth
        count = 2.0 * np.ceil(depth * (period / bandwidth) / (2.0 * np.pi)) + 2.0
    return period, count


def _depth(eps: float) -> float:
    """Return how far a Gaussian matters, in bandwidths."""
    return float(np.sqrt(-2.0 * np.log(0.01 * eps)))


def most_modes(span: FloatArray, bandwidth: FloatArray, tol: float) -> float:
    """Return how many coefficients sums may take, wherever the queries are.

    Noise needs the narrower, squared kernel.
    """
    narrow = bandwidth / np.sqrt(2.0)
    eps = precision(span, narrow, tol)
    with np.errstate(over="ignore"):
        return float(np.prod(modes(span + 2.0 * _depth(eps) * narrow, narrow, eps)[1]))


def nufft_sums(
    layout: Layout, Q: FloatArray, bandwidth: FloatArray, columns: FloatArray, tol: float
) -> tuple[FloatArray, FloatArray]:
    """Return Gaussian sums (m, C) of columns (C, n) and a bound (m,) on the first's error.

    Queries so far out that next to nothing reaches them get no sum and an infinite bound.

    Raises
    ------
    ParameterError
        If the bandwidth is so small that the transform would not fit in memory.
    """
    import finufft

    X, d = layout.X, Q.shape[1]
    eps = precision(layout.span, bandwidth, tol)
    # One query far out would stretch the period, and so multiply the coefficients, for all.
    low, high = X.min(axis=1), X.max(axis=1)
    margin = _depth(eps) * bandwidth
    near = np.all((low - margin <= Q) & (high + margin >= Q), axis=1)
    sums = np.zeros((Q.shape[0], columns.shape[0]))
    bound = np.full(Q.shape[0], np.inf)
    if not near.any():
        return sums, bound
    Q = Q[near]
    low, high = np.minimum(low, Q.min(axis=0)), np.maximum(high, Q.max(axis=0))
    period, count = modes(high - low, bandwidth, eps)
    if np.prod(count) > MOST_MODES:
        others = [name for name in able_engines(get_kernel("gaussian"), d, 0) if name != "nufft"]
        raise ParameterError(
            f"engine 'nufft' would need {np.prod(count):.3g} Fourier coefficients for this "
            f"bandwidth, more than {MOST_MODES}; use a larger bandwidth or one of the engines "
            f"that can serve kernel 'gaussian' in {in_words(d)}: {', '.join(others)}"
        )
    shape = tuple(int(k) for k in count)
    step = 2.0 * np.pi / period
    middle = low + 0.5 * (high - low)
    points = [(X[a] - middle[a]) * step[a] for a in range(d)]
    asked = [(Q[:, a] - middle[a]) * step[a] for a in range(d)]
    to_modes = (finufft.nufft1d1, finufft.nufft2d1, finufft.nufft3d1)[d - 1]
    to_points = (finufft.nufft1d2, finufft.nufft2d2, finufft.nufft3d2)[d - 1]
    # One thread: in three dimensions results vary from run to run with more.
    how = {"eps": eps, "nthreads": 1}
    # Two real columns are one complex column, of like size so that neither drowns the other.
    size = np.abs(columns).sum(axis=1)
    scale = np.where(size > 0.0, size, 1.0)
    pairs = (columns[0::2] / scale[0::2, None]).astype(complex)
    pairs[: columns.shape[0] // 2].imag = columns[1::2] / scale[1::2, None]
    spectrum = to_modes(*points, pairs, shape, isign=-1, **how).reshape(len(pairs), *shape)
    for a in range(d):
        k = np.arange(-(shape[a] // 2), shape[a] // 2)
        u = step[a] * bandwidth[a]
        factor = np.exp(-0.5 * (k * u) ** 2) * u / np.sqrt(2.0 * np.pi)
        spectrum *= factor.reshape([-1 if b == a else 1 for b in range(d)])
    found = to_points(*asked, spectrum, isign=1, **how).reshape(len(pairs), -1)
    inside = np.empty((Q.shape[0], columns.shape[0]))
    inside[:, 0::2] = found.real.T
    inside[:, 1::2] = found[: columns.shape[0] // 2].imag.T
    sums[near] = inside * size
    bound[near] = _WORST * eps * size[0] + _misplaced(sums[near, 0], scale[0], period / bandwidth)
    return sums, bound


def _misplaced(sums: FloatArray, size: float, periods: FloatArray) -> FloatArray:
    """Return how far sums (m,) are off as phases are rounded, to some 1e-16 of the period.

    The sum's derivative is that of the kernel, |u| K(u); where the sum is a part s of the
    weight, points beyond |u| = sqrt(2 log 1/s) cannot make it up.
    """
    part = np.clip(np.abs(sums) / size, 1e-300, 1.0)
    steepness = np.sqrt(1.0 - 2.0 * np.log(part))
    return np.asarray(np.finfo(float).eps * periods.sum() * steepness * np.abs(sums))
