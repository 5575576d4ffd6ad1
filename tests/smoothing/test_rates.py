"""Smoother, conditional moments and rate fit together, on a function whose rates are known."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim import NadarayaWatson, conditional_moments, decompose, fit_rate

N_OBS = (500, 2000, 8000, 32000)


def _risk(region, exponent, n_sim=40):
    """Return (mse, mcse) along N_OBS: f = exp, sd 0.5, Epanechnikov, h = 0.6 n^-exponent."""
    rng = np.random.default_rng(7)
    queries = np.linspace(*region, 201)
    rows = []
    for n in N_OBS:
        moments = []
        for _ in range(n_sim):
            x = rng.random(n)
            model = NadarayaWatson(0.6 * n**-exponent, "epanechnikov").fit(x, x)
            moments.append(conditional_moments(model, queries, np.exp(x), np.exp(queries), 0.25))
        result = decompose(
            np.stack([m.mean for m in moments]),
            np.exp(queries),
            noise_covariance=np.stack([m.noise_covariance for m in moments]),
        )
        rows.append((result.mse, result.mse_mcse))
    return np.array(rows).T


@pytest.mark.parametrize(("region", "slope"), [((0.0, 1.0), -0.70), ((0.25, 0.75), -0.80)])
def test_boundary_slows_the_rate_and_the_interior_does_not(region, slope):
    # The slope's standard error is below 0.004 here; 0.03 leaves room for curvature and
    # stays below half the distance between the two.
    fit = fit_rate(N_OBS, *_risk(region, 0.2))
    assert fit.slope_se < 0.004
    assert fit.compare(slope, 0.03).verdict == "supported"
    assert fit.compare(-1.5 - slope, 0.03).verdict == "refuted"  # the other region's slope


def test_a_wrong_bandwidth_has_a_wrong_rate():
    fit = fit_rate(N_OBS, *_risk((0.25, 0.75), 0.4))
    assert fit.compare(-0.8, 0.03).verdict == "refuted"
