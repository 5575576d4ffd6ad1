"""Bandwidths by query, by key and learned: against formulas, finite differences and packages."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from nwsim import NadarayaWatson
from nwsim.attention import leave_one_out
from nwsim.attention.bandwidths import (
    BANDWIDTH_KINDS,
    abramson_scales,
    knn_bandwidths,
    learn_bandwidth,
)
from nwsim.attention.leave_one_out import LeaveOneOut
from nwsim.attention.weights import gaussian_weights
from nwsim.exceptions import ParameterError, PrecisionWarning

PAGE = Path(__file__).parents[2] / "docs" / "systems" / "bandwidth.md"


def wave(n: int = 80, d: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng([n, d, seed])
    x = rng.random((n, d))
    return x, np.sin(7.0 * x[:, 0]) + 0.3 * rng.standard_normal(n)


# Distances to neighbours


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 9))
def test_neighbour_distances_are_those_of_a_sorted_table(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Small whole numbers: many keys are equally far, and many coincide.
    q, k = rng.integers(0, 4, (5, d)) * 1.0, rng.integers(0, 4, (n, d)) * 1.0
    k[0] = 9.0  # not all coincide with a query
    table = np.sort(np.linalg.norm(q[:, None] - k, axis=2), axis=1)
    for count in range(1, n + 1):
        want = table[:, count - 1].copy()
        for i in np.flatnonzero(want == 0.0):
            want[i] = table[i][table[i] > 0.0][0]
        np.testing.assert_allclose(knn_bandwidths(q, k, count), want, rtol=1e-12)


def test_a_query_on_top_of_its_neighbours_takes_the_nearest_other_key() -> None:
    k = [[0.0], [0.0], [3.0], [5.0]]
    assert knn_bandwidths([[0.0]], k, 2).tolist() == [3.0]
    assert knn_bandwidths([[0.0]], k, 4).tolist() == [5.0]
    with pytest.raises(ParameterError, match="k must hold a key away"):
        knn_bandwidths([[1.0]], [[1.0], [1.0]], 1)


SIZES = (0.0, 5e-324, 1e-310, 1e-200, 1e-162, 1e-150, 1.0, 1.5, 1e150, 1e160, 1e300)


@given(data=st.data())
def test_neighbour_distances_of_any_size_are_those_of_fractions(data: st.DataObject) -> None:
    m, n, d = (data.draw(st.integers(1, top)) for top in (3, 6, 3))
    entries = st.sampled_from([*SIZES, *(-size for size in SIZES)])
    q, k = (
        np.array(data.draw(st.lists(entries, min_size=rows * d, max_size=rows * d))).reshape(-1, d)
        for rows in (m, n)
    )
    k[0] = 2.5  # not all coincide with a query
    count = data.draw(st.integers(1, n))
    got = knn_bandwidths(q, k, count)
    for i in range(m):
        squares = sorted(
            sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(q[i], row, strict=True))
            for row in k
        )
        want = squares[count - 1] or next(square for square in squares if square > 0)
        ratio = Fraction(got[i]) ** 2 / want
        # Of the least numbers a rounding is a large part.
        assert abs(ratio - 1) < (1e-14 if want > Fraction(1e-300) ** 2 else 1.0)


# Scales of keys


def test_scales_follow_the_pilot_density_of_an_independent_package() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(1)
    k = rng.standard_normal((60, 2))
    log_p = neighbors.KernelDensity(bandwidth=0.4).fit(k).score_samples(k)
    want = np.exp(-0.5 * (log_p - log_p.mean()))
    np.testing.assert_allclose(abramson_scales(k, 0.4), want, rtol=1e-10)


@given(st.floats(0.05, 20.0), st.integers(0, 9))
def test_scales_have_geometric_mean_one_and_no_unit(unit: float, seed: int) -> None:
    k = np.random.default_rng(seed).standard_normal((30, 3))
    scales = abramson_scales(k, 0.5)
    assert np.log(scales).mean() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(abramson_scales(unit * k, 0.5 * unit), scales, rtol=1e-10)


@pytest.mark.parametrize("far", [2.0**27, 2.0**40, -(2.0**50)])
def test_scales_do_not_depend_on_where_keys_are(far: float) -> None:
    keys = np.array([[0.0], [0.25], [0.5], [2.0], [4.25]])
    np.testing.assert_array_equal(abramson_scales(keys + far, 0.3), abramson_scales(keys, 0.3))


def test_scales_are_clipped_and_a_lone_key_is_wide() -> None:
    k = np.append(np.linspace(0.0, 1.0, 2000), 50.0)[:, None]
    assert abramson_scales(k, 0.3).argmax() == 2000
    assert abramson_scales(k, 0.3)[-1] == 10.0
    assert abramson_scales(k, 0.3, clip=2.0)[-1] == 2.0
    np.testing.assert_array_equal(abramson_scales(k, 0.3, clip=1.0), 1.0)


# The leave-one-out error


def slow_error(x: Any, y: Any, h: Any) -> float:
    """Return the leave-one-out error with one bandwidth a query, or (d,) a coordinate."""
    total = 0.0
    for i in range(len(x)):
        rest = np.delete(np.arange(len(x)), i)
        own = h if np.ndim(h) == 2 else h[i]
        u = ((x[rest] - x[i]) / (own[0] if np.ndim(own) == 2 else own)) ** 2
        e = -0.5 * u.sum(axis=1)
        w = np.exp(e - e.max())
        total += ((w @ y[rest] / w.sum() - y[i]) ** 2).sum()
    return total / y.size


def test_error_is_that_of_a_loop() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.random((25, 2)), rng.standard_normal((25, 3))
    features = np.column_stack([np.ones(25), x])
    value, _ = LeaveOneOut(x, y, features)(np.array([-1.0, 0.5, -0.7]))
    want = slow_error(x, y, np.exp(features @ [-1.0, 0.5, -0.7]))
    assert value == pytest.approx(want, rel=1e-12)
    value, _ = LeaveOneOut(x, y, None)(np.array([-1.0, -2.0]))
    assert value == pytest.approx(slow_error(x, y, np.exp([[-1.0, -2.0]])), rel=1e-12)


@given(
    kind=st.sampled_from(["rows", "coordinates"]),
    d=st.integers(1, 3),
    p=st.integers(1, 2),
    level=st.floats(-3.5, 1.0),
    seed=st.integers(0, 99),
)
def test_gradient_is_that_of_finite_differences(
    kind: str, d: int, p: int, level: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.random((15, d)), rng.standard_normal((15, p))
    features = np.column_stack([np.ones(15), x]) if kind == "rows" else None
    error = LeaveOneOut(x, y, features)
    at = level + 0.3 * rng.standard_normal(d + 1 if kind == "rows" else d)
    steps = [approx_fprime(at, lambda t: error(t)[0], eps) for eps in (1e-5, -1e-5)]
    np.testing.assert_allclose(error(at)[1], np.mean(steps, axis=0), rtol=1e-5, atol=1e-7)


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = wave(50)
    whole = [learn_bandwidth(x, y, kind).criterion for kind in BANDWIDTH_KINDS]
    scales = abramson_scales(x, 0.2)
    monkeypatch.setattr(leave_one_out, "_CELLS", 130)
    parts = [learn_bandwidth(x, y, kind).criterion for kind in BANDWIDTH_KINDS]
    np.testing.assert_allclose(parts, whole, rtol=1e-8)
    np.testing.assert_allclose(abramson_scales(x, 0.2), scales, rtol=1e-12)


# What is learned


@pytest.mark.parametrize("d", [1, 2, 3])
def test_descent_ends_where_the_search_on_a_grid_does(d: int) -> None:
    x, y = wave(120, d)
    searched = NadarayaWatson("loo").fit(x, y).bandwidth_selection_
    learned = learn_bandwidth(x, y)
    assert learned.converged
    assert not learned.at_edge
    assert learned.at(x) == pytest.approx(searched.bandwidth, rel=0.01)
    assert learned.criterion <= searched.criterion * (1.0 + 1e-9)


@pytest.mark.parametrize("kind", BANDWIDTH_KINDS)
def test_criterion_is_the_error_at_the_bandwidth_and_not_above_the_global_one(kind: str) -> None:
    x, y = wave(90)
    learned = learn_bandwidth(x, y, kind)
    assert learned.converged
    assert learned.criterion <= learn_bandwidth(x, y).criterion
    own = np.log(learned.at(x))
    if kind == "neighbors":
        # The bandwidth of an observation when it is left out: its own key does not count.
        other = np.log(knn_bandwidths(x, x, learned.n_neighbors + 1))
        own = learned.parameters[0] + learned.parameters[1] * (other - learned.centre)
    h = np.exp(own)[None] if kind == "coordinate" else np.broadcast_to(np.exp(own), 90)
    assert learned.criterion == pytest.approx(slow_error(x, y[:, None], h), rel=1e-9)


@given(kind=st.sampled_from(BANDWIDTH_KINDS), unit=st.floats(0.01, 100.0), shift=st.floats(-5, 5))
def test_units_of_x_and_y_do_not_matter(kind: str, unit: float, shift: float) -> None:
    x, y = wave(40, 2, seed=3)
    q = np.array([[0.2, 0.7], [0.9, 0.1]])
    plain = learn_bandwidth(x, y, kind)
    other = learn_bandwidth(unit * x + shift, unit * y - shift, kind)
    assert other.criterion == pytest.approx(unit**2 * plain.criterion, rel=1e-6)
    # A criterion is flat about its minimum: bandwidths agree less well than it does.
    np.testing.assert_allclose(other.at(unit * q + shift), unit * plain.at(q), rtol=0.02)


def test_a_coordinate_that_says_nothing_gets_a_wide_window() -> None:
    x, y = wave(200)
    h = learn_bandwidth(x, y, "coordinate").at(x)
    assert h[1] > 10.0 * h[0]


def position_slopes(reverse: bool) -> Any:
    """Return the slope learned on 20 samples whose waves grow short to one side."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 5])
        x = rng.random((150, 1))
        at = 1.0 - x[:, 0] if reverse else x[:, 0]
        y = np.sin(40.0 * at**3) + 0.3 * rng.standard_normal(150)
        found.append(learn_bandwidth(x, y, "position").parameters[1])
    return np.array(found)


