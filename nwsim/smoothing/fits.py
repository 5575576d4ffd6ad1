"""From moment sums to fitted means: local constant, local linear, and empty windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nwsim._typing import BoolArray, FloatArray
from nwsim.exceptions import EmptyWindowError
from nwsim.smoothing.sums import MomentSums, WeightedSample

EMPTY_WINDOW_POLICIES = ("nan", "zero", "nearest", "mean", "raise")

# A local linear system counts as singular below this reciprocal condition number (after
# scaling its diagonal to one): the slope would carry no correct digit worth having.
_SINGULAR = 1e-10
# Signed weights cancel in the system as they do in the denominator: same caution there.
_SINGULAR_SIGNED = 1e-3
_CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class LocalFit:
    """A fit at each query, linear in the values.

    Attributes
    ----------
    mean : (m, p)
    noise_variance : (m,) sum_i s2_i W_i^2 of the smoothing weights W
    solution : (m, F) with W_i = w_i phi_i' solution
    empty, singular : (m,) windows without usable weight; local linear systems that fell
        back to the local constant fit
    """

    mean: FloatArray
    noise_variance: FloatArray
    solution: FloatArray
    empty: BoolArray
    singular: BoolArray


def local_fit(sums: MomentSums, signed: bool) -> LocalFit:
    """Solve the weighted least-squares problem of each window.

    The solution is e_1' G^(-1) with G the Gram matrix of the features; empty windows are
    left NaN (Fan & Gijbels 1996, "Local Polynomial Modelling", section 3.1).
    """
    empty = sums.empty(signed)
    m, features = sums.gram.shape[:2]
    solution = np.zeros((m, features))
    # G is zero in an empty window; NaN in, NaN out without a division warning.
    solution[:, 0] = 1.0 / np.where(empty, np.nan, sums.sum_k)
    singular = np.zeros(m, dtype=bool)
    if features > 1:
        usable = np.flatnonzero(~empty)
        gram = sums.gram[usable]
        scale = np.sqrt(np.abs(np.diagonal(gram, axis1=1, axis2=2)))
        scale = np.where(scale > 0.0, scale, 1.0)
        scaled = gram / (scale[:, :, None] * scale[:, None, :])
        values = np.abs(np.linalg.eigvalsh(scaled))
        least = _SINGULAR_SIGNED if signed else _SINGULAR
        regular = values.min(axis=1) > least * values.max(axis=1)
        singular[usable[~regular]] = True
        first = np.zeros((int(regular.sum()), features, 1))
        first[:, 0, 0] = 1.0 / scale[regular, 0]
        solved = np.linalg.solve(scaled[regular], first)[:, :, 0] / scale[regular]
        solution[usable[regular]] = solved
    mean = np.einsum("mf,mfp->mp", solution, sums.cross)
    variance = np.einsum("mf,mfg,mg->m", solution, sums.noise_gram, solution)
    return LocalFit(mean, variance, solution, empty, singular)


def fallback_weights(sample: WeightedSample, Q: FloatArray, policy: str) -> FloatArray:
    """Return smoothing weights (m, n) of queries whose windows are empty.

    In the layout's order. ``nan``: NaN; ``zero``: 0, so that the fit is 0; ``nearest``:
    the prior-weighted mean of the nearest points; ``mean``: that of all points.
    """
    shape = (Q.shape[0], sample.prior.size)
    if policy == "nan":
        return np.full(shape, np.nan)
    if policy == "zero":
        return np.zeros(shape)
    if policy == "nearest":
        weights = np.where(sample.nearest(Q), sample.prior, 0.0)
    else:
        weights = np.broadcast_to(sample.prior, shape)
    return weights / weights.sum(axis=1, keepdims=True)


def refuse_empty(empty: BoolArray, policy: str) -> None:
    """Raise under the policy ``raise`` if any window is empty."""
    if policy == "raise" and empty.any():
        first = int(np.flatnonzero(empty)[0])
        raise EmptyWindowError(
            f"{int(empty.sum())} of {empty.size} windows are empty, the first at query {first}; "
            "give a larger bandwidth or another empty_window policy "
            "(nan, zero, nearest, mean)"
        )


def apply_policy(
    fit: LocalFit,
    sample: WeightedSample,
    Q: FloatArray,
    columns: FloatArray,
    squares: FloatArray,
    policy: str,
) -> LocalFit:
    """Fill the fit of empty windows by the policy; columns and squares as summed."""
    refuse_empty(fit.empty, policy)
    empty = np.flatnonzero(fit.empty)
    if not empty.size:
        return fit
    mean, variance = fit.mean.copy(), fit.noise_variance.copy()
    if policy == "nearest" and sample.layout.kind == "line":
        from nwsim.numerics.moments import range_means

        ranges = sample.nearest_ranges(Q[empty])
        filled = np.zeros((empty.size, mean.shape[1])), np.zeros(empty.size)
        range_means(*ranges, sample.prior, columns, squares, *filled)
        mean[empty], variance[empty] = filled
        return LocalFit(mean, variance, fit.solution, fit.empty, fit.singular)
    # Columns and squares carry the prior weights: the smoothing weights' factors beside them.
    per_prior = np.divide(1.0, sample.prior, out=np.zeros_like(sample.prior), where=columns[0] > 0)
    step = max(1, _CHUNK_BYTES // (8 * sample.prior.size))
    for start in range(0, empty.size, step):
        rows = empty[start : start + step]
        weights = fallback_weights(sample, np.ascontiguousarray(Q[rows]), policy) * per_prior
        mean[rows] = weights @ columns[1:].T
        variance[rows] = weights**2 @ squares if squares.size else 0.0
    return LocalFit(mean, variance, fit.solution, fit.empty, fit.singular)
