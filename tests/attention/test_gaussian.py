"""Gaussian attention, the twin of softmax attention, and many heads, against references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim import NadarayaWatson, softmax_attention
from nwsim.attention.gaussian import gaussian_attention, nadaraya_watson_attention
from nwsim.attention.multihead import multi_head_attention
from nwsim.attention.weights import gaussian_weights, key_norm_log_prior
from nwsim.exceptions import ParameterError


def sample(m: int = 9, n: int = 40, d: int = 3, p: int = 2, batch: Any = ()) -> tuple[Any, ...]:
    rng = np.random.default_rng([m, n, d, p])
    return tuple(rng.standard_normal((*batch, *s)) for s in ((m, d), (n, d), (n, p)))


def test_gaussian_attention_is_nadaraya_watson() -> None:
    q, k, v = sample()
    fit = NadarayaWatson(0.6).fit(k, v)
    np.testing.assert_allclose(gaussian_attention(q, k, v, 0.6), fit.predict(q), atol=1e-14)


def test_the_twin_is_nadaraya_watson_with_weights_of_key_norms() -> None:
    q, k, v = sample()
    fit = NadarayaWatson(math.sqrt(2.0)).fit(k, v, np.exp(key_norm_log_prior(k, 2.0)))
    twin = nadaraya_watson_attention(q, k, v, 2.0)
    np.testing.assert_allclose(twin, fit.predict(q), rtol=0, atol=1e-13)


@given(data=st.data())
def test_the_twin_is_softmax_attention(data: st.DataObject) -> None:
    m, n, d, p = (data.draw(st.integers(1, top)) for top in (6, 30, 9, 4))
    batch = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    t = data.draw(st.none() | st.floats(0.1, 50.0))
    q, k, v = sample(m, n, d, p, batch)
    mask = None
    if data.draw(st.booleans()):
        mask = np.random.default_rng(n).random((*batch, m, n)) < 0.6
        mask[..., 0] = True
    size = 1.0 + ((q**2).sum(-1).max() + (k**2).sum(-1).max()) / (t or 1.0)
    np.testing.assert_allclose(
        nadaraya_watson_attention(q, k, v, t, mask),
        softmax_attention(q, k, v, t, mask),
        rtol=0,
        atol=1e-14 * size,
    )


def test_the_twin_without_its_prior_is_another_estimate() -> None:
    q, k, v = sample()
    softmax = softmax_attention(q, k, v, 1.0)
    assert np.abs(gaussian_attention(q, k, v, 1.0) - softmax).max() > 0.1


@pytest.mark.parametrize("masked", [False, True])
def test_the_twin_matches_torch(masked: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = sample(7, 30, 16, 5, (2, 3))
    mask = None
    if masked:
        mask = np.random.default_rng(0).random((2, 3, 7, 30)) < 0.5
        mask[..., 0] = True
    want = torch.nn.functional.scaled_dot_product_attention(
        *(torch.from_numpy(a) for a in (q, k, v)),
        attn_mask=None if mask is None else torch.from_numpy(mask),
    ).numpy()
    np.testing.assert_allclose(nadaraya_watson_attention(q, k, v, None, mask), want, atol=1e-13)


def heads(n_heads: int = 3, size: int = 8, d_k: int = 4, d_v: int = 2) -> tuple[Any, ...]:
    rng = np.random.default_rng([n_heads, size, d_k, d_v])
    shapes = ((n_heads, size, d_k), (n_heads, size, d_k), (n_heads, size, d_v))
    return tuple(rng.standard_normal(s) / 2.0 for s in (*shapes, (n_heads * d_v, 5)))


def test_heads_are_joined_one_by_one() -> None:
    rng = np.random.default_rng(1)
    x_query, x = rng.standard_normal((6, 8)), rng.standard_normal((11, 8))
    w_q, w_k, w_v, w_o = heads()
    mask = rng.random((6, 11)) < 0.7
    mask[:, 0] = True
    own = [
        softmax_attention(x_query @ a, x @ b, x @ c, 0.7, mask)
        for a, b, c in zip(w_q, w_k, w_v, strict=True)
    ]
    joined = np.concatenate(own, axis=1)
    got = multi_head_attention(x_query, x, w_q, w_k, w_v, None, 0.7, mask)
    np.testing.assert_allclose(got, joined, rtol=0, atol=1e-13)
    got = multi_head_attention(x_query, x, w_q, w_k, w_v, w_o, 0.7, mask)
    np.testing.assert_allclose(got, joined @ w_o, rtol=0, atol=1e-13)


def test_many_heads_match_torch() -> None:
    torch = pytest.importorskip("torch")
    n_heads, size = 4, 12
    w_q, w_k, w_v, _ = heads(n_heads, size, 3, 3)
    w_o = np.random.default_rng(2).standard_normal((size, size))
    layer = torch.nn.MultiheadAttention(size, n_heads, bias=False, batch_first=True).double()
    flat = [np.moveaxis(w, 0, 1).reshape(size, size).T for w in (w_q, w_k, w_v)]
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.from_numpy(np.concatenate(flat)))
        layer.out_proj.weight.copy_(torch.from_numpy(w_o.T.copy()))
        x_query = np.random.default_rng(3).standard_normal((2, 5, size))
        x = np.random.default_rng(4).standard_normal((2, 7, size))
        want = layer(*(torch.from_numpy(a) for a in (x_query, x, x)), need_weights=False)[0]
    got = multi_head_attention(x_query, x, w_q, w_k, w_v, w_o)
    np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-12)


def test_batches_broadcast_and_float32_stays() -> None:
    rng = np.random.default_rng(5)
    x_query, x = rng.standard_normal((4, 1, 6, 8)), rng.standard_normal((3, 11, 8))
    maps = heads()
    out = multi_head_attention(x_query, x, *maps)
    assert out.shape == (4, 3, 6, 5)
    np.testing.assert_allclose(
        out[2, 1], multi_head_attention(x_query[2, 0], x[1], *maps), rtol=0, atol=1e-14
    )
    single = [np.asarray(a, dtype=np.float32) for a in (x_query, x, *maps)]
    got = multi_head_attention(*single)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, out, rtol=0, atol=1e-4)


def test_prior_of_batched_keys() -> None:
    q, k, _ = sample(4, 6, 3, 1, (2,))
    twin = gaussian_weights(q, k, 1.0, None, key_norm_log_prior(k, 1.0))
    np.testing.assert_allclose(
        twin[1], gaussian_weights(q[1], k[1], 1.0, None, key_norm_log_prior(k[1], 1.0)), rtol=1e-14
    )


X = np.ones((3, 8))
MAPS = heads()


@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("^v must have as many rows", lambda: gaussian_attention(X, X, X[:2], 1.0)),
        ("^v must be finite", lambda: gaussian_attention(X, X, X * np.nan, 1.0)),
        ("^v must keep sums", lambda: gaussian_attention(X, X, X * 1e308, 1.0)),
        (
            "^batch shapes",
            lambda: gaussian_attention(np.ones((2, 3, 8)), X, np.ones((3, 3, 1)), 1.0),
        ),
        ("^temperature", lambda: nadaraya_watson_attention(X, X, X, 0.0)),
        ("^mask must leave", lambda: nadaraya_watson_attention(X, X, X, 1.0, np.zeros(3, bool))),
        ("^q must have at least one col", lambda: nadaraya_watson_attention(X[:, :0], X[:, :0], X)),
        ("^x_query must have as many", lambda: multi_head_attention(X[:, :7], X, *MAPS)),
        ("^w_q must have shape", lambda: multi_head_attention(X, X, MAPS[0][0], *MAPS[1:])),
        ("^w_q must have shape", lambda: multi_head_attention(X, X, MAPS[0][:0], *MAPS[1:])),
        (
            "^w_v must have as many heads",
            lambda: multi_head_attention(X, X, *MAPS[:2], MAPS[2][:2]),
        ),
        ("^w_k must have the shape", lambda: multi_head_attention(X, X, MAPS[0], MAPS[2], MAPS[2])),
        ("^w_o must have shape", lambda: multi_head_attention(X, X, *MAPS[:3], np.ones((5, 5)))),
        (
            "^w_k must be finite",
            lambda: multi_head_attention(X, X, MAPS[0], MAPS[1] * np.nan, MAPS[2]),
        ),
        (
            "^mask must leave",
            lambda: multi_head_attention(X, X, *MAPS, None, np.zeros((3, 3), bool)),
        ),
    ],
)
def test_bad_input_is_refused_by_name(match: str, call: Any) -> None:
    with pytest.raises(ParameterError, match=match):
        call()
