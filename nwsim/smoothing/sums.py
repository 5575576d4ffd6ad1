"""Moment sums: everything a smoother needs to know about a query's window.

The mean and the noise variance of a kernel smoother at a query are functions of a few
sums over the window, so prediction, conditional moments and bandwidth selection all start
here and no m x n matrix is formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nwsim._typing import BoolArray, FloatArray, IntArray
from nwsim.exceptions import ParameterError
from nwsim.smoothing.engines import ENGINES, Layout, able_engines
from nwsim.smoothing.kernels import FAMILIES, Kernel

# Below this sum of weights the squares of an exponential kernel's weights near underflow;
# such queries are summed again with the exponent shifted by its largest value.
TOO_SMALL = (
    "bandwidth is so small for the distance between X_query and X that weights "
    "leave the range of floating point; give a larger one"
)

FAINT = 1e-100
# A signed denominator this small beside its absolute sum says nothing about a mean.
_CANCELLED = 1e-3
# Of a difference that is 0, in place of its exponent: below any other.
_NO_EXPONENT = -(10**6)


def empty_windows(sums: FloatArray, absolute: FloatArray, signed: bool) -> BoolArray:
    """Return which sums of weights are of no use as a denominator.

    ``signed`` kernels may cancel: a window then counts as empty when |sum w| is at most 1e-3
    of sum |w|.
    """
    if signed:
        return np.abs(sums) <= _CANCELLED * absolute
    return sums <= 0.0


@dataclass(frozen=True)
class MomentSums:
    """Sums over each query's window, with weights w_i = prior_i K((q - x_i) / h).

    K is the kernel's formula without unit mass (1 at u = 0 for kernels of order 2).
    Features phi are (1) for a local constant fit and (1, (x - q) / h) for a local linear
    one; F is their number.

    Attributes
    ----------
    gram : (m, F, F) sum w phi phi'
    cross : (m, F, p) sum w phi v'
    noise_gram : (m, F, F) sum w^2 s2 phi phi'
    absolute : (m,) sum |w|; an upper bound of it, from a fast engine, where it is not so large
        as to make the window empty
    log_scale : (m,) true sums are exp(log_scale) times the stored ones; 0 unless every
        weight of the window would underflow
    n_pointwise : int
        Windows that a fast engine left to a sum over their points; 0 where an engine sums every
        window so.
    """

    gram: FloatArray
    cross: FloatArray
    noise_gram: FloatArray
    absolute: FloatArray
    log_scale: FloatArray
    n_pointwise: int = 0

    @property
    def sum_k(self) -> FloatArray:
        """Sum of weights, (m,)."""
        return self.gram[:, 0, 0]

    @property
    def sum_kv(self) -> FloatArray:
        """Sums of weights times values, (m, p)."""
        return self.cross[:, 0, :]

    @property
    def sum_k2s2(self) -> FloatArray:
        """Sum of squared weights times noise variance, (m,)."""
        return self.noise_gram[:, 0, 0]

    def empty(self, signed: bool) -> BoolArray:
        """Return which windows hold no usable weight, (m,)."""
        return empty_windows(self.sum_k, self.absolute, signed)


@dataclass(frozen=True)
class WeightedSample:
    """A laid-out sample with its kernel, bandwidth and prior weights.

    Attributes
    ----------
    layout, kernel : Layout, Kernel
    bandwidth : (d,)
    prior : (n,) in the layout's order
    engine : name of an engine that the layout suits, or "auto" for the cheapest of those
    tol : how far a sum may be off, as a part of the sum of weights
    flat : whether prior weights are known to be ones, which spares multiplications
    """

    layout: Layout
    kernel: Kernel
    bandwidth: FloatArray
    prior: FloatArray
    engine: str = "direct"
    tol: float = 1e-12
    flat: bool = False

    def columns(self, values: FloatArray, arranged: bool = False) -> FloatArray:
        """Return prior weights, then prior weights times values, (1 + p, n).

        Parameters
        ----------
        values : (p, n) in the caller's order, or in the layout's if ``arranged``
        """
        out = np.empty((1 + values.shape[0], self.prior.size))
        out[0] = self.prior
        if arranged:
            out[1:] = values
        else:
            self.layout.arrange(values, out=out[1:])
        if not self.flat:
            out[1:] *= self.prior
        return out

    def squares(self, noise: FloatArray | None) -> FloatArray:
        """Return squared prior weights times noise variances, (n,), or (0,) for None."""
        return np.empty(0) if noise is None else self.prior * self.prior * noise

    def engine_for(self, n_queries: int, n_columns: int = 2, degree: int = 0) -> str:
        """Return the name of the engine that serves so many queries."""
        if self.engine != "auto":
            return self.engine
        from nwsim.smoothing.costs import Task, cheapest

        d = self.layout.X.shape[0]
        able = [
            name
            for name in able_engines(self.kernel, d, degree)
            if ENGINES[name].layout in ("plain", self.layout.kind)
        ]
        if "window" in able:  # which at worst does what "direct" does
            able.remove("direct")
        if len(able) == 1:
            return able[0]
        span = self.layout.span
        return cheapest(
            able,
            Task(
                self.kernel,
                self.layout.X.shape[1],
                n_queries,
                n_columns,
                self.bandwidth,
                span,
                self.tol,
            ),
        )

    def _family(self) -> tuple[int, int, int, FloatArray]:
        kernel = self.kernel
        polynomial = kernel.polynomial(self.layout.X.shape[0])
        return FAMILIES[kernel.family], kernel.power, kernel.exponent, polynomial

    def _shift(self, Q: FloatArray, exclude: IntArray, degree: int) -> FloatArray:
        """Return minus the exponent of each query's nearest point, (m,)."""
        from nwsim.numerics.moments import nearest_squared

        least = np.empty(Q.shape[0])
        nearest_squared(self.layout.X, Q, self.bandwidth, self.prior, exclude, least)
        lonely = np.isinf(least) & (exclude >= 0)
        # Polynomial factors and linear features grow with the distance, and are squared.
        plain = degree == 0 and not self.kernel.signed
        if np.any(least[~lonely] > (np.finfo(float).max if plain else 1e100)):
            raise ParameterError(TOO_SMALL)
        least[lonely] = 0.0
        return least / 2 if self.kernel.family == "gaussian" else np.sqrt(least)

    def sums(
        self,
        Q: FloatArray,
        columns: FloatArray,
        squares: FloatArray | None = None,
        degree: int = 0,
        exclude: IntArray | None = None,
    ) -> MomentSums:
        """Return the moment sums of each query's window.

        Parameters
        ----------
        Q : (m, d) queries
        columns : (1 + p, n) from :meth:`columns`, of values in the layout's order
        squares : (n,) or (0,) from :meth:`squares`, or None to leave noise out
        degree : 0 for local constant, 1 for local linear features
        exclude : (m,) position (in the layout's order) of a point to leave out, or -1; then
            windows are summed point by point
        """
        m, d = Q.shape
        features = 1 + d * degree
        left_out = np.full(m, -1, np.int64) if exclude is None else exclude
        squares = np.empty(0) if squares is None else squares
        result = MomentSums(
            gram=np.zeros((m, features, features)),
            cross=np.zeros((m, features, columns.shape[0] - 1)),
            noise_gram=np.zeros((m, features, features)),
            absolute=np.zeros(m),
            log_scale=np.zeros(m),
        )
        engine = "direct" if exclude is not None else self.engine_for(m, len(columns), degree)
        data = (Q, columns, squares, left_out)
        pointwise = np.empty(0, np.int64)
        if ENGINES[engine].ranges:
            narrow = engine != "direct" or exclude is not None
            self._add(*data, result, slice(None), narrow)
        else:
            pointwise = self._add_fast(engine, Q, columns, squares, result)
            if pointwise.size:
                self._add(*data, result, pointwise)
        if self.kernel.support == np.inf:
            faint = np.flatnonzero(result.absolute < FAINT * self.prior.max())
            if faint.size:
                # Exactly what log-sum-exp does, spent only where it is needed.
                result.log_scale[faint] = -self._shift(Q[faint], left_out[faint], degree)
                self._add(*data, result, faint)
                if not ENGINES[engine].ranges:
                    pointwise = np.union1d(pointwise, faint)
        return replace(result, n_pointwise=pointwise.size) if pointwise.size else result

    def _add_fast(
        self,
        engine: str,
        Q: FloatArray,
        columns: FloatArray,
        squares: FloatArray,
        result: MomentSums,
    ) -> IntArray:
        """Fill in the sums of a fast engine; return the queries whose sums are in doubt."""
        from nwsim.smoothing.fast import FAST

        found = FAST[engine](self, Q, columns, squares)
        result.gram[:, 0, 0] = found.sums[:, 0]
        result.cross[:, 0, :] = found.sums[:, 1:]
        result.absolute[:] = found.absolute
        if squares.size:
            result.noise_gram[:, 0, 0] = found.noise
        doubtful = ~(found.bound <= self.tol * np.abs(found.sums[:, 0]))
        if self.kernel.signed:  # whether such a window is empty depends on the absolute sum
            doubtful |= empty_windows(found.sums[:, 0], found.absolute, signed=True)
        return np.flatnonzero(doubtful)

    def _add(
        self,
        Q: FloatArray,
        columns: FloatArray,
        squares: FloatArray,
        exclude: IntArray,
        result: MomentSums,
        rows: slice | IntArray,
        narrow: bool = True,
    ) -> None:
        """Fill in sums point by point, over the window alone if ``narrow``."""
        from nwsim.numerics.moments import moment_sums

        queries = np.ascontiguousarray(Q[rows])
        reach = (self.kernel.support if narrow else np.inf) * self.bandwidth
        out = [
            np.zeros_like(array[rows]) for array in (result.gram, result.noise_gram, result.cross)
        ]
        # Without negative weights the absolute sum is the sum, and the loop skips it.
        out.append(np.zeros(queries.shape[0] if self.kernel.signed else 0))
        moment_sums(
            self.layout.X,
            queries,
            self.bandwidth,
            *self._family(),
            columns,
            squares,
            *self.layout.ranges(queries, reach),
            np.ascontiguousarray(exclude[rows]),
            -result.log_scale[rows],
            *out,
        )
        if not self.kernel.signed:
            out[3] = out[0][:, 0, 0]
        for array, part in zip(
            (result.gram, result.noise_gram, result.cross, result.absolute), out, strict=True
        ):
            array[rows] = part

    def rows(self, Q: FloatArray, log_scale: FloatArray) -> FloatArray:
        """Return the weights w (m, n) in the caller's order, times exp(-log_scale)."""
        from nwsim.numerics.moments import weight_rows

        out = np.zeros((Q.shape[0], self.layout.X.shape[1]))
        weight_rows(
            self.layout.X,
            Q,
            self.bandwidth,
            *self._family(),
            self.prior,
            *self.layout.ranges(Q, self.kernel.support * self.bandwidth),
            self.layout.order,
            -log_scale,
            out,
        )
        return out

    def nearest(self, Q: FloatArray) -> BoolArray:
        """Return which points are nearest to each query, ties shared, (m, n).

        In the layout's order; distances in units of the bandwidth, points of zero prior
        weight left out.
        """
        from nwsim.numerics.moments import nearest_members, nearest_squared

        if self.layout.kind == "line":
            starts, stops = self.nearest_ranges(Q)
            at = np.arange(self.prior.size)
            return (starts[:, None] <= at) & (at < stops[:, None]) & (self.prior > 0.0)
        least = np.empty(Q.shape[0])
        out = np.empty((Q.shape[0], self.layout.X.shape[1]), dtype=bool)
        nobody = np.full(Q.shape[0], -1, np.int64)
        nearest_squared(self.layout.X, Q, self.bandwidth, self.prior, nobody, least)
        nearest_members(self.layout.X, Q, self.bandwidth, self.prior, least, out)
        for j in np.flatnonzero(np.isinf(least)):
            out[j] = self._far_nearest(Q[j])
        return out

    def _far_nearest(self, q: FloatArray) -> BoolArray:
        """Return the points nearest to one query (d,) whose squared distances overflow, (n,).

        Distances are divided by a power of two about as large as the least of them, which
        changes no digit; those of other points may then be infinite.
        """
        # Halves: the difference of two huge numbers could itself overflow.
        mantissa, exponent = np.frexp(np.abs(q[:, None] / 2.0 - self.layout.X / 2.0))
        h, h_exponent = np.frexp(self.bandwidth[:, None])
        exponent = np.where(mantissa > 0.0, exponent - h_exponent, _NO_EXPONENT)
        size = exponent.max(axis=0)[self.prior > 0.0].min()
        with np.errstate(over="ignore", under="ignore"):
            distance = (np.ldexp(mantissa / h, exponent - size) ** 2).sum(axis=0)
        distance = np.where(self.prior > 0.0, distance, np.inf)
        found: BoolArray = distance <= distance.min()
        return found

    def nearest_ranges(self, Q: FloatArray) -> tuple[IntArray, IntArray]:
        """Return starts and stops (m,) of the points nearest to each query, on a sorted line.

        Among them may be points of zero prior weight.
        """
        from nwsim.numerics.moments import nearest_on_line

        starts, stops = (np.empty(Q.shape[0], np.int64) for _ in range(2))
        q, line = np.ascontiguousarray(Q[:, 0]), self.layout.X[0]
        nearest_on_line(line, q, self.bandwidth[0], self.prior, starts, stops)
        with np.errstate(over="ignore"):
            gap = np.abs(q - line[np.minimum(starts, line.size - 1)]) / self.bandwidth[0]
            far = np.flatnonzero(~np.isfinite(gap**2))
        for j in far:
            members = np.flatnonzero(self._far_nearest(q[j : j + 1]))
            starts[j], stops[j] = members[0], members[-1] + 1
        return starts, stops
