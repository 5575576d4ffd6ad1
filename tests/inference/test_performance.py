"""Performance measures: known values, the edges of R, and bad input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.inference import (
    decompose,
    difference,
    empirical_se,
    jackknife,
    mean,
    performance,
    performance_measures,
    proportion,
    ratio,
    rmse,
)

ERRORS = (1.0, -1.0, 2.0, -2.0)


def test_four_errors_have_the_known_summaries():
    found = performance(ERRORS)
    assert found["mse"].estimate == pytest.approx(2.5)
    assert found["mse"].mcse == pytest.approx(0.866025, abs=1e-6)
    assert found["rmse"].estimate == pytest.approx(1.581139, abs=1e-6)
    assert found["rmse"].mcse == pytest.approx(0.273861, abs=1e-6)
    assert rmse(ERRORS, "jackknife").mcse == pytest.approx(0.275255, abs=1e-6)
    assert found["variance"].estimate == pytest.approx(3.333333, abs=1e-6)
    assert found["bias2"].estimate == pytest.approx(-0.833333, abs=1e-6)
    parts = found["bias2"].estimate + found["variance"].estimate
    assert parts - found["mse"].estimate == pytest.approx(0.0, abs=1e-15)
    assert {estimate.n_sim for estimate in found.values()} == {4}


def test_bias_is_signed():
    found = performance([1.0, -1.0] * 10, ["bias"])
    assert found["bias"].estimate == 0.0
    assert performance([-1.0, -3.0], ["bias"])["bias"].estimate == -2.0


def test_variance_is_the_same_by_every_route():
    sample = np.array([1.0, 3.0, 3.0, 7.0])
    routes = [
        performance(sample, ["variance"])["variance"].estimate,
        empirical_se(sample).estimate ** 2,
        decompose(sample[:, None], [0.0]).variance,
        decompose(np.stack([sample] * 2, axis=1)[:, None, :], [5.0], [1.0, 0.0]).variance,
    ]
    assert routes == pytest.approx([6.333333] * 4, abs=1e-6)


def test_corrected_squared_bias_is_unbiased_and_its_negative_values_are_kept():
    # 20,000 studies of R = 50 errors N(0.1, 1). Standard error of the mean 0.00028, of the sd
    # about 0.0003: four standard errors each, false alarm below 2e-4. The plug-in and the
    # clipped value must miss the corrected one's interval (negative control).
    rng = np.random.default_rng(11)
    studies = rng.normal(0.1, 1.0, size=(20_000, 50))
    corrected = np.array([performance(s, ["bias2"])["bias2"].estimate for s in studies])
    plug_in = studies.mean(axis=1) ** 2
    assert corrected.mean() == pytest.approx(0.010, abs=0.0012)
    assert corrected.std() == pytest.approx(0.0402, abs=0.0013)
    assert corrected.min() < 0
    assert plug_in.mean() == pytest.approx(0.030, abs=0.0012)
    assert np.maximum(corrected, 0.0).mean() == pytest.approx(0.018, abs=0.0012)


@pytest.mark.parametrize("method", ["kurtosis", "jackknife"])
def test_empirical_se_allows_for_heavy_tails(method):
    # The expected MCSE is 0.067 (kurtosis) or 0.069 (jackknife); the mean of 2,000 has standard
    # error 0.0008, so that the band is left with probability below 1e-3; normal theory says
    # 0.041 and must miss it (negative control).
    rng = np.random.default_rng(5)
    samples = rng.standard_t(5, size=(2_000, 500))
    found = np.mean([empirical_se(sample, method).mcse for sample in samples])
    normal_theory = np.mean(samples.std(axis=1, ddof=1)) / math.sqrt(2 * 499)
    assert 0.064 < found < 0.076
    assert normal_theory == pytest.approx(0.041, abs=0.001)


def test_empirical_se_by_the_fourth_moment_has_its_textbook_value():
    sample = np.array([0.3, -1.2, 2.5, 0.1, 4.0])
    variance = sample.var(ddof=1)
    fourth = np.mean((sample - sample.mean()) ** 4)
    expected = math.sqrt((fourth - variance**2 * 2 / 4) / 5) / (2 * math.sqrt(variance))
    assert empirical_se(sample).mcse == pytest.approx(expected)


@given(
    st.lists(st.floats(-100, 100), min_size=3, max_size=12),
)
def test_closed_forms_are_the_jackknife_of_the_same_functional(errors):
    sample = np.array(errors)
    measures = performance(sample)
    scale = 1e-9 * (1.0 + np.square(sample).max())
    for name in ("bias", "bias2", "variance", "mse"):
        direct = jackknife(lambda rows, name=name: performance(rows, [name])[name].estimate, sample)
        assert measures[name].mcse == pytest.approx(direct.mcse, rel=1e-6, abs=scale)
    root = jackknife(lambda rows: math.sqrt(np.mean(rows**2)), sample)
    assert rmse(sample, "jackknife").mcse == pytest.approx(root.mcse, rel=1e-6, abs=1e-5)
    deviation = jackknife(lambda rows: rows.std(ddof=1), sample)
    assert empirical_se(sample, "jackknife").mcse == pytest.approx(
        deviation.mcse, rel=1e-6, abs=1e-5
    )


def test_one_replicate_has_point_values_and_a_warning():
    with pytest.warns(PrecisionWarning, match="mcse"):
        found = performance([3.0])
    assert (found["bias"].estimate, found["mse"].estimate, found["rmse"].estimate) == (3, 9, 3)
    assert all(math.isnan(estimate.mcse) for estimate in found.values())
    assert math.isnan(found["bias2"].estimate)
    assert math.isnan(found["variance"].estimate)


def test_two_replicates_are_finite():
    for estimate in performance([3.0, 4.0], covered=[True, False]).values():
        assert math.isfinite(estimate.estimate)
        assert math.isfinite(estimate.mcse)


def test_errors_all_zero_have_no_error():
    for estimate in performance(np.zeros(5)).values():
        assert (estimate.estimate, estimate.mcse) == (0.0, 0.0)
    assert empirical_se(np.zeros(5), "jackknife").mcse == 0.0


def test_failed_replicates_leave_every_measure_on_the_same_ones():
    rng = np.random.default_rng(3)
    errors = rng.normal(size=50)
    errors[[4, 17, 30]] = np.nan
    kept = errors[np.isfinite(errors)]
    assert {estimate.n_sim for estimate in performance(kept).values()} == {47}
    with pytest.raises(ParameterError, match="errors"):
        performance(errors)


def test_coverage_is_a_proportion():
    covered = [True] * 9 + [False]
    found = performance(np.arange(10.0), ["coverage"], covered=covered)["coverage"]
    assert found == proportion(covered)
    assert found.estimate == pytest.approx(0.9)
    assert found.mcse == pytest.approx(math.sqrt(0.09 / 10))


def test_default_measures_are_all_that_the_inputs_allow():
    assert tuple(performance(ERRORS, covered=[1, 0, 1, 1])) == performance_measures()
    assert "coverage" not in performance(ERRORS)


def test_a_measure_without_its_inputs_is_an_error():
    with pytest.raises(ParameterError, match=r"coverage.*covered"):
        performance(ERRORS, ["mse", "coverage"])
    with pytest.raises(ParameterError, match=r"measures.*'mse'.*'medse'"):
        performance(ERRORS, ["medse"])


def test_difference_is_paired():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=100)
    first, second = shared + 1.0, shared + rng.normal(size=100) * 0.01
    paired = difference(first, second)
    assert paired.estimate == pytest.approx(np.mean(first - second))
    assert paired.mcse == pytest.approx(np.std(first - second, ddof=1) / 10)
    assert paired.mcse < 0.1 * mean(first).mcse


def test_ratio_is_of_means_with_delta_and_jackknife_in_agreement():
    rng = np.random.default_rng(1)
    below = rng.gamma(4.0, size=300)
    above = 2.0 * below + rng.normal(size=300) * 0.1
    delta, jack = ratio(above, below), ratio(above, below, "jackknife")
    assert delta.estimate == jack.estimate == pytest.approx(above.mean() / below.mean())
    assert delta.mcse == pytest.approx(jack.mcse, rel=0.02)
    rows = np.stack([above, below], axis=1)
    direct = jackknife(lambda r: r[:, 0].mean() / r[:, 1].mean(), rows)
    assert jack.mcse == pytest.approx(direct.mcse)
    assert ratio(2.0 * below, below).mcse == pytest.approx(0.0, abs=1e-12)


def test_ratio_refuses_a_zero_denominator():
    with pytest.raises(ParameterError, match="baseline"):
        ratio([1.0, 2.0], [1.0, -1.0])
    with pytest.raises(ParameterError, match="baseline"):
        ratio([1.0, 2.0], [1.0, 0.0], "jackknife")


@pytest.mark.parametrize("function", [difference, ratio])
def test_paired_summaries_of_one_replicate(function):
    with pytest.warns(PrecisionWarning):
        found = function([3.0], [2.0])
    assert math.isfinite(found.estimate)
    assert math.isnan(found.mcse)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: performance([]), "errors"),
        (lambda: performance([1.0, math.inf]), "errors"),
        (lambda: performance([[1.0]]), "errors"),
        (lambda: performance(["a"]), "errors"),
        (lambda: performance(ERRORS, covered=[1, 0, 2, 1]), "covered"),
        (lambda: performance(ERRORS, covered=[1, 0, 1]), "covered"),
        (lambda: proportion([]), "indicator"),
        (lambda: proportion([0.5]), "indicator"),
        (lambda: mean([math.nan]), "values"),
        (lambda: rmse(ERRORS, "bootstrap"), "method"),
        (lambda: empirical_se(ERRORS, "normal"), "method"),
        (lambda: empirical_se([1.0, 2.0], "jackknife"), "errors"),
        (lambda: ratio([1.0], [1.0, 2.0]), "lengths"),
        (lambda: difference([1.0, math.nan], [1.0, 2.0]), "values"),
        (lambda: ratio([1.0, 2.0], [1.0, 2.0], "fieller"), "method"),
        (lambda: jackknife(np.mean, 1.0), "sample"),
        (lambda: jackknife(np.mean, []), "sample"),
        (lambda: jackknife(lambda rows: math.nan, [1.0]), "statistic"),
        (lambda: jackknife(lambda rows: math.nan if rows.size < 2 else 1.0, [1, 2]), "statistic"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ParameterError, match=name):
        call()


def test_jackknife_of_a_mean_is_its_standard_error():
    sample = np.array([1.0, 4.0, 9.0, 2.0])
    found = jackknife(np.mean, sample)
    assert found.mcse == pytest.approx(sample.std(ddof=1) / 2)
    with pytest.warns(PrecisionWarning):
        assert math.isnan(jackknife(np.mean, [2.0]).mcse)
