"""How many replicates of a baseline one of another estimator is worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError
from nwsim.inference import jackknife, precision_gain


@given(st.integers(3, 30), st.integers(0, 1000))
def test_is_the_ratio_of_variances_with_its_jackknife(n_sim, seed):
    sample = np.random.default_rng(seed).standard_normal((n_sim, 2))

    def statistic(rows):
        return rows[:, 1].var() / rows[:, 0].var()

    found = precision_gain(sample[:, 0], sample[:, 1])
    expected = jackknife(statistic, sample)
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-10)
    assert found.mcse == pytest.approx(expected.mcse, rel=1e-8)


def test_does_not_change_with_location_and_follows_scale():
    a, b = np.random.default_rng(1).standard_normal((2, 20))
    base = precision_gain(a, b)
    assert precision_gain(a + 5.0, b - 3.0).estimate == pytest.approx(base.estimate)
    assert precision_gain(2.0 * a, b).estimate == pytest.approx(base.estimate / 4.0)


def test_few_replicates_have_none():
    assert math.isnan(precision_gain([1.0, 2.0], [1.0, 3.0]).estimate)


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [1.0, 1.0, 2.0]])
def test_values_that_do_not_vary_are_refused(values):
    with pytest.raises(ParameterError, match="vary"):
        precision_gain(values, [1.0, 2.0, 3.0])
