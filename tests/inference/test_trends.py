"""Trends: identities by hand, invariances, and error rates on planted truths.

Error rates are shares among 1,000 simulated studies with fixed seeds. A rule whose
true rate is 5% exceeds the limit used, 5% plus three binomial standard errors, with
probability 0.1%.
"""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nwsim.exceptions import ParameterError
from nwsim.inference import ends, jackknife, never_rises, ratio, straight_line

N_STUDIES = 1000
LIMIT = 0.05 + 3 * math.sqrt(0.05 * 0.95 / N_STUDIES)
X = np.linspace(0.0, 1.0, 6)


def paired(rng, means, n_sim, skewed=False):
    """Levels that share most of their noise, as with common random numbers."""
    means = np.asarray(means, dtype=float)
    if skewed:
        shared, own = (
            rng.gamma(6.0, 1 / 6, (n_sim, 1)),
            rng.gamma(60.0, 1 / 60, (n_sim, means.size)),
        )
        return means * shared * own
    return means + 0.2 * rng.normal(size=(n_sim, 1)) + 0.1 * rng.normal(size=(n_sim, means.size))


def shares(judge, means, n_sim, skewed=False, n=N_STUDIES, seed=0):
    rng = np.random.default_rng(seed)
    words = Counter(judge(paired(rng, means, n_sim, skewed)) for _ in range(n))
    return {word: words[word] / n for word in ("supported", "refuted", "inconclusive")}


def rises(values, margin=0.1):
    return never_rises(values, margin).verdict.verdict


def straight(values, margin=0.1):
    return straight_line(X, values, margin).verdict.verdict


matrices = st.integers(0, 2**32 - 1).map(
    lambda seed: paired(np.random.default_rng(seed), [1.0, 0.8, 0.7, 0.7, 0.5, 0.4], 25)
)


# Never rises


def test_steps_by_hand():
    values = [[2.0, 1.0, 2.0], [4.0, 3.0, 1.0], [3.0, 2.0, 3.0]]
    found = never_rises(values, 0.5)
    np.testing.assert_allclose(found.steps, [-1 / 3, 0.0], atol=1e-15)
    # Influences of the second step, mean first level 3: (1, -2, 1) / 3.
    assert found.mcse[1] == pytest.approx(math.sqrt((1 + 4 + 1) / 9 / 2 / 3))
    assert (found.position, found.verdict.estimate) == (1, pytest.approx(0.0))
    assert found.verdict.ci_high == pytest.approx(found.mcse[1] * stats.t.ppf(0.975, 2))
    assert (found.verdict.theory, found.verdict.margin) == (0.0, 0.5)


@given(matrices)
def test_steps_are_ratios_of_means_of_pairs(values):
    found = never_rises(values, 0.1)
    for j in range(5):
        alone = ratio(values[:, j + 1] - values[:, j], values[:, 0])
        assert found.steps[j] == pytest.approx(alone.estimate, rel=1e-10, abs=1e-12)
        assert found.mcse[j] == pytest.approx(alone.mcse, rel=1e-10)


@given(matrices, st.floats(1e-6, 1e6), st.randoms(use_true_random=False))
def test_neither_unit_nor_order_of_replicates_matters(values, unit, random):
    rows = list(range(len(values)))
    random.shuffle(rows)
    for found, again in (
        (never_rises(values, 0.1), never_rises(unit * values[rows], 0.1)),
        (straight_line(X, values, 0.1), straight_line(X, unit * values[rows], 0.1)),
    ):
        assert again.verdict.verdict == found.verdict.verdict
        assert again.verdict.estimate == pytest.approx(found.verdict.estimate, rel=1e-8, abs=1e-10)
        assert again.verdict.mcse == pytest.approx(found.verdict.mcse, rel=1e-8)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("n_sim", [30, 100])
