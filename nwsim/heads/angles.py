"""Principal angles, canonical correlations and overlaps of the subspaces that heads see."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice
from nwsim.exceptions import ParameterError
from nwsim.heads.projections import RANK_TOL, as_heads, basis_of_range

_PSD_TOL = 1e-10


def check_semidefinite(name: str, value: ArrayLike, size: int | None = None) -> FloatArray:
    """Return a symmetric positive semidefinite matrix, its rounding asymmetry averaged away."""
    matrix = check_array(name, value, ndim=2)
    if matrix.shape[0] != matrix.shape[1] or (size is not None and matrix.shape[0] != size):
        wanted = "square" if size is None else f"of shape ({size}, {size})"
        raise ParameterError(f"{name} must be {wanted}; got shape {matrix.shape}")
    largest = np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > _PSD_TOL * largest:
        raise ParameterError(f"{name} must be symmetric")
    matrix = 0.5 * (matrix + matrix.T)
    lowest = float(np.linalg.eigvalsh(matrix)[0])
    if lowest < -_PSD_TOL * largest:
        raise ParameterError(
            f"{name} must be positive semidefinite; its lowest eigenvalue is {lowest:.3g}"
        )
    return matrix


def metric_root(metric: ArrayLike, d: int) -> FloatArray:
    """Return R (d, d) with ``R'R = metric``; singular metrics are welcome."""
    values, vectors = np.linalg.eigh(check_semidefinite("metric", metric, d))
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def orthonormal_bases(
    projections: Any,
    metric: ArrayLike | None = None,
    *,
    minimum_heads: int = 1,
    rank_tol: float = RANK_TOL,
) -> tuple[FloatArray, ...]:
    """Return an orthonormal basis of what each head sees.

    Parameters
    ----------
    projections : array_like, shape (H, d, d_k), or list of array_like, shape (d, d_k_h)
        One matrix W a head.
    metric : array_like, shape (d, d), optional
        Covariance S of the inputs: bases are then of the ranges of ``S^(1/2) W``, up to one
        rotation that is common to all heads.
    minimum_heads : int, default 1
        2 where a pair is needed.
    rank_tol : float, default 1e-10
        Relative tolerance of the rank, see `check_projections`.

    Returns
    -------
    tuple of ndarray, shape (d, d_k_h)
        QR factors with a positive diagonal of R: an orthonormal W is its own basis.

    Raises
    ------
    ParameterError
        As `check_projections`; also if `metric` is not symmetric positive semidefinite, or
        has no variance in some direction of a head.
    """
    heads = as_heads(projections, minimum_heads=minimum_heads)
    plain = tuple(
        basis_of_range(f"projections[{k}]", head, rank_tol) for k, head in enumerate(heads)
    )
    if metric is None:
        return plain
    root = metric_root(metric, heads[0].shape[0])
    # From the plain bases: a direction without variance must show against the others, which
    # needs them at one scale.
    seen = [root @ basis for basis in plain]
    largest = np.linalg.norm(root, ord=2)
    for k, image in enumerate(seen):
        if np.linalg.svd(image, compute_uv=False)[-1] <= rank_tol * largest:
            raise ParameterError(f"metric must have variance in every direction of head {k}")
    return tuple(basis_of_range("projections", image, 0.0) for image in seen)


