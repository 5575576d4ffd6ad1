"""Attention as entropic transport: row softmax, and Sinkhorn with the keys' loads constrained."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from scipy.special import logsumexp, rel_entr, xlogy

from nwsim._typing import ArrayLike, BoolArray, FloatArray
from nwsim._validation import check_array, check_choice, check_integer, check_real
from nwsim.attention.information import check_rows, divided, in_range
from nwsim.attention.sinkhorn import iterate, shares
from nwsim.attention.softmax import _largest, _matrix
from nwsim.attention.weights import _inputs
from nwsim.exceptions import ParameterError, PrecisionWarning

_GRAINS = 10**9  # mass as whole numbers, for the flow that decides whether a mask is feasible


@dataclass(frozen=True, eq=False)
class Transport:
    """Attention whose weights solve a transport problem between queries and keys.

    Attributes
    ----------
    output : ndarray, shape (m, p)
        Averages of the values, ``weights @ v``.
    weights : ndarray, shape (m, n)
        exp((query_potential_i + key_potential_j - cost_ij) / temperature); 0 where masked.
        Rows sum to 1 to rounding, whether or not the iteration converged.
    query_potential, key_potential : ndarray, shapes (m,) and (n,)
        In units of the cost. Balanced ones are shifted so that the keys' have mean 0.
    load : ndarray, shape (n,)
        Mean weight of each key over the queries; sums to 1.
    n_iter : int
        Iterations.
    marginal_error : float
        Sum over keys of the difference of ``load``, that of the weights returned, from the load
        that one more iteration would ask for: balanced, from the column marginal.
    converged : bool
        Whether that is at most the tolerance.
    """

    output: FloatArray
    weights: FloatArray
    query_potential: FloatArray
    key_potential: FloatArray
    load: FloatArray
    n_iter: int
    marginal_error: float
    converged: bool


def sinkhorn_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    temperature: float | None = None,
    column_marginal: ArrayLike | None = None,
    marginal_penalty: float | None = None,
    max_iter: int = 10_000,
    tol: float = 1e-9,
    mask: ArrayLike | None = None,
    cost: str = "dot",
    not_converged: str = "raise",
) -> Transport:
    """Average values with the weights of an entropic transport from queries to keys.

    Parameters
    ----------
    q : (m, d_k) array_like
        Queries, finite; m at least 1. They share the keys: the weights of one depend on all.
    k : (n, d_k) array_like
        Keys, finite; n at least 1.
    v : (n, p) array_like
        Values, finite.
    temperature : float or None
        Weight t of the entropy; > 0. None is sqrt(d_k).
    column_marginal : (n,) array_like or None
        Loads that the keys should have, > 0; scaled to sum to 1. None is 1/n each.
    marginal_penalty : float or None
        Price of a load that differs, >= 0. 0 is row softmax, whatever the marginal; None, or
        infinity, is balanced: loads are those of the marginal.
    max_iter : int
        Most iterations.
    tol : float
        Largest marginal error, > 0.
    mask : (m, n) array_like of bool, or None
        True where a query may attend to a key; every query must have at least one.
    cost : {"dot", "squared_distance"}
        -<q_i, k_j>, or |q_i - k_j|^2 / 2, whose row softmax is a Gaussian kernel of bandwidth
        sqrt(t).
    not_converged : {"raise", "warn"}
        What happens after ``max_iter`` iterations: a ParameterError, or a PrecisionWarning and
        a result with ``converged`` False.

    Returns
    -------
    Transport

    Raises
    ------
    ParameterError
        If an argument is not as described; if no balanced weights exist under the mask; if
        scores, potentials or outputs exceed the range of float64; if the iteration does not
        converge, be it that scores are too large for potentials to keep digits enough.

    Notes
    -----
    Over W >= 0 with rows that sum to 1, load = mean row and KL(a|b) = sum a log(a/b), the
    weights minimise :func:`transport_objective`,

        mean_i sum_j (w_ij c_ij + t w_ij log w_ij) + penalty KL(load | marginal).

    Setting its derivative to 0 gives log w_ij = (f_i + g_j - c_ij) / t with
    g = -penalty log(load / marginal): generalised Sinkhorn, which alternates f from the rows'
    sums with g/t = share log(marginal / S), share = penalty / (penalty + t), S_j the mean of
    exp((f_i - c_ij) / t) [1]_ [2]_. A constant added to g changes no weight, and is chosen so that
    loads sum to 1 after each step; otherwise it alone would converge, slowly [4]_. Steps are
    taken on logarithms, and in between on the kernel that has absorbed the potentials, as long
    as they move little [3]_. The load asked for is proportional to marginal^share S^(1 - share).

    Scores are taken relative to the largest of their row. The digits of an exponent are those
    left by the larger of g_j / t and that difference: where both are 1e8, weights have eight.

    A mask under which every balanced coupling has a further 0, such as a causal one with as
    many queries as keys (only the identity is left), has no finite potentials: the iteration
    then slows down and is reported as not converged.

    References
    ----------
    .. [1] Cuturi, M. (2013). Sinkhorn distances: lightspeed computation of optimal transport.
       NeurIPS 26.
    .. [2] Chizat, L., Peyré, G., Schmitzer, B. and Vialard, F.-X. (2018). Scaling algorithms for
       unbalanced optimal transport problems. Mathematics of Computation 87, 2563-2609.
    .. [3] Schmitzer, B. (2019). Stabilized sparse scaling algorithms for entropy regularized
       transport problems. SIAM Journal on Scientific Computing 41, A1443-A1481.
    .. [4] Séjourné, T., Vialard, F.-X. and Peyré, G. (2022). Faster unbalanced optimal transport:
       translation invariant Sinkhorn and 1-D Frank-Wolfe. AISTATS 25.

    Examples
    --------
    >>> import numpy as np
    >>> from nwsim.attention.transport import sinkhorn_attention
    >>> found = sinkhorn_attention(np.eye(2), np.eye(2), [[1.0], [3.0]], temperature=0.1)
    >>> found.load
    array([0.5, 0.5])
    """
    z, t, values = _scores(q, k, v, temperature, mask, cost)
    marginal = _marginal(column_marginal, z.shape[1])
    penalty = _penalty(marginal_penalty)
    max_iter = check_integer("max_iter", max_iter, minimum=1)
    tol = check_real("tol", tol, above=0.0)
    check_choice("not_converged", not_converged, ("raise", "warn"))
    share, rest = shares(penalty, t)
    balanced = share == 1.0  # also by a penalty so large that nothing tells it from infinity
    if balanced and mask is not None and not _feasible(np.isfinite(z), marginal):
        raise ParameterError(
            "mask must leave room for weights whose rows sum to 1 and whose columns have the "
            "loads of column_marginal; under this one there are none"
        )
    top = z.max(axis=1)
    z -= top[:, np.newaxis]
    g, weights, n_iter, error = iterate(z, np.log(marginal), share, rest, max_iter, tol)
    if error > tol:
        text = (
            f"max_iter or tol must be larger: after {n_iter} iterations the loads of the keys "
            f"are {error:.3g} off and not {tol:g}"
        )
        spread = -float(z[np.isfinite(z)].min())
        if np.spacing(spread) > tol:
            text += f"; scores over temperature, {spread:.3g} apart, have no digits for less"
        if not_converged == "raise":
            raise ParameterError(text)
        warnings.warn(text, PrecisionWarning, stacklevel=2)
    load = weights.mean(axis=0)
    # Weights leave open a constant in g, and so does the balanced problem; a penalty does not.
    g = g - (g.mean() if balanced else load @ g + penalty / t * rel_entr(load, marginal).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        output = weights @ values
        key_potential = t * g
        query_potential = -t * (logsumexp(z + g, axis=1) + top)
    if not np.isfinite(output).all():
        raise ParameterError("v must keep averages within the range of float64")
    if not (np.isfinite(key_potential).all() and np.isfinite(query_potential).all()):
        raise ParameterError("q and k must keep potentials within the range of float64")
    return Transport(
        output=output,
        weights=weights,
        query_potential=query_potential,
        key_potential=key_potential,
        load=load,
        n_iter=n_iter,
        marginal_error=error,
        converged=error <= tol,
    )


def transport_objective(
    weights: ArrayLike,
    cost: ArrayLike,
    temperature: float,
    column_marginal: ArrayLike | None = None,
    marginal_penalty: float = 0.0,
) -> float:
    """Return what the weights of :func:`sinkhorn_attention` minimise.

    Parameters
    ----------
    weights : (m, n) array_like
        >= 0, rows sum to 1.
    cost : (m, n) array_like
        Finite.
    temperature : float
        t > 0.
    column_marginal : (n,) array_like or None
        As in :func:`sinkhorn_attention`.
    marginal_penalty : float
        >= 0 and finite. Balanced weights minimise the objective without a penalty among those
        that have the marginal's loads.

    Returns
    -------
    float
        In units of the cost.

    Raises
    ------
    ParameterError
        If an argument is not as described, or sums exceed the range of float64.

    Notes
    -----
    F(W) = mean_i sum_j (w_ij c_ij + t w_ij log w_ij) + penalty KL(load | marginal). With W* its
    minimum, F(W) - F(W*) = t mean_i KL(w_i | w*_i) + penalty KL(load | load*) for every W: the
    entropy and the penalty are convex, the right side is their Bregman divergence, and the
    derivative at W* vanishes along rows that keep their sums (for penalty 0 the Gibbs
    variational principle; Donsker and Varadhan 1975).
    """
    rows = check_rows("weights", weights)
    costs = check_array("cost", cost, ndim=2)
    if rows.ndim != 2 or costs.shape != rows.shape:
        raise ParameterError(
            f"cost must have the shape of weights, (m, n); got {costs.shape} and {rows.shape}"
        )
    t = check_real("temperature", temperature, above=0.0)
    penalty = check_real("marginal_penalty", marginal_penalty, minimum=0.0)
    marginal = _marginal(column_marginal, rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        free = float((rows * costs + t * xlogy(rows, rows)).sum(axis=1).mean())
    total = free + penalty * float(rel_entr(rows.mean(axis=0), marginal).sum())
    if not math.isfinite(total):
        raise ParameterError(
            "cost, temperature and marginal_penalty must keep sums within the range of float64"
        )
    return total


def _scores(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    temperature: float | None,
    mask: ArrayLike | None,
    cost: str,
) -> tuple[FloatArray, float, FloatArray]:
    """Return -cost / t (m, n), -inf where masked, with t and the values."""
    queries, keys, seen = _inputs(q, k, mask)
    values = _matrix("v", v).astype(np.float64, copy=False)
    for name, array in (("q", queries), ("k", keys), ("v", values)):
        if array.ndim != 2:
            raise ParameterError(f"{name} must have 2 axes; got shape {array.shape}")
        _largest(name, array)
    if queries.shape[0] == 0:
        raise ParameterError(f"q must have at least one row; got shape {queries.shape}")
    if values.shape[0] != keys.shape[0]:
        raise ParameterError(
            f"v must have as many rows as k, {keys.shape[0]}; got shape {values.shape}"
        )
    if seen is not None and seen.ndim != 2:
        raise ParameterError(f"mask must have 2 axes; got shape {seen.shape}")
    check_choice("cost", cost, ("dot", "squared_distance"))
    d = keys.shape[1]
    t = math.sqrt(d) if temperature is None else check_real("temperature", temperature, above=0.0)
    if cost == "dot":
        (queries, power), (keys, other) = in_range(queries), in_range(keys)
        z = divided(queries @ keys.T, power + other, t)
    else:
        _, power = in_range(np.concatenate([queries, keys]))
        queries, keys = np.ldexp(queries, -power), np.ldexp(keys, -power)
        z = np.zeros((queries.shape[0], keys.shape[0]))
        for axis in range(d):
            z -= (queries[:, axis, np.newaxis] - keys[:, axis]) ** 2
        z = divided(z, 2 * power - 1, t)
    # Potentials are sums of a few scores, and what scaling lost of smaller ones is far below 1.
    if not float(np.abs(z).max()) < 1e250:
        raise ParameterError("q, k and temperature must keep scores within the range of float64")
    return (z if seen is None else np.where(seen, z, -math.inf)), t, values


def _marginal(column_marginal: ArrayLike | None, n: int) -> FloatArray:
    if column_marginal is None:
        return np.full(n, 1.0 / n)
    marginal = check_array("column_marginal", column_marginal, ndim=1)
    if marginal.size != n or not (marginal > 0.0).all():
        raise ParameterError(
            f"column_marginal must have one entry > 0 a key, {n}; got {marginal.size}, the least "
            f"{marginal.min():g}"
        )
    marginal = marginal / marginal.max()
    marginal = marginal / marginal.sum()
    if not (marginal > 0.0).all():
        raise ParameterError("column_marginal must have entries within the range of float64")
    return marginal


def _penalty(marginal_penalty: float | None) -> float:
    if marginal_penalty is None or (np.isscalar(marginal_penalty) and marginal_penalty == math.inf):
        return math.inf
    return check_real("marginal_penalty", marginal_penalty, minimum=0.0)


def _feasible(seen: BoolArray, marginal: FloatArray) -> bool:
    """Say whether some weights on the support have rows that sum to 1 and these loads.

    That is a flow from queries to keys (Ford and Fulkerson 1962). Masses are rounded in favour
    of feasibility, by a part in 10^9.
    """
    m, n = seen.shape
    supply = _GRAINS // m
    rows, columns = np.nonzero(seen)
    source, sink = m + n, m + n + 1
    heads = np.concatenate([np.full(m, source), rows, m + np.arange(n)])
    tails = np.concatenate([np.arange(m), m + columns, np.full(n, sink)])
    room = np.ceil(marginal * _GRAINS)
    capacity = np.concatenate([np.full(m + rows.size, supply), room]).astype(np.int32)
    graph = coo_array((capacity, (heads, tails)), shape=(m + n + 2, m + n + 2)).tocsr()
    return int(maximum_flow(graph, source, sink).flow_value) == m * supply