def test_a_rise_by_exactly_the_margin_is_hardly_ever_decided(n_sim, skewed):
    found = shares(rises, [1.0, 0.8, 0.9, 0.7, 0.5], n_sim, skewed)
    assert found["supported"] <= LIMIT
    assert found["refuted"] <= LIMIT


def test_refuting_is_family_wise():
    # Every step at the margin, so that all of them could err; uncorrected, they would.
    means = 1.0 + 0.1 * np.arange(6)
    assert shares(rises, means, 50)["refuted"] <= LIMIT

    def uncorrected(values):
        trend = never_rises(values, 0.1)
        lower = trend.steps - stats.t.ppf(0.95, len(values) - 1) * trend.mcse
        return "refuted" if (lower > 0.1).any() else "inconclusive"

    assert shares(uncorrected, means, 50)["refuted"] > 2 * LIMIT


@pytest.mark.parametrize(
    ("means", "word"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0], "supported"),
        ([1.0, 0.9, 0.8, 0.7, 0.6], "supported"),
        ([1.0, 0.8, 1.0, 0.7, 0.5], "refuted"),
        ([1.0, 1.2, 1.4, 1.6, 1.8], "refuted"),
    ],
)
def test_power(means, word):
    # 100 replicates decide at least 95% of such studies, and decide none the other way.
    found = shares(rises, means, 100, n=200)
    assert found[word] >= 0.95
    assert found["supported" if word == "refuted" else "refuted"] == 0.0


def test_a_significant_trend_would_support_a_hump():
    # Negative control: the slope falls, so a trend test says so, and misses the rise.
    means = [1.0, 0.7, 0.9, 0.5, 0.3]

    def trend_test(values):
        slopes = values @ (np.arange(5.0) - 2.0)
        return (
            "supported" if stats.ttest_1samp(slopes, 0.0, alternative="less").pvalue < 0.05 else ""
        )

    assert shares(trend_test, means, 100, n=200)["supported"] >= 0.95
    assert shares(rises, means, 100, n=200)["refuted"] >= 0.95


def test_the_deciding_step_is_the_one_shown():
    rng = np.random.default_rng(5)
    # The last step is noisy and has the highest upper bound, but the first one refutes.
    values = paired(rng, [1.0, 1.3, 1.2, 1.2], 60)
    values[:, -1] += 3.0 * stats.zscore(rng.normal(size=60))
    found = never_rises(values, 0.1)
    assert np.argmax(found.steps + 1.5 * found.mcse) == 2
    assert (found.verdict.verdict, found.position, found.n_refuting) == ("refuted", 0, 1)
    assert found.verdict.estimate == found.steps[0]


@pytest.mark.parametrize(
    "values",
    [np.ones((30, 1)), np.ones((1, 3)), np.ones((0, 3)), -np.ones((30, 3)), np.zeros((30, 3))],
)
def test_undefined_steps_decide_nothing(values):
    found = never_rises(values, 0.1)
    assert found.verdict.verdict == "inconclusive"
    assert math.isnan(found.verdict.estimate)
    assert np.isnan(found.steps).all()
    assert (found.n_refuting, found.position) == (0, -1)


def test_a_scale_in_doubt_decides_nothing():
    # The first mean is 1 with standard error 1: parts of it mean nothing.
    rng = np.random.default_rng(1)
    first = stats.zscore(rng.normal(size=(100, 1)), ddof=1) * 10.0 + 1.0
    values = np.hstack([first, first - 1.0, first + 50.0])
    found = never_rises(values, 0.1)
    assert (found.verdict.verdict, found.n_refuting) == ("inconclusive", 0)
    assert found.verdict.estimate > 1.0


def test_exact_values_are_decided():
    assert never_rises(np.tile([3.0, 2.0, 1.0], (5, 1)), 0.0).verdict.verdict == "supported"
    assert never_rises(np.tile([3.0, 2.0, 2.5], (5, 1)), 0.1).verdict.verdict == "refuted"


