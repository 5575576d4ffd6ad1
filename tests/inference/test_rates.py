"""Rates: known slopes, their standard errors, and what the boundary does to a slope."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.inference import fit_rate, local_slopes

N_OBS = 250 * 2 ** np.arange(6)
EXACT = 3.0 * N_OBS**-0.8


def test_an_exact_power_law_is_found_without_error():
    found = fit_rate(N_OBS, EXACT, np.zeros(6))
    assert found.slope == pytest.approx(-0.8, abs=1e-13)
    assert found.slope_se == pytest.approx(0.0, abs=1e-13)
    assert found.intercept == pytest.approx(math.log(3.0))
    assert found.n_points == 6
    assert found.compare(-0.8, 0.01).verdict == "supported"
    assert found.compare(-0.7, 0.01).verdict == "refuted"


def test_one_percent_noise_has_the_known_standard_error():
    found = fit_rate(N_OBS, EXACT, 0.01 * EXACT)
    assert found.slope_se == pytest.approx(0.00345, abs=5e-6)
    assert found.ci_low == pytest.approx(-0.8 - 1.96 * 0.00345, abs=1e-5)
    assert found.ci_high == pytest.approx(-0.8 + 1.96 * 0.00345, abs=1e-5)


def test_the_standard_error_is_that_of_repeated_studies():
    # 2,000 fits: their sd is known to 1.6%, so 6% is about four of its standard errors. Unequal
    # precision makes an unweighted fit worse (negative control).
    rng = np.random.default_rng(8)
    relative = np.array([0.002, 0.004, 0.01, 0.02, 0.03, 0.05])
    noisy = EXACT * (1.0 + relative * rng.normal(size=(2_000, 6)))
    fits = [fit_rate(N_OBS, mse, relative * mse) for mse in noisy]
    slopes = np.array([fit.slope for fit in fits])
    stated = np.mean([fit.slope_se for fit in fits])
    assert stated == pytest.approx(slopes.std(), rel=0.06)
    assert slopes.mean() == pytest.approx(-0.8, abs=4 * stated / math.sqrt(2_000) + 2e-4)
    unweighted = [fit_rate(N_OBS, mse, np.zeros(6)).slope for mse in noisy]
    assert np.std(unweighted) > 1.5 * stated


def test_without_mcse_it_is_ordinary_least_squares_with_the_residual_error():
    mse = EXACT * np.exp([0.1, -0.2, 0.05, 0.1, -0.1, 0.02])
    found = fit_rate(N_OBS, mse, np.zeros(6))
    coefficients, covariance = np.polyfit(np.log(N_OBS), np.log(mse), 1, cov=True)
    assert found.slope == pytest.approx(coefficients[0])
    assert found.intercept == pytest.approx(coefficients[1])
    assert found.slope_se == pytest.approx(math.sqrt(covariance[0, 0]))


def test_weighted_fit_is_that_of_numpy_with_known_variances():
    rng = np.random.default_rng(3)
    relative = rng.uniform(0.01, 0.1, size=6)
    mse = EXACT * np.exp(relative * rng.normal(size=6))
    coefficients, covariance = np.polyfit(
        np.log(N_OBS), np.log(mse), 1, w=1 / relative, cov="unscaled"
    )
    found = fit_rate(N_OBS, mse, relative * mse)
    assert (found.slope, found.intercept) == pytest.approx(tuple(coefficients))
    assert found.slope_se == pytest.approx(math.sqrt(covariance[0, 0]))


@given(st.permutations(range(6)), st.floats(1e-200, 1e200), st.floats(1e-6, 1e6))
def test_order_and_units_do_not_matter(order, unit, factor):
    mcse = EXACT * np.linspace(0.01, 0.05, 6)
    base = fit_rate(N_OBS, EXACT, mcse)
    index = np.array(order)
    found = fit_rate(N_OBS[index] * factor, EXACT[index] * unit, mcse[index] * unit)
    assert found.slope == pytest.approx(base.slope, rel=1e-9)
    assert found.slope_se == pytest.approx(base.slope_se, rel=1e-9)


def test_slopes_without_a_standard_error_are_inconclusive():
    with pytest.warns(PrecisionWarning, match="standard error"):
        unknown = fit_rate(N_OBS, EXACT, np.full(6, math.nan))
    assert unknown.slope == pytest.approx(-0.8)
    assert unknown.compare(-0.8, 0.01).verdict == "inconclusive"
    with pytest.warns(PrecisionWarning, match="standard error"):
        two = fit_rate(N_OBS[:2], EXACT[:2], [0.0, 0.0])
    assert two.slope == pytest.approx(-0.8)
    assert math.isnan(two.slope_se)


def test_two_points_with_mcse_have_a_standard_error():
    found = fit_rate([100, 200], [1.0, 0.5], [0.03, 0.02])
    assert found.slope == pytest.approx(-1.0)
    assert found.slope_se == pytest.approx(math.hypot(0.03, 0.04) / math.log(2))


def test_local_slopes_follow_a_curve():
    n_obs = np.array([400.0, 100.0, 1600.0])
    mse = np.array([0.5, 1.0, 0.125])
    first, second = local_slopes(n_obs, mse, 0.1 * mse)
    assert (first.n_mid, second.n_mid) == pytest.approx((200.0, 800.0))
    assert (first.slope, second.slope) == pytest.approx((-0.5, -1.0))
    assert first.slope_se == pytest.approx(math.sqrt(0.02) / math.log(4))
    assert first.ci_high - first.ci_low == pytest.approx(2 * 1.959964 * first.slope_se)
    pair = fit_rate([100, 400], [1.0, 0.5], [0.1, 0.05])
    assert (first.slope, first.slope_se) == pytest.approx((pair.slope, pair.slope_se))


def test_local_slopes_without_error_or_with_unknown_error():
    assert [s.slope_se for s in local_slopes(N_OBS, EXACT, np.zeros(6))] == [0.0] * 5
    unknown = local_slopes(N_OBS, EXACT, np.full(6, math.nan))
    assert all(math.isnan(s.slope_se) for s in unknown)


def risk_of_exp(n_obs, low, high):
    """Integrated risk of NW at population level: f = exp, s = 0.5, uniform design on [0, 1]."""
    h = 0.6 * n_obs**-0.2
    u, du = np.linspace(-1, 1, 2_001, retstep=True)
    x = np.linspace(low, high, 4_001)
    risk = np.empty_like(x)
    for i, q in enumerate(x):
        inside = (q + h * u >= 0) & (q + h * u <= 1)
        kernel = np.where(inside, 0.75 * (1 - u**2), 0.0)
        mass = kernel.sum() * du
        bias = (kernel * np.exp(q + h * u)).sum() * du / mass - math.exp(q)
        risk[i] = bias**2 + 0.25 * (kernel**2).sum() * du / (n_obs * h * mass**2)
    return risk.mean()


def test_the_boundary_flattens_the_slope_of_a_smooth_function():
    whole = [risk_of_exp(n, 0.0, 1.0) for n in N_OBS]
    inside = [risk_of_exp(n, 0.25, 0.75) for n in N_OBS]
    assert fit_rate(N_OBS, whole, np.zeros(6)).slope == pytest.approx(-0.70, abs=0.03)
    assert fit_rate(N_OBS, inside, np.zeros(6)).slope == pytest.approx(-0.80, abs=0.01)


@pytest.mark.parametrize("function", [fit_rate, local_slopes])
@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"n_obs": [100.0], "mse": [1.0], "mcse": [0.1]}, "n_obs"),
        ({"n_obs": [100.0, 100.0, 100.0]}, "n_obs"),
        ({"n_obs": [0.0, 1.0, 2.0]}, "n_obs"),
        ({"n_obs": [math.nan, 1.0, 2.0]}, "n_obs"),
        ({"n_obs": []}, "n_obs"),
        ({"n_obs": [1.0, 2.0]}, "lengths"),
        ({"mse": [1.0, 0.0, 1.0]}, "mse"),
        ({"mse": [1.0, -1.0, 1.0]}, "mse"),
        ({"mse": [1.0, math.nan, 1.0]}, "mse"),
        ({"mcse": [0.1, -0.1, 0.1]}, "mcse"),
        ({"mcse": [0.1, math.inf, 0.1]}, "mcse"),
    ],
)
def test_bad_input_is_named(function, change, name):
    arguments = {"n_obs": [1.0, 2.0, 4.0], "mse": [1.0, 0.5, 0.2], "mcse": [0.1, 0.1, 0.1]}
    with pytest.raises(ParameterError, match=name):
        function(**(arguments | change))


@pytest.mark.parametrize("odd", [0.0, math.nan])
def test_a_fit_of_known_and_unknown_precision_is_refused(odd):
    with pytest.raises(ParameterError, match="mcse"):
        fit_rate([1, 2, 4], [1.0, 0.5, 0.2], [0.1, odd, 0.1])


def test_local_slopes_need_distinct_sizes():
    with pytest.raises(ParameterError, match="n_obs"):
        local_slopes([1, 2, 2], [1.0, 0.5, 0.5], [0.1, 0.1, 0.1])
