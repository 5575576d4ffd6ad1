"""Every study of the project runs in its quick profile, from the files as they are."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nwsim import run_study
from nwsim.inference import rate_exponent
from nwsim.study import load_study
from nwsim.study.results import read_results

STUDIES = Path(__file__).parents[1] / "studies"
NAMES = sorted(path.stem for path in STUDIES.glob("*.py") if not path.stem.startswith("_"))


@pytest.fixture(scope="module", params=NAMES)
def quick(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("quick")
    results = run_study(request.param, profile="quick", out=out, studies_dir=STUDIES)
    return load_study(request.param, STUDIES), results


def test_quick_profile_fills_every_table(quick):
    study, results = quick
    assert set(results.performance["measure"]) >= {
        measure.name for measure in study.measures if measure.name != "n_empty"
    }
    assert set(results.performance["method"]) == {method.name for method in study.methods}
    assert not results.performance["estimate"].isna().any()
    assert (results.performance["n_failed"] == 0).all()
    assert set(results.claims["claim"]) == {claim.id for claim in study.claims}
    assert set(results.contrasts["contrast"]) == {contrast.name for contrast in study.contrasts}


def test_margins_are_below_half_the_distance_to_the_next_rate():
    study = load_study("rate", STUDIES)
    claim = next(claim for claim in study.claims if claim.id == "R1")
    for dim in (1, 2, 3):
        alphas = {c["alpha"] for c in study.conditions() if c["dim"] == dim}
        slopes = np.sort([rate_exponent(alpha, dim) for alpha in alphas])
        assert claim.margin({"dim": dim}) < 0.5 * np.diff(slopes).min()


@pytest.mark.parametrize(
    "name", ["approximation", "equivalence", "information", "sparse", "temperature", "transport"]
)
def test_what_is_claimed_of_every_draw_is_judged_by_the_worst_one(name):
    """An identity or a bound that only rounding may break is none of a mean."""
    study = load_study(name, STUDIES)
    exact = [
        claim
        for claim in study.claims
        if not callable(claim.margin)
        and claim.margin <= 1e-3
        and claim.quantity in {measure.name for measure in study.measures}
    ]
    assert exact
    assert {claim.rule for claim in exact} == {"never_above"}


def test_windows_of_interior_queries_stay_inside_the_cube():
    study = load_study("rate", STUDIES)
    functions = study.draw.__globals__
    for condition in study.conditions():
        if condition["region"] == "interior":
            assert functions["rate_bandwidth"](condition) <= functions["WIDEST"] + 1e-12


def test_noise_of_a_replicate_is_the_same_for_every_method():
    study = load_study("rate", STUDIES)
    condition = next(c for c in study.conditions() if c["dim"] == 1)
    replicate = study.draw(condition, np.random.default_rng(0))
    np.testing.assert_array_equal(replicate.responses(0), replicate.responses(0))


def test_the_oracle_is_no_worse_than_the_theorem_on_average(quick):
    study, results = quick
    if study.name != "rate":
        pytest.skip("speaks of the rate study")
    cost = results.contrasts.query("contrast == 'cost_of_constant'")["estimate"]
    assert math.exp(np.log(cost).mean()) > 1.0


@pytest.mark.parametrize(
    ("study", "claim", "quantity", "setting", "below", "count"),
    [
        ("rate", "R1", "mse", r"dim=1;.*world=rough", 0.005, 5),
        ("decomposition", "B1_routes", "routes_mse", "", 0.003, 61),
        ("hdi", "H2_ends", "total_at_1", "world=(?!index_shared)", 0.025, 45),
        ("weighting", "W1", "log_ratio", "", 0.025, 88),
    ],
)
def test_the_rule_for_the_number_of_replicates_is_met_by_the_tracked_results(
    study, claim, quantity, setting, below, count
):
    claims = read_results(STUDIES.parent / "results" / study).claims
    own = claims[(claims["claim"] == claim) & (claims["quantity"] == quantity)]
    own = own[own["setting"].str.contains(setting)]
    assert len(own) == count
    assert (own["mcse"] < below).all()
