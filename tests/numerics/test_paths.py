"""Path loops: compiled against interpreted and against plain sums over pairs."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim.numerics import paths

# (1 - w)^2 in w = |u|^step
COEFFICIENTS = np.array([1.0, -2.0, 1.0])


def _plain(X, prior, values, h, step, leave_out):
    """Return weight, cross and bound by the definition, (B, n), (B, n, p), (B, n)."""
    results = []
    for width in h:
        u2 = np.sum(((X[:, :, None] - X[:, None, :]) / width) ** 2, axis=0)
        w = np.sqrt(u2) ** step
        inside = (u2 <= 1.0) * prior
        if leave_out:
            np.fill_diagonal(inside, 0.0)
        kernel = inside * (1.0 - w) ** 2
        results.append((kernel.sum(1), kernel @ values.T, (inside * (1.0 + w) ** 2).sum(1)))
    return [np.array(part) for part in zip(*results, strict=True)]


def _case(seed, d, n, p):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, (d, n)) / 8.0 if seed % 3 == 0 else rng.normal(size=(d, n))
    if d == 1:
        X = np.sort(X, axis=1)
    h = np.sort(np.concatenate([rng.uniform(0.01, 4.0, 5), [0.125, 0.25, 0.25, 1.0]]))
    return X, rng.uniform(0.0, 2.0, n), rng.normal(size=(p, n)), h


def _empty(h, m, p):
    return (
        np.full((h.size, m), np.nan),
        np.full((h.size, m, p), np.nan),
        np.full((h.size, m), np.nan),
    )


def _everything(n):
    """Return ranges in two runs a point, each of which may be empty."""
    split = n // 2
    return np.arange(0, 2 * n + 1, 2), np.tile([0, split], n), np.tile([split, n], n)


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_line_and_ball_against_twins_and_definition(seed, step, leave_out):
    for d, n, p in ((1, 30, 1), (1, 1, 2), (1, 25, 3), (2, 30, 1), (3, 20, 2)):
        X, prior, values, h = _case(seed, d, n, p)
        expected = _plain(X, prior, values, h, step, leave_out)
        loops = [(paths.ball_path, X, _everything(n))]
        if d == 1:
            loops.append((paths.line_path, X[0], ()))
        for loop, points, ranges in loops:
            for function in (loop, loop.py_func):
                out = _empty(h, n, p)
                function(points, prior, values, h, COEFFICIENTS, step, leave_out, 0, *ranges, *out)
                for ours, plain in zip(out, expected, strict=True):
                    np.testing.assert_allclose(ours, plain, rtol=1e-11, atol=1e-13)


def test_blocks_of_points_are_rows_of_the_whole():
    X, prior, values, h = _case(1, 1, 40, 2)
    whole, part = _empty(h, 40, 2), _empty(h, 7, 2)
    paths.line_path(X[0], prior, values, h, COEFFICIENTS, 2, True, 0, *whole)
    paths.line_path(X[0], prior, values, h, COEFFICIENTS, 2, True, 20, *part)
    for ours, all_of_it in zip(part, whole, strict=True):
        np.testing.assert_array_equal(ours, all_of_it[:, 20:27])
    offsets, starts, stops = _everything(40)
    paths.ball_path(
        X, prior, values, h, COEFFICIENTS, 2, True, 20, offsets[:8], starts, stops, *part
    )
    for ours, all_of_it in zip(part, whole, strict=True):
        np.testing.assert_allclose(ours, all_of_it[:, 20:27], rtol=1e-12, atol=1e-14)


def test_membership_at_the_edge_is_the_rule_of_single_windows():
    # Bandwidths one ulp apart around distances: comparison of squares would misplace some.
    rng = np.random.default_rng(5)
    X = rng.random((2, 40))
    distances = np.hypot(X[0] - X[0, 0], X[1] - X[1, 0])[1:]
    h = np.unique([np.nextafter(distances, 0.0), distances, np.nextafter(distances, 2.0)])
    weight, cross, bound = _empty(h, 40, 1)
    paths.ball_path(
        X,
        np.ones(40),
        np.ones((1, 40)),
        h,
        np.ones(1),
        1,
        False,
        0,
        *_everything(40),
        weight,
        cross,
        bound,
    )
    u = (X[:, None, :] - X[:, :1, None])[None] / h[:, None, None, None]
    count = np.sum(u[:, 0] * u[:, 0] + u[:, 1] * u[:, 1] <= 1.0, axis=(1, 2))
    np.testing.assert_array_equal(weight[:, 0], count)
    squares = np.sum((X - X[:, :1]) ** 2, axis=0)
    assert np.any(np.sum(squares <= (h * h)[:, None], axis=1) != count)


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_laplace_against_twin_and_definition(n, leave_out):
    X, prior, values, h = _case(n, 1, n, 2)
    kernel = np.exp(-np.abs(X[0][:, None] - X[0]) / h[:, None, None]) * prior
    if leave_out:
        kernel[:, np.arange(n), np.arange(n)] = 0.0
    for function in (paths.laplace_path, paths.laplace_path.py_func):
        weight, cross, _ = _empty(h, n, 2)
        function(X[0], prior, values, h, leave_out, weight, cross)
        np.testing.assert_allclose(weight, kernel.sum(axis=2), rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(cross, kernel @ values.T, rtol=1e-11, atol=1e-13)


def test_nan_does_not_turn_into_a_number():
    X, prior, values, h = _case(1, 1, 9, 1)
    values[0, 3] = np.nan
    wide = h + 100.0
    for loop, points, ranges in (
        (paths.ball_path, X, _everything(9)),
        (paths.line_path, X[0], ()),
    ):
        out = _empty(h, 9, 1)
        loop(points, prior, values, wide, COEFFICIENTS, 2, False, 0, *ranges, *out)
        assert np.isnan(out[1]).all()
        assert np.isfinite(out[0]).all()


def test_read_only_input_is_accepted():
    X, prior, values, h = _case(1, 1, 9, 1)
    for array in (X, prior, values, h):
        array.setflags(write=False)
    out = _empty(h, 9, 1)
    paths.line_path(X[0], prior, values, h, COEFFICIENTS, 2, False, 0, *out)
    assert np.all(out[2] > 0.0)