def _pair(
    first: ArrayLike, second: ArrayLike, metric: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    one, other = orthonormal_bases([first, second], metric)
    return one, other


def _angles(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return ascending angles between ranges of orthonormal matrices."""
    if one.shape[1] < other.shape[1]:
        one, other = other, one
    cross = one.T @ other
    cosines = np.clip(np.linalg.svd(cross, compute_uv=False), 0.0, 1.0)
    sines = np.linalg.svd(other - one @ cross, compute_uv=False)[::-1]
    # arccos is blind near 0 and arcsin near pi/2; each serves its half.
    small = cosines**2 >= 0.5
    angles = np.where(small, np.arcsin(np.clip(sines, 0.0, 1.0)), np.arccos(cosines))
    return np.sort(angles)


def principal_angles(
    first: ArrayLike, second: ArrayLike, metric: ArrayLike | None = None
) -> FloatArray:
    """Return the principal angles between the ranges of two projections.

    Parameters
    ----------
    first, second : array_like, shapes (d, p) and (d, q)
        Full-rank matrices; only their ranges matter.
    metric : array_like, shape (d, d), optional
        Covariance S of the inputs; angles are then those between ``S^(1/2) W``.

    Returns
    -------
    ndarray, shape (min(p, q),)
        Radians in [0, pi/2], ascending (`scipy.linalg.subspace_angles` descends).

    Raises
    ------
    ParameterError
        As `orthonormal_bases`.

    Notes
    -----
    Cosines are the singular values of ``Q_1' Q_2``; angles below pi/4 come from their sines,
    the singular values of ``(I - Q_1 Q_1') Q_2``, which keeps tiny ones exact to rounding.

    References
    ----------
    A. Björck, G. H. Golub (1973), Numerical methods for computing angles between linear
    subspaces, *Math. Comp.* 27, 579-594. A. V. Knyazev, M. E. Argentati (2002), Principal
    angles between subspaces in an A-based scalar product, *SIAM J. Sci. Comput.* 23, 2008-2040.
    """
    return _angles(*_pair(first, second, metric))


def pairwise_angles(projections: Any, metric: ArrayLike | None = None) -> tuple[FloatArray, ...]:
    """Return the principal angles of every pair of heads.

    Parameters
    ----------
    projections : array_like, shape (H, d, d_k), or list of array_like, shape (d, d_k_h)
        At least two heads.
    metric : array_like, shape (d, d), optional
        Covariance of the inputs.

    Returns
    -------
    tuple of ndarray, shape (min(d_k, d_l),)
        Pairs (0, 1), (0, 2), … (H-2, H-1) as in ``numpy.triu_indices(H, 1)``; each ascending,
        in radians.

    Raises
    ------
    ParameterError
        As `orthonormal_bases`, and for a single head.
    """
    bases = orthonormal_bases(projections, metric, minimum_heads=2)
    return tuple(_angles(one, other) for one, other in combinations(bases, 2))


def canonical_correlations(
    first: ArrayLike, second: ArrayLike, metric: ArrayLike | None = None
) -> FloatArray:
    """Return the canonical correlations of what two heads see.

    Parameters
    ----------
    first, second : array_like, shapes (d, p) and (d, q)
        Full-rank projections.
    metric : array_like, shape (d, d), optional
        Covariance S of the inputs X; the identity if left out.

    Returns
    -------
    ndarray, shape (min(p, q),)
        Canonical correlations of ``W_1' X`` and ``W_2' X`` in [0, 1], descending: the singular
        values of ``(W_1'SW_1)^(-1/2) W_1'SW_2 (W_2'SW_2)^(-1/2)``.

    Raises
    ------
    ParameterError
        As `orthonormal_bases`.

    Notes
    -----
    They are the cosines of the principal angles in the metric S. Decorrelation of smoothed
    heads follows them, not ``Q_1' Q_2``, unless S is a multiple of the identity.
    """
    one, other = _pair(first, second, metric)
    return np.clip(np.linalg.svd(one.T @ other, compute_uv=False), 0.0, 1.0)


def cross_gram(
    first: ArrayLike,
    second: ArrayLike,
    form: str = "orthonormal",
    metric: ArrayLike | None = None,
) -> FloatArray:
    """Return the cross-Gram matrix of two heads.

    Parameters
    ----------
    first, second : array_like, shapes (d, p) and (d, q)
        Full-rank projections.
    form : {"orthonormal", "printed"}
        ``Q_1' Q_2`` with orthonormal bases, or ``W_1' W_2 / d_k`` as the source prints it.
    metric : array_like, shape (d, d), optional
        Covariance of the inputs, for the orthonormal form only.

    Returns
    -------
    ndarray, shape (p, q)

    Raises
    ------
    ParameterError
        As `orthonormal_bases`; for an unknown form; for the printed form with p != q, where
        its d_k means nothing, or with a metric.
    """
    if check_choice("form", form, ("orthonormal", "printed")) == "orthonormal":
        one, other = _pair(first, second, metric)
        return one.T @ other
    if metric is not None:
        raise ParameterError("metric must be left out with form='printed', which knows none")
    orthonormal_bases([first, second])
    one, other = as_heads([first, second])
    if one.shape[1] != other.shape[1]:
        raise ParameterError(
            f"form='printed' must have equal d_k; got {one.shape[1]} and {other.shape[1]}"
        )
    return one.T @ other / one.shape[1]


def overlap_matrix(projections: Any, metric: ArrayLike | None = None) -> FloatArray:
    """Return the overlap of every pair of heads.

    Parameters
    ----------
    projections : array_like, shape (H, d, d_k), or list of array_like, shape (d, d_k_h)
        One matrix a head.
    metric : array_like, shape (d, d), optional
        Covariance of the inputs.

    Returns
    -------
    ndarray, shape (H, H)
        ``|Q_k' Q_l|_F^2 / min(d_k, d_l)``, the mean squared cosine of the principal angles:
        0 for orthogonal subspaces, 1 if one holds the other; ones on the diagonal.

    Raises
    ------
    ParameterError
        As `orthonormal_bases`.
    """
    bases = orthonormal_bases(projections, metric)
    sizes = np.array([basis.shape[1] for basis in bases])
    starts = np.cumsum(sizes) - sizes
    joint = np.hstack(bases)
    squares = (joint.T @ joint) ** 2
    blocks = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    # The two blocks of a pair are summed in different orders: one of them serves for both.
    blocks = np.triu(blocks) + np.triu(blocks, 1).T
    overlap: FloatArray = blocks / np.minimum(sizes[:, None], sizes)
    np.fill_diagonal(overlap, 1.0)
    return overlap
