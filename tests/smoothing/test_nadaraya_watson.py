"""NadarayaWatson: fixed values, policies, bandwidth forms, bad input."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from nwsim import LocalLinear, MultiHeadNadarayaWatson, NadarayaWatson
from nwsim.exceptions import EmptyWindowError, ParameterError
from nwsim.smoothing import kernel_names
from tests.smoothing import oracle

THREE = ([0.0, 0.1, 0.2], [1.0, 2.0, 3.0])


def test_gaussian_bandwidth_is_the_standard_deviation():
    fitted = NadarayaWatson(1.0).fit([0.0, 1.0], [0.0, 1.0])
    assert fitted.predict([0.0])[0] == pytest.approx(0.377541, abs=5e-7)


def test_unit_keys_as_softmax():
    keys = np.eye(2)
    weights = NadarayaWatson(1.0).fit(keys, [0.0, 1.0]).weights(keys[:1])
    assert weights[0, 1] == pytest.approx(0.268941, abs=5e-7)
    scores = keys @ keys[0]
    np.testing.assert_allclose(weights[0], np.exp(scores) / np.exp(scores).sum())


def test_far_query_with_a_gaussian_gets_the_nearest_sample():
    assert NadarayaWatson(0.01).fit(*THREE).predict([1.0])[0] == 3.0


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "gaussian4"])
def test_infinite_support_never_meets_an_empty_window(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.random(50), rng.normal(size=50)
    q = np.array([-1e6, -3.0, 0.5, 2.0, 1e6])
    model = NadarayaWatson(1e-4, kernel).fit(x, y)
    assert model.summary(q).n_empty == 0
    nearest = y[np.argmin(np.abs(q[:, None] - x), axis=1)]
    np.testing.assert_allclose(model.predict(q), nearest, atol=1e-6)
    mean, variance, n_empty = model.head_moments(q, y, 2.0)
    assert n_empty == 0
    np.testing.assert_allclose(mean[:, 0, 0], nearest, atol=1e-6)
    np.testing.assert_allclose(variance[[0, -1], 0, 0], 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "value", "row"),
    [
        ("nan", np.nan, [np.nan] * 3),
        ("zero", 0.0, [0.0] * 3),
        ("nearest", 3.0, [0.0, 0.0, 1.0]),
        ("mean", 2.0, [1 / 3] * 3),
    ],
)
def test_empty_window_policies(policy, value, row):
    model = NadarayaWatson(0.05, "epanechnikov", policy).fit(*THREE)
    np.testing.assert_equal(model.predict([1.0])[0], value)
    np.testing.assert_allclose(model.weights([1.0])[0], row)
    mean, variance, n_empty = model.head_moments([1.0], THREE[1], 4.0)
    np.testing.assert_equal(mean[0, 0, 0], value)
    np.testing.assert_allclose(variance[0, 0, 0], 4.0 * np.sum(np.square(row)))
    assert n_empty == model.summary([1.0]).n_empty == 1


def test_empty_window_raise():
    model = NadarayaWatson(0.05, "epanechnikov", "raise").fit(*THREE)
    assert model.predict([0.1])[0] == 2.0
    for call in (model.predict, model.weights):
        with pytest.raises(
            EmptyWindowError, match="1 of 2 windows are empty, the first at query 1"
        ):
            call([0.1, 1.0])


def test_nearest_shares_ties_and_skips_zero_weights():
    x, y, w = [0.0, 2.0, 2.0, 1.0], [1.0, 5.0, 9.0, 77.0], [1.0, 1.0, 2.0, 0.0]
    model = NadarayaWatson(0.1, "uniform", "nearest").fit(x, y, sample_weight=w)
    expected = (1.0 + 5.0 + 2 * 9.0) / 4
    assert model.predict([1.0])[0] == pytest.approx(expected)
    np.testing.assert_allclose(model.weights([1.0])[0], [0.25, 0.25, 0.5, 0.0])


def test_cancelling_signed_window_counts_as_empty():
    # Two points at the radius where the order-4 kernel takes opposite values.
    inner, outer = 0.0, 0.8
    from nwsim.smoothing import get_kernel

    kernel = get_kernel("epanechnikov4")
    w = [-float(kernel(outer)), float(kernel(inner))]
    model = NadarayaWatson(1.0, "epanechnikov4").fit([inner, outer], [1.0, 2.0], sample_weight=w)
    assert model.summary([0.0]).n_empty == 1
    assert np.isnan(model.predict([0.0])[0])


def test_no_hidden_ridge_in_a_faint_window():
    x = np.array([0.0, 5.0])
    model = NadarayaWatson(1.0, "biweight").fit(x, [7.0, 1.0])
    assert model.predict([1.0 - 1e-7])[0] == pytest.approx(7.0, rel=1e-14)


def test_equal_inputs_give_the_mean():
    for kernel in kernel_names():
        model = NadarayaWatson(0.3, kernel).fit(np.full(5, 2.0), [1.0, 2.0, 3.0, 4.0, 10.0])
        assert model.predict([2.0])[0] == pytest.approx(4.0)


def test_multi_output_and_weights_and_sums_agree():
    rng = np.random.default_rng(0)
    X, Y, w = rng.random((60, 2)), rng.normal(size=(60, 3)), rng.random(60)
    Q = rng.random((11, 2))
    for estimator in (NadarayaWatson, LocalLinear):
        model = estimator([0.3, 0.5], "epanechnikov").fit(X, Y, sample_weight=w)
        weights = model.weights(Q)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        np.testing.assert_allclose(model.predict(Q), weights @ Y, atol=1e-12)
        s2 = rng.random(60)
        mean, variance, _ = model.head_moments(Q, Y, s2)
        np.testing.assert_allclose(mean[:, 0], weights @ Y, atol=1e-12)
        np.testing.assert_allclose(variance[:, 0, 0], weights**2 @ s2, rtol=1e-9)
    single = NadarayaWatson(0.3).fit(X, Y[:, :1]).predict(Q)
    assert single.shape == (11, 1)


def test_bandwidth_by_coordinate():
    rng = np.random.default_rng(0)
    X, y = rng.random((50, 2)), rng.normal(size=50)
    by_coordinate = NadarayaWatson([0.2, 0.4]).fit(X, y)
    scaled = NadarayaWatson(1.0).fit(X / [0.2, 0.4], y)
    np.testing.assert_allclose(by_coordinate.predict(X), scaled.predict(X / [0.2, 0.4]), rtol=1e-12)
    np.testing.assert_array_equal(by_coordinate.bandwidth_, [0.2, 0.4])


def test_given_bandwidth_is_the_one_used_and_reported():
    x = np.random.default_rng(0).random(40)
    for kernel in kernel_names():
        for engine in ("auto", "direct"):
            model = NadarayaWatson(0.37, kernel, engine=engine).fit(x, x)
            assert model.bandwidth_ == 0.37
            assert model.bandwidth_selection_ is None


def test_prediction_changes_no_state():
    rng = np.random.default_rng(0)
    x, y = rng.random(40), rng.random(40)
    model = NadarayaWatson(0.2, "tricube").fit(x, y)
    before = {name: repr(value) for name, value in vars(model).items()}
    model.predict(x)
    model.weights(x)
    model.head_moments(x, y, 1.0)
    assert before == {name: repr(value) for name, value in vars(model).items()}


def test_at_bandwidth_equals_a_fresh_fit():
    rng = np.random.default_rng(0)
    x, y, w = rng.random(80), rng.random(80), rng.random(80)
    base = NadarayaWatson(0.5, "epanechnikov", "mean").fit(x, y, sample_weight=w)
    for h in (0.01, 0.1, 1.0):
        fresh = NadarayaWatson(h, "epanechnikov", "mean").fit(x, y, sample_weight=w)
        moved = base.at_bandwidth(h)
        np.testing.assert_array_equal(moved.predict(x), fresh.predict(x))
        assert moved.bandwidth_ == h
        assert base.bandwidth_ == 0.5


def test_prior_weights_are_a_matter_of_ratio():
    rng = np.random.default_rng(0)
    x, y, w = rng.random(30), rng.random(30), rng.random(30)
    one = NadarayaWatson(0.2).fit(x, y, sample_weight=w).predict(x)
    two = NadarayaWatson(0.2).fit(x, y, sample_weight=1e-30 * (w + 1e-9)).predict(x)
    one = NadarayaWatson(0.2).fit(x, y, sample_weight=w + 1e-9).predict(x)
    np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("exponent", [-1021, -300, 300, 1020])
def test_prior_weights_of_any_size(exponent):
    rng = np.random.default_rng(1)
    X, y, s2 = rng.random((60, 2)), rng.random(60), rng.random(60)
    w = 1.0 + 0.9 * rng.random(60)
    scaled = np.ldexp(w, exponent)
    for kernel, policy in (("gaussian", "nan"), ("epanechnikov", "nearest"), ("uniform", "mean")):
        for estimator in (NadarayaWatson, LocalLinear):
            model = estimator(0.15, kernel, policy)
            one = model.fit(X, y, sample_weight=w).head_moments(X[::3] + 0.1, y, s2)
            two = model.fit(X, y, sample_weight=scaled).head_moments(X[::3] + 0.1, y, s2)
            for ours, theirs in zip(one, two, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    heads = MultiHeadNadarayaWatson(rng.normal(size=(2, 2, 1)), 0.2)
    one, two = (heads.fit(X, y, sample_weight=v).predict(X) for v in (w, scaled))
    np.testing.assert_array_equal(one, two)


def test_prior_weights_without_size_beside_the_largest_count_as_zero():
    x, y = [0.0, 1.0, 2.0], [5.0, 7.0, 9.0]
    model = NadarayaWatson(0.1, "uniform")
    fitted = model.fit(x, y, sample_weight=[1e-60, 1.0, 1e60])
    np.testing.assert_array_equal(fitted.predict(x), [np.nan, 7.0, 9.0])
    assert fitted.summary(x).n_empty == 1
    # Within a hundred powers of ten they count, whatever the size of the largest.
    fitted = model.fit(x, y, sample_weight=[1e-60, 1e-300, 1e-320])
    np.testing.assert_array_equal(fitted.predict(x), [5.0, np.nan, np.nan])
    mean, variance, _ = model.fit(x, y, sample_weight=[1e-290, 1e-200, 1e-210]).head_moments(
        x, y, 4.0
    )
    np.testing.assert_allclose(mean[:, 0, 0], y)
    np.testing.assert_allclose(variance[:, 0, 0], 4.0)


def test_usual_prior_weights_keep_their_size():
    w = np.array([1e-50, 3.0, 0.0, 1e50])
    model = NadarayaWatson(1.0, "uniform").fit(np.arange(4.0) * 9, np.ones(4), sample_weight=w)
    sums = model.moment_sums(np.arange(4.0) * 9, np.ones(4), 1.0)
    np.testing.assert_array_equal(sums.sum_k, w)


@pytest.mark.parametrize(
    "bandwidth", [0.0, -0.1, np.nan, np.inf, "loo2", [0.1, 0.2], [], None, True, "0.1", [[0.1]]]
)
def test_bad_bandwidth_names_the_parameter(bandwidth):
    with pytest.raises(ParameterError, match=r"bandwidth must be .* loo, gcv, aicc, rot; got"):
        NadarayaWatson(bandwidth).fit(*THREE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "epan"}, "kernel must be one of gaussian"),
        ({"empty_window": "ignore"}, "empty_window must be one of 'nan'"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ParameterError, match=message):
        NadarayaWatson(**arguments).fit(*THREE)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([0.0, np.nan], [0.0, 1.0], "X contains NaN"),
        ([0.0, np.inf], [0.0, 1.0], "X contains infinity"),
        ([0.0, 1.0], [0.0, np.nan], "y contains NaN"),
        ([], [], "minimum of 1"),
        ([0.0, 1.0], [0.0], "inconsistent"),
        (np.zeros((2, 2, 2)), [0.0, 1.0], "dim"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        NadarayaWatson().fit(X, y)


@pytest.mark.parametrize("w", [[-1.0, 1.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1.0]])
def test_bad_sample_weight(w):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        NadarayaWatson().fit([0.0, 1.0], [0.0, 1.0], sample_weight=w)


def test_bad_queries_and_values():
    model = NadarayaWatson().fit(*THREE)
    with pytest.raises(ValueError, match="NaN"):
        model.predict([np.nan])
    with pytest.raises(ValueError, match="2 features"):
        model.predict([[0.0, 1.0]])
    with pytest.raises(ParameterError, match="values must have 3 rows"):
        model.moment_sums([0.0], [1.0], 1.0)
    with pytest.raises(ParameterError, match="noise_variance must be a number or have 3"):
        model.moment_sums([0.0], THREE[1], [1.0])
    with pytest.raises(ParameterError, match="noise_variance must be nonnegative"):
        model.moment_sums([0.0], THREE[1], -1.0)


def test_overflowing_bandwidth_is_an_error_not_a_nan():
    with pytest.raises(ParameterError, match="bandwidth is so small"):
        NadarayaWatson(1e-300).fit(*THREE).predict([5.0])


@pytest.mark.parametrize("engine", ["auto", "direct"])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_a_fitted_model_keeps_no_array_of_the_caller(kernel, engine):
    rng = np.random.default_rng(0)
    x, y, w, h = rng.random((40, 1)), rng.random(40), rng.random(40), np.array([0.3])
    model = NadarayaWatson(h, kernel, engine=engine).fit(x, y, sample_weight=w)
    before = model.predict([0.2, 0.7])
    for array in (x, y, w, h):
        array[:] = 9.0
    np.testing.assert_array_equal(model.predict([0.2, 0.7]), before)
    np.testing.assert_array_equal(model.bandwidth_, [0.3])


def test_a_policy_set_after_the_fit_is_checked_too():
    model = NadarayaWatson(0.05, "epanechnikov").fit(*THREE).set_params(empty_window="bogus")
    for call in (model.predict, model.weights):
        with pytest.raises(ParameterError, match="empty_window must be one of"):
            call([5.0])


def test_column_names_survive_another_bandwidth():
    import pandas as pd

    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [5.0, 6.0, 8.0]})
    moved = NadarayaWatson(1.0).fit(frame, [1.0, 2.0, 3.0]).at_bandwidth(2.0)
    moved.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        moved.predict(frame[["b", "a"]])


def test_sizes_that_would_overflow_are_refused():
    with pytest.raises(ParameterError, match="y must be at most 1e"):
        NadarayaWatson(0.3).fit([0.0, 0.1], [1e308, 1e308])
    model = NadarayaWatson(0.3, "gaussian4").fit(*THREE)
    with pytest.raises(ParameterError, match="bandwidth is so small"):
        model.predict([1e100])
    with pytest.raises(ParameterError, match="values must be at most"):
        model.moment_sums([0.0], [1e301] * 3, 1.0)


def test_statsmodels_agrees():
    """Means of statsmodels' KernelReg(reg_type="lc"): an independent implementation."""
    from statsmodels.nonparametric.kernel_regression import KernelReg

    rng = np.random.default_rng(0)
    for d in (1, 2):
        X, y = rng.random((150, d)), rng.normal(size=150)
        Q = rng.random((20, d))
        h = np.full(d, 0.15)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = KernelReg(y, X, "c" * d, reg_type="lc", bw=h).fit(Q)[0]
        ours = NadarayaWatson(0.15).fit(X, y).predict(Q)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_thousand_replicates_take_little_kernel_time():
    rng = np.random.default_rng(0)
    samples = rng.random((1000, 500))
    q = np.linspace(0, 1, 50)
    models = [NadarayaWatson(0.1, "epanechnikov").fit(x, x) for x in samples[:2]]
    sample, columns = models[0]._sample, models[0]._columns
    start = time.process_time()
    for _ in range(1000):
        sample.sums(q[:, None], columns)
    assert time.process_time() - start < 5.0  # well under a second on an idle machine


