"""Softmax attention against what must hold exactly, and against the dense oracle."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim import softmax_attention
from nwsim.exceptions import ParameterError
from nwsim.numerics.attention import KEYS, LANES
from tests.attention.oracle import dense_attention

# Largest error over the largest absolute value, at scores of moderate size.
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}
REALS = [np.float32, np.float64]


def sample(
    m: int, n: int, d: int = 5, p: int = 3, batch: tuple[int, ...] = (), real: Any = np.float64
) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([m, n, d, p])
    shapes = ((*batch, m, d), (*batch, n, d), (*batch, n, p))
    q, k, v = (rng.standard_normal(shape).astype(real) for shape in shapes)
    return q, k, v


def worst(got: Any, want: Any, v: Any) -> float:
    """Return the largest difference relative to the largest value."""
    largest = float(np.abs(v).max(initial=0.0)) or 1.0
    return float(np.abs(got - want).max(initial=0.0)) / largest


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize(
    ("m", "n", "d", "p"),
    [
        (1, 1, 1, 1),
        (3, 7, 5, 2),
        (17, 33, 4, 4),
        (LANES, KEYS, 32, 32),
        (LANES + 1, KEYS + 1, 3, 9),
        (2 * LANES - 3, 3 * KEYS - 2, 8, 1),
        (2, 5, 130, 70),
    ],
)
def test_matches_the_dense_oracle(real: Any, m: int, n: int, d: int, p: int) -> None:
    q, k, v = sample(m, n, d, p, real=real)
    out = softmax_attention(q, k, v)
    assert out.dtype == real
    assert out.shape == (m, p)
    assert worst(out, dense_attention(q, k, v), v) < TOLERANCE[real]


@given(data=st.data())
def test_matches_the_dense_oracle_at_any_shape(data: st.DataObject) -> None:
    real = data.draw(st.sampled_from(REALS))
    m, n = data.draw(st.integers(0, 40)), data.draw(st.integers(1, 40))
    d, p = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 9))
    batch = data.draw(st.sampled_from([(), (2,), (2, 3), (0,), (3, 1)]))
    temperature = data.draw(st.none() | st.floats(0.3, 30.0))
    q, k, v = sample(m, n, d, p, batch, real)
    mask = None
    if data.draw(st.booleans()):
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        mask = rng.random((*batch, m, n)) < data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.95]))
        mask[..., rng.integers(n)] = True
    out = softmax_attention(q, k, v, temperature, mask)
    assert out.shape == (*batch, m, p)
    assert out.dtype == real
    # A rounding error of a score is one of its weight: scores reach some 100 at low temperature.
    limit = 30 * TOLERANCE[real]
    assert worst(out, dense_attention(q, k, v, temperature, mask), v) < limit


@pytest.mark.parametrize("real", REALS)
def test_equal_scores_give_the_mean(real: Any) -> None:
    _, k, v = sample(1, 700, real=real)
    out = softmax_attention(np.zeros((3, 5), dtype=real), k, v)
    want = np.broadcast_to(v.mean(axis=0, dtype=np.float64), (3, 3))
    np.testing.assert_allclose(out, want, rtol=0, atol=TOLERANCE[real])


@pytest.mark.parametrize("real", REALS)
def test_constant_values_are_kept(real: Any) -> None:
    q, k, _ = sample(9, 600, real=real)
    out = softmax_attention(q, k, np.ones((600, 2), dtype=real))
    np.testing.assert_allclose(out, 1.0, rtol=4 * np.finfo(real).eps)


@pytest.mark.parametrize("real", REALS)
def test_one_key_gives_its_value_exactly(real: Any) -> None:
    q, k, v = sample(20, 1, real=real)
    np.testing.assert_array_equal(softmax_attention(q, k, v), np.broadcast_to(v, (20, 3)))


def test_low_temperature_gives_the_value_of_the_best_key() -> None:
    q, k, v = sample(30, 600)
    best = np.argmax(q @ k.T, axis=1)
    np.testing.assert_array_equal(softmax_attention(q, k, v, 1e-9), v[best])


def test_high_temperature_gives_the_mean() -> None:
    q, k, v = sample(30, 600)
    out = softmax_attention(q, k, v, 1e12)
    np.testing.assert_allclose(out, np.broadcast_to(v.mean(axis=0), out.shape), atol=1e-11)


def test_default_temperature_is_the_root_of_the_dimension() -> None:
    q, k, v = sample(4, 6, d=16)
    np.testing.assert_array_equal(softmax_attention(q, k, v), softmax_attention(q, k, v, 4.0))
    np.testing.assert_array_equal(
        softmax_attention(q, k, v), softmax_attention(q, k, v, np.int64(4))
    )


def test_order_of_keys_does_not_matter() -> None:
    q, k, v = sample(10, 2 * KEYS + 5)
    order = np.random.default_rng(0).permutation(len(k))
    out, permuted = softmax_attention(q, k, v), softmax_attention(q, k[order], v[order])
    assert worst(out, permuted, v) < 1e-14


@pytest.mark.parametrize("direction", [1, -1])
def test_maximum_may_rise_at_every_tile(direction: int) -> None:
    k = np.linspace(-300, 300, 5 * KEYS)[::direction, None]
    v = np.random.default_rng(1).standard_normal((5 * KEYS, 2))
    q = np.array([[1.0], [-1.0], [0.0], [3.0]])
    # At scores of 900 a rounding error of one unit is 1e-13 in the weight.
    assert worst(softmax_attention(q, k, v, 1.0), dense_attention(q, k, v, 1.0), v) < 1e-12


@pytest.mark.parametrize("real", REALS)
def test_shift_of_all_scores_changes_nothing(real: Any) -> None:
    q, k, v = sample(8, 300, real=real)
    # A constant coordinate of the keys adds the same to all scores of a query; powers of two
    # keep the sum of score and shift coarse but not the difference of exact ones.
    q, k = np.round(q * 4) / 4, np.round(k * 4) / 4
    shifted_q = np.concatenate([q, np.full((8, 1), 16, dtype=real)], axis=1)
    shifted_k = np.concatenate([k, np.full((300, 1), 8, dtype=real)], axis=1)
    out = softmax_attention(shifted_q, shifted_k, v, 1.0)
    assert worst(out, softmax_attention(q, k, v, 1.0), v) < 128 * TOLERANCE[real]


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("size", [1e4, 1e6, 1e30])
def test_huge_scores_are_safe(real: Any, size: float) -> None:
    q, k, v = sample(50, 600, real=real)
    q = (q * size).astype(real)
    out = softmax_attention(q, k, v, 1.0)
    scores = q.astype(np.float64) @ k.T.astype(np.float64)
    best = np.argmax(scores, axis=1)
    # Where the second best key is far behind even for rounded scores.
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 100 + 1e-5 * np.abs(scores).max(axis=1)
    assert clear.sum() > 20
    np.testing.assert_array_equal(out[clear], v[best[clear]])
    assert np.isfinite(out).all()


def test_scores_beyond_float32_are_computed_in_float64() -> None:
    q, k, v = sample(20, 30, real=np.float32)
    q, k = q * np.float32(1e25), k * np.float32(1e25)
    out = softmax_attention(q, k, v)
    assert out.dtype == np.float32
    best = np.argmax(q.astype(np.float64) @ k.T.astype(np.float64), axis=1)
    np.testing.assert_array_equal(out, v[best])


@pytest.mark.parametrize(
    ("size_q", "size_k", "temperature"),
    [
        (1e20, 1e19, 1e39),
        (1e-20, 1e38, 1e18),
        (1e-30, 1e-10, 1e-40),
        (1e25, 1e-36, 1e-11),
        (1e-36, 1e-6, 1e-42),
        (1e15, 1e-16, 0.1),
    ],
)
def test_no_product_on_the_way_leaves_float32(
    size_q: float, size_k: float, temperature: float
) -> None:
    q, k, v = sample(20, 30, real=np.float32)
    out = softmax_attention(q * np.float32(size_q), k * np.float32(size_k / 10), v, temperature)
    want = dense_attention(q, k, v, temperature / size_q / (size_k / 10))
    assert worst(out, want, v) < TOLERANCE[np.float32]


@pytest.mark.parametrize("real", REALS)
def test_large_values_are_safe(real: Any) -> None:
    q, k, v = sample(5, 300, real=real)
    largest = real(np.finfo(real).max / 1000)
    out = softmax_attention(q, k, v / np.abs(v).max() * largest)
    want = dense_attention(q, k, v / np.abs(v).max()) * float(largest)
    np.testing.assert_allclose(out, want, rtol=0, atol=float(largest) * TOLERANCE[real])


def test_scores_beyond_float64_are_refused() -> None:
    q, k, v = sample(2, 3)
    with pytest.raises(ParameterError, match="range of float64"):
        softmax_attention(q * 1e200, k * 1e200, v)
    with pytest.raises(ParameterError, match="range of float64"):
        softmax_attention(q, k, v, temperature=1e-309)
    with pytest.raises(ParameterError, match="range of float64"):
        softmax_attention(q, k, v * 1e308)


@pytest.mark.parametrize(
    ("q", "k", "t"),
    [
        (2.0**-535, 2.0**-535, 2.0**-1070),
        (2.0**1020, 2.0**-1020, 1.0),
        (2.0**-1000, 2.0**1000, 2.0),
        (2.0**900, 2.0**90, 2.0**990),
    ],
)
def test_scores_in_range_are_taken_whatever_their_factors_are(q: float, k: float, t: float) -> None:
    # All are powers of two, so that scores are exact: 2^p and 3 2^p.
    score = math.ldexp(1.0, round(math.log2(q) + math.log2(k) - math.log2(t)))
    own = softmax_attention([[q]], [[k], [3.0 * k]], [[0.0], [1.0]], t)
    assert own[0, 0] == pytest.approx(1.0 / (1.0 + math.exp(-2.0 * score)), rel=1e-12)


def test_scores_of_zero_are_ties_at_any_temperature() -> None:
    assert softmax_attention([[0.0]], [[0.0], [1e300]], [[0.0], [1.0]], 5e-324)[0, 0] == 0.5


def test_batches_broadcast() -> None:
    rng = np.random.default_rng(2)
    q = rng.standard_normal((3, 1, 6, 4))
    k = rng.standard_normal((2, 7, 4))
    v = rng.standard_normal((7, 5))
    mask = rng.random((1, 2, 1, 7)) < 0.5
    mask[..., 0] = True
    out = softmax_attention(q, k, v, mask=mask)
    assert out.shape == (3, 2, 6, 5)
    for i in range(3):
        for j in range(2):
            alone = softmax_attention(q[i, 0], k[j], v, mask=mask[0, j])
            np.testing.assert_array_equal(out[i, j], alone)


@pytest.mark.parametrize("real", REALS)
def test_mask_is_the_same_as_leaving_keys_out(real: Any) -> None:
    q, k, v = sample(LANES + 9, 3 * KEYS + 2, real=real)
    keep = np.random.default_rng(3).random(len(k)) < 0.3
    # One whole tile is out, and what is out may be of any size.
    keep[KEYS : 2 * KEYS] = False
    k[~keep] *= 100
    v[~keep] *= 1e20
    out = softmax_attention(q, k, v, mask=keep)
    want = softmax_attention(q, k[keep], v[keep])
    assert worst(out, want, v[keep]) < TOLERANCE[real]


def test_causal_mask() -> None:
    q, k, v = sample(600, 600)
    mask = np.tril(np.ones((600, 600), dtype=bool))
    out = softmax_attention(q, k, v, mask=mask)
    assert worst(out, dense_attention(q, k, v, mask=mask), v) < 1e-14
    np.testing.assert_array_equal(out[0], v[0])


def test_mask_of_ones_changes_nothing() -> None:
    q, k, v = sample(5, 9)
    out = softmax_attention(q, k, v)
    for mask in (True, np.ones(9, dtype=bool), np.ones((5, 1), dtype=bool)):
        np.testing.assert_array_equal(softmax_attention(q, k, v, mask=mask), out)


def test_is_nadaraya_watson_where_keys_are_equally_long() -> None:
    from nwsim import NadarayaWatson

    rng = np.random.default_rng(4)
    k = rng.standard_normal((200, 3))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    q, y = rng.standard_normal((20, 3)), rng.standard_normal(200)
    smoother = NadarayaWatson(0.7, engine="direct").fit(k, y)
    out = softmax_attention(q, k, y[:, None], temperature=0.7**2)
    np.testing.assert_allclose(out[:, 0], smoother.predict(q), rtol=0, atol=1e-12)


def test_dtypes() -> None:
    q, k, v = sample(3, 4)
    single = [array.astype(np.float32) for array in (q, k, v)]
    assert softmax_attention(*single).dtype == np.float32
    assert softmax_attention(single[0], single[1], v).dtype == np.float64
    half = softmax_attention(*(array.astype(np.float16) for array in (q, k, v)))
    assert half.dtype == np.float64
    assert softmax_attention([[1, 2]], [[0, 1], [1, 0]], [[1], [2]]).dtype == np.float64
    single_q = single[0]
    mixed = softmax_attention(single_q, k, v)
    np.testing.assert_array_equal(mixed, softmax_attention(single_q.astype(np.float64), k, v))


def test_layout_does_not_matter_and_input_is_left_alone() -> None:
    q, k, v = sample(6, 8)
    copies = q.copy(), k.copy(), v.copy()
    out = softmax_attention(q, k, v)
    for array, copy in zip((q, k, v), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        array.flags.writeable = False
    fortran = softmax_attention(*(np.asfortranarray(array) for array in (q, k, v)))
    reversed_twice = softmax_attention(q, k[::-1].copy()[::-1], v[:, ::-1].copy()[:, ::-1])
    np.testing.assert_array_equal(fortran, out)
    np.testing.assert_array_equal(reversed_twice, out)


def test_no_array_of_queries_by_keys() -> None:
    m = n = 4096
    q, k, v = sample(m, n, 8, 8, real=np.float32)
    softmax_attention(q[:2], k[:2], v[:2])
    tracemalloc.start()
    try:
        softmax_attention(q, k, v)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < m * n * 4 / 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.ones(3)}, "q must have at least 2 axes"),
        ({"k": np.ones((4, 2))}, "k must have as many columns as q, 3"),
        ({"k": np.ones((0, 3)), "v": np.ones((0, 2))}, "k must have at least one row"),
        ({"v": np.ones((5, 2))}, "v must have as many rows as k, 4"),
        ({"q": np.ones((2, 0)), "k": np.ones((4, 0))}, "q must have at least one column"),
        ({"q": np.ones((2, 2, 3)), "v": np.ones((3, 4, 2))}, "batch shapes must broadcast: q"),
        ({"q": np.array([[1, np.nan, 0]])}, "q must be finite"),
        ({"k": np.full((4, 3), np.inf)}, "k must be finite"),
        ({"v": np.full((4, 2), -np.inf)}, "v must be finite"),
        ({"v": np.full((4, 2), np.nan)}, "v must be finite"),
        ({"q": np.ones((2, 3)) * 1j}, "q must be an array of real numbers"),
        ({"k": [["a", "b", "c"]] * 4}, "k must be an array of real numbers"),
        ({"k": [[1.0, 2.0], [1.0]]}, "k must be an array of real numbers"),
        ({"temperature": 0.0}, "temperature must be a number"),
        ({"temperature": -1.0}, "temperature must be a number"),
        ({"temperature": np.inf}, "temperature must be a number"),
        ({"temperature": np.nan}, "temperature must be a number"),
        ({"temperature": "1"}, "temperature must be a number"),
        ({"mask": np.ones((2, 4))}, "mask must be an array of bool"),
        ({"mask": np.ones((2, 5), dtype=bool)}, "mask must broadcast to 2 queries and 4 keys"),
        (
            {"mask": np.ones((3, 2, 4), dtype=bool), "q": np.ones((2, 2, 3))},
            "mask has \\(3, 2, 4\\)",
        ),
        ({"mask": np.array([[True] * 4, [False] * 4])}, "mask must leave every query"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"q": np.ones((2, 3)), "k": np.ones((4, 3)), "v": np.ones((4, 2))}
    with pytest.raises(ValueError, match=message) as caught:
        softmax_attention(**(arguments | change))
    assert isinstance(caught.value, ParameterError)


@pytest.mark.parametrize("masked", [False, True])
def test_agrees_with_torch_and_is_as_accurate(masked: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = sample(300, 900, 32, 32, (2,), np.float32)
    mask = np.random.default_rng(5).random((300, 900)) < 0.5 if masked else None
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *(torch.from_numpy(array) for array in (q, k, v)),
        attn_mask=None if mask is None else torch.from_numpy(mask),
    ).numpy()
    want = dense_attention(q, k, v, mask=mask)
    ours = softmax_attention(q, k, v, mask=mask)
    assert np.abs(ours - want).max() < 2 * np.abs(theirs - want).max()
