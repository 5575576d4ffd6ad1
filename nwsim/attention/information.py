"""Entropy of attention, information between queries and keys, and the bottleneck of both.

All in nats. A query is one of the m rows with probability 1/m, a key is then drawn with the
row's weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from nwsim._typing import ArrayLike, BoolArray, FloatArray
from nwsim._validation import check_array, check_real
from nwsim.attention.softmax import _largest, _mask, _matrix
from nwsim.exceptions import ParameterError

_GAP = 1e-6  # by which sums of rows may differ from 1
_NEAR = 0.05  # relative distances of weights below which their divergence is summed as a series
_SIZES = 250  # binary exponents of sizes whose squares and products stay in the range of float64


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
    # Only rounding takes a weight above 1, where the term would be negative.
    entropy: FloatArray = entr(np.minimum(check_rows("weights", weights), 1.0)).sum(axis=-1)
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
    sections 2.3 and 2.4). Computed is mean_i sum_j (w_ij log(w_ij / p_j) - w_ij + p_j), which is
    the same because p is the mean. No term is negative, and those of weights near p_j are summed
    as a series in w_ij / p_j - 1, so nothing cancels where rows are alike.

    References
    ----------
    Cover, T. M. and Thomas, J. A. (2006). Elements of Information Theory, 2nd ed. Wiley.
    """
    rows = check_rows("weights", weights)
    mean = rows.mean(axis=-2, keepdims=True)
    _, terms = _divergence(rows, mean, rows - mean)
    information: FloatArray = terms.sum(axis=-1).mean(axis=-1)
    return information


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
        If an argument is not as described, or L exceeds the range of float64.

    Notes
    -----
    For beta >= 0 no weights have less than uniform ones, which have I = 0, the least, and
    H = log n, the most.
    """
    beta = check_real("beta", beta)
    rows = check_rows("weights", weights)
    return _objective(mutual_information(rows), row_entropy(rows).mean(axis=-1), beta)


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
        """Return L = I - beta H; a ParameterError if it exceeds the range of float64."""
        return float(_objective(self.information, self.entropy, check_real("beta", beta)))

    def d_bottleneck(self, beta: float) -> float:
        """Return dL/dt; a ParameterError if it exceeds the range of float64."""
        return float(_objective(self.d_information, self.d_entropy, check_real("beta", beta)))


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
        If an argument is not as described, or a derivative exceeds the range of float64, as it
        may where scores differ by about a tiny t.

    Notes
    -----
    With w = softmax(s / t) and the row's mean score m_i, dw_ij/dt = -w_ij (s_ij - m_i) / t^2.
    Since log w_ij is s_ij / t less a constant of the row, and columns of w - p have mean 0,

        dH_i/dt = -sum_j dw_ij/dt log w_ij = Var_w(s_i) / t^3,
        dI/dt = mean_i sum_j dw_ij/dt log(w_ij / p_j),   p the mean row.

    Weights beyond the range of float64 are 0, so that at tiny t all four values are those of the
    limit: rows uniform over the keys of largest score, derivatives 0. Where no score over t is far
    from the largest, w - p is computed from the differences of scores, and I and dI/dt keep
    their digits however large t is.

    H never falls in t. I may rise: as t falls to 0 all queries may end at one key.
    """
    s = check_array("scores", scores, ndim=2)
    if s.size == 0:
        raise ParameterError(f"scores must have rows and columns; got shape {s.shape}")
    t = check_real("temperature", temperature, above=0.0)
    seen = np.ones((1, 1), dtype=np.bool_) if mask is None else _mask(mask, *s.shape)
    if seen.ndim != 2:
        raise ParameterError(f"mask must have 2 axes; got shape {seen.shape}")
    seen = np.broadcast_to(seen, s.shape)
    # Halves of the largest floats have differences that are floats.
    power = int(float(np.abs(s).max()) > np.finfo(np.float64).max / 4)
    s = s / 2**power
    below = np.where(seen, s, -math.inf)
    below = np.where(seen, s - below.max(axis=1, keepdims=True), 0.0)
    # Weights are 0 long before the floor, which keeps products of 0 with such scores from NaN.
    exponent = np.maximum(divided(below, power, t), -1e4)
    kernel = np.where(seen, np.exp(exponent), 0.0)
    w = kernel / kernel.sum(axis=1, keepdims=True)
    p = w.mean(axis=0)
    gap = _flat_gap(exponent, seen) if exponent.min() > -0.5 else w - p
    logs, terms = _divergence(w, p, gap)
    centred = exponent - (w * exponent).sum(axis=1, keepdims=True)
    weighted = w * centred
    return Information(
        entropy=float(entr(w).sum(axis=1).mean()),
        d_entropy=_slope(weighted, centred, t),
        information=float(terms.sum(axis=1).mean()),
        d_information=-_slope(logs, centred, t),
    )


