"""The head diversity index, and what it would be for subspaces drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_integer
from nwsim.exceptions import ParameterError
from nwsim.heads.angles import metric_root, orthonormal_bases
from nwsim.heads.projections import check_projections, check_rng, head_dimensions, upright_qr

# Normals held at once while the null is simulated: 32 MB.
_CHUNK = 4_000_000

_LONGEST = 1e50


def head_diversity_index(
    projections: Any, normalization: str = "subspace", metric: ArrayLike | None = None
) -> float:
    r"""Return how far apart the subspaces of the heads are.

    Parameters
    ----------
    projections : array_like, shape (H, d, d_k), or list of array_like, shape (d, d_k_h)
        One full-rank matrix a head, H >= 2.
    normalization : {"subspace", "printed"}
        "subspace" depends on the ranges alone: 0 for identical heads, 1 for orthogonal ones.
        "printed" is the source's formula on the matrices as they are.
    metric : array_like, shape (d, d), optional
        Covariance S of the inputs, with "subspace" only: the index of ``S^(1/2) W``, made of
        canonical correlations of the projected inputs.

    Returns
    -------
    float
        In [0, 1] for "subspace"; "printed" has no lower end.

    Raises
    ------
    ParameterError
        For a single head; non-finite, rank-deficient or ill-shaped projections; unequal d_k
        or a metric with "printed"; a metric that is not positive semidefinite or that has no
        variance in some direction of a head.

    Notes
    -----
    With orthonormal bases :math:`Q_k` of the ranges,

    .. math:: 1 - \frac{2}{H(H-1)} \sum_{k<l} \frac{\|Q_k'Q_l\|_F^2}{\min(d_k, d_l)}
              = \text{mean over pairs and principal angles of } \sin^2\theta .

    It is summed from the sines, so that nearly identical heads have a relative precision too.
    The printed form replaces the summand by :math:`\|W_k'W_l/d_k\|_F^2`: identical orthonormal
    heads score ``1 - 1/d_k``, not 0, and the value moves with the scale of W.

    References
    ----------
    Printed form: arXiv 2605.20271, as summarised in the project's source document 004.
    """
    check_choice("normalization", normalization, ("subspace", "printed"))
    if normalization == "printed":
        return _printed(projections, metric)
    bases = orthonormal_bases(projections, metric, minimum_heads=2)
    # Larger subspaces first: a pair's sines are what the smaller one has outside the larger.
    bases = tuple(sorted(bases, key=lambda basis: -basis.shape[1]))
    total = 0.0
    for k, basis in enumerate(bases[:-1]):
        rest = np.hstack(bases[k + 1 :])
        squares = ((rest - basis @ (basis.T @ rest)) ** 2).sum(axis=0)
        sizes = np.array([other.shape[1] for other in bases[k + 1 :]])
        total += float((np.add.reduceat(squares, np.cumsum(sizes) - sizes) / sizes).sum())
    # Rounding alone can pass 1.
    return min(1.0, total / _n_pairs(len(bases)))


def _printed(projections: Any, metric: ArrayLike | None) -> float:
    if metric is not None:
        raise ParameterError("metric must be left out with normalization='printed'")
    heads = check_projections(projections, minimum_heads=2)
    sizes = {head.shape[1] for head in heads}
    if len(sizes) > 1:
        raise ParameterError(
            f"normalization='printed' must have equal d_k; got {sorted(sizes)}: use 'subspace'"
        )
    d_k = heads[0].shape[1]
    if max(float(np.abs(head).max()) for head in heads) > _LONGEST:
        raise ParameterError(
            f"projections must have entries of at most {_LONGEST:g} with normalization='printed', "
            "which takes their fourth powers"
        )
    total = sum(float(((one.T @ other / d_k) ** 2).sum()) for one, other in combinations(heads, 2))
    return 1.0 - total / _n_pairs(len(heads))


def _n_pairs(n_heads: int) -> int:
    return n_heads * (n_heads - 1) // 2


def _pair_sizes(n_heads: int, d: int, d_k: int | Sequence[int]) -> FloatArray:
    """Return (pairs, 2): smaller and larger dimension of each pair of heads."""
    n_heads = check_integer("n_heads", n_heads, minimum=2)
    sizes = head_dimensions(n_heads, d, d_k)
    return np.array([sorted(pair) for pair in combinations(sizes, 2)], dtype=np.float64)


def null_mean(n_heads: int, d: int, d_k: int | Sequence[int]) -> float:
    """Return the exact mean of the index for independent uniform subspaces.

    Parameters
    ----------
    n_heads, d : int
        Number of heads H >= 2 and dimension of the inputs.
    d_k : int or sequence of int
        Dimension of every head, or of each.

    Returns
    -------
    float
        One minus the mean over pairs of ``max(d_k, d_l)/d``.

    Notes
    -----
    A uniform projector has mean ``(d_l/d) I``, so ``E tr(P_k P_l) = d_k d_l/d``.
    """
    return float(1.0 - _pair_sizes(n_heads, d, d_k)[:, 1].mean() / d)


def null_variance(n_heads: int, d: int, d_k: int | Sequence[int]) -> float:
    r"""Return the exact variance of the index for independent uniform subspaces.

    Parameters
    ----------
    n_heads, d : int
        Number of heads H >= 2 and dimension of the inputs.
    d_k : int or sequence of int
        Dimension of every head, or of each.

    Returns
    -------
    float
        Sum over pairs of the variance of an overlap, over the squared number of pairs.

    Notes
    -----
    Derivation. Let P be a uniform projector of rank q. Its law is invariant under rotations and
    traceless symmetric matrices are irreducible under them, so
    :math:`\mathrm{Var}\,\mathrm{tr}(AP) = c\,\|A - \mathrm{tr}(A) I/d\|_F^2` for symmetric A. A
    sum over an orthonormal basis of that space, of dimension (d-1)(d+2)/2, gives c from
    :math:`\|P - qI/d\|_F^2 = q(d-q)/d`. With A a projector of rank p,

    .. math:: \mathrm{Var}\,\mathrm{tr}(P_k P_l) = \frac{2\,p(d-p)\,q(d-q)}{d^2(d-1)(d+2)} ,

    which for p = q = 1 is the variance of the Beta(1/2, (d-1)/2) law of a squared cosine.
    Given P_k the overlap with P_l has the same law whatever P_k is: overlaps of two pairs that
    share a head are independent, all pairs uncorrelated, and variances add.
    """
    pairs = _pair_sizes(n_heads, d, d_k)
    if d == 1:
        return 0.0
    small, large = pairs.T
    trace = 2.0 * small * (d - small) * large * (d - large) / (d**2 * (d - 1.0) * (d + 2.0))
    return float((trace / small**2).sum() / len(pairs) ** 2)


def null_sample(
    n_heads: int,
    d: int,
    d_k: int | Sequence[int],
    n_sim: int,
    rng: np.random.Generator,
    metric: ArrayLike | None = None,
) -> FloatArray:
    """Draw the index of independent uniform subspaces.

    Parameters
    ----------
    n_heads, d : int
        Number of heads H >= 2 and dimension of the inputs.
    d_k : int or sequence of int
        Dimension of every head, or of each.
    n_sim : int
        Number of draws.
    rng : numpy.random.Generator
        Source of ``n_sim * d * sum d_k`` standard normals.
    metric : array_like, shape (d, d), optional
        Covariance of the inputs: frames stay uniform in R^d, their index is taken in the
        metric. The exact mean and variance do not apply then.

    Returns
    -------
    ndarray, shape (n_sim,)
        Draw i does not depend on how many follow.

    Raises
    ------
    ParameterError
        For a single head, dimensions out of range, or an invalid metric.
    """
    pairs = _pair_sizes(n_heads, d, d_k)
    sizes = head_dimensions(n_heads, d, d_k)
    n_sim = check_integer("n_sim", n_sim, minimum=1)
    rng = check_rng(rng)
    root = None if metric is None else metric_root(metric, d)
    if root is not None and np.linalg.matrix_rank(root) < max(sizes):
        raise ParameterError("metric must have at least the rank of the largest head")
    columns = sum(sizes)
    cuts = np.cumsum(sizes)[:-1]
    block = max(1, _CHUNK // (d * columns))
    sample = np.empty(n_sim)
    for start in range(0, n_sim, block):
        stop = min(start + block, n_sim)
        normals = rng.standard_normal((stop - start, d, columns))
        if root is not None:
            normals = root @ normals
        bases = [upright_qr(part)[0] for part in np.split(normals, cuts, axis=2)]
        total = np.zeros(stop - start)
        for (one, other), (small, _) in zip(combinations(bases, 2), pairs, strict=True):
            total += ((np.swapaxes(one, 1, 2) @ other) ** 2).sum(axis=(1, 2)) / small
        sample[start:stop] = 1.0 - total / len(pairs)
    return sample


def null_quantiles(
    n_heads: int,
    d: int,
    d_k: int | Sequence[int],
    q: ArrayLike,
    n_sim: int,
    rng: np.random.Generator,
    metric: ArrayLike | None = None,
) -> FloatArray:
    """Return simulated quantiles of the index for independent uniform subspaces.

    Parameters
    ----------
    n_heads, d : int
        Number of heads H >= 2 and dimension of the inputs.
    d_k : int or sequence of int
        Dimension of every head, or of each.
    q : array_like, shape () or (j,)
        Probabilities in [0, 1].
    n_sim : int
        Number of draws; a tail probability p is known to about ``sqrt(p (1-p)/n_sim)``.
    rng : numpy.random.Generator
        Source of the draws.
    metric : array_like, shape (d, d), optional
        Covariance of the inputs, see `null_sample`.

    Returns
    -------
    ndarray, shape of `q`

    Raises
    ------
    ParameterError
        As `null_sample`, and for probabilities outside [0, 1].
    """
    probabilities = check_array("q", np.atleast_1d(q), ndim=1)
    if probabilities.min() < 0.0 or probabilities.max() > 1.0:
        raise ParameterError(f"q must lie within [0, 1]; got {q!r}")
    sample = null_sample(n_heads, d, d_k, n_sim, rng, metric)
    return np.quantile(sample, probabilities).reshape(np.shape(q))


def minimum_overlap(n_heads: int, d: int, d_k: int) -> float:
    """Return a lower bound on the mean overlap of H subspaces of one dimension.

    Parameters
    ----------
    n_heads, d, d_k : int
        Number of heads H >= 2, dimension of the inputs and of every head.

    Returns
    -------
    float
        The largest of 0, ``(H d_k/d - 1)/(H - 1)`` and ``2 - d/d_k``; the index cannot exceed
        one minus it.

    Notes
    -----
    ``|sum_k P_k|_F^2 >= (H d_k)^2/d`` by Cauchy-Schwarz gives the first bound, which tight
    fusion frames attain. Two subspaces share at least ``2 d_k - d`` directions, which gives the
    second; it is the larger one for few heads of more than d/2 dimensions.

    References
    ----------
    L. R. Welch (1974), Lower bounds on the maximum cross correlation of signals, *IEEE Trans.
    Inf. Theory* 20, 397-399 (d_k = 1).
    """
    pairs = _pair_sizes(n_heads, d, d_k)
    size = float(pairs[0, 0])
    if (pairs != size).any():
        raise ParameterError(f"d_k must be one number for all heads; got {d_k!r}")
    return max(0.0, (n_heads * size / d - 1.0) / (n_heads - 1.0), 2.0 - d / size)
