"""Tensor packages: torch, JAX and its kerneljax, KeOps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from nwsim.bench.cases import Prepare, cases, columns, module
from nwsim.bench.workloads import Attention, Heads, Sample


def _torch() -> Any:
    torch = module("torch")
    torch.set_num_threads(1)
    return torch


def _jax() -> Any:
    jax = module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def torch_matrix(dtype: str) -> Prepare:
    """Return a case of torch's distances and softmax, all weights in memory."""

    def prepare(data: Sample) -> Callable[[], Any]:
        torch = _torch()
        kind = getattr(torch, dtype)
        x, q, y = (
            torch.as_tensor(array, dtype=kind)
            for array in (columns(data.x), columns(data.q), data.y)
        )

        def run() -> Any:
            distances = torch.cdist(q, x, compute_mode="donot_use_mm_for_euclid_dist")
            scores = distances.square_().mul_(-0.5 / data.h**2)
            return (torch.softmax(scores, 1) @ y).numpy()

        return run

    return prepare


def torch_attention_smoother(dtype: str) -> Prepare:
    """Return a case of torch's fused attention used as a smoother.

    The score of a key is q'x / h^2 - |x|^2 / 2 h^2, one more coordinate; centred inputs limit
    what cancels. Values are filled up with zeros: the fused program wants one size of head.
    """

    def prepare(data: Sample) -> Callable[[], Any]:
        torch = _torch()
        kind = getattr(torch, dtype)
        attend = torch.nn.functional.scaled_dot_product_attention

        def run() -> Any:
            centre = data.x.mean(axis=0)
            x, q = columns(data.x - centre) / data.h, columns(data.q - centre) / data.h
            bias = -0.5 * (x * x).sum(axis=1, keepdims=True)
            queries = np.concatenate([q, np.ones((len(q), 1))], axis=1)
            queries = torch.as_tensor(queries, dtype=kind)[None, None]
            keys = torch.as_tensor(np.concatenate([x, bias], axis=1), dtype=kind)[None, None]
            values = torch.zeros_like(keys)
            values[..., 0] = torch.as_tensor(data.y, dtype=kind)
            with torch.inference_mode():
                return attend(queries, keys, values, scale=1.0)[0, 0, :, 0].numpy()

        return run

    return prepare


def torch_attention(backend: str | None) -> Prepare:
    """Return a case of torch's attention, by one of its programs or by its own choice."""

    def prepare(data: Attention) -> Callable[[], Any]:
        torch = _torch()
        chooser = module("torch.nn.attention")
        q, k, v = (torch.from_numpy(array)[None] for array in (data.q, data.k, data.v))
        attend = torch.nn.functional.scaled_dot_product_attention

        def chosen() -> Any:
            if backend is None:
                return nullcontext()
            return chooser.sdpa_kernel(getattr(chooser.SDPBackend, backend))

        def run() -> Any:
            with torch.inference_mode(), chosen():
                return attend(q, k, v, scale=data.scale)[0].numpy()

        return run

    return prepare


def torch_softmax(data: Attention) -> Callable[[], Any]:
    """Prepare two batched products and a softmax."""
    torch = _torch()
    q, k, v = (torch.from_numpy(array) for array in (data.q, data.k, data.v))

    def run() -> Any:
        with torch.inference_mode():
            return (torch.softmax(q @ k.mT * data.scale, -1) @ v).numpy()

    return run


def torch_heads(dtype: str) -> Prepare:
    """Return a case of bias and covariance of heads with batched products."""

    def prepare(data: Heads) -> Callable[[], Any]:
        torch = _torch()
        kind = getattr(torch, dtype)
        x, q, frames, f, f_query = (
            torch.as_tensor(array, dtype=kind)
            for array in (data.x, data.q, data.projections, data.f_train, data.f_query)
        )

        def run() -> Any:
            with torch.inference_mode():
                keys, queries = (x @ frames) / data.h, (q @ frames) / data.h
                lengths = -0.5 * (keys * keys).sum(-1)[:, None]
                weights = torch.softmax(torch.baddbmm(lengths, queries, keys.mT), -1)
                bias = (weights @ f).T - f_query[:, None]
                by_query = weights.transpose(0, 1)
                return torch.cat([bias[:, None], by_query @ by_query.mT], 1).numpy()

        return run

    return prepare


def jax_attention(data: Attention) -> Callable[[], Any]:
    """Prepare JAX's attention, compiled; its axes are query, head, coordinate."""
    jax = module("jax")
    q, k, v = (jax.numpy.asarray(a.transpose(1, 0, 2)[None]) for a in (data.q, data.k, data.v))
    attend = jax.jit(lambda a, b, c: jax.nn.dot_product_attention(a, b, c, scale=data.scale))
    return lambda: np.asarray(attend(q, k, v))[0].transpose(1, 0, 2)


