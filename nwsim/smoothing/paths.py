"""Fits of a sample at its own points, over a path of bandwidths.

The criteria of bandwidth selection ask for some two hundred bandwidths of one sample.
:func:`path_fits` chooses how they are answered:

=================  =========  ========================================================
fit                dimension  route
=================  =========  ========================================================
compact kernel     1          pairs added once for all bandwidths, along the line
compact kernel     over 1     pairs added once for all bandwidths, binned by distance
Gaussian           1          Fourier series for wide bandwidths, windows for narrow
Laplace            1          recursions along the line
both               over 1     sums over effective windows, bandwidth by bandwidth
anything else      any        moment sums bandwidth by bandwidth
=================  =========  ========================================================

Named kernels are those without a polynomial factor, in local constant fits; compact ones
may have one. All routes agree to rounding. Where a sum comes out small beside the terms it
was made of, so that rounding would show, that window is summed directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from nwsim._typing import BoolArray, FloatArray, IntArray
from nwsim.smoothing.engines import lay_out
from nwsim.smoothing.fits import local_fit
from nwsim.smoothing.kernels import FAMILIES, monomials
from nwsim.smoothing.sums import WeightedSample

# A sum below this part of its terms is taken directly. No smaller than the part at which
# a signed kernel's window counts as empty, which is for the direct sum to say.
_CANCELLED = 1e-3
_BLOCK_BYTES = 2**25
# exp(-40) is 4e-18: terms this far below the largest are left out.
_NEGLIGIBLE = 40.0
_SHALLOW = 200.0
_ULPS = 8 * np.finfo(float).eps


class PathFit(NamedTuple):
    """Fits for some of the bandwidths at some of the points.

    Attributes
    ----------
    bandwidths, points : slice
        Which.
    mean : (b, m, p) fitted values
    solution : (b, m) a point's smoothing weight for itself is w_i times this
        Both NaN where a window is empty.
    """

    bandwidths: slice
    points: slice
    mean: FloatArray
    solution: FloatArray


@dataclass(frozen=True)
class PathProblem:
    """A sample that is fitted at its own points.

    Attributes
    ----------
    sample : laid-out sample; prior weights positive, bandwidth to be replaced
    values : (p, n) in the layout's order
    degree : 0 local constant, 1 local linear
    leave_out : whether each point is left out of its own fit
    """

    sample: WeightedSample
    values: FloatArray
    degree: int
    leave_out: bool

    def direct(self, h: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m, p) and solution (m,) at some points, from moment sums."""
        X = self.sample.layout.X
        at_h = replace(self.sample, bandwidth=np.full(X.shape[0], h))
        queries = np.ascontiguousarray(X.T[points])
        exclude = points if self.leave_out else None
        columns = at_h.columns(self.values, arranged=True)
        sums = at_h.sums(queries, columns, degree=self.degree, exclude=exclude)
        fit = local_fit(sums, self.sample.kernel.signed)
        return fit.mean, fit.solution[:, 0]


Direct = Callable[[float, IntArray], tuple[FloatArray, FloatArray]]


def path_fits(problem: PathProblem, bandwidths: FloatArray) -> Iterator[PathFit]:
    """Fit at every bandwidth (ascending) and point; each pair of them comes once."""
    kernel, X = problem.sample.kernel, problem.sample.layout.X
    plain = kernel.polynomial(X.shape[0]).tolist() == [1.0]
    on_sorted_line = X.shape[0] == 1 and bool(np.all(np.diff(X[0]) >= 0.0))
    if problem.degree == 0 and len(problem.values) and X.shape[1] > 1:
        if kernel.family == "compact":
            return _compact(problem, bandwidths, on_sorted_line)
        if plain and on_sorted_line:
            exponential = _gaussian if kernel.family == "gaussian" else _laplace
            return exponential(problem, bandwidths)
        if plain:
            return _by_windows(problem, bandwidths)
    return _one_by_one(problem, bandwidths)


def _one_by_one(problem: PathProblem, bandwidths: FloatArray) -> Iterator[PathFit]:
    everyone = np.arange(problem.sample.prior.size)
    for b, h in enumerate(bandwidths.tolist()):
        mean, solution = problem.direct(h, everyone)
        yield PathFit(slice(b, b + 1), slice(None), mean[None], solution[None])


