"""Engines that sum a window from fewer operations than it has points.

===========  =====================================  ==========================================
engine       serves                                 how
===========  =====================================  ==========================================
prefix       compact kernels, d = 1                 power sums along the sorted sample
recursive    Laplace kernel, d = 1                  sums carried on along the sorted sample
expansion    Gaussian kernel, d = 1                 moments of cells, Taylor series
nufft        Gaussian kernel, d <= 3                non-uniform Fourier transforms
===========  =====================================  ==========================================

The first two are exact but for rounding. Every engine bounds the error of the sum of weights, query
by query, so that the caller can sum point by point where it is too large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nwsim._typing import FloatArray, IntArray
from nwsim.smoothing.engines import sort_line
from nwsim.smoothing.expansion import expansion_sums
from nwsim.smoothing.fourier import nufft_sums
from nwsim.smoothing.kernels import Kernel, monomials

if TYPE_CHECKING:
    from nwsim.smoothing.sums import WeightedSample

_EPS = np.finfo(float).eps
# Terms so much larger than the kernel lose too many digits.
_CANCELLING = 150.0
# Points by which it is decided whether values are far from zero.
_LOOKED_AT = 512


class FastSums(NamedTuple):
    """Sums of a fast engine.

    Attributes
    ----------
    sums : (m, C) of the kernel times each column
    noise : (m,) of the squared kernel times the squares, or (0,)
    bound : (m,) on the error of ``sums[:, 0]``
    absolute : (m,) at least the sum of the absolute kernel times the first column
    """

    sums: FloatArray
    noise: FloatArray
    bound: FloatArray
    absolute: FloatArray


def _given_order(found: FloatArray, order: IntArray) -> FloatArray:
    """Return sums of sorted queries in the order given; (0,) stays as it is."""
    if not found.size:
        return found
    out = np.empty_like(found)
    out[order] = found
    return out


def sweep_plan(kernel: Kernel) -> tuple[FloatArray, bool, float]:
    """Return how a compact kernel is summed along the line.

    Its coefficients in powers of the distance; whether whole windows can be summed, as they can
    where the powers are even, and those of the signed distance do, or else half windows; and
    how far, in bandwidths, queries may lie apart to share a cut. Far ones share more work, but
    powers of the distance to the cut then cancel where the kernel's degree is high.
    """
    coefficients, step = monomials(kernel, 1)
    powers = np.zeros(step * (coefficients.size - 1) + 1)
    powers[::step] = coefficients
    even = not np.any(powers[1::2])
    widest, farthest = (2.0, 3.0) if even else (1.0, 2.0)
    cancelling = np.polynomial.polynomial.polyval(farthest, np.abs(powers)) > _CANCELLING
    return powers, even, 0.5 if cancelling else widest


def prefix_sums(
    sample: WeightedSample, Q: FloatArray, columns: FloatArray, squares: FloatArray
) -> FastSums:
    """Sum a compact kernel on the line from power sums."""
    from nwsim.numerics.sweeps import half_windows, polynomial_sweep

    x, h = sample.layout.X[0], float(sample.bandwidth[0])
    kernel, even, extent = sweep_plan(sample.kernel)
    extent *= h
    q, order = sort_line(np.ascontiguousarray(Q[:, 0]))
    m = q.size
    low, middle, high = (np.empty(m, np.int64) for _ in range(3))
    half_windows(x, q, h, low, middle, high)
    sums, terms = np.zeros((m, columns.shape[0])), np.zeros((m, 2))
    noise = np.zeros(m if squares.size else 0)
    mirrored = kernel * (-1.0) ** np.arange(kernel.size)
    whole = ((low, high, 0.5 * extent, kernel),)
    halves = ((low, middle, 0.0, kernel), (middle, high, extent, mirrored))
    for starts, stops, offset, part in whole if even else halves:
        polynomial_sweep(
            x, columns, squares, q, starts, stops, h, offset, extent,
            part, np.convolve(part, part), sums, noise, terms,
        )  # fmt: skip
    rounding = 4.0 * _EPS * (kernel.size + 4)
    bound = rounding * terms[:, 0]
    if squares.size:
        # Windows whose noise is in doubt are in doubt.
        doubtful = ~(2.0 * rounding * terms[:, 1] <= sample.tol * noise)
        bound = np.where(doubtful, np.inf, bound)
    absolute = terms[:, 0] if sample.kernel.signed else sums[:, 0]
    return FastSums(*(_given_order(found, order) for found in (sums, noise, bound, absolute)))


def recursive_sums(
    sample: WeightedSample, Q: FloatArray, columns: FloatArray, squares: FloatArray
) -> FastSums:
    """Sum the Laplace kernel on the line, from the left and from the right."""
    from nwsim.numerics.sweeps import laplace_sweep

    x, h = sample.layout.X[0], float(sample.bandwidth[0])
    q, order = sort_line(np.ascontiguousarray(Q[:, 0]))
    m = q.size
    sums, noise = np.zeros((m, columns.shape[0])), np.zeros(m if squares.size else 0)
    up_to = np.searchsorted(x, q, side="right").astype(np.int64)
    laplace_sweep(x, columns, squares, q, up_to, h, sums, noise)
    mirrored = (
        np.ascontiguousarray(-x[::-1]),
        np.ascontiguousarray(columns[:, ::-1]),
        np.ascontiguousarray(squares[::-1]),
        np.ascontiguousarray(-q[::-1]),
        np.ascontiguousarray(x.size - up_to[::-1]),
    )
    from_right, noise_from_right = np.zeros_like(sums), np.zeros_like(noise)
    laplace_sweep(*mirrored, h, from_right, noise_from_right)
    sums += from_right[::-1]
    noise += noise_from_right[::-1]
    bound = 16.0 * _EPS * sums[:, 0]
    found = FastSums(sums, noise, bound, sums[:, 0])
    return FastSums(*(_given_order(array, order) for array in found))


Fast = Callable[["WeightedSample", FloatArray, FloatArray, FloatArray], FastSums]


def _gaussian(transform: Callable[..., tuple[FloatArray, FloatArray]]) -> Fast:
    """Return an engine from a transform of columns; a Gaussian squared is a narrower one."""

    def engine(
        sample: WeightedSample, Q: FloatArray, columns: FloatArray, squares: FloatArray
    ) -> FastSums:
        where = (sample.layout, Q)
        sums, bound = transform(*where, sample.bandwidth, columns, sample.tol)
        noise = np.empty(0)
        if squares.size:
            narrow = sample.bandwidth / np.sqrt(2.0)
            found, off = transform(*where, narrow, squares[None], sample.tol)
            noise = found[:, 0]
            # Windows whose noise is in doubt are in doubt.
            doubtful = ~(off <= sample.tol * np.abs(noise))
            bound = np.where(doubtful, np.inf, bound)
        return FastSums(sums, noise, bound, sums[:, 0])

    return engine


def _pivots(columns: FloatArray) -> FloatArray:
    """Return what to take from the values of each column but the first, (C - 1,).

    Errors are a part of the sizes summed. Values far from zero for their range are therefore
    summed as differences from one of them, and a mean is off by a part of the range.
    """
    some = columns[:, :: max(1, columns.shape[1] // _LOOKED_AT)]
    some = some[:, some[0] > 0.0]
    if not some.size:
        return np.zeros(columns.shape[0] - 1)
    values = some[1:] / some[0]
    low, high = values.min(axis=1), values.max(axis=1)
    # Halves, as the sum of two huge numbers could itself overflow.
    middle = 0.5 * low + 0.5 * high
    return np.where(np.abs(middle) > high - low, middle, 0.0)


def _centred(engine: Fast) -> Fast:
    """Return the engine for values less their pivots, which are added back to its sums."""

    @wraps(engine)
    def centred(
        sample: WeightedSample, Q: FloatArray, columns: FloatArray, squares: FloatArray
    ) -> FastSums:
        pivots = _pivots(columns)
        if not pivots.any():
            return engine(sample, Q, columns, squares)
        columns = columns.copy()
        columns[1:] -= pivots[:, None] * columns[0]
        found = engine(sample, Q, columns, squares)
        found.sums[:, 1:] += pivots * found.sums[:, :1]
        return found

    return centred


FAST: dict[str, Fast] = {
    "prefix": _centred(prefix_sums),
    "recursive": _centred(recursive_sums),
    "expansion": _centred(_gaussian(expansion_sums)),
    "nufft": _centred(_gaussian(nufft_sums)),
}
