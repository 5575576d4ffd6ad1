"""Frames that heads look through: random, coordinate-wise, and along a path of diversity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nwsim._typing import FloatArray
from nwsim._validation import check_array, check_integer, check_real
from nwsim.exceptions import ParameterError

Frames: TypeAlias = FloatArray | list[FloatArray]
"""Projections of H heads: (H, d, d_k), or a list of (d, d_k_h) where the d_k differ."""

RANK_TOL = 1e-10
_ORTHONORMAL_TOL = 1e-8


def check_rng(rng: Any) -> np.random.Generator:
    """Return `rng` if it is a numpy Generator; nothing else is random here."""
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(f"rng must be a numpy.random.Generator; got {type(rng).__name__}")
    return rng


def head_dimensions(n_heads: int, d: int, d_k: int | Sequence[int]) -> tuple[int, ...]:
    """Return the number of columns of each head.

    Parameters
    ----------
    n_heads : int
        Number of heads H.
    d : int
        Dimension of the inputs.
    d_k : int or sequence of int, length H
        Columns of every head, or of each.

    Returns
    -------
    tuple of int, length H

    Raises
    ------
    ParameterError
        If a dimension is no whole number in 1…d, or `d_k` has not one entry a head.
    """
    n_heads = check_integer("n_heads", n_heads, minimum=1)
    d = check_integer("d", d, minimum=1)
    if isinstance(d_k, (list, tuple, np.ndarray)):
        if len(d_k) != n_heads:
            raise ParameterError(f"d_k must have one entry for each of {n_heads} heads; got {d_k}")
        return tuple(check_integer("d_k", size, minimum=1, maximum=d) for size in d_k)
    return (check_integer("d_k", d_k, minimum=1, maximum=d),) * n_heads


def check_room(sizes: Sequence[int], d: int, what: str = "orthogonal frames") -> None:
    """Raise unless subspaces of these dimensions fit side by side into R^d."""
    if sum(sizes) > d:
        raise ParameterError(
            f"d_k must leave room for {what}: they need {sum(sizes)} dimensions, d is {d}"
        )


def split_columns(columns: FloatArray, sizes: Sequence[int]) -> Frames:
    """Deal consecutive columns (d, sum of sizes) out to heads."""
    parts = np.split(columns, np.cumsum(sizes)[:-1], axis=1)
    if len(set(sizes)) == 1:
        return np.stack(parts)
    return [np.ascontiguousarray(part) for part in parts]


def upright_qr(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the QR factors with a nonnegative diagonal of R, of one matrix or a stack.

    The factors are then unique: Gaussian input gives Haar-distributed Q, orthonormal input is
    its own Q.
    """
    q, r = np.linalg.qr(matrix)
    sign = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
    return q * sign[..., None, :], sign[..., :, None] * r


def basis_of_range(name: str, projection: FloatArray, rank_tol: float) -> FloatArray:
    """Return an orthonormal basis (d, d_k) of the range; refuse a deficient rank."""
    largest = np.abs(projection).max(axis=0)
    zero = largest == 0.0
    # Unit columns: rank is about directions, and column scales may be far apart.
    scaled = projection / np.where(zero, 1.0, largest)
    norms = np.linalg.norm(scaled, axis=0)
    q, r = upright_qr(scaled / np.where(zero, 1.0, norms))
    spread = np.linalg.svd(r, compute_uv=False)
    if spread[-1] <= rank_tol * spread[0]:
        raise ParameterError(
            f"{name} must have full column rank; of its {projection.shape[1]} columns "
            f"{int((spread > rank_tol * spread[0]).sum())} are independent "
            f"(relative tolerance {rank_tol:g})"
        )
    return q