def test_windows_are_narrow_where_waves_are_short() -> None:
    """Of 20 slopes at least 18 negative: chance 2e-4 were they signs of a coin.

    Negative control: the mirrored function, whose slopes must be positive.
    """
    assert (position_slopes(reverse=False) < 0.0).sum() >= 18
    assert (position_slopes(reverse=True) < 0.0).sum() <= 2


@pytest.mark.parametrize("kind", ["position", "neighbors"])
def test_beyond_the_sample_a_bandwidth_goes_on_as_at_its_end(kind: str) -> None:
    x, y = wave(60, 1)
    learned = learn_bandwidth(x, y, kind)
    far = learned.at([[1e6], [-1e6]])
    assert np.isfinite(far).all()
    inside = learned.at(np.linspace(x.min(), x.max(), 500)[:, None])
    assert (far <= inside.max() * 1.5).all()
    if kind == "position":
        np.testing.assert_allclose(far, learned.at([[x.max()], [x.min()]]))


def test_weights_are_gaussian_weights_at_the_learned_bandwidth() -> None:
    x, y = wave(40)
    q = np.array([[0.1, 0.4], [0.5, 0.5], [2.0, 0.0]])
    for kind in BANDWIDTH_KINDS:
        learned = learn_bandwidth(x, y, kind)
        h = learned.at(q)
        scale = h if kind == "coordinate" else 1.0
        want = gaussian_weights(q / scale, x / scale, 1.0 if kind == "coordinate" else h)
        np.testing.assert_allclose(learned.weights(q), want, rtol=1e-11, atol=0.0)


