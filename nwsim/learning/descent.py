"""Descent over orthonormal frames, each head's own or all heads' mutually orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import minimize

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_integer, check_real
from nwsim.heads import check_projections, random_frames
from nwsim.heads.projections import check_room, upright_qr

FrameFunction: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
"""Value of frames (H, d, d_k) and its gradient, (H, d, d_k)."""


class Descent(NamedTuple):
    """Where a descent ended.

    Attributes
    ----------
    frames : (H, d, d_k)
        Orthonormal within each head.
    scale : float
        What the function saw is ``scale * frames``; 1 unless it was free.
    value : float
        The function there.
    gradient_norm : float
        Norm of the gradient along what was admitted: frames, and log scale within its bounds.
    n_iterations : int
    converged : bool
        Whether that norm is at most ``tolerance`` times the value.
    """

    frames: FloatArray
    scale: float
    value: float
    gradient_norm: float
    n_iterations: int
    converged: bool


def orthonormal_pullback(Q: FloatArray, R: FloatArray, gradient: FloatArray) -> FloatArray:
    r"""Return the gradient in A of a function of Q, where A = QR.

    Parameters
    ----------
    Q, gradient : ndarray, shape (..., d, c)
        Orthonormal factor, and the gradient G of the function in Q.
    R : ndarray, shape (..., c, c)
        Upper triangular, invertible.

    Returns
    -------
    ndarray, shape (..., d, c)

    Notes
    -----
    Proof. From A = QR, :math:`dA\,R^{-1} = dQ + Q\,dR\,R^{-1}`. Since Q'Q = I,
    :math:`\Omega = Q'dQ` is skew, and :math:`dR R^{-1}` is upper triangular, so the part of
    :math:`Q'dA R^{-1}` below the diagonal is that of :math:`\Omega`, and
    :math:`dQ = (I - QQ')dA R^{-1} + Q\Omega`. In :math:`\langle G, dQ\rangle` the first term has
    the adjoint :math:`(I - QQ')G R^{-T}`. The second is
    :math:`\langle Q'G, \Omega\rangle = \sum_{i>j} (Q'G - G'Q)_{ij} (Q'dA R^{-1})_{ij}`. With L
    the part of :math:`Q'G - G'Q` below the diagonal, the gradient in A is

    .. math:: [(I - QQ')G + QL] R^{-T} .

    If the function depends on the range of Q alone, as a Gaussian head's risk does, then
    :math:`\langle G, Q\Omega\rangle = 0` for every skew :math:`\Omega`: Q'G is symmetric, L = 0,
    and :math:`(I - QQ')G R^{-T}` is left.

    References
    ----------
    S. F. Walter, L. Lehmann (2010), Algorithmic differentiation of linear algebra functions
    with application in optimum experimental design, arXiv 1001.1654.
    """
    inner = np.swapaxes(Q, -1, -2) @ gradient
    skew = np.tril(inner - np.swapaxes(inner, -1, -2), -1)
    moved = gradient - Q @ inner + Q @ skew
    return np.asarray(np.swapaxes(np.linalg.solve(R, np.swapaxes(moved, -1, -2)), -1, -2))


def descend(
    function: FrameFunction,
    start: ArrayLike,
    *,
    orthogonal: bool = False,
    reach: float = 0.0,
    scale: float = 1.0,
    tolerance: float = 3e-4,
    max_iterations: int = 200,
) -> Descent:
    """Minimise a function over orthonormal frames, and their common scale, from one start.

    Parameters
    ----------
    function : callable
        Takes frames (H, d, d_k), returns their value (> 0) and its gradient, (H, d, d_k).
    start : array_like, shape (H, d, d_k)
        Of full rank; the descent starts from the frames that they span.
    orthogonal : bool, default False
        Whether heads stay orthogonal to each other, which needs ``H d_k <= d``. Each head's
        own columns always are.
    reach : float, default 0
        >= 0; how far the logarithm of the scale may move from 0, to either side. 0 keeps it.
    scale : float, default 1
        Where the scale starts, within its reach.
    tolerance : float, default 3e-4
        Relative to the value, see :class:`Descent`.
    max_iterations : int, default 200

    Returns
    -------
    Descent

    Raises
    ------
    ParameterError
        For a start that is not finite or lacks rank, without room for orthogonal heads, or for a
        scale out of reach.

    Notes
    -----
    L-BFGS over unconstrained A with Q the orthonormal factor of A, see `orthonormal_pullback`,
    and over log s within its bounds; the derivative of F(sQ) in log s is <grad F(sQ), sQ>.
    Identical heads with equal weights have equal gradients: a free
    descent from there stays there, whatever lies beside.

    References
    ----------
    R. H. Byrd, P. Lu, J. Nocedal, C. Zhu (1995), A limited memory algorithm for bound
    constrained optimization, *SIAM J. Sci. Comput.* 16, 1190-1208.
    """
    heads = np.stack(check_projections(check_array("start", start, ndim=3), name="start"))
    n_heads, d, d_k = heads.shape
    tolerance = check_real("tolerance", tolerance, above=0.0)
    max_iterations = check_integer("max_iterations", max_iterations, minimum=1)
    if orthogonal:
        check_room((d_k,) * n_heads, d)
        check_projections(_beside(heads), name="the columns of start")

    reach = check_real("reach", reach, minimum=0.0)
    log_scale = math.log(check_real("scale", scale, above=0.0))
    check_real("the logarithm of scale", abs(log_scale), maximum=reach)

    # Orthogonal heads are one frame of H d_k columns.
    def apart(stack: FloatArray) -> FloatArray:
        return np.stack(np.split(stack[0], n_heads, axis=1)) if orthogonal else stack

    def together(stack: FloatArray) -> FloatArray:
        return _beside(stack) if orthogonal else stack

    stack = together(heads)
    size, n_iterations, stuck = stack.size, 0, False

    def along(place: FloatArray, unit: float) -> tuple[float, FloatArray]:
        """Return the value and its gradient in A and log s, in a unit."""
        Q, R = upright_qr(place[:size].reshape(stack.shape))
        seen = math.exp(place[size]) * apart(Q)
        value, gradient = function(seen)
        pulled = orthonormal_pullback(Q, R, together(gradient)) * math.exp(place[size])
        slope = float(np.sum(gradient * seen)) if reach else 0.0
        return value / unit, np.append(pulled.ravel(), slope) / unit

    while True:
        Q, _ = upright_qr(stack)
        place = np.append(Q.ravel(), log_scale)
        value, slopes = along(place, 1.0)
        # At a bound, what points outwards is no way down.
        if abs(log_scale) >= reach and slopes[-1] * log_scale < 0.0:
            slopes[-1] = 0.0
        norm = float(np.linalg.norm(slopes))
        converged = norm <= tolerance * abs(value)
        if converged or stuck or n_iterations >= max_iterations:
            frames = np.ascontiguousarray(apart(Q))
            return Descent(frames, math.exp(log_scale), value, norm, n_iterations, converged)
        # The solver's tolerance is relative to where it starts, so it may have to start again.
        found = minimize(
            along,
            place,
            args=(abs(value) or 1.0,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(None, None)] * size + [(-reach, reach)],
            options={
                "maxiter": max_iterations - n_iterations,
                "gtol": 0.5 * tolerance / math.sqrt(size),
                "ftol": 0.0,
                "maxcor": 20,
            },
        )
        stack, log_scale = found.x[:size].reshape(stack.shape), float(found.x[size])
        n_iterations, stuck = n_iterations + int(found.nit), found.nit == 0


def _beside(heads: FloatArray) -> FloatArray:
    """Return the columns (1, d, H d_k) of all heads side by side."""
    return np.hstack(list(heads))[np.newaxis]


def least_overlap_frames(n_heads: int, d: int, d_k: int, rng: np.random.Generator) -> FloatArray:
    """Draw frames that overlap as little as their number allows.

    Parameters
    ----------
    n_heads, d, d_k : int
        Heads H >= 2, dimension of the inputs, columns of every head.
    rng : numpy.random.Generator
        Draws a random start.

    Returns
    -------
    ndarray, shape (H, d, d_k)
        Mutually orthogonal and uniform where ``H d_k <= d``. Otherwise the end of a descent of
        the mean overlap from uniform frames.

    Notes
    -----
    The mean overlap is the frame potential of fusion frames up to constants; where tight ones
    exist descents of it are known to find them in practice, and a test compares it with
    `nwsim.heads.minimum_overlap`.

    References
    ----------
    J. J. Benedetto, M. Fickus (2003), Finite normalized tight frames, *Adv. Comput. Math.* 18,
    357-385. P. G. Casazza, M. Fickus (2009), Minimizing fusion frame potential, *Acta Appl.
    Math.* 107, 7-24.
    """
    if n_heads * d_k <= d:
        return np.asarray(random_frames(n_heads, d, d_k, rng, orthogonal=True))
    start = np.asarray(random_frames(n_heads, d, d_k, rng))
    return descend(mean_overlap, start, tolerance=1e-8, max_iterations=1000).frames


def mean_overlap(frames: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean overlap of orthonormal frames (H, d, d_k), and its gradient."""
    n_heads, _, d_k = frames.shape
    projectors = frames @ np.swapaxes(frames, 1, 2)
    others = projectors.sum(axis=0) - projectors
    scale = n_heads * (n_heads - 1) * d_k
    gradient = 4.0 * (others @ frames) / scale
    return float((others * projectors).sum()) / scale, gradient