def as_heads(
    projections: Any, *, minimum_heads: int = 1, name: str = "projections"
) -> tuple[FloatArray, ...]:
    """Return the heads as float64 matrices of one number of rows; the rank is not looked at."""
    if isinstance(projections, np.ndarray) and projections.ndim != 3:
        raise ParameterError(
            f"{name} must have shape (H, d, d_k), or be a list of (d, d_k) arrays; "
            f"got shape {projections.shape}"
        )
    if not isinstance(projections, (np.ndarray, list, tuple)):
        raise ParameterError(
            f"{name} must be an array (H, d, d_k) or a list of (d, d_k) arrays; "
            f"got {type(projections).__name__}"
        )
    if len(projections) < minimum_heads:
        wanted = "a pair of heads" if minimum_heads == 2 else f"at least {minimum_heads} heads"
        raise ParameterError(f"{name} must hold {wanted}; got {len(projections)}")
    heads = []
    for k, projection in enumerate(projections):
        if np.iscomplexobj(projection):
            raise ParameterError(f"{name}[{k}] must be real; it is complex")
        head = check_array(f"{name}[{k}]", projection, ndim=2)
        if not 1 <= head.shape[1] <= head.shape[0]:
            raise ParameterError(f"{name}[{k}] must have 1 to d columns; got shape {head.shape}")
        heads.append(head)
    if len({head.shape[0] for head in heads}) > 1:
        rows = ", ".join(str(head.shape[0]) for head in heads)
        raise ParameterError(f"{name} must have one number of rows d; got {rows}")
    return tuple(heads)


def check_projections(
    projections: Any,
    *,
    minimum_heads: int = 1,
    orthogonal: bool = False,
    rank_tol: float = RANK_TOL,
    name: str = "projections",
) -> tuple[FloatArray, ...]:
    """Return projections in their one internal form, or say what is wrong with them.

    Parameters
    ----------
    projections : array_like, shape (H, d, d_k), or list of array_like, shape (d, d_k_h)
        One matrix a head; the head sees ``W_h' x``.
    minimum_heads : int, default 1
        2 where a pair is needed.
    orthogonal : bool, default False
        Whether all columns of all heads must be orthonormal (to 1e-8), which needs
        ``sum d_k <= d``.
    rank_tol : float, default 1e-10
        A head is rank-deficient if, with columns scaled to unit length, its smallest singular
        value is at most `rank_tol` times its largest.
    name : str
        What errors call the argument.

    Returns
    -------
    tuple of ndarray, shape (d, d_k_h)
        C-contiguous float64; views of the input where it was already so.

    Raises
    ------
    ParameterError
        Fewer heads than `minimum_heads`; wrong axes; differing d; more than d columns in a
        head; complex, NaN or infinite entries; deficient rank; no room for, or no
        orthonormality of, frames that must be orthogonal.
    """
    heads = as_heads(projections, minimum_heads=minimum_heads, name=name)
    for k, head in enumerate(heads):
        basis_of_range(f"{name}[{k}]", head, rank_tol)
    if orthogonal:
        check_room([head.shape[1] for head in heads], heads[0].shape[0])
        joint = np.hstack(heads)
        if np.abs(joint.T @ joint - np.eye(joint.shape[1])).max() > _ORTHONORMAL_TOL:
            raise ParameterError(f"{name} must be orthonormal, within heads and between them")
    return heads


def random_frames(
    n_heads: int,
    d: int,
    d_k: int | Sequence[int],
    rng: np.random.Generator,
    *,
    orthogonal: bool = False,
) -> Frames:
    """Draw orthonormal frames from the uniform (Haar) law.

    Parameters
    ----------
    n_heads, d : int
        Number of heads H and dimension of the inputs.
    d_k : int or sequence of int
        Columns of every head, or of each.
    rng : numpy.random.Generator
        Source of ``d * sum d_k`` standard normals.
    orthogonal : bool, default False
        False draws the heads independently; True draws one frame of ``sum d_k`` columns and
        deals it out, so that heads are mutually orthogonal.

    Returns
    -------
    ndarray, shape (H, d, d_k), or list of ndarray, shape (d, d_k_h)

    Raises
    ------
    ParameterError
        If `d_k` exceeds d, or ``sum d_k`` does for orthogonal heads.

    References
    ----------
    F. Mezzadri (2007), How to generate random matrices from the classical compact groups,
    *Notices of the AMS* 54, 592-604: QR with the signs of R's diagonal moved into Q.
    """
    sizes = head_dimensions(n_heads, d, d_k)
    rng = check_rng(rng)
    if orthogonal:
        check_room(sizes, d)
    normals = rng.standard_normal((d, sum(sizes)))
    if orthogonal:
        return split_columns(upright_qr(normals)[0], sizes)
    heads = split_columns(normals, sizes)
    if isinstance(heads, list):
        return [upright_qr(head)[0] for head in heads]
    return upright_qr(heads)[0]


