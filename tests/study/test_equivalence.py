"""The study of softmax against kernel regression: its data, its forms, what differs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nwsim.attention.weights import attention_weights, gaussian_weights, key_norm_log_prior
from nwsim.study import Points, load_study
from nwsim.study.rules import CURVE_RULES

STUDY = load_study("equivalence", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
SMALL = {"d_k": 8, "n_obs": 80, "temperature": 1.0, "maps": "different", "spread": 0.2}
MARGIN = STUDY.namespace["ROUNDING"]


def drawn(seed=0, **levels):
    return STUDY.draw({**SMALL, **levels}, np.random.default_rng(seed))


def row(method, seed=0, **levels):
    condition = {**SMALL, **levels}
    return STUDY.namespace[method](condition, drawn(seed, **levels), np.random.default_rng(9))


def test_keys_have_the_stated_lengths():
    lengths = np.linalg.norm(drawn(spread=0.0).k, axis=1)
    np.testing.assert_allclose(lengths, math.sqrt(8), rtol=1e-14)
    logs = np.log(np.linalg.norm(drawn(spread=0.2, n_obs=4000).k, axis=1) / math.sqrt(8))
    # Five standard errors of a mean and of a standard deviation: chance below 1e-6.
    assert abs(logs.mean()) < 5 * 0.2 / math.sqrt(4000)
    assert abs(logs.std() - 0.2) < 5 * 0.2 / math.sqrt(8000)


def test_one_map_makes_queries_of_the_keys():
    data = drawn(maps="tied")
    np.testing.assert_allclose(data.q, data.k[: len(data.q)], rtol=1e-14)
    assert np.abs(drawn().q - drawn().k[:64]).max() > 0.1


def test_levels_share_what_is_drawn():
    for levels in ({"spread": 0.8}, {"maps": "tied"}, {"temperature": 2.0}):
        other = drawn(**levels)
        np.testing.assert_array_equal(other.v, drawn().v)
        directions = [a.k / np.linalg.norm(a.k, axis=1, keepdims=True) for a in (other, drawn())]
        np.testing.assert_allclose(*directions, rtol=0, atol=1e-14)


@pytest.mark.parametrize("maps", ["tied", "different"])
def test_what_is_equal_and_what_is_not(maps):
    for method in ("twin", "one_length"):
        assert max(row(method, maps=maps).values()) < MARGIN / 100
    assert max(row("plain", maps=maps, spread=0.0).values()) < MARGIN / 100
    for method in ("plain", "half_t", "half_d_k", "inverse_root", "code"):
        assert min(row(method, maps=maps).values()) > 1e-3, method


def test_longest_keys_meet_the_lowest_temperature_and_rounding_stays_within_the_margin():
    levels = [max(c[name] for c in STUDY.conditions()) for name in ("d_k", "n_obs", "spread")] + [
        min(c["temperature"] for c in STUDY.conditions())
    ]
    hardest = dict(zip(("d_k", "n_obs", "spread", "temperature"), levels, strict=True))
    assert {c["maps"] for c in STUDY.conditions() if hardest.items() <= c.items()} == {
        "tied",
        "different",
    }
    for seed in range(3):
        for method in ("twin", "one_length"):
            assert max(row(method, seed, **hardest).values()) < MARGIN / 10
        # Negative control: a prior that is off by a thousandth of its exponent.
        data = drawn(seed, **hardest)
        prior = 0.999 * key_norm_log_prior(data.k, data.t)
        odd = gaussian_weights(data.q, data.k, math.sqrt(data.t), log_prior=prior)
        assert np.abs(odd - attention_weights(data.q, data.k, data.t)).max() > 1e4 * MARGIN


def test_half_d_k_is_right_at_four_alone():
    found = [row("half_d_k", d_k=d_k, spread=0.0)["weight_error"] for d_k in (3, 4, 5)]
    assert found[1] < MARGIN / 100
    assert min(found[0], found[2]) > 1e-3


def test_small_spreads_cost_what_the_derivative_says():
    """Without its prior g = |k|^2 / (2 t) a weight w_j changes by -w_j (g_j - sum_l w_l g_l)."""
    data = drawn(spread=1e-4)
    w = attention_weights(data.q, data.k, data.t)
    g = (data.k**2).sum(axis=1) / (2 * data.t)
    change = w * np.abs(g - (w @ g)[:, np.newaxis])
    distance = row("plain", spread=1e-4)["distance"]
    assert distance == pytest.approx(change.sum(axis=1).mean() / 2, rel=1e-2)


def test_scores_are_symmetric_under_one_map_alone():
    assert row("kernel", maps="tied")["asymmetry"] < MARGIN / 100
    assert row("kernel")["asymmetry"] > 0.5


def test_the_curve_shows_the_largest_replicate():
    columns = [(np.arange(3), np.array([1.0, 5.0, 2.0])), (np.arange(3), np.array([4.0, 0.0, 3.0]))]
    counts = np.array([3, 3])
    points = Points(
        np.array([0.0, 0.1]), np.zeros(2), np.zeros(2), counts, counts, columns=lambda: columns
    )
    found = CURVE_RULES["largest"].derive(points)
    assert [(point.x, point.estimate) for point in found] == [(0.0, 5.0), (0.1, 4.0)]
