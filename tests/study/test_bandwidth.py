"""The study of bandwidths: its errors against the package's own, and who sees what."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nwsim import NadarayaWatson, conditional_moments, decompose
from nwsim.inference.shares import share_bounds
from nwsim.study import load_study

STUDY = load_study("bandwidth", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
SMALL = {"world": "varying", "design": "uniform", "dim": 2, "n_obs": 64, "noise": 0.5}
METHODS = {method.name: method.function for method in STUDY.methods}
exact_error, plain_error = (STUDY.namespace[f"{kind}_error"] for kind in ("exact", "plain"))


def drawn(seed, **levels):
    return STUDY.draw({**SMALL, **levels}, np.random.default_rng(seed))


def run(method, data, **levels):
    return METHODS[method]({**SMALL, **levels}, data, np.random.default_rng(0))


def test_exact_error_is_that_of_conditional_moments():
    sample = drawn(1).sample
    model = NadarayaWatson(0.2).fit(sample.X, sample.f)
    place = (sample.queries, sample.f, sample.truth)
    found = conditional_moments(model, *place, 0.25)
    means, noise = np.stack([found.mean] * 2), found.noise_covariance
    want = decompose(means, sample.truth, noise_covariance=noise).mse
    weights = STUDY.namespace["family"]("oracle", sample).weights(0.2)
    assert exact_error(SMALL, weights, sample) == pytest.approx(want, rel=1e-10)


def z_of_routes(condition, n_sim=400):
    """Return how many standard errors the plain route is from the exact one."""
    sample, rng = drawn(2).sample, np.random.default_rng(3)
    weights = STUDY.namespace["family"]("knn", sample).weights(0.5)
    noisy = [sample.f + 0.5 * rng.standard_normal(len(sample.f)) for _ in range(n_sim)]
    plain = [plain_error(weights @ y, sample) for y in noisy]
    distance = np.mean(plain) - exact_error(condition, weights, sample)
    return distance / (np.std(plain, ddof=1) / math.sqrt(n_sim))


def test_both_routes_have_one_expectation():
    """One |z| above 4: chance 6e-5. Negative control: noise of another size."""
    assert abs(z_of_routes(SMALL)) < 4.0
    assert abs(z_of_routes({**SMALL, "noise": 0.6})) > 8.0


@pytest.mark.parametrize("method", ["oracle", "knn", "abramson", "abramson_density", "unit_norm"])
def test_oracles_see_neither_responses_nor_the_sample_that_scores(method):
    data, other = drawn(4), drawn(5)
    row = run(method, data)
    blind = run(method, data._replace(y=other.y))
    assert blind["exact_mse"] == row["exact_mse"]
    assert blind["mse"] != row["mse"]
    if method == "oracle":
        h = row["log_bandwidth"]
        assert run(method, data._replace(sample=other.sample))["log_bandwidth"] == h
        assert run(method, data._replace(others=other.others))["log_bandwidth"] != h


@pytest.mark.parametrize(
    "method", ["loo", "learned", "from_rule", "from_one", "position", "neighbors"]
)
def test_what_chooses_on_data_sees_neither_the_truth_nor_the_queries_of_others(method):
    data, other = drawn(6), drawn(7)
    row = run(method, data)
    assert run(method, data._replace(others=other.others)) == row
    moved = data._replace(sample=data.sample._replace(truth=other.sample.truth))
    changed = run(method, moved)
    assert {**changed, "mse": row["mse"]} == row
    assert changed["mse"] != row["mse"]


def test_slopes_start_from_the_learned_bandwidth():
    data = drawn(8)
    learn = STUDY.namespace["learn_bandwidth"]
    for kind in ("position", "neighbors", "coordinate"):
        assert learn(data.sample.X, data.y, kind).criterion <= data.learned.criterion
        run(kind, data)


def test_length_one_loses_the_distance_from_the_centre_and_nothing_else():
    data = drawn(9)
    family = STUDY.namespace["family"]
    centre = STUDY.namespace["CENTRE"]
    moved = data.sample._replace(queries=centre + 3.0 * (data.sample.queries - centre))
    samples = (data.sample, moved)
    near, far = (family("unit_norm", sample).weights(0.3) for sample in samples)
    np.testing.assert_allclose(far, near, rtol=1e-9)
    known = STUDY.namespace["draw_function"](
        {**SMALL, "world": "direction"}, np.random.default_rng(1)
    )
    np.testing.assert_allclose(known(moved.queries), known(data.sample.queries), atol=1e-12)
    whole = STUDY.namespace["draw_function"](SMALL, np.random.default_rng(1))
    assert not np.allclose(whole(moved.queries), whole(data.sample.queries), atol=0.1)


def test_waves_shorten_twentyfold():
    ends = np.array([[0.0], [1.0]])
    step = 1e-6
    warped = STUDY.namespace["warped"]
    slopes = (warped(ends + step) - warped(ends - step)) / (2.0 * step)
    assert slopes[1, 0] / slopes[0, 0] == pytest.approx(math.exp(3.0), rel=1e-6)
    np.testing.assert_allclose(warped(ends), ends, atol=1e-12)


def test_the_best_fixed_bandwidth_is_near_the_very_best():
    """Where waves vary and inputs are skewed; choices on two designs are the negative control.

    Excess is that of errors over the least, averaged over functions and choices, errors being
    those on twenty designs of their own.
    """
    names = STUDY.namespace
    condition = {**SMALL, "dim": 1, "design": "skewed", "n_obs": 256, "noise": 0.25}
    grid = np.exp(np.linspace(math.log(0.01), 0.0, 14))

    def errors(function, n_designs, rng):
        total = np.zeros(grid.size)
        for _ in range(n_designs):
            sample = names["draw_sample"](condition, function, names["N_SEARCHED"], rng)
            weights = names["family"]("oracle", sample).weights
            total += [exact_error(condition, weights(h), sample) for h in grid]
        return total / n_designs

    found = []
    for seed in range(14):
        rng = np.random.default_rng(seed)
        function = names["draw_function"](condition, rng)
        known = errors(function, 20, rng)
        row = [
            np.mean([known[errors(function, n_designs, rng).argmin()] for _ in range(4)])
            for n_designs in (2, names["N_DESIGNS"])
        ]
        found.append([*row, known.min()])
    two, chosen, least = np.sum(found, axis=0)
    assert chosen / least - 1.0 < names["REGRET_MARGIN"] / 4.0 < two / least - 1.0


def test_short_waves_catch_descents_and_the_count_says_so():
    """From the rule of thumb about four of five are stuck: the chance of 5 or fewer is 1e-6."""
    stuck, worse = 0, []
    for seed in range(20):
        data = drawn(seed, world="short", dim=1)
        rows = {name: run(name, data, world="short", dim=1) for name in ("loo", "from_rule")}
        stuck += rows["from_rule"]["stuck"]
        worse.append(rows["from_rule"]["mse"] / rows["loo"]["mse"])
        learn, least = STUDY.namespace["learn"], data.searched.bandwidth_selection_.criterion
        near = learn(data.sample.X, data.y, start=data.searched.bandwidth_)
        assert near.criterion == pytest.approx(least, rel=1e-3)
    assert stuck > 5
    assert np.mean(worse) > 2.0


def test_replicates_without_a_stuck_descent_are_enough_for_support():
    standard = STUDY.profile("standard")
    for condition in STUDY.conditions():
        n_sim = standard.replicates(condition)
        assert share_bounds(0, n_sim)[1] <= STUDY.namespace["STUCK_SHARE"]
        if condition["world"] == "short":
            assert share_bounds(0, n_sim)[1] <= 0.01
    assert share_bounds(0, 58)[1] > STUDY.namespace["STUCK_SHARE"]


def test_harmlessness_is_judged_where_nothing_calls_for_adapting():
    claims = [claim for claim in STUDY.claims if claim.id == "K2_harmless"]
    for condition in STUDY.conditions():
        even = condition["design"] == "uniform" and condition["world"] in ("smooth", "rough")
        assert all(claim.where(condition) == even for claim in claims)