def test_a_descent_cut_short_is_reported() -> None:
    x, y = wave()
    with pytest.warns(PrecisionWarning, match="did not converge within max_iter=1"):
        learned = learn_bandwidth(x, y, max_iter=1)
    assert not learned.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learn_bandwidth(x, y).converged


def steep(seed: int, noise: float) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, 40])
    x = rng.random((64, 1))
    return x, np.sin(40.0 * x[:, 0]) + noise * rng.standard_normal(64)


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.3])
def test_without_a_start_descent_ends_in_the_deep_minimum(noise: float) -> None:
    """Waves much shorter than the rule of thumb; from that, most descents end at the wide edge."""
    for seed in range(20):
        x, y = steep(seed, noise)
        learned = learn_bandwidth(x, y)
        searched = NadarayaWatson("loo").fit(x, y).bandwidth_selection_
        assert learned.criterion <= 1.05 * searched.criterion
        assert not learned.at_edge
    # Negative control: one descent, from a start of one's own.
    assert learn_bandwidth(x, y, start=1.0).criterion > 2.0 * searched.criterion


def test_an_end_of_the_bounds_is_reported_unless_one_s_own_start_led_there() -> None:
    x = np.linspace(0.0, 1.0, 30)[:, None]
    y = np.tile([1.0, -1.0], 15)  # neighbours differ more than any two others
    for kind in ("global", "coordinate"):
        with pytest.warns(PrecisionWarning, match="ended at the wide end of its bounds"):
            assert learn_bandwidth(x, y, kind).at_edge
    assert learn_bandwidth(x, y, start=3.0).at_edge
    # A coordinate that says nothing is at its wide end, and no cause for concern.
    x, y = wave(100)
    learn_bandwidth(x, y, "coordinate")


