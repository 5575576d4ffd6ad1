"""Compiled functions against their interpreted twins and against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim.numerics import cells, moments, tiles
from nwsim.numerics.exponential import LOWEST, exp2_nonpositive
from nwsim.smoothing.kernels import FAMILIES, get_kernel, kernel_names


def test_family_codes_agree():
    assert FAMILIES == {
        "compact": tiles.COMPACT,
        "gaussian": tiles.GAUSSIAN,
        "laplace": tiles.LAPLACE,
    }


def test_exponential_is_accurate_to_two_ulp():
    t = np.concatenate([-np.geomspace(1e-300, 1021, 4001), [0.0, -0.0, -0.5, -1.5, 0.7]])
    ours = np.array([exp2_nonpositive(value) for value in t])
    np.testing.assert_allclose(ours, np.exp2(t), rtol=4.5e-16)
    assert exp2_nonpositive(0.0) == 1.0


def test_exponential_clamps_instead_of_underflowing():
    for value in (LOWEST, -1e9, -np.inf):
        assert exp2_nonpositive(value) == 2.0**LOWEST


def test_exponential_twin():
    for value in (0.0, -0.3, -17.2, -600.0, -1e4):
        twin = exp2_nonpositive.py_func(value)
        assert twin == pytest.approx(exp2_nonpositive(value), rel=1e-15)


def _arguments(rng, kernel_name, d, n, m, p, features):
    kernel = get_kernel(kernel_name)
    split = n // 2
    return (
        rng.normal(size=(d, n)),
        rng.normal(size=(m, d)),
        rng.uniform(0.3, 2.0, d),
        FAMILIES[kernel.family],
        kernel.power,
        kernel.exponent,
        kernel.polynomial(d),
        np.concatenate([rng.uniform(0.0, 2.0, (1, n)), rng.normal(size=(p, n))]),
        rng.uniform(0.0, 2.0, n),
        np.arange(0, 2 * m + 1, 2),
        np.tile([0, split], m),
        np.tile([split, n], m),
        np.where(rng.random(m) < 0.5, -1, rng.integers(0, max(n, 1), m)),
        np.zeros(m),
        np.zeros((m, features, features)),
        np.zeros((m, features, features)),
        np.zeros((m, features, p)),
        np.zeros(m),
    )


@pytest.mark.parametrize("seed", range(50))
def test_moment_sums_twin(seed):
    rng = np.random.default_rng(seed)
    names = kernel_names()
    d = int(rng.integers(1, 5))
    n, m, p = int(rng.integers(0, 40)), int(rng.integers(0, 5)), int(rng.integers(0, 3))
    features = 1 if seed % 2 else 1 + d
    compiled = _arguments(rng, names[seed % len(names)], d, n, m, p, features)
    interpreted = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in compiled)
    moments.moment_sums(*compiled)
    moments.moment_sums.py_func(*interpreted)
    for ours, twin in zip(compiled[-4:], interpreted[-4:], strict=True):
        scale = max(1.0, float(np.max(np.abs(twin), initial=0.0)))
        np.testing.assert_allclose(ours, twin, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize(("d", "n"), [(1, 0), (1, 1), (2, 1), (3, 25), (2, 200)])
def test_cells_twin_and_every_point_once(d, n):
    rng = np.random.default_rng(n + d)
    X = rng.random((d, n))
    low, per_unit = np.zeros(3), np.ones(3)
    counts = np.ones(3, np.int64)
    counts[3 - d :], per_unit[3 - d :] = 4, 4.0
    results = []
    for fill in (cells.fill_cells, cells.fill_cells.py_func):
        first = np.zeros(int(counts.prod()) + 1, np.int64)
        order = np.full(n, -1, np.int64)
        fill(X, low, per_unit, counts, first, order)
        assert sorted(order) == list(range(n))
        results.append((first, order))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    Q, reach = rng.uniform(-0.5, 1.5, (7, d)), np.full(3, 0.3)
    found = []
    for ranges in (cells.window_ranges, cells.window_ranges.py_func):
        empty = np.empty(0, np.int64)
        where = (Q, reach, low, per_unit, counts, results[0][0])
        used = ranges(*where, empty, empty, empty, False)
        out = np.empty(8, np.int64), np.empty(used, np.int64), np.empty(used, np.int64)
        assert ranges(*where, *out, True) == used
        found.append(out)
    for ours, twin in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, twin)


def test_read_only_input_is_accepted():
    arguments = _arguments(np.random.default_rng(0), "gaussian", 2, 9, 3, 1, 1)
    for array in arguments[:-4]:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    moments.moment_sums(*arguments)
    assert np.all(arguments[-4] > 0)


def test_nan_does_not_turn_into_a_number():
    arguments = _arguments(np.random.default_rng(0), "epanechnikov", 1, 9, 2, 1, 1)
    arguments[0][:] = 0.0
    arguments[1][:] = 0.0
    arguments[7][1, 3] = np.nan
    moments.moment_sums(*arguments)
    assert np.isnan(arguments[-2]).all()