def _flat_gap(exponent: FloatArray, seen: BoolArray) -> FloatArray:
    """Return softmax weights less their mean row, to as many digits as differences of exponents.

    With u = exp(x) - 1 and its mean over the k keys of a row, a weight is 1/k plus
    (u - mean) / (k (1 + mean)), of which the first part is the same in rows with as many keys.
    """
    count = seen.sum(axis=1, keepdims=True)
    above = np.expm1(exponent)  # 0 where not seen, as exponents are
    mean = above.sum(axis=1, keepdims=True) / count
    part = np.where(seen, (above - mean) / (count * (1.0 + mean)), 0.0)
    flat = np.where(seen, 1.0 / count, 0.0)
    flat = flat - flat[0]
    gap: FloatArray = (flat - flat.mean(axis=0)) + (part - part.mean(axis=0))
    return gap


def _divergence(
    rows: FloatArray, mean: FloatArray, gap: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return w log(w / p) and w log(w / p) - w + p for weights and their mean, the gap w - p.

    With d = w / p - 1 and y = d / (2 + d), log(1 + d) = 2 (y + y^3 / 3 + y^5 / 5 + ...), and the
    second is p ((1 + d) log(1 + d) - d) = p (d y + 2 (1 + d) (y^3 / 3 + y^5 / 5 + ...)).
    """
    # The mean of weights next to the least float may be 0 where they are not.
    ratio = np.divide(rows, mean, out=np.ones_like(rows), where=mean > 0.0)
    logs = rows * np.log(ratio, out=ratio, where=ratio > 0.0)
    terms = logs - gap
    np.maximum(terms, 0.0, out=terms)  # only underflow leaves one below 0
    near = np.nonzero(np.abs(gap) < _NEAR * mean)
    if near[0].size:
        p = np.broadcast_to(mean, rows.shape)[near]
        d = gap[near] / p
        y = d / (2.0 + d)
        z = y * y
        tail = 1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11))))
        logs[near] = rows[near] * np.log1p(d)
        terms[near] = p * (d * y + 2.0 * (1.0 + d) * y * z * tail)
    return logs, terms


def _slope(first: FloatArray, second: FloatArray, t: float) -> float:
    """Return mean_i sum_j first_ij second_ij, over t."""
    (first, power), (second, other) = in_range(first), in_range(second)
    mean = float((first * second).sum(axis=1).mean())
    part, least = math.frexp(t)
    try:
        return math.ldexp(mean / part, power + other - least)
    except OverflowError:
        raise ParameterError(
            "temperature must keep derivatives in it within the range of float64; "
            f"at {t:g} one exceeds it"
        ) from None


def _objective(information: ArrayLike, entropy: ArrayLike, beta: float) -> FloatArray:
    """Return I - beta H, or their derivatives, if it is finite."""
    with np.errstate(over="ignore"):
        value: FloatArray = np.asarray(information) - beta * np.asarray(entropy)
    if not np.isfinite(value).all():
        raise ParameterError(f"beta must keep I - beta H within the range of float64; got {beta}")
    return value if value.ndim else value[()]


def in_range(array: FloatArray) -> tuple[FloatArray, int]:
    """Return the array over 2^e, and e, such that products of two are in the range of float64.

    Division by a power of two is exact, but for what is smaller than the largest by more than
    float64 holds. Arrays of ordinary size, and 0, are returned as they are, with e = 0.
    """
    largest = float(np.maximum(array.max(), -array.min())) if array.size else 0.0
    power = math.frexp(largest)[1]
    return (array, 0) if abs(power) <= _SIZES else (np.ldexp(array, -power), power)


def divided(array: FloatArray, power: int, t: float) -> FloatArray:
    """Return array 2^power / t; where that exceeds the range of float64 it is infinite."""
    part, own = math.frexp(t)
    if abs(own) > _SIZES:
        t, power = part, power - own
    with np.errstate(over="ignore"):
        quotient: FloatArray = array / t
        return np.ldexp(quotient, power) if power else quotient


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
    with np.errstate(over="ignore"):
        gap = float(np.abs(rows.sum(axis=-1) - 1.0).max(initial=0.0))
    if gap > _GAP:
        raise ParameterError(f"{name} must have rows that sum to 1; one is {gap:.3g} off")
    return rows