def _blocks(count: int, bytes_each: int) -> Iterator[slice]:
    step = max(1, _BLOCK_BYTES // bytes_each)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _settled(
    bandwidths: FloatArray,
    first: int,
    weight: FloatArray,
    cross: FloatArray,
    doubtful: BoolArray,
    direct: Direct,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and solution from sums (b, m), (b, m, p), those in doubt taken directly."""
    # NaN in, NaN out without a division warning.
    solution = 1.0 / np.where(doubtful | (weight == 0.0), np.nan, weight)
    mean = cross * solution[:, :, None]
    for b in np.flatnonzero(doubtful.any(axis=1)):
        points = np.flatnonzero(doubtful[b])
        mean[b, points], solution[b, points] = direct(float(bandwidths[b]), first + points)
    return mean, solution


def _compact(
    problem: PathProblem, bandwidths: FloatArray, on_sorted_line: bool
) -> Iterator[PathFit]:
    from nwsim.numerics.paths import ball_path, line_path

    sample, layout, values = problem.sample, problem.sample.layout, problem.values
    X = layout.X
    coefficients, step = monomials(sample.kernel, X.shape[0])
    # A power of two, so exact: squares of distances stay in range.
    scale = 2.0 ** -np.floor(np.log2(bandwidths[-1]))
    scaled, widths = X * scale, bandwidths * scale
    for points in _blocks(X.shape[1], 8 * bandwidths.size * (3 + values.shape[0])):
        shape = (bandwidths.size, points.stop - points.start)
        weight, bound = np.empty(shape), np.empty(shape)
        cross = np.empty((*shape, values.shape[0]))
        how = (widths, coefficients, step, problem.leave_out, points.start)
        if on_sorted_line:
            line_path(scaled[0], sample.prior, values, *how, weight, cross, bound)
        else:
            queries = np.ascontiguousarray(X.T[points])
            ranges = layout.ranges(queries, np.full(X.shape[0], bandwidths[-1]))
            ball_path(scaled, sample.prior, values, *how, *ranges, weight, cross, bound)
        size = np.abs(weight) if sample.kernel.signed else weight
        doubtful = (size <= _CANCELLED * bound) & (bound > 0.0)
        mean, solution = _settled(bandwidths, points.start, weight, cross, doubtful, problem.direct)
        yield PathFit(slice(None), points, mean, solution)


def _laplace(problem: PathProblem, bandwidths: FloatArray) -> Iterator[PathFit]:
    from nwsim.numerics.paths import laplace_path

    sample, values = problem.sample, problem.values
    n, p = sample.prior.size, values.shape[0]
    total = sample.prior.sum()
    for some in _blocks(bandwidths.size, 8 * n * (1 + p)):
        widths = bandwidths[some]
        weight, cross = np.empty((widths.size, n)), np.empty((widths.size, n, p))
        laplace_path(
            sample.layout.X[0], sample.prior, values, widths, problem.leave_out, weight, cross
        )
        # Nothing cancels here, but what underflowed is lost.
        doubtful = weight <= 1e-100 * total
        mean, solution = _settled(widths, 0, weight, cross, doubtful, _effective_windows(problem))
        yield PathFit(some, slice(None), mean, solution)


def _by_windows(problem: PathProblem, bandwidths: FloatArray) -> Iterator[PathFit]:
    windows = _effective_windows(problem)
    everyone = np.arange(problem.sample.prior.size)
    for b, h in enumerate(bandwidths.tolist()):
        mean, solution = windows(h, everyone)
        yield PathFit(slice(b, b + 1), slice(None), mean[None], solution[None])


def _effective_windows(problem: PathProblem) -> Direct:
    """Return direct sums of an exponential kernel over what is not negligible.

    The exponent is shifted by that of the nearest point, as in log-sum-exp, and terms
    exp(-40) below that point's are left out, whatever their prior weights.
    """
    from nwsim.numerics.moments import moment_sums

    kernel, X = problem.sample.kernel, problem.sample.layout.X
    d, n = X.shape
    # Distances from each point to the nearest that counts for it.
    gaps = np.zeros(n)
    if problem.leave_out:
        gaps = np.asarray(cKDTree(X.T).query(X.T, k=2)[0])[:, 1]
    layout = lay_out(X.T, {1: "line", 2: "cells", 3: "cells"}.get(d, "plain"))
    whole = lay_out(X.T, "plain")
    half_span = 0.5 * np.ptp(X, axis=1).max()
    prior, values = problem.sample.prior, problem.values
    depth = _NEGLIGIBLE + np.log(prior.max()) - np.log(prior.min())
    columns = np.concatenate([prior[None], prior * values])
    arranged = {id(where): where.arrange(columns) for where in (layout, whole)}

    def add(h: float, points: IntArray, reach: float) -> tuple[FloatArray, FloatArray]:
        # Where most points are within reach, one run of them all is summed faster.
        where = layout if reach < half_span else whole
        Q = np.ascontiguousarray(X.T[points])
        v = (gaps[points] / h) ** 2
        exponent = v / 2 if kernel.family == "gaussian" else np.sqrt(v)
        m = points.size
        weight, cross = np.zeros((m, 1, 1)), np.zeros((m, 1, values.shape[0]))
        moment_sums(
            where.X,
            Q,
            np.full(d, h),
            FAMILIES[kernel.family],
            kernel.power,
            kernel.exponent,
            np.ones(1),
            arranged[id(where)],
            np.empty(0),
            *where.ranges(Q, np.full(d, reach)),
            where.positions()[points] if problem.leave_out else np.full(m, -1),
            # Shifts are slow, so only where weights would come near to underflow.
            np.where(exponent > _SHALLOW, exponent, 0.0),
            weight,
            np.zeros((m, 1, 1)),
            cross,
            np.empty(0),
        )
        solution = 1.0 / weight[:, 0, 0]
        return cross[:, 0, :] * solution[:, None], solution

    def direct(h: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        gap = gaps[points]
        if kernel.family == "gaussian":
            reach = np.hypot(gap, np.sqrt(2.0 * depth) * h)
        else:
            reach = gap + depth * h
        mean, solution = np.empty((points.size, values.shape[0])), np.empty(points.size)
        # Points of similar reach together, by factors of 1.5.
        group = np.floor(np.log(reach / reach.min()) / np.log(1.5)).astype(np.int64)
        for g in np.unique(group):
            some = np.flatnonzero(group == g)
            widest = float(reach[some].max()) * (1.0 + _ULPS)
            mean[some], solution[some] = add(h, points[some], widest)
        return mean, solution

    return direct


def _gaussian(problem: PathProblem, bandwidths: FloatArray) -> Iterator[PathFit]:
    x = problem.sample.layout.X[0]
    windows = _effective_windows(problem)
    span = x[-1] - x[0]
    # Term by term both cost the same, so the shorter sum is taken.
    far = np.sqrt(2.0 * _NEGLIGIBLE) * bandwidths
    probes = x[:: max(1, x.size // 100), None]
    within = np.searchsorted(x, probes + far) - np.searchsorted(x, probes - far)
    terms = (far / bandwidths) * (span + far) / (2.0 * np.pi * bandwidths)
    n_narrow = int(np.sum(terms > within.mean(axis=0)))
    yield from _by_windows(problem, bandwidths[:n_narrow])
    # By octaves, as a series has the period of its widest and the terms of its narrowest.
    start = n_narrow
    while start < bandwidths.size:
        stop = int(np.searchsorted(bandwidths, 2.0 * bandwidths[start], side="right"))
        yield from _fourier(problem, bandwidths, slice(start, stop), windows)
        start = stop


def _fourier(
    problem: PathProblem, bandwidths: FloatArray, some: slice, windows: Direct
) -> Iterator[PathFit]:
    """Sum Gaussians over all points of the line by a Fourier series.

    On |z| <= span, exp(-z^2 / 2h^2) is sum_k g_k cos(k t z), t = 2 pi / period, with
    g_k = (2 - [k = 0]) t h exp(-(k t h)^2 / 2) / sqrt(2 pi), up to exp(-40), if the period
    is span + 9 h and terms go up to k t h = 9 (Poisson summation; as in Kunis, Potts &
    Steidl 2006, "Fast Gauss transforms with complex parameters using NFFTs"). Cosines of
    differences separate, and no other factor depends on the points: all bandwidths share
    one matrix product.
    """
    sample, values, x = problem.sample, problem.values, problem.sample.layout.X[0]
    h = bandwidths[some]
    span = x[-1] - x[0]
    far = np.sqrt(2.0 * _NEGLIGIBLE)
    t = 2.0 * np.pi / (span + far * h[-1])
    count = 1 + int(np.ceil(far / (t * h[0])))
    th = t * h[:, None]
    g = th * np.exp(-0.5 * (np.arange(count) * th) ** 2) / np.sqrt(2.0 * np.pi)
    g[:, 1:] *= 2.0
    angles = t * (x - (x[0] + 0.5 * span))
    columns = np.vstack([sample.prior, sample.prior * values])
    blocks = list(_blocks(x.size, 32 * count))
    waves = [_waves(angles[block], count) for block in blocks[:1]]
    # (2 count, 1 + p) sums of cosines, then of sines
    moments = waves[0] @ columns[:, blocks[0]].T
    for block in blocks[1:]:
        moments += _waves(angles[block], count) @ columns[:, block].T
    spectrum = np.tile(g, 2)[:, None, :] * moments.T[None]
    bound = np.hypot(moments[:count, 0], moments[count:, 0]) @ g.T
    for block in blocks:
        in_block = waves.pop() if waves else _waves(angles[block], count)
        sums = (spectrum.reshape(-1, 2 * count) @ in_block).reshape(h.size, columns.shape[0], -1)
        weight, cross = sums[:, 0], sums[:, 1:].transpose(0, 2, 1)
        if problem.leave_out:
            weight = weight - sample.prior[block]
            cross = cross - columns[1:, block].T
        doubtful = weight <= _CANCELLED * bound[:, None]
        mean, solution = _settled(h, block.start, weight, cross, doubtful, windows)
        yield PathFit(some, block, mean, solution)


def _waves(angles: FloatArray, count: int) -> FloatArray:
    """Return cos(k a) and, below, sin(k a) for k < count: (2 count, angles.size)."""
    waves = np.empty((count, angles.size), dtype=complex)
    waves[0] = 1.0
    done = 1
    while done < count:
        take = min(done, count - done)
        np.multiply(waves[:take], np.exp(1j * done * angles), out=waves[done : done + take])
        done += take
    return np.concatenate([waves.real, waves.imag])
