"""Weights of attention: identities, softmax's twin, independent references, bad input."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import NadarayaWatson
from nwsim.attention.gaussian import nadaraya_watson_attention
from nwsim.attention.weights import attention_weights, gaussian_weights, key_norm_log_prior
from nwsim.exceptions import ParameterError
from tests.attention.oracle import dense_attention


def sample(m: int = 9, n: int = 40, d: int = 3, batch: tuple[int, ...] = ()) -> tuple[Any, Any]:
    rng = np.random.default_rng([m, n, d])
    return rng.standard_normal((*batch, m, d)), rng.standard_normal((*batch, n, d))


def naive_gaussian(q: Any, k: Any, h: Any, prior: Any = 1.0, scale: Any = 1.0) -> Any:
    distance = ((q[:, np.newaxis] - k[np.newaxis]) ** 2).sum(axis=-1)
    kernel = prior * np.exp(-distance / (2.0 * (np.reshape(h, (-1, 1)) * scale) ** 2))
    return kernel / kernel.sum(axis=1, keepdims=True)


def test_attention_weights_are_the_oracle_on_the_identity() -> None:
    q, k = sample()
    np.testing.assert_allclose(
        attention_weights(q, k), dense_attention(q, k, np.eye(40)), rtol=0, atol=1e-15
    )


def test_known_values() -> None:
    # Unit keys at right angles, query on the first, temperature = h^2 = 1: both forms agree.
    k = np.eye(2)
    for weights in (attention_weights(k[:1], k, 1.0), gaussian_weights(k[:1], k, 1.0)):
        assert weights[0, 1] == pytest.approx(0.26894142136999512)  # 1 / (1 + e)
    assert gaussian_weights([[0.0]], [[0.0], [1.0]], 1.0)[0, 1] == pytest.approx(0.377540668798145)


@given(data=st.data())
def test_prior_of_key_norms_makes_softmax_weights(data: st.DataObject) -> None:
    m, n, d = (data.draw(st.integers(1, top)) for top in (6, 30, 9))
    t = data.draw(st.floats(0.05, 50.0))
    batch = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    q, k = sample(m, n, d, batch)
    mask = None
    if data.draw(st.booleans()):
        mask = np.random.default_rng(n).random((*batch, m, n)) < 0.6
        mask[..., 0] = True
    twin = gaussian_weights(q, k, math.sqrt(t), mask, key_norm_log_prior(k, t))
    # A rounding error of an exponent, of some |q|^2 / t, is a relative one of a weight.
    size = 1.0 + ((q**2).sum(axis=-1).max() + (k**2).sum(axis=-1).max()) / t
    np.testing.assert_allclose(twin, attention_weights(q, k, t, mask), rtol=0, atol=2e-15 * size)
    np.testing.assert_allclose(twin.sum(axis=-1), 1.0, rtol=0, atol=n * 1e-15)


def test_without_the_prior_they_differ() -> None:
    q, k = sample()
    assert np.abs(gaussian_weights(q, k, 1.0) - attention_weights(q, k, 1.0)).max() > 0.1


def test_keys_of_one_length_need_no_prior() -> None:
    q, k = sample()
    k *= 2.0 / np.linalg.norm(k, axis=1, keepdims=True)
    np.testing.assert_allclose(
        gaussian_weights(q, k, 1.5), attention_weights(q, k, 1.5**2), rtol=0, atol=1e-14
    )


def test_unit_norm_scales_queries_and_keys() -> None:
    q, k = sample()
    unit_q, unit_k = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (q, k))
    want = attention_weights(unit_q, unit_k, 0.09)
    np.testing.assert_allclose(
        gaussian_weights(1e300 * q, 1e-200 * k, 0.3, unit_norm=True), want, rtol=0, atol=1e-13
    )


def test_matches_a_direct_sum_with_all_options() -> None:
    q, k = sample()
    rng = np.random.default_rng(3)
    h, scale, log_prior = (rng.uniform(0.5, 2.0, size) for size in (9, 40, 40))
    got = gaussian_weights(q, k, h, None, log_prior, scale)
    np.testing.assert_allclose(got, naive_gaussian(q, k, h, np.exp(log_prior), scale), atol=1e-15)


def test_matches_nadaraya_watson_with_prior_weights() -> None:
    q, k = sample()
    prior = np.random.default_rng(4).uniform(0.1, 3.0, 40)
    fit = NadarayaWatson(0.7).fit(k, np.zeros(40), sample_weight=prior)
    np.testing.assert_allclose(
        gaussian_weights(q, k, 0.7, None, np.log(prior)), fit.weights(q), rtol=0, atol=1e-14
    )


def test_a_mask_drops_keys() -> None:
    q, k = sample()
    keep = np.arange(40) % 3 == 0
    for weights in (attention_weights, gaussian_weights):
        got = weights(q, k, 0.8, np.broadcast_to(keep, (9, 40)))
        np.testing.assert_array_equal(got[:, ~keep], 0.0)
        np.testing.assert_allclose(got[:, keep], weights(q, k[keep], 0.8), rtol=0, atol=1e-15)


@pytest.mark.parametrize("far", [1e3, 1e9, 1e150, 1e300])
def test_far_queries_and_tiny_bandwidths_give_the_nearest_key(far: float) -> None:
    k = np.array([[0.0], [1.0], [2.0]]) * far
    got = gaussian_weights([[far * 1.9], [far * 50.0 if far < 1e300 else 0.0]], k, 1e-3 * far)
    nearest = [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0] if far < 1e300 else [1.0, 0.0, 0.0]]
    np.testing.assert_array_equal(got, nearest)
    np.testing.assert_array_equal(gaussian_weights([[0.2]], [[0.0], [1.0]], 1e-300), [[1.0, 0.0]])


def test_ties_share() -> None:
    got = gaussian_weights([[0.5, 0.0]], [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]], 1e-6)
    np.testing.assert_array_equal(got, [[0.5, 0.5, 0.0]])


def test_a_large_shift_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    q, k = (rng.integers(0, 1024, (size, 2)) / 1024.0 for size in (9, 40))
    np.testing.assert_array_equal(
        gaussian_weights(q + 2.0**27, k + 2.0**27, 0.1), gaussian_weights(q, k, 0.1)
    )


def test_tiny_data_keep_their_digits() -> None:
    q, k = sample()
    np.testing.assert_allclose(
        gaussian_weights(1e-200 * q, 1e-200 * k, 1e-200), gaussian_weights(q, k, 1.0), rtol=1e-12
    )


@pytest.mark.parametrize("option", ["log_prior", "key_scale"])
def test_an_empty_batch_gives_an_empty_array(option: str) -> None:
    q, k = np.zeros((0, 3, 2)), np.zeros((0, 4, 2))
    given: dict[str, Any] = {option: np.ones((0, 4))}
    assert gaussian_weights(q, k, 1.0, **given).shape == (0, 3, 4)
    assert nadaraya_watson_attention(q, k, np.zeros((0, 4, 1))).shape == (0, 3, 1)


def test_no_queries() -> None:
    assert attention_weights(np.zeros((0, 2)), np.zeros((3, 2))).shape == (0, 3)
    assert gaussian_weights(np.zeros((0, 2)), np.ones((3, 2)), 1.0, unit_norm=True).shape == (0, 3)


def exact_weights(q: Any, k: Any, h: Any, mask: Any, prior: Any, scale: Any) -> tuple[Any, Any]:
    """Return Gaussian weights in decimals, and the largest exponent in each row that counts."""
    weights, sizes = np.zeros(mask.shape), np.zeros(len(q))
    # Digits for 1e300 - 1e-324 squared; exponents without bounds.
    with localcontext(Context(prec=1400, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        for i in range(len(q)):
            seen = np.flatnonzero(mask[i])
            parts = {
                j: sum(
                    ((Decimal(a) - Decimal(b)) / (Decimal(h[i]) * Decimal(scale[j]))) ** 2
                    for a, b in zip(q[i].tolist(), k[j].tolist(), strict=True)
                )
                / 2
                for j in seen
            }
            exponents = {j: Decimal(prior[j]) - parts[j] for j in seen}
            top = max(exponents.values())
            near = [j for j in seen if exponents[j] - top > -800]
            terms = {j: (exponents[j] - top).exp(Context(prec=25, Emin=-9999)) for j in near}
            for j in near:
                weights[i, j] = float(terms[j] / sum(terms.values()))
            size = max(max(parts[j], abs(Decimal(prior[j]))) for j in near)
            sizes[i] = float(min(size, Decimal("1e300")))
    return weights, sizes


HOSTILE = (0.0, 5e-324, 1e-310, 1e-300, 1e-162, 1e-150, 1.0, 1.5, 3.0, 1e150, 1e160, 1e300, 1.7e308)


@given(data=st.data())
def test_weights_of_any_size_are_those_of_exact_decimals(data: st.DataObject) -> None:
    m, n, d = (data.draw(st.integers(1, top)) for top in (2, 4, 3))
    signed = st.sampled_from([*HOSTILE, *(-size for size in HOSTILE)])
    positive = st.sampled_from(HOSTILE[1:])
    common = data.draw(st.booleans())  # sizes of data and bandwidth that meet, or do not
    unit = data.draw(st.sampled_from([1e-300, 1e-160, 1.0, 1e160, 1e300]))
    entries = st.floats(-4.0, 4.0).map(lambda x: x * unit) if common else signed
    widths = st.floats(0.3, 3.0).map(lambda x: x * unit) if common else positive
    q, k = (
        np.array(data.draw(st.lists(entries, min_size=rows * d, max_size=rows * d))).reshape(-1, d)
        for rows in (m, n)
    )
    h = data.draw(st.lists(widths, min_size=m, max_size=m))
    scale = data.draw(st.lists(positive | st.just(1.0), min_size=n, max_size=n))
    prior = data.draw(st.lists(signed | st.just(0.0), min_size=n, max_size=n))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=m * n, max_size=m * n)))
    mask = mask.reshape(m, n)
    mask[:, 0] = True
    got = gaussian_weights(q, k, h, mask, prior, scale)
    assert not got[~mask].any()
    want, size = exact_weights(q, k, h, mask, prior, scale)
    # Rounding of exponents; where they are so large that it is all of a weight, only the sum.
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert (np.abs(got - want).max(axis=1) <= 1e-14 * (1.0 + size)).all()


@pytest.mark.parametrize("far", [1e10, 1e154, 1e200, 1e308])
def test_neither_masked_keys_nor_other_queries_have_influence(far: float) -> None:
    q, k = sample()
    want = gaussian_weights(q, k, 0.5)
    more, mask = np.vstack([k, np.full((1, 3), far)]), np.ones((9, 41), dtype=bool)
    mask[:, -1] = False
    np.testing.assert_allclose(gaussian_weights(q, more, 0.5, mask)[:, :-1], want, rtol=1e-12)
    np.testing.assert_allclose(gaussian_weights(q, more, 0.5)[:, :-1], want, rtol=1e-12)
    others = np.vstack([q, np.full((1, 3), far)])
    np.testing.assert_allclose(gaussian_weights(others, k, 0.5)[:-1], want, rtol=1e-12)
    batch = np.stack([q, np.full_like(q, far)])
    np.testing.assert_allclose(gaussian_weights(batch, k, 0.5)[0], want, rtol=1e-12)


def test_axes_of_batches_of_every_argument_broadcast_or_are_refused_by_name() -> None:
    q, k = sample(batch=(2,))
    h = np.array([[0.5], [1.0], [2.0]])[..., np.newaxis] * np.ones(9)  # (3, 1, 9)
    scale, prior = np.linspace(0.5, 2.0, 40) * np.ones((3, 2, 1)), np.linspace(0.0, 1.0, 40)
    for factor in (1.0, 1e-200):
        got = gaussian_weights(factor * q, factor * k, factor * h, None, prior, scale)
        assert got.shape == (3, 2, 9, 40)
        want = gaussian_weights(q[1], k[1], h[2, 0], None, prior, scale[2, 1])
        np.testing.assert_allclose(got[2, 1], want, rtol=1e-11)
    for name, size in (("bandwidth", 9), ("log_prior", 40), ("key_scale", 40)):
        with pytest.raises(ParameterError, match=f"batch shapes must broadcast: .*{name} has"):
            gaussian_weights(q, k, **{"bandwidth": 1.0, name: np.ones((3, size))})  # type: ignore[arg-type]


@pytest.mark.parametrize("power", [-320, -200, -100, 0, 100, 200, 300])
def test_scores_in_range_have_weights_though_their_factors_have_no_product(power: int) -> None:
    q, k = sample()
    size = 2.0**power
    want = attention_weights(q, k, 2.0)
    # A temperature of size^2 is 0 or infinite in float64 at the ends: split it unevenly.
    got = attention_weights(q * size, k / size, 2.0)
    np.testing.assert_array_equal(got, want)
    if 2.0 ** (2 * power) > 1e-300:
        np.testing.assert_array_equal(attention_weights(q * size, k * size, 2.0 * size**2), want)
    else:
        tiny = attention_weights(q * size, k * size, 5e-324)
        np.testing.assert_allclose(tiny, attention_weights(q, k, 5e-324 / size / size), rtol=1e-12)


@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4), st.sampled_from(HOSTILE[1:]))
def test_log_prior_of_key_norms_is_that_of_fractions(key: list[float], t: float) -> None:
    want = sum(Fraction(x) ** 2 for x in key) / Fraction(t) / 2
    if want > Fraction(np.finfo(float).max):
        with pytest.raises(ParameterError, match=r"^k and temperature must keep"):
            key_norm_log_prior([key], t)
    else:
        assert key_norm_log_prior([key], t)[0] == pytest.approx(float(want), rel=1e-15, abs=1e-15)


Q, K = np.ones((2, 2)), np.ones((3, 2))


@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("^q must have at least 2 axes", lambda: attention_weights([1.0], K)),
        ("^k must have as many columns", lambda: attention_weights(Q, np.ones((3, 1)))),
        ("^k must have at least one row", lambda: attention_weights(Q, np.ones((0, 2)))),
        ("^q must have at least one column", lambda: attention_weights(Q[:, :0], K[:, :0])),
        ("^q must be finite", lambda: attention_weights([[np.nan, 1.0]], K)),
        ("^k must be finite", lambda: gaussian_weights(Q, np.full((3, 2), np.inf), 1.0)),
        ("^temperature", lambda: attention_weights(Q, K, 0.0)),
        ("^temperature", lambda: attention_weights(Q, K, math.inf)),
        ("^q, k and temperature", lambda: attention_weights(1e200 * Q, 1e200 * K)),
        ("^q, k and temperature", lambda: attention_weights(Q, K, 1e-310)),
        ("^batch shapes", lambda: attention_weights(np.ones((2, 2, 2)), np.ones((3, 3, 2)))),
        ("^mask must leave", lambda: attention_weights(Q, K, mask=np.zeros((2, 3), bool))),
        ("^mask must leave", lambda: gaussian_weights(Q, K, 1.0, np.zeros((2, 3), bool))),
        ("^mask must be an array of bool", lambda: gaussian_weights(Q, K, 1.0, np.ones((2, 3)))),
        ("^bandwidth must be finite and > 0", lambda: gaussian_weights(Q, K, 0.0)),
        ("^bandwidth must be finite and > 0", lambda: gaussian_weights(Q, K, [1.0, np.nan])),
        ("^bandwidth must be an array of real", lambda: gaussian_weights(Q, K, np.ones(2, bool))),
        ("^bandwidth must have 2 entries", lambda: gaussian_weights(Q, K, [1.0, 1.0, 1.0])),
        ("^bandwidth must be an array of real", lambda: gaussian_weights(Q, K, "loo")),
        (
            "^log_prior must be finite",
            lambda: gaussian_weights(Q, K, 1.0, log_prior=[0, 0, np.inf]),
        ),
        ("^log_prior must have 3 entries", lambda: gaussian_weights(Q, K, 1.0, log_prior=[0, 0])),
        (
            "^key_scale must be finite and > 0",
            lambda: gaussian_weights(Q, K, 1, key_scale=[1, 1, 0]),
        ),
        ("^q must hold no zero", lambda: gaussian_weights(0 * Q, K, 1.0, unit_norm=True)),
        ("^k must hold no zero", lambda: gaussian_weights(Q, 0 * K, 1.0, unit_norm=True)),
        ("^unit_norm", lambda: gaussian_weights(Q, K, 1.0, unit_norm=1)),  # type: ignore[arg-type]
        ("^temperature", lambda: key_norm_log_prior(K, -1.0)),
        ("^k must be finite", lambda: key_norm_log_prior([[np.nan]], 1.0)),
        ("^k and temperature", lambda: key_norm_log_prior([[1e200]], 1.0)),
    ],
)
def test_bad_input_is_refused_by_name(match: str, call: Any) -> None:
    with pytest.raises(ParameterError, match=match):
        call()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 3),
    log_far=st.floats(0.0, 100.0),
    log_h=st.floats(-3.0, 60.0),
    masked=st.booleans(),
    with_prior=st.booleans(),
)
def test_far_queries_keep_the_digits_of_differences(seed, d, log_far, log_h, masked, with_prior):
    """Distances of a far query differ by less than their rounding; weights show it."""
    rng = np.random.default_rng(seed)
    q, k, h = 10.0**log_far * rng.normal(size=(3, d)), rng.normal(size=(6, d)), 10.0**log_h
    seen = (rng.random((3, 6)) < 0.6) | ([True] + [False] * 5) if masked else None
    prior = rng.normal(size=6) if with_prior else None
    found = gaussian_weights(q, k, h, seen, prior)
    mask = np.ones((3, 6), bool) if seen is None else seen
    known = np.zeros(6) if prior is None else prior
    expected, _ = exact_weights(q, k, [h] * 3, mask, known, np.ones(6))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)


def test_a_query_beyond_the_digits_of_its_distance():
    np.testing.assert_array_equal(gaussian_weights([[1e17]], [[0.0], [1.0]], 1.0), [[0.0, 1.0]])
    found = gaussian_weights([[1e14]], [[0.0], [1.0]], 1e7)
    np.testing.assert_allclose(found, [[1 / (1 + np.e), 1 / (1 + 1 / np.e)]], rtol=1e-9)
    # Batches, and a row that is near beside one that is far.
    q = np.array([[[0.3], [1e12]], [[-1e12], [0.5]]])
    found = gaussian_weights(q, [[0.0], [1.0]], 1e6)
    for i in range(2):
        one = np.array([[0.0], [1.0]])
        expected, _ = exact_weights(q[i], one, [1e6] * 2, np.ones((2, 2), bool), [0, 0], [1, 1])
        np.testing.assert_allclose(found[i], expected, rtol=1e-12)
