"""The leave-one-out error of Gaussian attention, and descents of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from nwsim._typing import FloatArray

_CELLS = 2**15  # of an array of queries by keys that is computed at a time: they stay in cache
_FAR = 50.0


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Mean squared leave-one-out error of Gaussian attention, with its gradient.

    Parameters
    ----------
    x : (n, d) ndarray
    y : (n, p) ndarray
    features : (n, r) ndarray or None
        log h_i = features_i . parameters, see :func:`near_first`; None: the parameters are log h
        by coordinate.
    """

    x: FloatArray
    y: FloatArray
    features: FloatArray | None

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Return the error and its derivative in each parameter."""
        total, gradient = 0.0, np.zeros(len(parameters))
        for rows in row_blocks(self.x.shape[0]):
            parts, per_row = self._distances(rows, parameters)
            distance = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
            own = (np.arange(distance.shape[0]), np.arange(rows.start, rows.stop))
            distance[own] = np.inf
            nearest = distance.argmin(axis=1)[:, np.newaxis]
            # Shifted by the nearest, so that an observation far from all others has it.
            distance -= np.take_along_axis(distance, nearest, axis=1)
            weights = np.exp(-0.5 * distance)
            weights /= weights.sum(axis=1, keepdims=True)
            distance[own] = 0.0
            mean = weights @ self.y
            residual = mean - self.y[rows]
            total += float(np.sum(residual**2))
            for a, part in enumerate(parts):
                # Also shifted, which changes no sum: of huge distances it would be all rounding.
                if part is not distance:
                    part -= np.take_along_axis(part, nearest, axis=1)
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
            h = np.exp(near_first(self.features[rows] @ parameters, parameters))[:, np.newaxis]
            squares = cdist(self.x[rows], self.x, "sqeuclidean")
            return [squares / h**2], self.features[rows]
        scaled = self.x / np.exp(parameters)
        columns = (scaled[:, a] for a in range(scaled.shape[1]))
        return [(column[rows, np.newaxis] - column) ** 2 for column in columns], None


def near_first(log_h: FloatArray, parameters: FloatArray) -> FloatArray:
    """Return log bandwidths kept within a factor of e^50 of that of the first parameter.

    Slopes and features may be so large that h would leave the range of float64. A window that is
    this much wider than the sample, or narrower than its gaps, is as good as any wider or narrower.
    """
    return np.clip(log_h, parameters[0] - _FAR, parameters[0] + _FAR)


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    x: FloatArray
    value: float
    n_iter: int
    converged: bool
    at_edge: bool
    message: str


def descend(
    error: LeaveOneOut, start: FloatArray, bounds: list[tuple[float, float]], max_iter: int
) -> Descent:
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
    return Descent(
        x=np.asarray(found.x, dtype=np.float64),
        value=float(found.fun),
        n_iter=int(found.nit),
        converged=bool(found.success),
        at_edge=bool(((found.x <= low) | (found.x >= high)).any()),
        message=str(found.message),
    )


def row_blocks(n: int) -> list[slice]:
    """Return slices of rows whose distances to n keys are few enough to be held."""
    step = max(1, _CELLS // n)
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]
