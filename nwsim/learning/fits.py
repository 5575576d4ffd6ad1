"""Frames fitted to designs from many starts, and what the optima look like."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_integer, check_real
from nwsim.exceptions import ParameterError
from nwsim.heads import coordinate_frames, head_diversity_index, random_frames
from nwsim.heads.projections import check_rng, upright_qr
from nwsim.learning.descent import (
    FrameFunction,
    descend,
    least_overlap_frames,
    orthonormal_pullback,
)
from nwsim.learning.objective import FrameRisk

_GRID = 9


class FrameFit(NamedTuple):
    """Frames fitted from one start.

    Attributes
    ----------
    start : str
        Name of the start.
    frames : (H, d, d_k)
    bandwidth : float
    value : float
        The risk on the designs that they were fitted to.
    gradient_norm : float
        Norm of its gradient along what was admitted, see `Descent`.
    n_iterations : int
    converged : bool
        Whether the norm is within the tolerance.
    """

    start: str
    frames: FloatArray
    bandwidth: float
    value: float
    gradient_norm: float
    n_iterations: int
    converged: bool


def fit_frames(
    risk: FrameRisk,
    starts: Mapping[str, ArrayLike],
    bandwidth: float,
    *,
    orthogonal: bool = False,
    span: float | None = None,
    tolerance: float = 3e-4,
    max_iterations: int = 200,
) -> tuple[FrameFit, ...]:
    """Minimise the risk from every start.

    Parameters
    ----------
    risk : FrameRisk
    starts : mapping of str to array_like (H, d, d_k)
        At least one.
    bandwidth : float
        Of all heads, in the unit of the inputs.
    orthogonal : bool, default False
        Whether heads stay orthogonal to each other, as in `descend`.
    span : float, optional
        > 1; lets the bandwidth move by up to this factor to either side, from the best one
        for each start.
    tolerance, max_iterations
        As in `descend`.

    Returns
    -------
    tuple of FrameFit
        One a start, in their order.

    Raises
    ------
    ParameterError
        Without a start, and as `descend` and `FrameRisk` do.
    """
    if not starts:
        raise ParameterError("starts must hold at least one start")
    h0 = check_real("bandwidth", bandwidth, above=0.0)
    reach = 0.0 if span is None else math.log(check_real("span", span, above=1.0))
    fits = []
    for name, start in starts.items():
        # Gaussian heads see P/h: a bandwidth that moves is a common scale of the frames. It
        # starts from the best one for the start, found on a grid.
        h = h0 if span is None else best_bandwidth(risk, start, h0, span)
        found = descend(
            partial(risk.value_and_gradient, bandwidth=h0),
            start,
            orthogonal=orthogonal,
            reach=reach,
            scale=h0 / h,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
        fits.append(
            FrameFit(
                start=name,
                frames=found.frames,
                bandwidth=h0 / found.scale,
                value=found.value,
                gradient_norm=found.gradient_norm,
                n_iterations=found.n_iterations,
                converged=found.converged,
            )
        )
    return tuple(fits)


def best_bandwidth(risk: FrameRisk, frames: ArrayLike, bandwidth: float, span: float) -> float:
    """Return the common bandwidth that minimises the risk of given frames.

    Parameters
    ----------
    risk : FrameRisk
    frames : array_like, shape (H, d, d_k)
    bandwidth : float
        Middle of the range that is searched.
    span : float
        > 1; the range is ``bandwidth / span`` to ``bandwidth * span``.

    Returns
    -------
    float
        To 0.01 in log h, the best of nine places and then between its neighbours.
    """
    h0 = check_real("bandwidth", bandwidth, above=0.0)
    reach = math.log(check_real("span", span, above=1.0))

    def at(log_ratio: float) -> float:
        return risk.value(frames, h0 * math.exp(log_ratio))

    # A grid first: the risk may have one minimum for heads that see f and one for all others.
    grid = np.linspace(-reach, reach, _GRID)
    best = int(np.argmin([at(place) for place in grid]))
    found = minimize_scalar(
        at,
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]),
        method="bounded",
        options={"xatol": 0.01},
    )
    return h0 * math.exp(float(found.x))


def starting_frames(
    n_heads: int, d: int, d_k: int, rng: np.random.Generator, n_each: int = 2
) -> dict[str, FloatArray]:
    """Return starts of every kind, by name.

    Parameters
    ----------
    n_heads, d, d_k : int
        Heads, dimension of the inputs, columns of every head.
    rng : numpy.random.Generator
    n_each : int, default 2
        Starts of each random kind.

    Returns
    -------
    dict of str to ndarray (H, d, d_k)
        ``random_0…``: independent and uniform. ``apart_0…``: least overlap, orthogonal where
        they fit. ``together_0…``: one uniform frame for all heads, shaken by a tenth, since a
        descent never parts heads that are exactly alike. ``coordinates``: disjoint coordinates,
        where they fit.
    """
    rng = check_rng(rng)
    n_each = check_integer("n_each", n_each, minimum=1)
    starts = {}
    for i in range(n_each):
        starts[f"random_{i}"] = np.asarray(random_frames(n_heads, d, d_k, rng))
    for i in range(n_each):
        starts[f"apart_{i}"] = least_overlap_frames(n_heads, d, d_k, rng)
    for i in range(n_each):
        one = np.asarray(random_frames(1, d, d_k, rng))
        starts[f"together_{i}"] = shaken(np.repeat(one, n_heads, axis=0), 0.1, rng)
    if n_heads * d_k <= d:
        starts["coordinates"] = np.asarray(coordinate_frames(n_heads, d, d_k))
    return starts


def shaken(frames: ArrayLike, size: float, rng: np.random.Generator) -> FloatArray:
    """Return orthonormal frames near the given ones.

    Parameters
    ----------
    frames : array_like, shape (H, d, d_k)
    size : float
        Standard deviation of the normal noise added to each entry, > 0.
    rng : numpy.random.Generator
    """
    P = check_array("frames", frames, ndim=3)
    noise = check_real("size", size, above=0.0) * check_rng(rng).standard_normal(P.shape)
    return np.asarray(upright_qr(P + noise)[0])


def distinct_optima(
    fits: Sequence[FrameFit], value_tol: float = 1e-3, index_tol: float = 0.02
) -> int:
    """Count the local optima among converged fits.

    Parameters
    ----------
    fits : sequence of FrameFit
    value_tol : float, default 1e-3
        Fits whose values differ by less than this share of the best count as one…
    index_tol : float, default 0.02
        …if their head diversity indices differ by less than this too.

    Returns
    -------
    int
        Fits are gone through by increasing value; one that is close to no earlier optimum is
        a new one.

    Notes
    -----
    Optima that differ by a symmetry, such as an exchange of heads, count as one, and so do
    different ones that happen to agree in both numbers.
    """
    found: list[tuple[float, float]] = []
    for fit in sorted((fit for fit in fits if fit.converged), key=lambda fit: fit.value):
        index = head_diversity_index(fit.frames) if len(fit.frames) > 1 else 0.0
        new = all(
            abs(fit.value - value) > value_tol * abs(found[0][0]) or abs(index - other) > index_tol
            for value, other in found
        )
        if new:
            found.append((fit.value, index))
    return len(found)


def curvatures(function: FrameFunction, frames: ArrayLike, step: float = 1e-4) -> FloatArray:
    r"""Return the principal curvatures of a function of the heads' ranges at a critical point.

    Parameters
    ----------
    function : callable
        As in `descend`; it must depend on the range of each frame alone.
    frames : array_like, shape (H, d, d_k)
        Orthonormal, and where the gradient vanishes (to the step's size).
    step : float, default 1e-4
        Of the central differences of the gradient.

    Returns
    -------
    ndarray, shape (H d_k (d - d_k),)
        Eigenvalues of the Hessian, ascending; empty if heads see all of R^d. One near 0
        belongs to a direction in which the frames may move freely, to second order.

    Notes
    -----
    With N_k an orthonormal basis of what head k does not see, frames near Q_k are
    :math:`\mathrm{qf}(Q_k + N_k B_k)`; the Hessian is that in the matrices B. Since
    :math:`R = I + O(B^2)`, at a critical point it is the one of the Grassmann manifolds.

    References
    ----------
    A. Edelman, T. A. Arias, S. T. Smith (1998), The geometry of algorithms with orthogonality
    constraints, *SIAM J. Matrix Anal. Appl.* 20, 303-353.
    """
    Q = check_array("frames", frames, ndim=3)
    step = check_real("step", step, above=0.0)
    n_heads, d, d_k = Q.shape
    rest = np.stack([np.linalg.qr(one, mode="complete")[0][:, d_k:] for one in Q])
    shape = (n_heads, d - d_k, d_k)
    size = math.prod(shape)

    def slope(flat: FloatArray) -> FloatArray:
        near, R = upright_qr(Q + rest @ flat.reshape(shape))
        pulled = orthonormal_pullback(near, R, function(near)[1])
        return np.asarray(np.swapaxes(rest, 1, 2) @ pulled).ravel()

    hessian = np.empty((size, size))
    for i, direction in enumerate(step * np.eye(size)):
        hessian[i] = (slope(direction) - slope(-direction)) / (2.0 * step)
    return np.asarray(np.linalg.eigvalsh(0.5 * (hessian + hessian.T)))
