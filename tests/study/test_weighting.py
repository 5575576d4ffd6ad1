"""The study of weights: its arithmetic against the package's own, and what it says of its heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nwsim.heads import sum_of_squares
from nwsim.inference import conditional_moments, decompose_conditional
from nwsim.study import load_study

STUDY = load_study("weighting", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
SMALL = {"quality": "signal", "spread": 0.5, "n_obs": 48, "n_heads": 8}
CHOICES = STUDY.namespace["CHOICES"]
score = STUDY.namespace["score"]


def drawn(seed, **levels):
    return STUDY.draw({**SMALL, **levels}, np.random.default_rng(seed))


@pytest.mark.parametrize("quality", ["signal", "bandwidth"])
def test_parts_are_those_of_decompose(quality):
    condition = {**SMALL, "quality": quality}
    rng = np.random.default_rng(1)
    data = STUDY.namespace["MECHANISM"].draw(rng, 48, 3, 20, None)
    ranks = rng.random(8)
    place = (data.samples, data.queries, data.truth)
    heads = STUDY.draw(condition, rng)._replace(
        scored_on=STUDY.namespace["smooth"](condition, ranks, *place)
    )
    per_design = []
    for X, f, noise_variance in data.samples:
        model = STUDY.namespace["fit"](condition, ranks, X, f)
        per_design.append(conditional_moments(model, data.queries, f, data.truth, noise_variance))
    for method in ("uniform", "geometric_50", "optimal_nonnegative"):
        row = score(condition, heads, rng, method)
        whole = decompose_conditional(per_design, data.truth, CHOICES[method](heads))
        for part in ("mse", "bias2", "variance", "head_covariance"):
            assert row[part] == pytest.approx(getattr(whole, part), rel=1e-9, abs=1e-12)
        assert row["bias2"] + row["variance"] + row["head_covariance"] == pytest.approx(row["mse"])


def z_of_private_shares(n_sim, spread):
    """Return how many standard errors mean private shares are from the sums of squares."""
    split = STUDY.namespace["shared_and_private"]
    found = []
    for seed in range(n_sim):
        heads = drawn(seed, n_obs=32, n_heads=4, quality="bandwidth", spread=spread)
        total = heads.scored_on.total
        shared, private = split(total)
        chosen = [CHOICES[method](heads) for method in ("geometric_50", "fibonacci", "best_head")]
        found.append([(a @ total @ a - shared) / private - sum_of_squares(a) for a in chosen])
    return np.mean(found, axis=0) / (np.std(found, axis=0, ddof=1) / np.sqrt(n_sim))


def test_heads_without_spread_are_exchangeable():
    """Three |z| at 80 replicates, one above 4.2: chance below 3e-4.

    Negative control: of heads that differ, ordered weights leave less.
    """
    assert np.abs(z_of_private_shares(80, spread=0.0)).max() < 4.2
    assert z_of_private_shares(80, spread=1.0).min() < -6.0


def test_heads_are_nested_and_both_kinds_are_one_without_spread():
    many, few = drawn(3, n_heads=8), drawn(3, n_heads=2)
    np.testing.assert_allclose(many.scored_on.total[:2, :2], few.scored_on.total, rtol=1e-12)
    np.testing.assert_allclose(many.predictions[:, :2], few.predictions, rtol=1e-12)
    signal, bandwidth = drawn(3, spread=0.0), drawn(3, spread=0.0, quality="bandwidth")
    np.testing.assert_array_equal(signal.scored_on.total, bandwidth.scored_on.total)
    assert not np.allclose(many.scored_on.total, drawn(3, spread=1.0).scored_on.total)


def test_only_the_oracle_sees_the_designs_that_score():
    heads, other = drawn(4), drawn(5)
    swapped = heads._replace(scored_on=other.scored_on, floor=other.floor)
    for method, choose in CHOICES.items():
        assert choose(heads).sum() == pytest.approx(1.0)
        same = np.array_equal(choose(heads), choose(swapped))
        assert same == (method != "oracle"), method


def test_the_oracle_is_a_lower_bound():
    for seed in range(5):
        heads = drawn(seed)
        errors = {name: score(SMALL, heads, None, name)["mse"] for name in CHOICES}
        assert min(errors, key=errors.get) == "oracle"


def test_floor_is_that_of_heads_that_see_less():
    assert not drawn(6, spread=0.0).floor.any()
    assert not drawn(6, quality="bandwidth").floor.any()
    ranks = STUDY.namespace["GOLDEN"] * np.arange(8) % 1.0
    frames, bandwidths = STUDY.namespace["frames_and_bandwidths"]({**SMALL, "spread": 1.0}, ranks)
    seen = frames[:, 0, 0]
    np.testing.assert_allclose(np.einsum("hdk,hdl->hkl", frames, frames), [np.eye(2)] * 8)
    assert np.argsort(seen).tolist() == np.argsort(-ranks).tolist()
    assert np.unique(bandwidths).size == 1


def test_margins_of_floors_are_below_half_the_distance_to_uniform_weights():
    nearest = 1.0 / STUDY.namespace["LARGEST"]
    floors = [claim for claim in STUDY.claims if claim.id == "W1_floor"]
    assert len(floors) == 4
    for claim in floors:
        assert claim.margin < 0.5 * (claim.theory - nearest)
