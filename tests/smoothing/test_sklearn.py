"""scikit-learn's own checks of the estimator protocol."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from nwsim import LocalLinear, NadarayaWatson


def _exceptions(estimator):
    return {"check_fit1d": "one axis means one column"}


@parametrize_with_checks(
    [
        NadarayaWatson(),
        NadarayaWatson(kernel="epanechnikov", empty_window="nearest"),
        LocalLinear(),
        LocalLinear(kernel="tricube", empty_window="mean"),
    ],
    expected_failed_checks=_exceptions,
)
def test_estimator_protocol(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [NadarayaWatson(0.2), LocalLinear(0.3, "triangular")])
def test_clone_pickle_and_grid_search(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 1)), rng.normal(size=60)
    fitted = clone(estimator).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    search = GridSearchCV(estimator, {"bandwidth": [0.1, 0.5]}, cv=3).fit(X, y)
    assert search.best_params_["bandwidth"] in (0.1, 0.5)