# A straight line


@given(matrices)
def test_line_against_least_squares_and_the_jackknife(values):
    found = straight_line(X, values, 0.1)
    slope, intercept = np.polyfit(X, values.mean(axis=0), 1)
    assert (found.slope, found.intercept) == pytest.approx((slope, intercept), rel=1e-9)
    np.testing.assert_allclose(
        found.departures, values.mean(axis=0) - intercept - slope * X, atol=1e-12
    )
    assert found.slope_se == pytest.approx(
        jackknife(lambda v: np.polyfit(X, v.mean(0), 1)[0], values).mcse
    )
    design = np.column_stack([np.ones(6), X])
    off_line = np.eye(6) - design @ np.linalg.pinv(design)
    off_mean = np.eye(6) - 1.0 / 6.0
    third = jackknife(lambda v: (off_line @ v.mean(0))[2], values)
    assert found.departures_mcse[2] == pytest.approx(third.mcse)

    def share(rows):
        parts = [
            np.sum((A @ rows.mean(0)) ** 2) - np.trace(A @ np.cov(rows.T) @ A) / len(rows)
            for A in (off_line, off_mean)
        ]
        return parts[0] / parts[1]

    alone = jackknife(share, values)
    assert found.verdict.estimate == pytest.approx(alone.estimate, rel=1e-8, abs=1e-10)
    assert found.verdict.mcse == pytest.approx(alone.mcse, rel=1e-6)


@given(matrices)
def test_lack_of_fit_is_hotellings(values):
    found = straight_line(X, values, 0.1)
    # Second differences span the contrasts orthogonal to a line on an even grid.
    bends = np.diff(values, n=2, axis=1)
    n_sim, q = bends.shape
    centre = bends.mean(axis=0)
    statistic = n_sim * centre @ np.linalg.solve(np.cov(bends.T), centre)
    p_value = stats.f.sf(statistic * (n_sim - q) / (q * (n_sim - 1)), q, n_sim - q)
    assert found.p_value == pytest.approx(p_value, rel=1e-8)


def test_one_contrast_is_the_t_test():
    values = paired(np.random.default_rng(2), [1.0, 0.7, 0.5], 20)
    bend = values[:, 0] - 2 * values[:, 1] + values[:, 2]
    found = straight_line([0.0, 1.0, 2.0], values, 0.1)
    assert found.p_value == pytest.approx(stats.ttest_1samp(bend, 0.0).pvalue)


@given(matrices, st.floats(0.1, 10.0), st.floats(-5.0, 5.0))
def test_share_does_not_depend_on_the_origin_or_the_unit_of_x(values, unit, shift):
    found = straight_line(X, values, 0.1)
    moved = straight_line(unit * X + shift, values + shift, 0.1)
    assert moved.verdict.estimate == pytest.approx(found.verdict.estimate, rel=1e-6, abs=1e-9)
    assert moved.slope == pytest.approx(found.slope / unit, rel=1e-7)
    assert moved.p_value == pytest.approx(found.p_value, rel=1e-5)
    assert moved.verdict.verdict == found.verdict.verdict


@pytest.mark.parametrize("skewed", [False, True])
def test_a_true_line_is_not_called_curved(skewed):
    rng = np.random.default_rng(0)
    fits = [straight_line(X, paired(rng, 1 - 0.5 * X, 40, skewed), 0.1) for _ in range(N_STUDIES)]
    words = Counter(fit.verdict.verdict for fit in fits)
    assert np.mean([fit.p_value < 0.05 for fit in fits]) <= LIMIT
    assert words["refuted"] == 0
    assert words["supported"] >= 0.9 * N_STUDIES


def test_flat_levels_are_seldom_decided():
    # Neither straight and falling nor curved: all that is decided is by chance.
    found = shares(straight, np.ones(6), 40, n=N_STUDIES)
    assert found["supported"] + found["refuted"] <= LIMIT


