"""Gradient descent of attention, of its linearisation, and of its values alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nwsim._typing import ArrayLike, FloatArray, IntArray
from nwsim._validation import check_array, check_integer, check_real, check_same_length, shown
from nwsim.attention.tangent import AttentionNetwork, Parts, _finite
from nwsim.exceptions import ParameterError

_MOST_STEPS = 2**63 - 1
_ROUNDING = 1e-9  # of the largest eigenvalue, by which others of a kernel may be below 0
_LEAST_RATE = 1e-290  # below which a rate times any number of steps is as good as 0


class Training(NamedTuple):
    """The way of a descent.

    Attributes
    ----------
    network : AttentionNetwork
        After the last step.
    steps : ndarray of int, shape (k,)
        The numbers of steps after which the others are taken.
    losses : ndarray, shape (k,)
        Half the mean squared residual at the inputs trained on; it never rises.
    watched : ndarray, shape (k, m)
        Outputs at the inputs watched.
    step_size : float
        That of the last step.
    n_halved : int
        How often the step was halved because the loss would have risen, or not been finite.
    """

    network: AttentionNetwork
    steps: IntArray
    losses: FloatArray
    watched: FloatArray
    step_size: float
    n_halved: int


def train_attention(
    network: AttentionNetwork,
    inputs: ArrayLike,
    responses: ArrayLike,
    steps: Sequence[int],
    *,
    watch: ArrayLike | None = None,
    fixed_scores: bool = False,
    step_size: float | None = None,
) -> Training:
    r"""Descend the mean squared error of a network in all parameters, or in its values alone.

    Parameters
    ----------
    network : AttentionNetwork
        Where the descent starts; it is left as it is.
    inputs : (N, d) array_like
        Finite, N >= 1.
    responses : (N,) array_like
        Finite. To train the departure from the start, which is 0 there, add the network's
        outputs to the responses, and subtract those at ``watch`` from what is watched.
    steps : sequence of int
        After which numbers of steps to take losses and outputs; >= 0 and increasing. The
        descent ends with the last.
    watch : (m, d) array_like, optional
        Where outputs are taken; default the inputs.
    fixed_scores : bool
        Whether the scores stay as they are.
    step_size : float, optional
        > 0; default N over the largest eigenvalue of the kernel at the start, half of what is
        stable in the linear regime.

    Returns
    -------
    Training

    Raises
    ------
    ParameterError
        If an argument is not as described; if the kernel at the start is 0; if loss or gradient
        at the start, or what is watched, exceed the range of float64.

    Notes
    -----
    A step is theta <- theta - step_size * gradient of sum_i (f(x_i) - y_i)^2 / (2 N), all inputs
    at once and without momentum. To first order it multiplies residuals by
    I - step_size Theta / N with the tangent kernel Theta, so it is stable if step_size is below
    2 N over its largest eigenvalue. Where scores are trained the kernel grows or shrinks on the
    way; a step after which the loss would be higher, or anything beyond the range of float64, is
    not taken, and the step size is halved for good. No random number is drawn.
    """
    if not isinstance(network, AttentionNetwork):
        raise ParameterError(f"network must be an AttentionNetwork; got {type(network).__name__}")
    if not isinstance(fixed_scores, (bool, np.bool_)):
        raise ParameterError(f"fixed_scores must be True or False; got {shown(fixed_scores)}")
    x, y = _sample(network, inputs, responses)
    kept = _check_steps(steps)
    seen = x if watch is None else network._check("watch", watch)
    if step_size is None:
        kernel = network.value_kernel(x) if fixed_scores else network.tangent_kernel(x)
        size = largest_step(kernel)
    else:
        size = check_real("step_size", step_size, above=0.0)
    now, parts = network, network.parts(x)
    loss = _loss(parts, y)
    if not math.isfinite(loss):
        raise ParameterError("responses, less outputs, must have squares within float64")
    losses, watched, n_halved = [], [], 0
    for step in range(kept[-1] + 1):
        if step:
            slopes = _slopes(now, x, y, parts, bool(fixed_scores))
            while size > 0.0:
                moved = _moved(now, slopes, size, len(x))
                new_parts = None if moved is None else _parts(moved, x)
                if moved is not None and new_parts is not None:
                    new_loss = _loss(new_parts, y)
                    if new_loss <= loss:
                        now, parts, loss = moved, new_parts, new_loss
                        break
                size, n_halved = size / 2.0, n_halved + 1
        if step in kept:
            losses.append(loss)
            watched.append(now._outputs("inputs" if watch is None else "watch", seen))
    return Training(now, np.array(kept), np.array(losses), np.array(watched), size, n_halved)


def kernel_descent(
    kernel: ArrayLike,
    cross: ArrayLike,
    residuals: ArrayLike,
    steps: Sequence[int],
    *,
    step_size: float | None = None,
) -> FloatArray:
    r"""Return by how much gradient descent in a linear model moves the outputs.

    Parameters
    ----------
    kernel : (N, N) array_like
        Symmetric and positive semidefinite, both to 1e-9, and not 0, of the inputs trained on.
        The value kernel describes a network with fixed scores exactly; the tangent kernel its
        linearisation.
    cross : (m, N) array_like
        The kernel between other inputs and those trained on.
    residuals : (N,) array_like
        Responses less the outputs at the start.
    steps : sequence of int
        Numbers of steps, >= 0 and increasing. Their size costs nothing.
    step_size : float, optional
        > 0 and at most 2 N over the largest eigenvalue, beyond which outputs diverge; default
        half of that, as in :func:`train_attention`.

    Returns
    -------
    ndarray, shape (k, m)
        Outputs at the other inputs less those at the start, after each number of steps.

    Raises
    ------
    ParameterError
        If an argument is not as described, or outputs exceed the range of float64.

    Notes
    -----
    With K the kernel, k the cross kernel, r the residuals and s the step size, outputs have
    moved after T steps by :math:`k\,(s/N) \sum_{t<T} (I - s K/N)^t r`, which is
    :math:`k\,K^{-1} (I - (I - s K/N)^T) r` where K is invertible. The sum, which needs no
    inverse, is what is computed, eigenvalue by eigenvalue; those that rounding has left below 0
    count as 0. Along an eigenvalue of 0 a kernel and its cross kernel have nothing but rounding,
    which grows with T: where K is singular, outputs are good to about 1e-16 T.
    """
    K = _symmetric(kernel)
    k = check_array("cross", cross, ndim=2, minimum_rows=0)
    r = check_array("residuals", residuals, ndim=1)
    size = r.shape[0]
    if K.shape != (size, size):
        raise ParameterError(f"kernel must have shape {(size, size)}; got {K.shape}")
    if k.shape[1] != size:
        raise ParameterError(f"cross must have {size} columns; got shape {k.shape}")
    kept = _check_steps(steps)
    longest = 2.0 * largest_step(K)
    step = longest / 2.0
    if step_size is not None:
        step = check_real("step_size", step_size, above=0.0, maximum=longest)
    eigenvalues, vectors = np.linalg.eigh(K / 2.0 + K.T / 2.0)
    if eigenvalues[0] < -_ROUNDING * eigenvalues[-1]:
        raise ParameterError(
            "kernel must be positive semidefinite; the least eigenvalue is "
            f"{eigenvalues[0]:.6g}, the largest {eigenvalues[-1]:.6g}"
        )
    # A step of at most `longest` has rates of at most 2, but for rounding.
    rates = np.clip(eigenvalues * (step / size), 0.0, 2.0)
    moved = np.empty((len(kept), k.shape[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        along, loaded = k @ vectors, vectors.T @ r
        for row, count in zip(moved, kept, strict=True):
            sums = np.full(size, float(count))
            # A rate of 0 leaves the number of steps; rates near it need the accurate forms.
            small = (rates > _LEAST_RATE) & (rates < 0.5)
            sums[small] = -np.expm1(count * np.log1p(-rates[small])) / rates[small]
            large = rates >= 0.5
            sums[large] = (1.0 - (1.0 - rates[large]) ** count) / rates[large]
            row[:] = along @ (sums * loaded) * (step / size)
    return _finite("kernel, cross and residuals", "outputs", moved)


def largest_step(kernel: ArrayLike) -> float:
    """Return N over the largest eigenvalue of a kernel (N, N): half the largest stable step.

    Raises
    ------
    ParameterError
        If the kernel is no symmetric matrix, or has no eigenvalue above 0, or if that or twice
        the step exceeds the range of float64.
    """
    K = _symmetric(kernel)
    top = float(np.linalg.eigvalsh(K)[-1])
    if not top > 0:
        raise ParameterError(f"kernel must have an eigenvalue above 0; the largest is {top!r}")
    step = K.shape[0] / top
    if not (step > 0.0 and math.isfinite(2.0 * step)):
        raise ParameterError(
            "kernel must have a largest eigenvalue of which neither it nor its inverse exceeds "
            f"the range of float64; it is {top:g}"
        )
    return step


def _symmetric(kernel: ArrayLike) -> FloatArray:
    """Return the kernel if it is square, and symmetric to rounding."""
    K = check_array("kernel", kernel, ndim=2)
    if K.shape[0] != K.shape[1]:
        raise ParameterError(f"kernel must be square; got shape {K.shape}")
    with np.errstate(over="ignore"):
        symmetric = np.allclose(K, K.T, rtol=1e-9, atol=1e-12 * float(np.abs(K).max()))
    if not symmetric:
        raise ParameterError("kernel must be symmetric")
    return K


def _slopes(
    network: AttentionNetwork,
    x: FloatArray,
    y: FloatArray,
    parts: Parts,
    fixed_scores: bool,
) -> tuple[FloatArray, FloatArray | None]:
    """Return the gradient of the loss in values (H, d), and in scores (H, d, d) if not fixed.

    That in values is to be divided by N H^(1/2), that in scores by N H^(1/2) t.
    """
    residuals = parts.outputs - y
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = residuals @ parts.averages.reshape(len(x), -1)
        by_value = slopes.reshape(network.values.shape)
        finite, by_score = np.isfinite(by_value).all(), None
        if not fixed_scores:
            shape = (network.dim, network.n_heads, network.dim)
            slopes = (residuals[:, np.newaxis] * x).T @ parts.directions.reshape(len(x), -1)
            by_score = np.moveaxis(slopes.reshape(shape), 1, 0)
            finite = finite and np.isfinite(by_score).all()
    if not finite:
        raise ParameterError("network, inputs and responses must keep gradients within float64")
    return by_value, by_score


def _moved(
    network: AttentionNetwork, slopes: tuple[FloatArray, FloatArray | None], size: float, count: int
) -> AttentionNetwork | None:
    """Return the network after one step, or None where that exceeds the range of float64."""
    by_value, by_score = slopes
    factor = size / (count * math.sqrt(network.n_heads))
    with np.errstate(over="ignore", invalid="ignore"):
        values, scores = network.values - factor * by_value, network.scores
        if by_score is not None:
            scores = scores - by_score * (factor / network.temperature)
    if not (np.isfinite(values).all() and np.isfinite(scores).all()):
        return None
    return replace(network, values=values, scores=scores)


def _parts(network: AttentionNetwork, x: FloatArray) -> Parts | None:
    weights = network._softmax(x)
    return None if weights is None else network._parts(weights)


def _loss(parts: Parts, y: FloatArray) -> float:
    """Return half the mean squared residual; infinite or NaN beyond the range of float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return 0.5 * float(np.mean((parts.outputs - y) ** 2))


def _sample(
    network: AttentionNetwork, inputs: ArrayLike, responses: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    x = network._check("inputs", inputs, minimum_rows=1)
    y = check_array("responses", responses, ndim=1)
    check_same_length(inputs=x, responses=y)
    return x, y


def _check_steps(steps: Sequence[int]) -> list[int]:
    accepted = "steps must be a sequence of whole numbers, increasing, at least one"
    try:
        each = list(steps)
    except TypeError:
        raise ParameterError(f"{accepted}; got {shown(steps)}") from None
    kept = [check_integer("steps", step, maximum=_MOST_STEPS) for step in each]
    if not kept or any(b <= a for a, b in pairwise(kept)):
        raise ParameterError(f"{accepted}; got {each}")
    return kept