@pytest.mark.parametrize("kind", BANDWIDTH_KINDS)
def test_no_kind_is_silent_where_one_h_for_all_has_nothing_to_tell(kind: str) -> None:
    # The outlier widens the span, of which the narrow bound is a part, beyond all waves.
    x = np.append(np.random.default_rng(0).random(100), 1e10)[:, np.newaxis]
    y = np.append(np.sin(6.0 * x[:-1, 0]), 0.0)
    with pytest.warns(PrecisionWarning, match="the wide end of its bounds"):
        learn_bandwidth(x, y, kind)


@pytest.mark.parametrize("kind", BANDWIDTH_KINDS)
def test_queries_are_as_wide_as_the_sample(kind: str) -> None:
    learned = learn_bandwidth(*wave(30), kind)
    for q in (np.ones((4, 1)), np.ones((4, 3)), np.ones(2)):
        for method in (learned.at, learned.weights):
            with pytest.raises(ParameterError, match=r"^q must have"):
                method(q)


def test_a_sample_changed_later_does_not_change_what_was_learned() -> None:
    x, y = wave(30)
    learned = learn_bandwidth(x, y)
    want = learned.weights([[0.5, 0.5]])
    x[:] = 7.0
    np.testing.assert_array_equal(learned.weights([[0.5, 0.5]]), want)


