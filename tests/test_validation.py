"""Checks at the door: what is no real number is refused by name, what is one is kept."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nwsim._validation import check_array, check_choice, check_integer, check_real
from nwsim.exceptions import ParameterError

NO_ARRAYS = {
    "complex": np.ones(3) + 0j,
    "list of complex": [1.0, 2.0 + 0j],
    "text": np.array(["1.5", "2.5"]),
    "list with text": [1.0, "2.5"],
    "objects with text": np.array([1.0, "2.5"], dtype=object),
    "bytes": [b"1", b"2"],
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "spans": np.array([3], dtype="timedelta64[D]"),
    "records": np.zeros(2, dtype=[("a", float)]),
    "masked array": np.ma.array([1.0, 2.0], mask=[True, False]),
    "masked array that hides nothing": np.ma.array([1.0, 2.0]),
    "rows of masked arrays": [np.ma.array([1.0, 2.0], mask=True)],
    "masked entry": [1.0, np.ma.masked],
    "whole number beyond floats": [10**400],
    "fraction beyond floats": [Fraction(10**400)],
    "extended precision beyond floats": np.array([np.longdouble("1e4000")])
    if np.finfo(np.longdouble).max > np.finfo(float).max
    else [math.inf],
    "ragged": [[1.0], [1.0, 2.0]],
    "dict": {},
    "function": len,
    "None": [None, 1.0],
}


@pytest.mark.parametrize("value", NO_ARRAYS.values(), ids=NO_ARRAYS.keys())
def test_what_is_no_array_of_real_numbers_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^x must"):
        check_array("x", value, ndim=(1, 2))


@pytest.mark.parametrize(
    "value",
    [
        [1, 0],
        (1.0, 0.0),
        [True, False],
        np.array([True, False]),
        np.array([1, 0], dtype=np.uint64),
        np.array([1.0, 0.0], dtype=np.float16),
        np.array([1.0, 0.0], dtype=">f8"),
        np.array([1.0, 0.0], dtype=np.longdouble),
        [Fraction(1), Decimal(0)],
        [2**70 // 2**70, 0],
        [np.float32(1.0), np.int8(0)],
        np.array([9.0, 1.0, 9.0, 0.0])[1::2],
    ],
)
def test_numbers_of_any_kind_become_float64(value: Any) -> None:
    array = check_array("x", value, ndim=1)
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    assert array.tolist() == [1.0, 0.0]


def test_tables_of_pandas_are_arrays() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert check_array("x", table, ndim=2).tolist() == [[1.0, 0.5], [2.0, 1.5]]
    assert check_array("x", table.astype("Float64"), ndim=2).tolist() == [[1.0, 0.5], [2.0, 1.5]]
    for bad in (table.astype(str), table.astype("Float64").mask(table > 1.0)):
        with pytest.raises(ParameterError, match=r"^x must"):
            check_array("x", bad, ndim=2)


def test_a_float64_array_is_not_copied() -> None:
    table = np.ones((3, 2))
    assert check_array("x", table, ndim=2) is table


@pytest.mark.parametrize("axes", [0, 1, 2, 3])
def test_axes_are_those_of_the_value(axes: int) -> None:
    value = np.ones((2,) * axes)
    assert check_array("x", value, ndim=axes).size == 2**axes
    with pytest.raises(ParameterError, match=r"^x must have 4 axes; got shape"):
        check_array("x", value.tolist(), ndim=4)


HUGE = pytest.param(10**5000, id="too long to print")


@pytest.mark.parametrize(
    "value",
    [
        *(10**400, HUGE, Fraction(10**400), Decimal(1), np.timedelta64(3), np.longdouble("inf")),
        *(math.nan, math.inf, True, np.True_, 1j, "1", None, [1.0], np.ma.masked),
    ],
)
def test_what_is_no_finite_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^t must be a number, finite and > 0"):
        check_real("t", value, above=0.0)


@pytest.mark.parametrize("value", [Fraction(1, 2), 0.5, np.float32(0.5), np.longdouble(0.5)])
def test_real_numbers_of_any_kind_become_floats(value: Any) -> None:
    assert check_real("t", value) == 0.5
    assert type(check_real("t", value)) is float


@pytest.mark.parametrize("value", [HUGE, 1.0, True, np.timedelta64(3), "1", None])
def test_what_is_no_count_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^n must be a whole number of at least 1 and at mo"):
        check_integer("n", value, minimum=1, maximum=9)


def test_a_number_too_long_to_print_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match=r"^kind must be one of 'a'; got a value of type int"):
        check_choice("kind", 10**5000, ("a",))
