"""Sorting by buckets: numpy's stable order, or an honest refusal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.numerics.sorting import CROWDED, bucket_sort
from nwsim.smoothing.engines import sort_line


def _sorted(function, x, n_buckets):
    out, order = np.empty(x.size), np.empty(x.size, np.int64)
    done = function(x, x.min(), x.max(), n_buckets, out, order)
    return done, out, order


@pytest.mark.parametrize("n", [2, 3, 17, 200])
@pytest.mark.parametrize("n_buckets", [1, 4, 50])
def test_twin(n, n_buckets):
    x = np.random.default_rng(n).normal(size=n)
    done, *ours = _sorted(bucket_sort, x, n_buckets)
    twin_done, *twin = _sorted(bucket_sort.py_func, x, n_buckets)
    assert done == twin_done == (n < 200 or n_buckets == 50)
    if done:  # else there is nothing of use in them
        np.testing.assert_array_equal(ours, twin)


def test_nothing_to_sort():
    for function in (bucket_sort, bucket_sort.py_func):
        assert function(np.empty(0), 0.0, 1.0, 1, np.empty(0), np.empty(0, np.int64))


def test_a_crowded_bucket_is_refused():
    x = np.append(np.full(CROWDED + 1, 0.5), [0.0, 1.0])
    assert not _sorted(bucket_sort, x, x.size // 4)[0]
    assert _sorted(bucket_sort, x[1:], x.size // 4)[0]


_NUMBERS = st.one_of(
    st.floats(-1e300, 1e300),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1.0, np.nextafter(1.0, 2.0), 1e8]),
)


@given(st.lists(_NUMBERS, max_size=120))
def test_sorted_as_numpy_does(numbers):
    x = np.array(numbers, dtype=float)
    found, order = sort_line(x)
    expected = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(found, x[expected])


@pytest.mark.parametrize("shape", ["uniform", "ties", "clusters", "outlier", "descending"])
def test_many_numbers(shape):
    rng = np.random.default_rng(0)
    x = rng.random(5000)
    if shape == "ties":
        x = np.round(x, 2)
    elif shape == "clusters":
        x = x * 1e-9 + rng.integers(0, 3, x.size)
    elif shape == "outlier":
        x[7] = -1e12
    elif shape == "descending":
        x = np.sort(x)[::-1].copy()
    found, order = sort_line(x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(x))