@pytest.mark.parametrize("kind", BANDWIDTH_KINDS)
@pytest.mark.parametrize("size", [1e-90, 1e-20, 1.0, 1e90])
def test_outliers_and_coincident_inputs_leave_all_numbers_finite(kind: str, size: float) -> None:
    rng = np.random.default_rng(8)
    x = rng.integers(0, 4, (60, 8)) * 1e-6
    x[0], x[1, 0] = 1.0, 1e-80
    y = np.column_stack([rng.standard_normal(60), np.full(60, 1.7e299)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        learned = learn_bandwidth(size * x, y, kind)
    for numbers in (learned.parameters, learned.criterion, learned.at(size * x)):
        assert np.isfinite(numbers).all()
    q = np.vstack([size * x[:3], np.full((1, 8), 1e9 * size)])
    np.testing.assert_allclose(learned.weights(q).sum(axis=1), 1.0, rtol=1e-12)


def test_a_slope_that_would_leave_the_range_of_floats_is_bounded() -> None:
    x, y = wave(20, 1)
    features = np.column_stack([np.ones(20), np.linspace(-1e3, 1e3, 20)])
    value, gradient = LeaveOneOut(x, y[:, None], features)(np.array([0.0, 2.0]))
    assert np.isfinite([value, *gradient]).all()


def test_the_gradient_of_a_narrow_window_is_not_the_rounding_of_its_distances() -> None:
    """Each is halfway between two others that are all of its weight, whatever h."""
    x = np.arange(30.0)[:, None] * 0.1875
    y = np.random.default_rng(9).standard_normal((30, 1))
    for features, width in ((np.ones((30, 1)), 1), (None, 1)):
        gradient = LeaveOneOut(x, y, features)(np.full(width, -25.0))[1]
        np.testing.assert_allclose(gradient, 0.0, rtol=0, atol=1e-15)


def test_a_wide_start_may_stay_wide() -> None:
    """One rough function: the grid finds the deep minimum, descent from far out does not."""
    rng = np.random.default_rng(0)
    x = rng.random((300, 1))
    y = np.sin(150.0 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    wide = learn_bandwidth(x, y, start=1.0)
    assert wide.converged
    assert wide.at(x) > 10.0 * NadarayaWatson("loo").fit(x, y).bandwidth_


# Masks


def seed_weights(q: Any, k: Any, sigma: float, mask: Any) -> Any:
    """Return weights as the printed module computes them, with its two epsilons."""
    squares = (q**2).sum(1)[:, None] + (k**2).sum(1) - 2.0 * q @ k.T
    kernel = np.where(mask, np.exp(-squares / (2.0 * sigma**2 + 1e-8)), 0.0)
    return kernel / (kernel.sum(axis=1, keepdims=True) + 1e-8)


def test_a_query_that_attends_to_nothing_is_refused_where_the_printed_module_gives_zero() -> None:
    q, k = np.array([[0.0], [1.0]]), np.array([[0.0], [0.5], [1.0]])
    mask = np.array([[True, True, False], [False, False, False]])
    assert not seed_weights(q, k, 0.3, mask)[1].any()
    with pytest.raises(ParameterError, match="mask must leave every query at least one key"):
        gaussian_weights(q, k, 0.3, mask)


def test_a_narrow_window_holds_its_nearest_key_where_the_printed_epsilon_takes_it_all() -> None:
    q, k = np.array([[0.4]]), np.array([[0.0], [1.0]])
    assert seed_weights(q, k, 0.05, True).sum() < 1e-5
    np.testing.assert_allclose(gaussian_weights(q, k, 0.05), [[1.0, 0.0]], atol=1e-12)


def test_masked_keys_are_as_if_absent() -> None:
    rng = np.random.default_rng(4)
    q, k, mask = rng.random((4, 2)), rng.random((9, 2)), rng.random((4, 9)) < 0.5
    mask[:, 0] = True
    h = knn_bandwidths(q, k, 3)
    scales = abramson_scales(k, 0.3)
    prior = -2.0 * np.log(scales)
    weights = gaussian_weights(q, k, h, mask, log_prior=prior, key_scale=scales)
    for i in range(4):
        own = mask[i]
        part = gaussian_weights(
            q[i : i + 1], k[own], h[i : i + 1], log_prior=prior[own], key_scale=scales[own]
        )
        np.testing.assert_allclose(weights[i, own], part[0], rtol=1e-12)
        assert not weights[i, ~own].any()


# Bad input

X3, Y3 = [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knn_bandwidths([[0.0]], X3, 4), "n_neighbors must be .* at most 3"),
        (lambda: knn_bandwidths([[0.0]], X3, 0), "n_neighbors must be"),
        (lambda: knn_bandwidths([[0.0, 0.0]], X3, 1), "q and k must have as many columns"),
        (lambda: knn_bandwidths([[math.nan]], X3, 1), "q must be finite"),
        (lambda: abramson_scales(X3, 0.0), "pilot_bandwidth must be"),
        (lambda: abramson_scales(X3, 1.0, clip=0.5), "clip must be"),
        (lambda: abramson_scales([[math.inf]], 1.0), "k must be finite"),
        (lambda: learn_bandwidth(X3[:2], Y3[:2]), "x must have at least 3 rows"),
        (lambda: learn_bandwidth(X3, Y3[:2]), "y must have as many rows"),
        (lambda: learn_bandwidth([[1.0]] * 3, Y3), "x must vary"),
        (lambda: learn_bandwidth(X3, [1.0] * 3), "y must vary"),
        (lambda: learn_bandwidth(X3, Y3, "local"), "kind must be one of 'global'"),
        (lambda: learn_bandwidth(X3, Y3, start=-1.0), "start must be"),
        (lambda: learn_bandwidth(X3, Y3, "neighbors", n_neighbors=3), "n_neighbors must be"),
        (lambda: learn_bandwidth(X3, Y3, max_iter=0), "max_iter must be"),
        (lambda: learn_bandwidth([[0.0], [1.0], [math.nan]], Y3), "x must be finite"),
        (lambda: learn_bandwidth([[0.0], [1.0], [1e200]], Y3), "x must vary, over a range"),
        (lambda: learn_bandwidth([[0.0], [1.0], [1.1e300]], Y3), "x must be at most"),
        (lambda: learn_bandwidth(X3, [0.0, 1.0, -1.1e300]), "y must be at most"),
        (lambda: knn_bandwidths([[5e-324]], [[0.0], [0.0]], 3), "n_neighbors must be"),
        (lambda: knn_bandwidths([[-1e308]], [[1e308]], 1), "q and k must be so near"),
        (lambda: abramson_scales([[0.0], [1e300]], 1e-300), "pilot_bandwidth must not be so small"),
    ],
)
def test_bad_input_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_the_page_s_code_runs() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.split("```")[0], names)


@pytest.mark.parametrize("kind", BANDWIDTH_KINDS)
def test_a_column_that_is_huge_and_constant_counts_for_nothing(kind: str) -> None:
    rng = np.random.default_rng(3)
    x = np.column_stack([np.full(60, 1e300), 1e-20 * np.arange(60.0)])
    y = np.sin(np.arange(60.0) / 8.0) + 0.5 * rng.normal(size=60)
    found = learn_bandwidth(x, y, kind)
    alone = learn_bandwidth(x[:, 1:], y, "global")
    assert np.isfinite(found.criterion)
    assert found.criterion <= alone.criterion * (1.0 + 1e-6)
    weights = found.weights(x)
    assert np.isfinite(weights).all()
