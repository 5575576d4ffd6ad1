"""The iteration of Sinkhorn on logarithms of weights, with loads that cost or are fixed."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from nwsim._typing import FloatArray
from nwsim.attention.weights import _normalised

_BURST = 500  # products at most between two steps on logarithms
_ROOM = 50.0  # by how much a logarithm may move meanwhile: what underflowed stays negligible
_STALLS = 100  # bursts that end within the tolerance before weights that do not are given up


def shares(penalty: float, t: float) -> tuple[float, float]:
    """Return penalty / (penalty + t) and t / (penalty + t), which neither overflow nor cancel."""
    share = 1.0 / (1.0 + t / penalty) if penalty > 0.0 else 0.0
    return share, (0.0 if share == 1.0 else 1.0 / (1.0 + penalty / t))


def iterate(
    z: FloatArray,
    log_marginal: FloatArray,
    share: float,
    rest: float,
    max_iter: int,
    tol: float,
) -> tuple[FloatArray, FloatArray, int, float]:
    """Iterate from potentials 0 until loads of weights are as asked for, or to no avail.

    Parameters
    ----------
    z : ndarray, shape (m, n)
        Scores over t less the largest of their row; -inf where masked.
    log_marginal : ndarray, shape (n,)
        Logarithms of the loads that keys should have.
    share, rest : float
        penalty / (penalty + t), and what is left of 1.
    max_iter : int
        Most iterations.
    tol : float
        Largest error.

    Returns
    -------
    potentials : ndarray, shape (n,)
        Of the keys, over t.
    weights : ndarray, shape (m, n)
        exp(z + potentials), over the sums of rows.
    n_iter : int
        Iterations.
    error : float
        Sum of differences of the loads of these weights from those asked for next.
    """
    g, n_iter, stalls = np.zeros(z.shape[1]), 0, 0
    if share == 0.0:
        return g, _normalised(z, None), 0, 0.0
    log_m = math.log(z.shape[0])
    known = np.isfinite(z).any(axis=0)
    while True:
        exponent = z + g
        weights = _normalised(exponent, None)
        f = -logsumexp(exponent, axis=1)
        # A key that no query may attend to keeps potential 0 and load 0.
        log_s = np.where(known, logsumexp(z + f[:, np.newaxis], axis=0) - log_m, -math.inf)
        asked = np.full_like(g, -math.inf)
        asked[known] = (share * log_marginal + (rest * log_s if rest else 0.0))[known]
        asked -= logsumexp(asked)
        error = float(np.abs(np.exp(asked) - weights.mean(axis=0)).sum())
        if error <= tol or n_iter >= max_iter or stalls >= _STALLS:
            return g, weights, n_iter, error
        g, n_iter = np.zeros_like(g), n_iter + 1
        g[known] = asked[known] - log_s[known]
        if known.all():
            g, n_iter, settled = _burst(z, g, log_marginal, share, rest, n_iter, max_iter, tol)
            # Where the sum of kernel and potentials is rounded by more, no iteration helps.
            stalls = stalls + 1 if settled else 0


def _burst(
    z: FloatArray,
    g: FloatArray,
    log_marginal: FloatArray,
    share: float,
    rest: float,
    n_iter: int,
    max_iter: int,
    tol: float,
) -> tuple[FloatArray, int, bool]:
    """Iterate by products with the kernel at g, while logarithms move by less than _ROOM.

    Returns the potentials, the number of iterations, and whether loads are as asked for.
    """
    kernel = _normalised(z + g, None) / z.shape[0]
    log_v, settled = np.zeros_like(g), False
    for _ in range(min(_BURST, max_iter - n_iter)):
        v = np.exp(log_v)
        u = 1.0 / (z.shape[0] * (kernel @ v))
        column = kernel.T @ u
        if not (column > 0.0).all():
            break
        new = share * (log_marginal - np.log(column)) - rest * g
        new -= logsumexp(new + np.log(column))
        if not float(np.abs(new).max()) < _ROOM:
            break
        change = float(np.abs(column * (np.exp(new) - v)).sum())
        log_v, n_iter = new, n_iter + 1
        if change <= tol:
            settled = True
            break
    return g + log_v, n_iter, settled
