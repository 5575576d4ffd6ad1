"""Slopes and crossings along paired levels: exact cases, coverage, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nwsim.exceptions import ParameterError
from nwsim.inference import fit_rate
from nwsim.inference.paired import crossing, log_log_slope, paired_slope

LEVELS = np.array([2.0, 4.0, 8.0, 32.0])


def paired_rows(rng, n_sim, slope):
    """Replicates that share a large common factor, so that levels are highly correlated."""
    common = np.exp(rng.normal(0.0, 0.5, (n_sim, 1)))
    own = np.exp(rng.normal(0.0, 0.05, (n_sim, LEVELS.size)))
    return common * own * LEVELS**slope


def test_exact_power_laws_have_their_slope():
    rows = np.array([[1.0], [3.0], [0.5]]) * LEVELS**-0.7
    found = log_log_slope(LEVELS, rows)
    assert found.estimate == pytest.approx(-0.7, abs=1e-12)
    assert found.mcse == pytest.approx(0.0, abs=1e-12)
    mean = paired_slope(LEVELS, np.log(rows))
    assert mean.estimate == pytest.approx(-0.7, abs=1e-12)
    assert (mean.n_sim, found.n_sim) == (3, 3)


@pytest.mark.parametrize("log_mean", [True, False])
def test_intervals_cover_and_those_of_independent_levels_do_not(log_mean):
    """400 fits, R = 60: coverage below 90% of a true 95% interval has chance below 1e-4.

    Negative control: `fit_rate`, which takes levels as independent, has far too long intervals.
    """
    rng = np.random.default_rng(5)
    inside, ratios = 0, []
    for _ in range(400):
        rows = paired_rows(rng, 60, -0.3)
        found = log_log_slope(LEVELS, rows) if log_mean else paired_slope(LEVELS, np.log(rows))
        inside += abs(found.estimate + 0.3) < 1.96 * found.mcse
        error = rows.std(axis=0, ddof=1) / math.sqrt(60)
        ratios.append(fit_rate(LEVELS, rows.mean(axis=0), error).slope_se / found.mcse)
    assert 0.90 < inside / 400 < 0.985
    assert np.median(ratios) > 3.0


def test_crossing_is_interpolated_and_the_first():
    rng = np.random.default_rng(0)
    found = crossing([0.0, 1.0, 2.0], np.tile([1.0, 0.5, -0.5], (5, 1)), rng)
    assert (found.level, found.ci_low, found.ci_high) == pytest.approx((1.5, 1.5, 1.5))
    assert found.mcse == pytest.approx(0.0, abs=1e-12)
    assert crossing([0.0, 1.0, 2.0, 3.0], [[1.0, -1.0, 1.0, -1.0]], rng).level == 0.5
    assert crossing([0.0, 1.0], [[-1.0, 2.0]], rng).level == 0.0


def test_no_crossing_lies_beyond_the_last_level():
    rng = np.random.default_rng(0)
    found = crossing([0.0, 1.0], np.ones((30, 2)), rng)
    assert math.isinf(found.level)
    assert math.isinf(found.ci_low)
    assert math.isnan(found.mcse)
    # Some resamples cross and some do not: the interval is open at one end.
    rows = np.column_stack([np.ones(30), rng.normal(0.1, 1.0, 30)])
    open_ended = crossing([0.0, 1.0], rows - [[0.0, rows[:, 1].mean() + 0.02]], rng)
    assert math.isfinite(open_ended.ci_low)
    assert math.isinf(open_ended.ci_high)


def test_interval_of_a_crossing_covers():
    """200 samples, true place 0.4: coverage below 88% of a true 95% has chance below 1e-4.

    Negative control: the same intervals hold a place 0.3 away less than half of the time.
    """
    rng = np.random.default_rng(8)
    truth, wrong = 0, 0
    for _ in range(200):
        shared = rng.normal(0.0, 0.5, (80, 1))
        rows = shared + rng.normal([0.4, -0.6], 0.3, (80, 2))
        found = crossing([0.0, 1.0], rows, rng, n_resamples=400)
        truth += found.ci_low <= 0.4 <= found.ci_high
        wrong += found.ci_low <= 0.7 <= found.ci_high
    assert truth / 200 > 0.88
    assert wrong / 200 < 0.5


def test_one_replicate_has_no_error():
    assert math.isnan(paired_slope(LEVELS, LEVELS[None]).mcse)
    assert math.isnan(log_log_slope(LEVELS, LEVELS[None]).mcse)
    assert math.isnan(crossing([0.0, 1.0], [[1.0, -1.0]], np.random.default_rng(0)).mcse)


@pytest.mark.parametrize(
    ("levels", "values", "message"),
    [
        ([1.0, 1.0], [[1.0, 2.0]], "distinct"),
        ([0.0, 1.0], [[1.0, 2.0]], "positive"),
        ([1.0, 2.0], [[1.0, 2.0, 3.0]], "one column a level"),
        ([1.0, 2.0], [[1.0, np.nan]], "values"),
        ([1.0, 2.0], [[1.0, -2.0]], "positive means"),
        ([1.0, 2.0], [[1.0, 5.0], [1.0, -2.0]], "without any one"),
    ],
)
def test_bad_input_is_named(levels, values, message):
    with pytest.raises(ParameterError, match=message):
        log_log_slope(levels, values)


def test_levels_of_a_crossing_increase():
    with pytest.raises(ParameterError, match="increase"):
        crossing([1.0, 0.0], [[1.0, 2.0]], np.random.default_rng(0))
