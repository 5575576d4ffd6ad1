"""Entropy of attention, information between queries and keys, and the bottleneck of both.

All in nats. A query is one of the m rows with probability 1/m, a key is then drawn with the
row's weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import entr, rel_entr

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_real
from nwsim.attention.softmax import _largest, _mask, _matrix
from nwsim.exceptions import ParameterError

_GAP = 1e-6  # by which sums of rows may differ from 1


def row_entropy(weights: ArrayLike) -> FloatArray:
    """Return the entropy of each row of attention weights.

    Parameters
    ----------
    weights : (..., m, n) array_like
        >= 0, rows sum to 1 (to 1e-6).

    Returns
    -------
    (..., m) ndarray
        -sum_j w_ij log w_ij in nats, with 0 log 0 = 0; from 0 to log n.

    Raises
    ------
    ParameterError
        If weights are not as described.
    """
    entropy: FloatArray = entr(check_rows("weights", weights)).sum(axis=-1)
    return entropy


def mutual_information(weights: ArrayLike) -> FloatArray:
    """Return the mutual information of query and key.

    Parameters
    ----------
    weights : (..., m, n) array_like
        >= 0, rows sum to 1 (to 1e-6); queries are equally likely.

    Returns
    -------
    (...) ndarray
        I(Q;K) in nats, from 0 to log min(m, n); a scalar where there is no batch.

    Raises
    ------
    ParameterError
        If weights are not as described.

    Notes
    -----
    With the mean row p, I = H(p) - mean_i H(w_i) = mean_i KL(w_i | p) (Cover and Thomas 2006,
    sections 2.3 and 2.4). The second form is computed: it does not cancel where rows are alike.

    References
    ----------
    Cover, T. M. and Thomas, J. A. (2006). Elements of Information Theory, 2nd ed. Wiley.
    """
    return _information(check_rows("weights", weights))


def bottleneck(weights: ArrayLike, beta: float) -> FloatArray:
    """Return the bottleneck objective of attention weights.

    Parameters
    ----------
    weights : (..., m, n) array_like
        >= 0, rows sum to 1 (to 1e-6).
    beta : float
        Price of entropy, of either sign.

    Returns
    -------
    (...) ndarray
        L = I(Q;K) - beta H(A) in nats, H(A) the mean entropy of the rows.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Notes
    -----
    For beta >= 0 no weights have less than uniform ones, which have I = 0, the least, and
    H = log n, the most.
    """
    beta = check_real("beta", beta)
    rows = check_rows("weights", weights)
    return mutual_information(rows) - beta * row_entropy(rows).mean(axis=-1)


@dataclass(frozen=True)
class Information:
    """Entropy and information of softmax weights, with their derivatives in temperature.

    Attributes
    ----------
    entropy, d_entropy : float
        Mean entropy H of the rows in nats, and dH/dt.
    information, d_information : float
        Mutual information I of query and key in nats, and dI/dt.
    """

    entropy: float
    d_entropy: float
    information: float
    d_information: float

    def bottleneck(self, beta: float) -> float:
        """Return L = I - beta H."""
        return self.information - beta * self.entropy

    def d_bottleneck(self, beta: float) -> float:
        """Return dL/dt."""
        return self.d_information - beta * self.d_entropy


def information_at(
    scores: ArrayLike, temperature: float, mask: ArrayLike | None = None
) -> Information:
    """Return entropy and information of softmax(scores / temperature), with derivatives.

    Parameters
    ----------
    scores : (m, n) array_like
        Finite: <q_i, k_j>, or -|q_i - k_j|^2 / 2 for a Gaussian kernel of bandwidth sqrt(t).
    temperature : float
        t > 0.
    mask : (m, n) array_like of bool, or None
        True where a query attends to a key; every query must attend to at least one.

    Returns
    -------
    Information

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Notes
    -----
    With w = softmax(s / t) and the row's mean score m_i, dw_ij/dt = -w_ij (s_ij - m_i) / t^2.
    Since log w_ij is s_ij / t less a constant of the row,

        dH_i/dt = -sum_j dw_ij/dt log w_ij = Var_w(s_i) / t^3,
        dH(p)/dt = -sum_j dp_j/dt log p_j,   p the mean row,
        dI/dt = dH(p)/dt - mean_i dH_i/dt.

    H never falls in t. I may rise: as t falls to 0 all queries may end at one key.
    """
    s = check_array("scores", scores, ndim=2)
    if s.size == 0:
        raise ParameterError(f"scores must have rows and columns; got shape {s.shape}")
    t = check_real("temperature", temperature, above=0.0)
    seen = np.broadcast_to(True if mask is None else _mask(mask, *s.shape), s.shape)
    # Weights are 0 long before the floor, which keeps products of 0 with such scores from NaN.
    with np.errstate(over="ignore"):
        below = s - np.where(seen, s, -math.inf).max(axis=1, keepdims=True)
        exponent = np.maximum(np.where(seen, below, 0.0) / t, -1e4)
    kernel = np.where(seen, np.exp(exponent), 0.0)
    total = kernel.sum(axis=1, keepdims=True)
    w = kernel / total
    p = w.mean(axis=0)
    centred = exponent - (w * exponent).sum(axis=1, keepdims=True)
    change = -w * centred / t
    d_entropy = float((w * centred**2).sum(axis=1).mean()) / t
    used = p > 0.0
    d_mean = -float(change.mean(axis=0)[used] @ np.log(p[used]))
    return Information(
        entropy=float(entr(w).sum(axis=1).mean()),
        d_entropy=d_entropy,
        information=float(_information(w)),
        d_information=d_mean - d_entropy,
    )


def _information(rows: FloatArray) -> FloatArray:
    """Return the mean divergence of the rows from their mean."""
    mean = rows.mean(axis=-2, keepdims=True)
    # The mean of weights next to the least float may be 0 where they are not.
    terms = np.where(mean > 0.0, rel_entr(rows, mean), 0.0)
    # Rows that sum to exactly 1 have no negative divergence; rounded ones may.
    information: FloatArray = np.maximum(terms.sum(axis=-1).mean(axis=-1), 0.0)
    return information


def check_rows(name: str, value: ArrayLike) -> FloatArray:
    """Return weights (..., m, n) in float64 if they are >= 0 and their rows sum to 1.

    Raises
    ------
    ParameterError
        If not, or if there is no row or no column.
    """
    rows = _matrix(name, value).astype(np.float64, copy=False)
    if 0 in rows.shape[-2:]:
        raise ParameterError(f"{name} must have rows and columns; got shape {rows.shape}")
    _largest(name, rows)
    if rows.size and rows.min() < 0.0:
        raise ParameterError(f"{name} must be >= 0; got {float(rows.min())}")
    gap = float(np.abs(rows.sum(axis=-1) - 1.0).max(initial=0.0))
    if gap > _GAP:
        raise ParameterError(f"{name} must have rows that sum to 1; one is {gap:.3g} off")
    return rows
