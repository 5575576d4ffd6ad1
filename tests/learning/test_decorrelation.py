"""The study of optimal frames: nested optima, parts that add up, and margins that can fail."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nwsim.heads import head_diversity_index
from nwsim.learning import FrameFit, FrameRisk, QueriedSample
from nwsim.study import load_study

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="module")
def study():
    return load_study("decorrelation", STUDIES)


def condition_of(study, **wanted):
    return next(
        c for c in study.conditions() if all(c[name] == level for name, level in wanted.items())
    )


@pytest.fixture(scope="module", params=["isotropic", "correlated"])
def replicate(request, study):
    condition = condition_of(study, world=request.param, noise=0.5, dim=4)
    data = study.draw(condition, np.random.default_rng(7))
    rows = {m.name: m.function(condition, data, np.random.default_rng(8)) for m in study.methods}
    return condition, data, rows


def test_the_free_optimum_is_no_worse_in_training_than_any_rival(replicate):
    _, _, rows = replicate
    trained = {name: row["train_mse"] for name, row in rows.items()}
    for rival, error in trained.items():
        assert trained["optimised"] <= error * (1.0 + 1e-3), rival
    # Neither constrained optimum is a free one, so this can fail.
    assert trained["best_orthogonal"] < trained["apart"]
    assert trained["best_identical"] < trained["identical"]


def test_rows_are_what_they_say(replicate):
    condition, data, rows = replicate
    for row in rows.values():
        parts = row["bias2"] + row["variance"] + row["head_covariance"]
        assert parts == pytest.approx(row["mse"], rel=1e-9)
        squares = [row["cosine_1"] ** 2, row["cosine_2"] ** 2]  # one pair of heads
        assert np.mean(squares) == pytest.approx(row["overlap"], abs=1e-9)
    for name in ("best_orthogonal", "chosen_apart", "apart"):
        assert rows[name]["overlap"] == pytest.approx(0.0, abs=1e-9)
    for name in ("best_identical", "identical"):
        assert rows[name]["overlap"] == pytest.approx(1.0)
        assert rows[name]["floor2"] > 0.0
    assert ("overlap_metric" in rows["random"]) == (condition["world"] == "correlated")
    assert all(head_diversity_index(fit.frames) > 1 - 1e-9 for fit in data.orthogonal)


def test_scores_are_of_the_exact_risk_on_fresh_designs(replicate):
    _, data, rows = replicate
    fresh = FrameRisk(
        QueriedSample(s.X, s.f, s.noise_variance, data.scored.queries, data.scored.truth)
        for s in data.scored.samples
    )
    fit = min(data.optimised, key=lambda fit: fit.value)
    assert rows["optimised"]["mse"] == pytest.approx(fresh.value(fit.frames, fit.bandwidth))
    trained_on = {sample.X.tobytes() for sample in data.risk.samples}
    assert not trained_on & {sample.X.tobytes() for sample in data.scored.samples}


def test_the_floor_is_what_little_noise_and_many_observations_leave(study):
    condition = condition_of(study, world="isotropic", noise=0.5, dim=4)
    data = study.draw(condition, np.random.default_rng(3))
    floor2 = study.draw.__globals__["floor2"]
    frames = data.identical[0].frames
    rng = np.random.default_rng(4)
    X, Q = rng.standard_normal((40_000, 4)), data.scored.queries
    f = data.scored.function
    risk = FrameRisk([QueriedSample(X, f(X), np.zeros(len(X)), Q, f(Q))])
    # Bias and variance at this n and h are some 2% of the floor: 10% is no chance event.
    assert risk.value(frames, 0.12) == pytest.approx(floor2(data, frames), rel=0.1)


def test_margins_tell_random_frames_from_frames_of_least_overlap(study):
    claim = next(claim for claim in study.claims if claim.id == "D1")
    for condition in study.conditions():
        least, margin = claim.theory(condition), claim.margin(condition)
        random = condition["d_k"] / condition["dim"]
        assert least + margin == pytest.approx((least + random) / 2)
        assert margin > 0.05


def test_functions_do_not_change_with_noise_bandwidth_or_training(study, monkeypatch):
    def first(risk, starts, bandwidth, **_):
        name, frames = next(iter(starts.items()))
        return (FrameFit(name, frames, bandwidth, 1.0, 0.0, 0, True),)

    monkeypatch.setitem(study.draw.__globals__, "fit_frames", first)  # its time, not its result
    drawn = []
    for wanted in ({"noise": 0.5}, {"noise": 8.0}, {"n_designs": 24}, {"bandwidth": "fitted"}):
        condition = condition_of(study, **({"world": "isotropic", "dim": 4} | wanted))
        drawn.append(partial(study.draw, condition)(np.random.default_rng(1)).scored)
    for other in drawn[1:]:
        np.testing.assert_array_equal(other.truth, drawn[0].truth)
        np.testing.assert_array_equal(other.samples[0].X, drawn[0].samples[0].X)