def jax_heads(data: Heads) -> Callable[[], Any]:
    """Prepare bias and covariance of heads, compiled, in float64."""
    jax = _jax()
    jnp = jax.numpy

    def parts(x: Any, q: Any, frames: Any, f: Any, f_query: Any) -> Any:
        keys = jnp.einsum("nd,hdk->hnk", x, frames) / data.h
        queries = jnp.einsum("md,hdk->hmk", q, frames) / data.h
        scores = queries @ keys.transpose(0, 2, 1) - 0.5 * (keys * keys).sum(-1)[:, None]
        weights = jax.nn.softmax(scores, -1)
        bias = (weights @ f).T - f_query[:, None]
        covariance = jnp.einsum("hmn,gmn->mhg", weights, weights)
        return jnp.concatenate([bias[:, None], covariance], axis=1)

    compiled_parts = jax.jit(parts)
    arrays = (data.x, data.q, data.projections, data.f_train, data.f_query)
    inputs = [jnp.asarray(array) for array in arrays]
    return lambda: np.asarray(compiled_parts(*inputs))


def kerneljax(data: Sample) -> Callable[[], Any]:
    """Prepare kerneljax's local constant fit, in float64."""
    jnp = _jax().numpy
    package = module("kerneljax")
    dim = columns(data.x).shape[1]
    bandwidth = package.Bandwidth(
        h=jnp.full(dim, data.h), lam_uno=jnp.zeros(0), lam_ord=jnp.zeros(0)
    )
    x, y, q = (jnp.asarray(array) for array in (data.x, data.y, data.q))

    def run() -> Any:
        fit = package.local_poly(x, y, bandwidth, at=q, degree=0, kernels=None, chunk=100)
        return np.asarray(fit.mean)

    return run


def keops(dtype: Any) -> Prepare:
    """Return a case of KeOps: compiled sums without a matrix."""

    def prepare(data: Sample) -> Callable[[], Any]:
        lazy = module("pykeops.numpy").LazyTensor
        x, q = columns(data.x).astype(dtype), columns(data.q).astype(dtype)
        values: Any = np.stack([data.y, np.ones_like(data.y)], axis=1).astype(dtype)

        def run() -> Any:
            squares = ((lazy(q[:, None]) - lazy(x[None])) ** 2).sum(-1)
            weights = (-squares * (0.5 / data.h**2)).exp()
            sums = (weights * lazy(values[None])).sum(1)
            return sums[:, 0] / sums[:, 1]

        return run

    return prepare


def keops_attention(data: Attention) -> Callable[[], Any]:
    """Prepare KeOps' softmax reduction over the keys."""
    lazy = module("pykeops.numpy").LazyTensor

    def run() -> Any:
        scores = (lazy(data.q[:, :, None]) * lazy(data.k[:, None])).sum(-1) * float(data.scale)
        return scores.sumsoftmaxweight(lazy(data.v[:, None]), axis=2)

    return run


_SINGLE = "float32"

CASES = (
    *cases("W1 W3", "torch cdist, softmax", torch_matrix("float64"), needs="torch"),
    *cases(
        "W1 W3",
        "torch cdist, softmax, float32",
        torch_matrix("float32"),
        needs="torch",
        accuracy=_SINGLE,
    ),
    *cases(
        "W1 W2 W3",
        "torch SDPA as smoother",
        torch_attention_smoother("float64"),
        needs="torch",
        part={"W2": 100},
    ),
    *cases(
        "W1 W2 W3",
        "torch SDPA as smoother, float32",
        torch_attention_smoother("float32"),
        needs="torch",
        accuracy={"W1": "float32", "W2": "rough", "W3": "float32"},
        part={"W2": 100},
    ),
    *cases(
        "W1 W2 W3",
        "pykeops",
        keops(np.float64),
        needs="pykeops",
        part={"W2": 100},
        slow="W2",
    ),
    *cases(
        "W1 W2 W3",
        "pykeops, float32",
        keops(np.float32),
        needs="pykeops",
        accuracy=_SINGLE,
        part={"W2": 100},
        slow="W2",
    ),
    *cases(
        "W1 W2 W3",
        "kerneljax",
        kerneljax,
        needs="kerneljax jax",
        part={"W2": 100},
        slow="W2 W3",
    ),
    *cases("W6", "torch SDPA", torch_attention(None), needs="torch", accuracy=_SINGLE),
    *cases(
        "W6",
        "torch SDPA flash",
        torch_attention("FLASH_ATTENTION"),
        needs="torch",
        accuracy=_SINGLE,
    ),
    *cases("W6", "torch SDPA math", torch_attention("MATH"), needs="torch", accuracy=_SINGLE),
    *cases("W6", "torch products, softmax", torch_softmax, needs="torch", accuracy=_SINGLE),
    *cases("W6", "jax attention", jax_attention, needs="jax", accuracy=_SINGLE, slow="W6"),
    *cases("W6", "pykeops", keops_attention, needs="pykeops", accuracy=_SINGLE, slow="W6"),
    *cases("W7", "torch", torch_heads("float64"), needs="torch"),
    *cases("W7", "torch, float32", torch_heads("float32"), needs="torch", accuracy=_SINGLE),
    *cases("W7", "jax", jax_heads, needs="jax"),
)