def coordinate_frames(
    n_heads: int,
    d: int,
    d_k: int | Sequence[int],
    rng: np.random.Generator | None = None,
) -> Frames:
    """Give each head coordinates of its own.

    Parameters
    ----------
    n_heads, d : int
        Number of heads H and dimension of the inputs.
    d_k : int or sequence of int
        Coordinates of every head, or of each; ``sum d_k <= d``.
    rng : numpy.random.Generator, optional
        Draws which coordinates go where; without it they go in order.

    Returns
    -------
    ndarray, shape (H, d, d_k), or list of ndarray, shape (d, d_k_h)
        Columns of the identity, no two alike.

    Raises
    ------
    ParameterError
        If the heads need more than d coordinates.
    """
    sizes = head_dimensions(n_heads, d, d_k)
    check_room(sizes, d, "disjoint coordinates")
    chosen = np.arange(d) if rng is None else check_rng(rng).permutation(d)
    return split_columns(np.eye(d)[:, chosen[: sum(sizes)]], sizes)


@dataclass(frozen=True, eq=False)
class DiversityPath:
    """Frames ``Q_k(t) = cos t U + sin t V_k`` from identical (t = 0) to orthogonal (pi/2).

    U and all V_k are orthonormal and mutually orthogonal, so every principal angle between two
    heads has cosine ``cos^2 t`` and the head diversity index is ``1 - cos^4 t``.

    Attributes
    ----------
    shared : ndarray, shape (d, d_k)
        U, which all heads look through at t = 0.
    private : ndarray, shape (H, d, d_k)
        V_k, each head's own frame at t = pi/2.
    """

    shared: FloatArray
    private: FloatArray

    @staticmethod
    def index(angle: float) -> float:
        """Return the head diversity index ``1 - cos^4 t`` at an angle t in radians."""
        return math.sin(angle) ** 2 * (1.0 + math.cos(angle) ** 2)

    @staticmethod
    def angle(index: float) -> float:
        """Return the angle t in [0, pi/2], in radians, where the index takes a value."""
        cosine, sine = _cosine_and_sine(index)
        return math.atan2(sine, cosine)

    def frames(self, angle: float) -> FloatArray:
        """Return the frames (H, d, d_k) at an angle t in [0, pi/2], in radians."""
        angle = check_real("angle", angle, minimum=0.0, maximum=math.pi / 2)
        return math.cos(angle) * self.shared + math.sin(angle) * self.private

    def frames_at(self, index: float) -> FloatArray:
        """Return the frames (H, d, d_k) whose head diversity index is `index`, in [0, 1]."""
        cosine, sine = _cosine_and_sine(index)
        return cosine * self.shared + sine * self.private


def _cosine_and_sine(index: float) -> tuple[float, float]:
    """Solve ``1 - cos^4 t = index`` without cancellation at either end."""
    index = check_real("index", index, minimum=0.0, maximum=1.0)
    squared_cosine = math.sqrt(1.0 - index)
    return math.sqrt(squared_cosine), math.sqrt(index / (1.0 + squared_cosine))


def diversity_path(
    n_heads: int, d: int, d_k: int, rng: np.random.Generator | None = None
) -> DiversityPath:
    """Lay out a path of prescribed diversity.

    Parameters
    ----------
    n_heads, d, d_k : int
        Heads, dimension of the inputs, columns of every head; ``(H + 1) d_k <= d``.
    rng : numpy.random.Generator, optional
        Draws a Haar-distributed orientation; without it U takes the first d_k coordinates,
        V_1 the next, and so on.

    Returns
    -------
    DiversityPath

    Raises
    ------
    ParameterError
        If there are fewer than two heads, or no room for H + 1 orthogonal frames.
    """
    n_heads = check_integer("n_heads", n_heads, minimum=2)
    d = check_integer("d", d, minimum=1)
    size = check_integer("d_k", d_k, minimum=1, maximum=d)
    sizes = (size,) * (n_heads + 1)
    check_room(sizes, d, "one shared frame and one for each head")
    blocks = (
        coordinate_frames(n_heads + 1, d, size)
        if rng is None
        else random_frames(n_heads + 1, d, size, rng, orthogonal=True)
    )
    return DiversityPath(shared=blocks[0], private=np.stack(list(blocks[1:])))
