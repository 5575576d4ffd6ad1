"""Frames learned from data before any smoothing: principal components, inverse regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_integer, check_same_length
from nwsim.exceptions import ParameterError
from nwsim.heads.projections import RANK_TOL, Frames, head_dimensions, split_columns, upright_qr

_ALLOCATIONS = ("blocks", "dealt")


def _allocate(directions: FloatArray, sizes: Sequence[int], allocation: str) -> Frames:
    """Split ordered directions (d, sum of sizes) over heads."""
    if allocation == "dealt":
        # Round after round, each head with room left takes one; then blocks of what it took.
        owners = [k for turn in range(max(sizes)) for k, size in enumerate(sizes) if turn < size]
        directions = directions[:, np.argsort(owners, kind="stable")]
    return split_columns(directions, sizes)


def _upright(directions: FloatArray) -> FloatArray:
    """Make the largest entry of each column positive: eigenvectors come with any sign."""
    rows = np.abs(directions).argmax(axis=0)
    flip = directions[rows, np.arange(directions.shape[1])] < 0.0
    return np.where(flip, -directions, directions)


def _require(available: int, sizes: Sequence[int], why: str) -> None:
    if sum(sizes) > available:
        raise ParameterError(
            f"d_k must need no more than the {available} directions that {why}; "
            f"the heads need {sum(sizes)}"
        )


def pca_frames(
    X: ArrayLike, n_heads: int, d_k: int | Sequence[int], *, allocation: str = "blocks"
) -> Frames:
    """Split the leading principal directions of the inputs over heads.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs; centred here, not scaled.
    n_heads : int
        Number of heads H.
    d_k : int or sequence of int
        Directions of every head, or of each; no more in all than the rank of centred `X`.
    allocation : {"blocks", "dealt"}
        "blocks": the first head takes the leading directions, the next head the next ones.
        "dealt": like cards, one each and round again, so that heads are of like quality.

    Returns
    -------
    ndarray, shape (H, d, d_k), or list of ndarray, shape (d, d_k_h)
        Orthonormal within and between heads, the largest entry of a column positive.

    Raises
    ------
    ParameterError
        For non-finite inputs, an unknown allocation, or more directions than there are.

    Notes
    -----
    Between equal eigenvalues the directions, and so the frames, are arbitrary.
    """
    inputs = check_array("X", X, ndim=2, minimum_rows=2)
    sizes = head_dimensions(n_heads, inputs.shape[1], d_k)
    check_choice("allocation", allocation, _ALLOCATIONS)
    _, values, rows = np.linalg.svd(inputs - inputs.mean(axis=0), full_matrices=False)
    _require(int((values > RANK_TOL * values[0]).sum()), sizes, "the inputs vary in")
    return _allocate(_upright(rows[: sum(sizes)].T), sizes, allocation)


def sir_frames(
    X: ArrayLike,
    y: ArrayLike,
    n_heads: int,
    d_k: int | Sequence[int],
    *,
    n_slices: int = 10,
    allocation: str = "blocks",
) -> Frames:
    """Split the leading directions of sliced inverse regression over heads.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs with a covariance of full rank.
    y : array_like, shape (n,)
        Responses.
    n_heads : int
        Number of heads H.
    d_k : int or sequence of int
        Directions of every head, or of each; fewer in all than there are slices.
    n_slices : int, default 10
        Slices of about equal counts; equal responses share one.
    allocation : {"blocks", "dealt"}
        As in `pca_frames`.

    Returns
    -------
    ndarray, shape (H, d, d_k), or list of ndarray, shape (d, d_k_h)
        Orthonormal within a head. Heads are uncorrelated (``W_k' S W_l = 0``) in the sample
        covariance S: their diversity index in that metric is 1, the plain one need not be.

    Raises
    ------
    ParameterError
        For non-finite or ill-shaped data, a singular covariance, an unknown allocation, or
        more directions than the slices can tell.

    Notes
    -----
    Eigenvectors of the covariance of slice means of standardised inputs, turned back by
    ``S^(-1/2)``. A regression function that is even along a direction leaves its slice means
    at zero, and the direction unseen. Frames depend on y: given X, a smoother built on them is
    not linear in the responses.

    References
    ----------
    K.-C. Li (1991), Sliced inverse regression for dimension reduction, *JASA* 86, 316-327.
    """
    inputs = check_array("X", X, ndim=2, minimum_rows=2)
    response = check_array("y", y, ndim=1)
    check_same_length(X=inputs, y=response)
    n_obs, d = inputs.shape
    sizes = head_dimensions(n_heads, d, d_k)
    n_slices = check_integer("n_slices", n_slices, minimum=2, maximum=n_obs)
    check_choice("allocation", allocation, _ALLOCATIONS)

    centred = inputs - inputs.mean(axis=0)
    _, values, rows = np.linalg.svd(centred, full_matrices=False)
    if len(values) < d or values[-1] <= RANK_TOL * values[0]:
        raise ParameterError("X must vary in every direction: its covariance is singular")
    unwhiten = rows.T * (np.sqrt(n_obs) / values)
    standardised = centred @ unwhiten

    positions = (rankdata(response) - 0.5) / n_obs
    labels = np.minimum((positions * n_slices).astype(np.int64), n_slices - 1)
    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    _require(min(d, len(counts) - 1), sizes, f"{len(counts)} slices can tell")
    sums = np.zeros((len(counts), d))
    np.add.at(sums, labels, standardised)
    means = sums / np.sqrt(counts * n_obs)[:, None]
    directions = unwhiten @ np.linalg.svd(means, full_matrices=False)[2].T[:, : sum(sizes)]

    heads = _allocate(directions, sizes, allocation)
    if isinstance(heads, list):
        return [_upright(upright_qr(head)[0]) for head in heads]
    return np.stack([_upright(upright_qr(head)[0]) for head in heads])
