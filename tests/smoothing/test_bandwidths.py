"""Selectors: near a fine grid's best, positive, inside their range, edges reported."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import LocalLinear, NadarayaWatson
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.smoothing import Kernel, bandwidths, get_kernel, kernel_names, paths
from nwsim.smoothing.bandwidths import criterion_function, minimise
from nwsim.smoothing.engines import lay_out, layout_for
from nwsim.smoothing.sums import WeightedSample
from tests.smoothing import oracle

SCORED = ("loo", "gcv", "aicc")


def _data(seed, n, d=1):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(6 * X.sum(axis=1)) + 0.3 * rng.normal(size=n)


def _criterion(model, X, y):
    order = model._sample.layout.order
    return criterion_function(
        model.bandwidth, model._sample, X[order], y[order][:, None], model._degree
    )


CASES = [
    (NadarayaWatson, "gaussian"),
    (NadarayaWatson, "epanechnikov"),
    (NadarayaWatson, "laplace"),
    (NadarayaWatson, "gaussian4"),
    (LocalLinear, "gaussian"),
    (LocalLinear, "tricube"),
]


@pytest.mark.parametrize(("estimator", "kernel"), CASES)
@pytest.mark.parametrize("method", SCORED)
def test_within_three_thousandths_of_a_fine_grid(method, kernel, estimator):
    X, y = _data(1, 120)
    model = estimator(method, kernel).fit(X, y)
    criterion = _criterion(model, X, y)
    low, high = model.bandwidth_selection_.search_range
    best = min(criterion(h) for h in np.geomspace(low, high, 500))
    found = model.bandwidth_selection_.criterion
    slack = 0.003 if method == "aicc" else 0.003 * abs(best)  # AICc is a logarithm
    assert found <= best + slack
    assert found == criterion(model.bandwidth_)


@pytest.mark.parametrize("kernel", kernel_names())
def test_leave_one_out_is_leaving_one_out(kernel):
    X, y = _data(2, 40)
    model = NadarayaWatson("loo", kernel).fit(X, y)
    criterion = _criterion(model, X, y)
    for h in (0.05, 0.3):
        errors = []
        for i in range(40):
            keep = np.arange(40) != i
            weights = oracle.dense_weights(X[keep], X[[i]], h, kernel)[0]
            usable = abs(weights.sum()) > 1e-3 * np.abs(weights).sum()
            errors.append(y[i] - (weights @ y[keep] / weights.sum() if usable else y.mean()))
        assert criterion(h) == pytest.approx(np.mean(np.square(errors)), rel=1e-9)


@pytest.mark.parametrize("method", ["gcv", "aicc"])
def test_trace_criteria_against_dense_weights(method):
    X, y = _data(3, 60)
    for estimator in (NadarayaWatson, LocalLinear):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)  # the edge is not the matter here
            model = estimator(method).fit(X, y)
        criterion = _criterion(model, X, y)
        for h in (0.05, 0.2):
            weights = model.at_bandwidth(h).weights(X)
            rss = np.mean((y - weights @ y) ** 2)
            trace, n = np.trace(weights), 60
            expected = {
                "gcv": rss / (1 - trace / n) ** 2,
                "aicc": np.log(rss) + 1 + 2 * (trace + 1) / (n - trace - 2),
            }[method]
            assert criterion(h) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", [*SCORED, "rot"])
def test_always_positive_and_inside_its_range(method):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.random(50)
        y = np.sin(12 * x) + np.sin(31 * x) + 0.5 * rng.normal(size=50)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = NadarayaWatson(method).fit(x, y)
        selection = model.bandwidth_selection_
        low, high = selection.search_range
        assert 0.0 < low <= model.bandwidth_ <= high < np.inf
        told = any(issubclass(w.category, PrecisionWarning) for w in caught)
        assert told == (selection.at_edge is not None)


def test_pure_noise_reaches_the_upper_edge_and_says_so():
    x = np.linspace(0.0, 1.0, 40)
    y = np.tile([1.0, -1.0], 20)
    with pytest.warns(PrecisionWarning, match="'loo' hit the upper edge"):
        model = NadarayaWatson("loo").fit(x, y)
    assert model.bandwidth_selection_.at_edge == "upper"


def test_isolated_points_are_scored_against_the_mean():
    x, y = np.array([0.0, 10.0, 20.0]), np.array([1.0, 2.0, 6.0])
    model = NadarayaWatson(1.0, "epanechnikov").fit(x, y)
    criterion = criterion_function("loo", model._sample, x[:, None], y[:, None], 0)
    assert criterion(5.0) == pytest.approx(np.mean((y - y.mean()) ** 2))


@pytest.mark.parametrize("method", [*SCORED, "rot"])
def test_inputs_that_do_not_vary(method):
    with pytest.raises(ParameterError, match="all rows of X are equal"):
        NadarayaWatson(method).fit(np.ones(6), np.arange(6.0))
    with pytest.raises(ValueError, match="minimum of 2"):
        NadarayaWatson(method).fit([1.0], [1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        h = NadarayaWatson(method).fit([1.0, 1.0, 1.0, 1.0, 2.0], [1.0, 0.0, 2.0, 1.0, 5.0])
    assert 0.0 < h.bandwidth_ < np.inf


def test_rule_of_thumb_formula():
    # 1.06 sigma n^(-1/5) for a Gaussian kernel: Silverman (1986), eq. 3.28.
    x = np.random.default_rng(0).normal(size=1000)
    h = NadarayaWatson("rot").fit(x, x).bandwidth_
    iqr = np.subtract(*np.quantile(x, [0.75, 0.25])) / 1.349
    assert h == pytest.approx(1.0592 * min(x.std(), iqr) * 1000**-0.2, rel=0.01)


def test_rule_of_thumb_is_scale_equivariant_and_ignores_y():
    X, y = _data(5, 80, d=2)
    one = NadarayaWatson("rot").fit(X, y)
    assert NadarayaWatson("rot").fit(3.0 * X, -y).bandwidth_ == pytest.approx(3 * one.bandwidth_)
    assert not one.bandwidth_uses_y
    assert NadarayaWatson("gcv").fit(X, y).bandwidth_uses_y


def test_minimise_finds_the_deeper_of_two_basins():
    path, best = minimise(
        lambda h: np.minimum((np.log(h) + 3) ** 2 + 0.1, (np.log(h) - 1) ** 2), 1e-3, 1e2
    )
    assert path[best, 0] == pytest.approx(np.e, rel=0.02)


def test_multi_output_selection_averages_columns():
    X, y = _data(7, 60)
    both = NadarayaWatson("loo").fit(X, np.column_stack([y, y]))
    assert both.bandwidth_ == NadarayaWatson("loo").fit(X, y).bandwidth_


# Paths of bandwidths against moment sums, bandwidth by bandwidth


def _placed(rng, style, n, d):
    if style == "ties":
        return rng.integers(0, 5, (n, d)) / 4.0
    if style == "lattice":
        return np.stack(
            np.unravel_index(rng.permutation(n), (n,) if d == 1 else (7,) * d), axis=1
        ) / float(n if d == 1 else 7)
    X = rng.random((n, d))
    if style == "gaps":
        X = 1e-4 * X + rng.integers(0, 3, (n, 1))
    return X


def _weighted(rng, style, n):
    if style == "equal":
        return np.ones(n)
    if style == "wide":
        return 10.0 ** rng.uniform(-8, 8, n)
    prior = rng.random(n)
    prior[rng.random(n) < 0.4] = 0.0
    prior[:2] = 1.0
    return prior


def _sample(X, prior, kernel):
    record = get_kernel(kernel)
    layout = lay_out(X, layout_for("auto", record, X.shape[1], 0))
    return WeightedSample(layout, record, np.ones(X.shape[1]), layout.arrange(prior))


def _problem(X, y, prior, kernel, leave_out):
    sample = _sample(X, prior, kernel)
    order = sample.layout.order
    return bandwidths._path_problem(sample, X[order], y[order], 0, leave_out)[0]


def _assembled(fits, problem, n_bandwidths):
    p, n = problem.values.shape
    mean = np.full((n_bandwidths, n, p), np.inf)
    solution = np.full((n_bandwidths, n), np.inf)
    for fit in fits:
        assert np.all(solution[fit.bandwidths, fit.points] == np.inf)
        mean[fit.bandwidths, fit.points] = fit.mean
        solution[fit.bandwidths, fit.points] = fit.solution
    return mean, solution


def _assert_same_fits(problem, h):
    mean, solution = _assembled(paths.path_fits(problem, h), problem, h.size)
    direct_mean, direct = _assembled(paths._one_by_one(problem, h), problem, h.size)
    np.testing.assert_array_equal(np.isnan(solution), np.isnan(direct))
    scale = np.abs(problem.values).max()
    np.testing.assert_allclose(mean, direct_mean, rtol=1e-10, atol=1e-10 * scale)
    if not problem.leave_out:  # else the direct route's may carry a shifted exponent
        np.testing.assert_allclose(solution, direct, rtol=1e-10)


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from(kernel_names()),
    d=st.integers(1, 3),
    n=st.integers(2, 60),
    p=st.integers(1, 3),
    place=st.sampled_from(["uniform", "ties", "lattice", "gaps"]),
    weigh=st.sampled_from(["equal", "zeros", "wide"]),
    leave_out=st.booleans(),
    size=st.sampled_from([1.0, 2.0**300, 2.0**-300, 1e-3]),
)
def test_a_path_is_its_bandwidths_one_by_one(seed, kernel, d, n, p, place, weigh, leave_out, size):
    rng = np.random.default_rng(seed)
    n = min(n, 7**d) if place == "lattice" and d > 1 else n
    X = _placed(rng, place, n, d)
    y = 5.0 + rng.normal(size=(n, p))
    prior = _weighted(rng, weigh, n)
    # Multiples of the lattice's spacings put points exactly on the edges of windows.
    h = np.concatenate(
        [
            np.geomspace(1e-6, 10.0, 25),
            np.arange(1, 8) / 7,
            np.arange(1, 5) / 4,
            np.arange(1, 9) / n,
        ]
    )
    _assert_same_fits(_problem(size * X, y, prior, kernel, leave_out), size * np.unique(h))


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        ("gaussian", 1),
        ("laplace", 1),
        ("epanechnikov", 1),
        ("triweight", 1),
        ("cosine", 2),
        ("epanechnikov4", 2),
        ("uniform", 3),
        ("triangular", 4),
    ],
)
def test_paths_of_larger_samples_in_several_blocks(kernel, d, leave_out, monkeypatch):
    monkeypatch.setattr(paths, "_BLOCK_BYTES", 2**18)
    rng = np.random.default_rng(4)
    X, y = rng.standard_t(2, (600, d)), rng.normal(size=(600, 2))
    span = np.ptp(X)
    h = np.geomspace(1e-6 * span, 4 * span, 60)
    _assert_same_fits(_problem(X, y, np.ones(600), kernel, leave_out), h)


@pytest.mark.parametrize("method", SCORED)
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "laplace", "epanechnikov4"])
def test_the_search_finds_what_a_direct_search_finds(method, kernel, monkeypatch):
    for seed, d in ((11, 1), (12, 2)):
        X, y = _data(seed, 150, d)
        fast = NadarayaWatson(method, kernel).fit(X, y).bandwidth_selection_
        with monkeypatch.context() as patch:
            patch.setattr(bandwidths, "path_fits", paths._one_by_one)
            direct = NadarayaWatson(method, kernel).fit(X, y).bandwidth_selection_
        assert fast.bandwidth == direct.bandwidth
        np.testing.assert_array_equal(fast.path[:, 0], direct.path[:, 0])
        usable = direct.path[:, 0] > fast.bandwidth / 3  # far below, GCV nears 0 / 0
        np.testing.assert_allclose(fast.path[usable, 1], direct.path[usable, 1], rtol=1e-10)


def test_criterion_takes_any_shape_and_order():
    X, y = _data(8, 50)
    model = NadarayaWatson("loo", "epanechnikov").fit(X, y)
    criterion = _criterion(model, X, y)
    h = np.array([[0.3, 0.05], [0.1, 0.3]])
    assert criterion(h).shape == (2, 2)
    each = [[float(criterion(value)) for value in row] for row in h]
    np.testing.assert_allclose(criterion(h), each, rtol=1e-12)


def test_observations_without_weight_are_as_if_absent():
    X, y = _data(9, 90)
    prior = np.where(np.arange(90) % 3, 1.0, 0.0)
    for kernel in ("gaussian", "epanechnikov"):
        some = NadarayaWatson("loo", kernel).fit(X, y, sample_weight=prior)
        kept = NadarayaWatson("loo", kernel).fit(X[prior > 0], y[prior > 0])
        assert some.bandwidth_ == kept.bandwidth_


def test_a_fit_that_interpolates_has_no_gcv():
    # With weights that are not powers of two the trace misses n by rounding alone.
    rng = np.random.default_rng(10)
    X, y, prior = rng.random((40, 1)), rng.normal(size=(40, 1)), rng.random(40)
    sample = _sample(X, prior, "epanechnikov")
    order = sample.layout.order
    criterion = criterion_function("gcv", sample, X[order], y[order], 0)
    assert np.all(np.isinf(criterion([1e-9, 1e-8])))
    assert np.isfinite(criterion(0.2))


def test_a_kernel_that_dips_below_zero_unannounced_has_the_same_empty_windows():
    # Of order 2 by its record, so that a sum at or below zero makes a window empty.
    dip = Kernel("dip", "dip", "compact", "test", coefficients=lambda dim: (1.0, -3.0))
    X, y = _data(13, 60)
    problem = _problem(X, y[:, None], np.ones(60), dip, True)
    h = np.geomspace(1e-3, 2.0, 40)
    _assert_same_fits(problem, h)
    lone = next(paths.path_fits(problem, h)).solution
    assert 0 < np.isnan(lone[10:]).sum() < lone[10:].size


@pytest.mark.parametrize("method", [*SCORED, "rot"])
@pytest.mark.parametrize(
    ("scale_x", "scale_y", "name"), [(1e155, 1.0, "X"), (1e-160, 1.0, "X"), (1.0, 1e160, "y")]
)
def test_ranges_beyond_reach_are_refused_by_name(method, scale_x, scale_y, name):
    X, y = _data(1, 40)
    with pytest.raises(ParameterError, match=f"the range of {name} must be between"):
        NadarayaWatson(method, "epanechnikov").fit(scale_x * X, scale_y * y)


def test_bandwidth_scales_with_the_inputs():
    X, y = _data(1, 40)
    one = NadarayaWatson("loo", "epanechnikov").fit(X, y).bandwidth_
    for power in (-300, 200):
        scaled = NadarayaWatson("loo", "epanechnikov").fit(X * 2.0**power, y)
        assert scaled.bandwidth_ == pytest.approx(one * 2.0**power, rel=1e-9)
