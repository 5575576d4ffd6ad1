"""Selectors: near a fine grid's best, positive, inside their range, edges reported."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from nwsim import LocalLinear, NadarayaWatson
from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.smoothing import kernel_names
from nwsim.smoothing.bandwidths import criterion_function, minimise
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
        lambda h: min((np.log(h) + 3) ** 2 + 0.1, (np.log(h) - 1) ** 2), 1e-3, 1e2
    )
    assert path[best, 0] == pytest.approx(np.e, rel=0.02)


def test_multi_output_selection_averages_columns():
    X, y = _data(7, 60)
    both = NadarayaWatson("loo").fit(X, np.column_stack([y, y]))
    assert both.bandwidth_ == NadarayaWatson("loo").fit(X, y).bandwidth_
