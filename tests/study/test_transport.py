"""The study of transport: its moments against the package's own smoother, and its identities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nwsim import NadarayaWatson
from nwsim.inference import decompose_conditional, design_moments
from nwsim.study import load_study

STUDY = load_study("transport", Path(__file__).parents[2] / "studies")
assert STUDY.namespace is not None
SMALL = {
    "design": "uniform", "queries": "matched", "dim": 1,
    "n_obs": 32, "per_key": 0.5, "bandwidth": 0.1,
}  # fmt: skip
METHODS = {method.name: method.function for method in STUDY.methods}


def rows(seed=0, **levels):
    condition = {**SMALL, **levels}
    data = STUDY.draw(condition, np.random.default_rng(seed))
    return data, {name: run(condition, data, None) for name, run in METHODS.items()}


@pytest.mark.parametrize("levels", [{}, {"queries": "half"}, {"dim": 3, "design": "clustered"}])
def test_without_a_penalty_moments_are_those_of_nadaraya_watson(levels):
    ((samples, queries, truth), _), found = rows(**levels)
    per_design = design_moments(NadarayaWatson(0.1).fit, samples, queries, truth)
    want = decompose_conditional(per_design, truth)
    for part in ("mse", "bias2", "variance"):
        assert found["nw"][part] == pytest.approx(getattr(want, part), rel=1e-9)


def test_identities_and_what_weights_depend_on():
    _, found = rows()
    for row in found.values():
        assert row["identity_gap"] < 1e-8
    assert found["balanced"]["load_max"] == pytest.approx(1.0, abs=1e-3)
    assert found["balanced"]["load_cv"] < found["soft"]["load_cv"] < found["nw"]["load_cv"]
    assert found["nw"]["others"] < 1e-12 < 1e-3 < found["soft"]["others"]
    assert found["soft"]["others"] < found["balanced"]["others"]
    assert found["balanced"]["lengths"] < 1e-8 < 0.1 < found["nw"]["lengths"]


def test_a_tuned_bandwidth_is_the_best_on_the_draws_that_do_not_score_it():
    (scored, chosen_on), found = rows(bandwidth=0.0, per_key=1.0)
    smooth = STUDY.namespace["smooth"]
    for name, row in found.items():
        ratio, choices = STUDY.namespace["PENALTIES"][name], STUDY.namespace["choices_of"](name, 1)
        errors = [smooth(chosen_on, h, ratio)[0].mse for h in choices]
        chosen = choices[int(np.argmin(errors))]
        assert row["log_chosen"] == np.log(chosen)
        assert row["mse"] == smooth(scored, chosen, ratio)[0].mse
        assert row["n_at_edge"] == (chosen == choices[0])
        assert row["n_flat"] == (chosen == choices[-1])


@pytest.mark.parametrize("dim", [1, 3])
def test_the_widest_window_is_no_limit_of_the_grid(dim):
    """Nothing wider gives another output: there it is the mean of all values."""
    (scored, _), _ = rows(dim=dim, queries="half")
    smooth, widest = STUDY.namespace["smooth"], STUDY.namespace["WIDEST"]
    for method, ratio in STUDY.namespace["PENALTIES"].items():
        assert STUDY.namespace["choices_of"](method, dim)[-1] == widest
        wide, wider = (smooth(scored, h, ratio)[0].mse for h in (widest, 100.0 * widest))
        assert wide == pytest.approx(wider, rel=5e-3)


def test_queries_of_one_half_lie_there_and_levels_share_functions():
    data = STUDY.draw({**SMALL, "queries": "half"}, np.random.default_rng(3))
    for _, queries, _ in data:
        assert queries.shape == (16, 1)
        assert 0.0 <= queries.min() <= queries.max() <= 0.5
    pairs = [STUDY.draw({**SMALL, "per_key": m}, np.random.default_rng(3)) for m in (0.5, 1.0)]
    for (one, *_), (other, *_) in zip(*pairs, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left.X, right.X)
            np.testing.assert_array_equal(left.f, right.f)