def test_a_plain_share_would_call_a_weak_line_curved():
    # Negative control: without the noise correction the same data look curved.
    rng = np.random.default_rng(3)
    corrected, plain = [], []
    for _ in range(200):
        values = paired(rng, 1 - 0.09 * X, 25)
        fit = straight_line(X, values, 0.1)
        corrected.append(fit.verdict.estimate)
        plain.append(np.sum(fit.departures**2) / np.sum((values.mean(0) - values.mean()) ** 2))
    assert np.median(plain) > 0.12
    # NaN where even the total is not above its noise.
    assert np.nanmedian(corrected) < 0.05


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("n_sim", [30, 100])
def test_a_share_at_the_margin_is_hardly_ever_decided(n_sim, skewed):
    line = 1 - 0.5 * X
    bend = np.cos(2 * np.pi * X)
    bend -= np.polyval(np.polyfit(X, bend, 1), X)
    own = np.sum((line - line.mean()) ** 2)
    means = line + math.sqrt(own * 0.1 / 0.9 / np.sum(bend**2)) * bend
    found = shares(straight, means, n_sim, skewed, n=N_STUDIES)
    assert found["supported"] <= LIMIT
    assert found["refuted"] <= LIMIT


def test_the_curve_of_overlap_in_its_angle_is_refuted():
    # 1 - cos^4 t over the angle t looks straight (a line leaves 8%); a margin of 2% sees it.
    means = 1 - 0.5 * (1 - np.cos(X * np.pi / 2) ** 4)
    assert shares(lambda v: straight(v, 0.02), means, 100, n=200)["refuted"] >= 0.95


def test_a_rising_line_is_refuted():
    assert shares(straight, 1 + 0.3 * X, 40, n=200)["refuted"] >= 0.95


def test_a_hump_without_slope_does_not_fall():
    # Even a margin that allows any departure needs a slope below 0.
    values = paired(np.random.default_rng(6), 1 + 0.5 * np.cos(np.pi * (X - 0.5)), 60)
    found = straight_line(X, values, 2.0)
    assert found.p_variation < 0.05
    assert abs(found.slope) < 1.9 * found.slope_se
    assert found.verdict.verdict == "inconclusive"


def test_curvature_must_be_significant_too():
    # With few replicates the two tests part: a share above a small margin, but no lack of fit.
    rng = np.random.default_rng(7)
    means = 1 - 10 * X + 0.1 * np.cos(2 * np.pi * X)
    parted = 0
    for _ in range(200):
        found = straight_line(X, paired(rng, means, 8), 1e-6)
        share = found.verdict
        above = share.estimate - stats.t.ppf(0.95, 7) * share.mcse > 1e-6
        if above and found.p_value >= 0.05:
            parted += 1
            assert share.verdict != "refuted"
    assert parted >= 5


def test_what_has_no_test_decides_nothing():
    rng = np.random.default_rng(4)
    for x, values in (
        ([0.0, 1.0], rng.normal(size=(30, 2))),
        (X, rng.normal(size=(2, 6))),
        (X, np.ones((0, 6))),
    ):
        found = straight_line(x, values, 0.1)
        assert found.verdict.verdict == "inconclusive"
        assert math.isnan(found.verdict.estimate)
        assert np.isnan(found.departures).all()
    # Fewer replicates than contrasts, or none that vary: no law of the statistic.
    few = straight_line(X, paired(rng, 1 - 0.5 * X, 4), 0.1)
    assert math.isnan(few.p_value)
    assert few.verdict.verdict == "inconclusive"
    assert math.isnan(straight_line(X, np.tile(1 - X, (30, 1)), 0.1).p_value)
    assert straight_line(X, np.ones((30, 6)), 0.1).verdict.verdict == "inconclusive"


# Ends


