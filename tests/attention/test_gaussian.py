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
from nwsim.exceptions import ParameterError, PrecisionWarning


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


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6, 1e8, 1e150, 1e300])
def test_the_twin_has_the_digits_it_says_or_warns_or_refuses(size: float) -> None:
    q, k, v = sample()
    reach = np.linalg.norm(q, axis=1).max() + np.linalg.norm(k, axis=1).max()
    rounding = 2.0**-53 * min(size * reach, 1e150) ** 2 / 4.0
    if rounding > 1e-3:
        with pytest.raises(ParameterError, match=r"^q, k and temperature must keep"):
            nadaraya_watson_attention(size * q, size * k, v, 2.0)
        return
    if rounding > 1e-8:
        with pytest.warns(PrecisionWarning, match="leave weights a relative error of"):
            twin = nadaraya_watson_attention(size * q, size * k, v, 2.0)
    else:
        twin = nadaraya_watson_attention(size * q, size * k, v, 2.0)
    softmax = softmax_attention(size * q, size * k, v, 2.0)
    np.testing.assert_allclose(twin, softmax, rtol=0, atol=1e-13 + 20.0 * rounding)


def test_bounds_of_the_twin_are_met_on_both_sides() -> None:
    """Sizes above must reach all three outcomes, or the test of them says little."""
    q, k, v = sample()
    with pytest.warns(PrecisionWarning):
        nadaraya_watson_attention(1e4 * q, 1e4 * k, v, 2.0)
    nadaraya_watson_attention(1e2 * q, 1e2 * k, v, 2.0)
    with pytest.raises(ParameterError):
        nadaraya_watson_attention(1e8 * q, 1e8 * k, v, 2.0)


def test_a_key_that_no_query_attends_to_has_no_influence_on_the_twin() -> None:
    q, k, v = sample()
    mask = np.ones((9, 40), dtype=bool)
    mask[:, 3] = False
    want = nadaraya_watson_attention(q, k, v, 2.0, mask)
    k[3] = 1e200
    np.testing.assert_array_equal(nadaraya_watson_attention(q, k, v, 2.0, mask), want)
    batched = nadaraya_watson_attention(q, k, v, 2.0, np.stack([mask, mask]))
    np.testing.assert_allclose(batched[1], want, rtol=1e-14)


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
EMPTY = MAPS[0][..., :0], MAPS[1][..., :0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("large", "match"),
    [
        (("x_query", "w_q"), "^x_query and w_q must keep their product"),
        (("x", "w_k"), "^x and w_k must keep their product"),
        (("x", "w_v"), "^x and w_v must keep their product"),
        (("w_v", "w_o"), "^x, w_v and w_o must keep their product"),
    ],
)
def test_maps_that_overflow_are_refused_by_the_names_of_the_caller(
    large: tuple[str, str], match: str, dtype: Any
) -> None:
    names = ("x_query", "x", "w_q", "w_k", "w_v", "w_o")
    size = 1e30 if dtype == np.float32 else 1e200
    given = {
        name: np.ones_like(a, dtype=dtype) for name, a in zip(names, (X, X, *MAPS), strict=True)
    }
    for name in large:
        given[name] = given[name] * dtype(size)
    with pytest.raises(ParameterError, match=match):
        multi_head_attention(**given)


def test_scores_of_heads_that_overflow_are_refused_by_the_names_of_the_caller() -> None:
    with pytest.raises(ParameterError, match=r"^x_query, x, w_q, w_k, w_v and temperature must"):
        multi_head_attention(1e200 * X, 1e200 * X, *MAPS)
    for m, match in ((3, "^batch shapes must broadcast: x_query has"), (4, "^mask must broadcast")):
        with pytest.raises(ParameterError, match=match):
            multi_head_attention(np.ones((2, 3, 8)), X, *MAPS, None, np.ones((5, m, 3), dtype=bool))


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
        ("^w_q must have at least one column", lambda: multi_head_attention(X, X, *EMPTY, MAPS[2])),
        ("^x must have at least one row", lambda: multi_head_attention(X, X[:0], *MAPS)),
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
