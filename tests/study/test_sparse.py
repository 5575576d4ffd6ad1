"""The study of kept keys: its arithmetic against plain attention, and what it says of its keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from nwsim import NadarayaWatson, conditional_moments
from nwsim.attention.sparse import top_k_attention
from nwsim.inference import decompose_conditional
from nwsim.study import load_study

STUDY = load_study("sparse", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
NAMES = STUDY.namespace
SMALL = {"keys": "square", "n_obs": 60, "width": 1.0}


def drawn(seed, **levels):
    return STUDY.draw({**SMALL, **levels}, np.random.default_rng(seed))


def test_cumulative_moments_are_those_of_attention_over_the_kept_keys():
    data, h = drawn(1), NAMES["bandwidth"](SMALL)
    for n_keep in (1, 7, 32, 60):
        for j, keys in enumerate(data.keys):
            f = data.function(keys)[:, None]
            few = top_k_attention(data.queries, keys, f, n_keep, scores="gaussian", bandwidth=h)
            np.testing.assert_allclose(data.moments.mean[j, :, n_keep - 1], few.output[:, 0])
            squares = (few.weights**2).sum(axis=1)
            np.testing.assert_allclose(data.moments.noise[j, :, n_keep - 1], squares)
        row = NAMES["with_kept"](data, n_keep)
        assert row["mse"] == pytest.approx(NAMES["errors"](data.moments)[n_keep - 1], rel=1e-12)
        assert row["bias2"] + row["variance"] == pytest.approx(row["mse"], rel=1e-9)


def test_all_keys_are_the_nadaraya_watson_estimate():
    data = drawn(2)
    found = []
    for keys in data.keys:
        f = data.function(keys)
        model = NadarayaWatson(NAMES["bandwidth"](SMALL), engine="direct").fit(keys, f)
        found.append(conditional_moments(model, data.queries, f, data.moments.truth, 1.0))
    whole = decompose_conditional(found, data.moments.truth)
    row = NAMES["dense"](SMALL, data, None)
    for part in ("mse", "bias2", "variance"):
        assert row[part] == pytest.approx(getattr(whole, part), rel=1e-9)


@pytest.mark.parametrize(
    ("mse", "expected"),
    [
        ([4.0, 2.0, 1.0], 3),
        ([4.0, 1.005, 1.0], 2),
        ([0.5, 0.9, 1.0], 1),
        # Better than all keys in between does not count while larger numbers lose.
        ([3.0, 0.5, 1.2, 1.0], 4),
    ],
)
def test_needed(mse, expected):
    assert NAMES["needed"](np.array(mse)) == expected


@pytest.mark.parametrize("name", list(NAMES["SETS"]))
def test_keys_lie_in_their_set_and_queries_inside(name):
    points = NAMES["draw_points"](name, np.random.default_rng(3), 500)
    inner = NAMES["draw_points"](name, np.random.default_rng(3), 500, inner=0.5)
    lengths, inside = (np.linalg.norm(x, axis=1) for x in (points, inner))
    assert points.shape[1] == NAMES["SETS"][name].ambient
    if name in ("circle", "sphere"):
        np.testing.assert_allclose([lengths, inside], 1.0, rtol=1e-14)
    elif name == "shell":
        assert (np.abs(lengths - 1.0) <= 0.2).all()
        assert (np.abs(inside - 1.0) <= 0.1).all()
        assert np.ptp(lengths) > 0.35
    else:
        assert (np.abs(points) <= 1.0).all()
        assert (np.abs(inner) <= 0.5).all()


def z_of_window_counts(outside):
    """Return how many standard errors counts of keys in a window are from their number."""
    found = []
    names = ("circle", "square", "sphere")
    for name, rng in zip(names, np.random.default_rng(4).spawn(3), strict=True):
        condition = {"keys": name, "n_obs": 4096, "width": 0.5}
        dim = NAMES["SETS"][name].dim
        radius = np.sqrt(chi2.isf(outside, dim)) * NAMES["bandwidth"](condition)
        # One query a set of keys, so that counts are independent binomial ones.
        counts = [
            (np.linalg.norm(NAMES["draw_points"](name, rng, 4096) - query, axis=1) <= radius).sum()
            for query in NAMES["draw_points"](name, rng, 200, inner=0.5)
        ]
        expected = NAMES["window_count"](condition) - 0.5  # rounded up
        found.append((np.mean(counts) - expected) / (np.std(counts, ddof=1) / np.sqrt(200)))
    return np.array(found)


def test_windows_hold_the_keys_that_the_method_keeps():
    """Three |z|, one above 4.2: chance below 1e-4, with 1 for rounding and curvature.

    Negative control: a window that leaves out twice the mass holds fewer keys.
    """
    assert np.abs(z_of_window_counts(NAMES["OUTSIDE"])).max() < 5.2
    assert z_of_window_counts(2.0 * NAMES["OUTSIDE"]).max() < -5.2


def test_dot_products_rank_keys_of_one_length_as_the_kernel_does():
    for name, same in (("circle", True), ("sphere", True), ("shell", False), ("square", False)):
        condition = {**SMALL, "keys": name}
        data = drawn(5, keys=name)
        row = NAMES["ranked_by_dot"](condition, data, None)
        few = NAMES["with_kept"](data, NAMES["PRINTED"])
        equal = row["differing"] == 0.0, row["common"] == 1.0, np.isclose(row["mse"], few["mse"])
        assert [bool(one) for one in equal] == [same] * 3


def test_the_bound_holds_in_every_query_at_every_bandwidth_and_a_smaller_one_does_not():
    size = NAMES["BOUND_SIZE"]
    (claim,) = [claim for claim in STUDY.claims if claim.id == "K1_bound"]
    assert (claim.rule, claim.over, claim.where) == ("never_above", "width", None)
    for name in NAMES["SETS"]:
        for width in (0.5, 1.0, 2.0):
            condition = {"keys": name, "n_obs": size, "width": width}
            data = STUDY.draw(condition, np.random.default_rng(9))
            for n_keep in (2, 32, 512):
                row = NAMES["keep"](condition, data, None, n_keep)
                assert row["excess"] <= claim.margin
    # Negative control: one value far from all others is dropped by all but its neighbours.
    v = np.zeros((3, 1))
    v[2] = 1.0
    k = np.array([[0.0], [0.1], [1.0]])
    few = top_k_attention(k[:1], k, v, 2, scores="gaussian", bandwidth=0.5)
    whole = top_k_attention(k[:1], k, v, 3, scores="gaussian", bandwidth=0.5)
    moved = np.abs(few.output - whole.output)[0, 0]
    assert moved == pytest.approx(few.bound[0], rel=1e-12)
    assert moved - 0.99 * few.bound[0] > claim.margin


def test_the_best_number_is_chosen_without_the_keys_that_score():
    data, other = drawn(6), drawn(7)
    swapped = data._replace(moments=other.moments, keys=other.keys, queries=other.queries)
    chosen = [
        NAMES["best"](SMALL, one, np.random.default_rng(8))["chosen"] for one in (data, swapped)
    ]
    assert chosen[0] == chosen[1]


def test_margins_tell_the_window_from_a_fixed_share_of_the_keys():
    (claim,) = [claim for claim in STUDY.claims if claim.id == "K1_needed"]
    for name in NAMES["UNIFORM"]:
        assert claim.margin < 0.5 * (1.0 - claim.theory({"keys": name}))