def test_ends_by_hand():
    found = ends([[2.0, 9.0, 1.0], [4.0, 9.0, 1.0]])
    assert found.estimate == pytest.approx(math.log(3.0))
    # first / 3 - last / 1: -1/3 and 1/3.
    assert found.mcse == pytest.approx(1 / 3)
    assert found.n_sim == 2


@given(matrices)
def test_ends_are_antisymmetric_and_know_pairs(values):
    found, back = ends(values), ends(values[:, ::-1])
    assert back.estimate == pytest.approx(-found.estimate)
    assert back.mcse == pytest.approx(found.mcse)
    alone = ratio(values[:, 0], values[:, -1])
    assert found.mcse == pytest.approx(alone.mcse / alone.estimate)


@pytest.mark.parametrize("values", [np.ones((5, 1)), np.ones((0, 3)), np.array([[1.0, -1.0]])])
def test_ends_without_a_logarithm(values):
    assert math.isnan(ends(values).estimate)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: never_rises([1.0, 2.0], 0.1), "values must have 2 axes"),
        (lambda: never_rises([[1.0, math.nan]], 0.1), "values must be finite"),
        (lambda: never_rises(np.ones((3, 3)), -0.1), "margin"),
        (lambda: straight_line(X, np.ones((9, 5)), 0.1), "x must have one level a column"),
        (lambda: straight_line(np.ones(6), np.ones((9, 6)), 0.1), "two distinct levels"),
        (lambda: straight_line(X, np.ones((9, 6)), 0.0), "margin"),
        (lambda: ends([[1.0, math.inf]]), "values must be finite"),
    ],
)
def test_refuses_by_name(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_slow_rise_counts_between_any_two_levels():
    # Eleven steps up of 0.4% each: none is above a margin of 1%, all together are.
    rng = np.random.default_rng(11)
    level = 1.0 + 0.004 * np.arange(12)
    values = level + 0.02 * rng.standard_normal((60, 1)) + 0.002 * rng.standard_normal((60, 12))
    assert never_rises(values, 0.01).verdict.verdict == "supported"
    found = never_rises(values, 0.01, between="all")
    assert found.verdict.verdict == "refuted"
    assert found.steps.size == 66
    assert found.verdict.estimate == pytest.approx(0.044, abs=0.005)
    assert found.position == 10  # from the first level to the last


@given(st.integers(2, 7), st.integers(0, 500))
def test_steps_between_all_levels_add_up_from_neighbours(k, seed):
    values = 1.0 + np.random.default_rng(seed).random((8, k))
    small = never_rises(values, 0.05).steps
    found = never_rises(values, 0.05, between="all").steps
    expected = [small[i:j].sum() for i in range(k) for j in range(i + 1, k)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_between_is_checked():
    with pytest.raises(ParameterError, match="'neighbours', 'all'"):
        never_rises(np.ones((3, 3)), 0.1, between="some")


def test_false_alarms_between_all_levels_of_a_falling_curve_are_rare():
    # The last step rises by exactly the margin. Support and refutation are each 5% at most;
    # 400 repetitions put four binomial standard errors at 4.4%.
    rng = np.random.default_rng(12)
    mean = np.array([1.0, 0.8, 0.6, 0.55, 0.56])
    words = []
    for _ in range(400):
        noise = 0.05 * rng.standard_normal((40, 1)) + 0.02 * rng.standard_normal((40, 5))
        words.append(never_rises(mean + noise, 0.01, between="all").verdict.verdict)
    assert words.count("supported") / 400 <= 0.05 + 0.044
    assert words.count("refuted") / 400 <= 0.05 + 0.044
    # The negative control: without that rise it is nearly always supported.
    calm = np.array([1.0, 0.8, 0.6, 0.55, 0.5])
    noise = 0.05 * rng.standard_normal((40, 1)) + 0.02 * rng.standard_normal((40, 5))
    assert never_rises(calm + noise, 0.01, between="all").verdict.verdict == "supported"
