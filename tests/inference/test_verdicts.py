"""Verdicts: the rule, its error rates, and how settings combine."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.inference import combine, equivalence, fit_rate, never_above, not_above

N_DRAWS = 20_000
# Four standard errors of a proportion of 0.05: two-sided false alarm 6e-5.
SLACK = 4 * math.sqrt(0.05 * 0.95 / N_DRAWS)


@pytest.mark.parametrize(
    ("estimate", "se", "verdict"),
    [
        (0.0, 0.0, "supported"),
        (0.0, 0.6, "supported"),
        (0.0, 0.61, "inconclusive"),
        (1.5, 0.1, "refuted"),
        (-1.5, 0.1, "refuted"),
        (1.5, 0.31, "inconclusive"),
        (0.9, 0.1, "inconclusive"),
        (0.0, 100.0, "inconclusive"),
        (math.nan, 0.1, "inconclusive"),
        (0.0, math.nan, "inconclusive"),
        (0.0, math.inf, "inconclusive"),
        (math.inf, 0.1, "inconclusive"),
    ],
)
def test_rule(estimate, se, verdict):
    assert equivalence(estimate, se, theory=0.0, margin=1.0).verdict == verdict


def test_record_carries_what_it_rests_on():
    found = equivalence(-0.79, 0.01, -0.8, 0.05)
    assert (found.estimate, found.mcse, found.theory, found.margin) == (-0.79, 0.01, -0.8, 0.05)
    assert found.ci_low == pytest.approx(-0.79 - 0.01959964)
    assert found.ci_high == pytest.approx(-0.79 + 0.01959964)
    assert math.isnan(equivalence(0.0, math.nan, 0.0, 1.0).ci_low)


@given(st.floats(-5, 5), st.floats(0, 5), st.floats(-5, 5), st.floats(0.01, 5))
def test_rule_is_symmetric_and_more_precision_never_unsettles_it(estimate, se, theory, margin):
    verdict = equivalence(estimate, se, theory, margin).verdict
    assert equivalence(-estimate, se, -theory, margin).verdict == verdict
    if verdict != "inconclusive":
        assert equivalence(estimate, se / 2, theory, margin).verdict == verdict


def shares(truth, se, margin=1.0, seed=0):
    draws = np.random.default_rng(seed).normal(truth, se, size=N_DRAWS)
    words = [equivalence(draw, se, 0.0, margin).verdict for draw in draws]
    return {word: words.count(word) / N_DRAWS for word in set(words)}


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_support_of_a_false_claim_comes_out_at_five_percent(side):
    # At the margin exactly, the claim is false and hardest to tell; so is its refutation when
    # the truth is just inside. Both rates are 5%.
    found = shares(side, 0.2)
    assert found["supported"] == pytest.approx(0.05, abs=SLACK)
    assert found["refuted"] == pytest.approx(0.05, abs=SLACK)


def test_an_imprecise_study_supports_nothing():
    assert shares(0.0, 0.7).get("supported", 0.0) == 0.0


def test_power_is_that_of_theory():
    # P(|Z| <= 4 - 1.645) = 0.9815.
    assert shares(0.0, 0.25)["supported"] == pytest.approx(0.9815, abs=SLACK)


def test_looser_rules_would_be_seen():
    # Negative control: a point estimate inside the margin, or theory inside the 95% interval,
    # accept a claim that is wrong by the margin far more often than 5%.
    draws = np.random.default_rng(0).normal(1.0, 0.6, size=N_DRAWS)
    assert np.mean(np.abs(draws) < 1.0) > 0.05 + 5 * SLACK
    assert np.mean(np.abs(draws) < 1.96 * 0.6) > 0.05 + 5 * SLACK


def test_a_rate_off_by_the_margin_is_supported_at_most_five_percent_of_the_time():
    # 2,000 studies: four standard errors are 0.0195.
    rng = np.random.default_rng(21)
    n_obs = 250 * 2.0 ** np.arange(6)
    count = 0
    for _ in range(2_000):
        mse = n_obs**-0.78 * (1.0 + 0.01 * rng.normal(size=6))
        count += fit_rate(n_obs, mse, 0.01 * mse).compare(-0.8, 0.02).verdict == "supported"
    assert count / 2_000 == pytest.approx(0.05, abs=0.0195)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("s", "supported"),
        ("ss", "supported"),
        ("sr", "supported-with-conditions"),
        ("sri", "supported-with-conditions"),
        ("si", "supported-with-conditions"),
        ("r", "refuted"),
        ("ri", "refuted"),
        ("ii", "inconclusive"),
    ],
)
def test_combination(words, expected):
    full = {"s": "supported", "r": "refuted", "i": "inconclusive"}
    for order in itertools.permutations(words):
        assert combine([full[word] for word in order]) == expected


def test_records_and_iterators_combine():
    records = (equivalence(x, 0.1, 0.0, 1.0) for x in (0.0, 5.0))
    assert combine(records) == "supported-with-conditions"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: equivalence(0.0, 0.1, 0.0, 0.0), "margin"),
        (lambda: equivalence(0.0, 0.1, 0.0, -1.0), "margin"),
        (lambda: equivalence(0.0, 0.1, 0.0, math.nan), "margin"),
        (lambda: equivalence(0.0, 0.1, math.nan, 1.0), "theory"),
        (lambda: equivalence(0.0, -0.1, 0.0, 1.0), "se"),
        (lambda: equivalence("half", 0.1, 0.0, 1.0), "estimate"),
        (lambda: equivalence(0.0, None, 0.0, 1.0), "se"),
        (lambda: combine([]), "verdicts"),
        (lambda: combine(["maybe"]), "verdicts"),
        (lambda: combine(["supported-with-conditions"]), "verdicts"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ParameterError, match=name):
        call()


# One side


@pytest.mark.parametrize(
    ("estimate", "se", "verdict"),
    [
        (0.0, 0.0, "supported"),
        (-9.0, 1.0, "supported"),
        (0.0, 0.6, "supported"),
        (0.0, 0.61, "inconclusive"),
        (1.0, 0.0, "supported"),
        (1.5, 0.3, "refuted"),
        (1.5, 0.31, "inconclusive"),
        (0.9, 0.1, "inconclusive"),
        (math.nan, 0.1, "inconclusive"),
        (0.0, math.nan, "inconclusive"),
        (-math.inf, 0.1, "inconclusive"),
    ],
)
def test_not_above(estimate, se, verdict):
    assert not_above(estimate, se, theory=-2.0, margin=3.0).verdict == verdict


def test_not_above_carries_what_it_rests_on():
    found = not_above(0.5, 0.1, 0.4, 0.0)
    assert (found.estimate, found.mcse, found.theory, found.margin) == (0.5, 0.1, 0.4, 0.0)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.5 - 0.1959964, 0.5 + 0.1959964))
    assert math.isnan(not_above(0.5, math.nan, 0.4, 0.0).ci_high)


@pytest.mark.parametrize("truth", [-1.0, 0.5, 0.9, 1.0, 1.1, 3.0])
def test_error_rates_of_one_side(truth):
    # At the limit, 1, either word has a chance of 5%; on its wrong side, less.
    draws = np.random.default_rng(1).normal(truth, 0.5, size=N_DRAWS)
    words = [not_above(draw, 0.5, 0.0, 1.0).verdict for draw in draws]
    if truth <= 1.0:
        assert words.count("refuted") / N_DRAWS <= 0.05 + SLACK
    if truth >= 1.0:
        assert words.count("supported") / N_DRAWS <= 0.05 + SLACK
    if truth == 1.0:
        assert words.count("refuted") / N_DRAWS >= 0.05 - SLACK
    if truth == -1.0:
        assert words.count("supported") / N_DRAWS > 0.98
    if truth == 3.0:
        assert words.count("refuted") / N_DRAWS > 0.98


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 1.0, math.nan, 1.0), "theory"),
        ((0.0, 1.0, 0.0, -0.1), "margin"),
        ((0.0, -1.0, 0.0, 1.0), "se"),
        (("x", 1.0, 0.0, 1.0), "estimate"),
    ],
)
def test_not_above_refuses_by_name(arguments, name):
    with pytest.raises(ParameterError, match=name):
        not_above(*arguments)


# Every replicate


@pytest.mark.parametrize("size", [1, 45, 1000])
@pytest.mark.parametrize("excess", [5e-324, 1e-12, 1.0, 1e300])
def test_one_value_above_refutes_wherever_it_stands_and_whatever_the_mean(size, excess):
    rng = np.random.default_rng(size)
    values = -np.abs(rng.standard_normal(size)) - 1.0
    assert never_above(values, 0.0, 0.0).verdict == "supported"
    for place in {0, size // 2, size - 1}:
        odd = values.copy()
        odd[place] = excess
        found = never_above(odd, 0.0, 0.0)
        assert (found.verdict, found.estimate) == ("refuted", excess)
    # Negative control: the rule on means lets the same replicate pass.
    if size > 1 and excess <= 1.0:
        mean, se = odd.mean(), odd.std(ddof=1) / size**0.5
        assert not_above(mean, se, 0.0, 0.0).verdict == "supported"


def test_never_above_allows_its_margin_and_has_no_interval():
    at, beyond = (never_above([0.25, value], 0.5, 0.25) for value in (0.75, np.nextafter(0.75, 1)))
    assert (at.verdict, beyond.verdict) == ("supported", "refuted")
    assert (at.estimate, at.theory, at.margin) == (0.75, 0.5, 0.25)
    assert all(math.isnan(value) for value in (at.mcse, at.ci_low, at.ci_high))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([], 0.0, 0.0), "values"),
        (([0.0, math.nan], 0.0, 0.0), "values"),
        (([0.0, -math.inf], 0.0, 0.0), "values"),
        (([[0.0]], 0.0, 0.0), "values"),
        ((["x"], 0.0, 0.0), "values"),
        (([0.0], math.nan, 0.0), "theory"),
        (([0.0], 0.0, -0.1), "margin"),
        (([0.0], 0.0, math.nan), "margin"),
    ],
)
def test_never_above_refuses_by_name(arguments, name):
    with pytest.raises(ParameterError, match=name):
        never_above(*arguments)
