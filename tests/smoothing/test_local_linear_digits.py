"""Digits of local linear fits where a window's points lie close together, away from the query."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from nwsim import LocalLinear


def _exact_weights(x, q, h):
    """Return the smoothing weights of an Epanechnikov window, without rounding."""
    u = [(Fraction(float(point)) - Fraction(q)) / Fraction(h) for point in x]
    k = [1 - v * v for v in u]
    zeroth, first, second = (sum(w * v**p for w, v in zip(k, u, strict=True)) for p in range(3))
    scale = zeroth * second - first * first
    return [w * (second - first * v) / scale for w, v in zip(k, u, strict=True)]


@pytest.mark.parametrize("spread", [0.1, 1e-2, 1e-3, 1e-4])
def test_digits_are_lost_as_documented_and_no_more(spread):
    worst = np.zeros(2)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y, s2 = 0.5 + spread * rng.random(8), rng.normal(size=8), rng.random(8)
        model = LocalLinear(1.0, "epanechnikov").fit(x, y)
        mean, variance, _ = model.head_moments([0.0], y, s2)
        assert model.summary([0.0]).n_singular == 0
        gram = model.moment_sums([0.0], y, s2).gram[0]
        size = np.sqrt(np.diagonal(gram))
        values = np.linalg.eigvalsh(gram / np.outer(size, size))
        W = _exact_weights(x, 0.0, 1.0)
        exact = sum(w * Fraction(float(v)) for w, v in zip(W, y, strict=True))
        noise = sum(w * w * Fraction(float(v)) for w, v in zip(W, s2, strict=True))
        off = (
            abs(Fraction(mean.item()) - exact) / (sum(map(abs, W)) * Fraction(np.abs(y).max())),
            abs(Fraction(variance.item()) - noise) / noise,
        )
        worst = np.maximum(worst, np.array(off, dtype=float) * values[0] / values[1])
    assert np.all(worst <= 1e-15)
