"""Attention over one context as a network with many heads, and its tangent kernel in two parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_integer, check_real, shown
from nwsim.exceptions import ParameterError


class Gradients(NamedTuple):
    """Derivatives of the outputs at m inputs in every parameter.

    Attributes
    ----------
    values : ndarray, shape (m, H, d)
    scores : ndarray, shape (m, H, d, d)
    """

    values: FloatArray
    scores: FloatArray


class Parts(NamedTuple):
    """What outputs and derivatives are made of, at m inputs.

    Attributes
    ----------
    averages : ndarray, shape (m, H, d)
        Weighted means of the context, z_h(x).
    directions : ndarray, shape (m, H, d)
        Derivative of <v_h, z_h(x)> in M_h' x / t, c_h(x).
    outputs : ndarray, shape (m,)
    """

    averages: FloatArray
    directions: FloatArray
    outputs: FloatArray


@dataclass(frozen=True, eq=False)
class AttentionNetwork:
    r"""H heads whose queries x attend to one fixed context, with one number as output.

    Parameters
    ----------
    values : (H, d) array_like
        v_h, which reads the average of the context out; finite.
    scores : (H, d, d) array_like
        M_h, the product of query and key maps; finite, not necessarily symmetric.
    context : (n, d) array_like
        X_j, keys and values at once: the same for every input; finite, no parameter.
    temperature : float, optional
        t > 0; None is sqrt(d), which is then what the attribute holds.

    Raises
    ------
    ParameterError
        If an array is not as described, or their shapes do not agree. Every method raises one,
        too, where scores, outputs, derivatives or kernels exceed the range of float64.

    Notes
    -----
    Arrays are copied, and the copies cannot be written to.

    .. math::
        f(x) = H^{-1/2} \sum_h \langle v_h, z_h(x) \rangle, \qquad
        z_h(x) = \sum_j w_j^h(x) X_j, \qquad
        w_j^h(x) \propto \exp(x' M_h X_j / t) .

    With :math:`c_h(x) = \sum_j w_j^h(x) (\langle v_h, X_j\rangle - \langle v_h, z_h(x)\rangle)
    X_j`, the covariance matrix of the context under the weights times v_h, the derivatives are
    :math:`\partial f/\partial v_h = H^{-1/2} z_h(x)` and
    :math:`\partial f/\partial M_h = H^{-1/2} x\, c_h(x)' / t`, because
    :math:`\partial w_j/\partial s_l = w_j (1\{j = l\} - w_l)` for scores s. The factor
    :math:`H^{-1/2}` is the scale in which the tangent kernel [1]_ has a limit as H grows.

    References
    ----------
    .. [1] Jacot, A., Gabriel, F. and Hongler, C. (2018). Neural tangent kernel: convergence and
       generalization in neural networks. NeurIPS 31. Of attention: Hron, J., Bahri, Y.,
       Sohl-Dickstein, J. and Novak, R. (2020). Infinite attention: NNGP and NTK for deep
       attention networks. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from nwsim.attention.tangent import random_network
    >>> rng = np.random.default_rng(0)
    >>> network = random_network(rng, 8, rng.standard_normal((16, 4)))
    >>> x = rng.standard_normal((5, 4))
    >>> by_parameter = np.hstack([part.reshape(5, -1) for part in network.gradients(x)])
    >>> bool(np.allclose(network.tangent_kernel(x), by_parameter @ by_parameter.T))
    True
    """

    values: FloatArray
    scores: FloatArray
    context: FloatArray
    temperature: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Check the fields and put them into their types."""
        values = check_array("values", self.values, ndim=2)
        scores = check_array("scores", self.scores, ndim=3)
        context = check_array("context", self.context, ndim=2)
        n_heads, d = values.shape
        if d == 0:
            raise ParameterError(f"values must have at least one column; got shape {values.shape}")
        if scores.shape != (n_heads, d, d):
            raise ParameterError(
                f"scores must have shape {(n_heads, d, d)}, as values have {values.shape}; "
                f"got {scores.shape}"
            )
        if context.shape[1] != d:
            raise ParameterError(
                f"context must have as many columns as values, {d}; got shape {context.shape}"
            )
        given = self.temperature
        t = math.sqrt(d) if given is None else check_real("temperature", given, above=0.0)
        for name, value in (("values", values), ("scores", scores), ("context", context)):
            own = value.copy()
            own.flags.writeable = False
            object.__setattr__(self, name, own)
        object.__setattr__(self, "temperature", t)

    @property
    def n_heads(self) -> int:
        """Number of heads, H."""
        return int(self.values.shape[0])

    @property
    def dim(self) -> int:
        """Dimension of inputs and context, d."""
        return int(self.values.shape[1])

    def weights(self, inputs: ArrayLike) -> FloatArray:
        """Return the softmax weights (m, H, n) of the context at inputs (m, d)."""
        return np.moveaxis(self._weights(self._check("inputs", inputs)), 0, -1)

    def outputs(self, inputs: ArrayLike) -> FloatArray:
        """Return f (m,) at inputs (m, d)."""
        return self._outputs("inputs", inputs)

    def _outputs(self, name: str, inputs: ArrayLike) -> FloatArray:
        weights = self._weights(self._check(name, inputs))
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = (weights * self._read()).sum(axis=(0, 2)) / math.sqrt(self.n_heads)
        return _finite(f"{name}, values and context", "outputs", outputs)

    def parts(self, inputs: ArrayLike) -> Parts:
        """Return the averages, directions and outputs at inputs (m, d)."""
        x = self._check("inputs", inputs)
        found = self._parts(self._weights(x))
        for part in found:
            _finite("inputs, values and context", "averages, directions and outputs", part)
        return found

    def _parts(self, weights: FloatArray) -> Parts:
        """Return the parts of weights (n, m, H), which are overwritten; they may be infinite."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._read()
            averages = self._average(weights)
            read = (weights * values).sum(axis=0)
            # Deviations from the mean, not the difference of two large sums.
            weights *= values - read
            outputs = read.sum(axis=1) / math.sqrt(self.n_heads)
            return Parts(averages, self._average(weights), outputs)

    def _weights(self, x: FloatArray) -> FloatArray:
        weights = self._softmax(x)
        if weights is None:
            raise ParameterError(
                "inputs, scores, context and temperature must keep scores within float64"
            )
        return weights

    def _softmax(self, x: FloatArray) -> FloatArray | None:
        """Return the weights (n, m, H), or None where scores exceed the range of float64.

        With keys first, all sums run along whole rows.
        """
        maps = np.moveaxis(self.scores, 0, 1).reshape(self.dim, -1)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            queries = (x @ maps).reshape(-1, self.dim)
            weights = self.context @ (queries.T / self.temperature)
            top = weights.max(axis=0)
            if not (np.isfinite(queries).all() and np.isfinite(top).all()):
                return None
            np.exp(np.subtract(weights, top, out=weights), out=weights)
        weights /= weights.sum(axis=0)
        return weights.reshape(len(self.context), len(x), self.n_heads)

    def _read(self) -> FloatArray:
        """Return <v_h, X_j>, (n, 1, H)."""
        return (self.context @ self.values.T)[:, np.newaxis, :]

    def _average(self, weights: FloatArray) -> FloatArray:
        """Return sums of the context (m, H, d) with weights (n, m, H)."""
        n, m, n_heads = weights.shape
        return (weights.reshape(n, -1).T @ self.context).reshape(m, n_heads, self.dim)

    def gradients(self, inputs: ArrayLike) -> Gradients:
        """Return the derivatives of f in all parameters at inputs (m, d)."""
        x = self._check("inputs", inputs)
        averages, directions, _ = self.parts(x)
        root = math.sqrt(self.n_heads)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = x[:, np.newaxis, :, np.newaxis] * directions[:, :, np.newaxis, :]
            scores = scores / (root * self.temperature)
        _finite("inputs and temperature", "derivatives", scores)
        return Gradients(averages / root, scores)

    def value_kernel(self, inputs: ArrayLike, others: ArrayLike | None = None) -> FloatArray:
        """Return the part of the tangent kernel that the values make.

        Parameters
        ----------
        inputs : (m, d) array_like
        others : (l, d) array_like, optional
            Default the inputs themselves.

        Returns
        -------
        ndarray, shape (m, l)
            mean_h <z_h(x), z_h(x')>. It is the whole kernel where the scores are fixed.
        """
        return _kernel(self._kernels(inputs, others)[0])

    def score_kernel(self, inputs: ArrayLike, others: ArrayLike | None = None) -> FloatArray:
        """Return the part that the scores make, mean_h <c_h(x), c_h(x')> <x, x'> / t^2.

        Parameters and shapes are those of :meth:`value_kernel`.
        """
        return _kernel(self._kernels(inputs, others)[1])

    def tangent_kernel(self, inputs: ArrayLike, others: ArrayLike | None = None) -> FloatArray:
        """Return the tangent kernel (m, l): inner products of the gradients at two inputs.

        Parameters and shapes are those of :meth:`value_kernel`. It is the sum of value and
        score kernel, and needs no array of all gradients.
        """
        value, score = self._kernels(inputs, others)
        with np.errstate(over="ignore", invalid="ignore"):
            return _kernel(value + score)

    def _kernels(
        self, inputs: ArrayLike, others: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return both parts of the kernel; one that is not asked for may be infinite."""
        x = self._check("inputs", inputs)
        z, c, _ = self._parts(self._weights(x))
        if others is None:
            other, other_z, other_c = x, z, c
        else:
            other = self._check("others", others)
            other_z, other_c, _ = self._parts(self._weights(other))
        t = self.temperature
        with np.errstate(over="ignore", invalid="ignore"):
            value = _mean_product(z, other_z)
            return value, _mean_product(c, other_c) * ((x / t) @ (other / t).T)

    def _check(self, name: str, value: ArrayLike, minimum_rows: int = 0) -> FloatArray:
        x = check_array(name, value, ndim=2, minimum_rows=minimum_rows)
        if x.shape[1] != self.dim:
            raise ParameterError(
                f"{name} must have as many columns as values, {self.dim}; got shape {x.shape}"
            )
        return x


def _mean_product(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the mean over heads of inner products, (m, l), of (m, H, d) and (l, H, d)."""
    _, n_heads, d = first.shape
    rows = [part.reshape(len(part), n_heads * d) for part in (first, second)]
    return (rows[0] @ rows[1].T) / n_heads


def _finite(names: str, what: str, array: FloatArray) -> FloatArray:
    if not np.isfinite(array).all():
        raise ParameterError(f"{names} must keep {what} within the range of float64")
    return array


def _kernel(array: FloatArray) -> FloatArray:
    return _finite("inputs, values, context and temperature", "kernels", array)


def random_network(
    rng: np.random.Generator,
    n_heads: int,
    context: ArrayLike,
    temperature: float | None = None,
    score_scale: float = 1.0,
) -> AttentionNetwork:
    """Draw a network at its start, with independent heads.

    Parameters
    ----------
    rng : Generator
        Draws values first, then scores, head by head: the first heads of a larger network
        differ from those of a smaller one.
    n_heads : int
        H, from 1 to 10^9.
    context : (n, d) array_like
        Finite.
    temperature : float, optional
        > 0; None is sqrt(d).
    score_scale : float
        > 0; standard deviation of x' M_h X_j / t for x and X_j of length sqrt(d) and t = sqrt(d).

    Returns
    -------
    AttentionNetwork
        Entries of values are N(0, 1), those of scores N(0, score_scale^2 / d).

    Raises
    ------
    ParameterError
        If an argument is not as described.
    """
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(f"rng must be a numpy.random.Generator; got {shown(rng)}")
    count = check_integer("n_heads", n_heads, minimum=1, maximum=10**9)
    scale = check_real("score_scale", score_scale, above=0.0)
    keys = check_array("context", context, ndim=2)
    d = keys.shape[1]
    values = rng.standard_normal((count, d))
    with np.errstate(over="ignore"):
        scores = rng.standard_normal((count, d, d)) * (scale / math.sqrt(max(d, 1)))
    _finite("score_scale", "scores", scores)
    return AttentionNetwork(values, scores, keys, temperature)  # type: ignore[arg-type]