@pytest.mark.parametrize("kernel", kernel_names())
def test_local_linear_reproduces_lines(kernel):
    rng = np.random.default_rng(0)
    X = rng.random((100, 2))
    Q = rng.random((20, 2))
    line = X @ [2.0, -3.0] + 1.0
    model = LocalLinear(0.7, kernel, "nearest").fit(X, line)
    fitted = model.predict(Q)
    summary = model.summary(Q)
    close = np.isclose(fitted, Q @ [2.0, -3.0] + 1.0, atol=1e-7)
    assert close.sum() >= Q.shape[0] - summary.n_empty - summary.n_singular
    assert summary.n_empty + summary.n_singular <= 2


def test_local_linear_singular_window_falls_back_and_is_counted():
    x, y = [0.0, 0.0, 1.0], [1.0, 3.0, 9.0]
    model = LocalLinear(0.5, "epanechnikov").fit(x, y)
    assert model.predict([0.1])[0] == pytest.approx(2.0)
    assert model.summary([0.1, 0.9]).n_singular == 2
    np.testing.assert_allclose(model.weights([0.1])[0], [0.5, 0.5, 0.0])


def test_local_linear_against_oracle():
    rng = np.random.default_rng(0)
    X, y, w = rng.random((80, 2)), rng.normal(size=80), rng.random(80)
    Q = rng.random((10, 2))
    expected = oracle.local_linear(X, y, Q, 0.3, "gaussian", w)
    fitted = LocalLinear(0.3).fit(X, y, sample_weight=w).predict(Q)
    np.testing.assert_allclose(fitted, expected, rtol=1e-9)
