"""Exact bounds of shares, against sums of binomial probabilities in whole numbers."""

from __future__ import annotations

from itertools import accumulate
from math import comb

import pytest

from nwsim.exceptions import ParameterError
from nwsim.inference.shares import share_at_most, share_bounds


def at_most(k, n, share):
    """Return the exact chance of k or fewer of n."""
    return all_at_most(n, share)[k]


def all_at_most(n, share):
    """Return the exact chances of at most 0, 1, ..., n of n, each rounded once."""
    p, whole = share.as_integer_ratio()
    ways = (comb(n, j) * p**j * (whole - p) ** (n - j) for j in range(n + 1))
    return [total / whole**n for total in accumulate(ways)]


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 45), (1, 45), (7, 20), (44, 45), (300, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.975])
def test_bounds_are_where_the_tails_have_the_stated_chance(k, n, level):
    low, high = share_bounds(k, n, level)
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert at_most(k, n, high) == pytest.approx(1.0 - level, rel=1e-8)
    if k:
        assert 1.0 - at_most(k - 1, n, low) == pytest.approx(1.0 - level, rel=1e-8)


def test_none_and_all():
    assert share_bounds(0, 59)[1] == pytest.approx(1.0 - 0.05 ** (1.0 / 59.0), rel=1e-12)
    assert share_bounds(0, 7)[0] == 0.0
    assert share_bounds(7, 7)[1] == 1.0


def test_none_of_few_is_no_support():
    assert share_at_most(0, 45, 0.0, 0.05).verdict == "inconclusive"
    assert share_at_most(0, 59, 0.0, 0.05).verdict == "supported"
    assert share_at_most(0, 59, 0.05, 0.0).verdict == "supported"
    assert share_at_most(3, 60, 0.0, 0.05).verdict == "inconclusive"
    assert share_at_most(8, 60, 0.0, 0.05).verdict == "refuted"


@pytest.mark.parametrize("n", [20, 60, 300])
def test_errors_at_the_limit_are_rarer_than_stated(n):
    limit = 0.05
    below = all_at_most(n, limit)
    chances = [b - a for a, b in zip([0.0, *below], below, strict=False)]
    verdicts = [share_at_most(k, n, 0.0, limit).verdict for k in range(n + 1)]
    for word in ("supported", "refuted"):
        assert sum(c for c, v in zip(chances, verdicts, strict=True) if v == word) <= 0.05


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((-1, 5, 0.0, 0.1), "count"),
        ((6, 5, 0.0, 0.1), "count"),
        ((0, 0, 0.0, 0.1), "n_sim"),
        ((0.5, 5, 0.0, 0.1), "count"),
        ((0, 5, float("nan"), 0.1), "theory"),
        ((0, 5, 0.0, -0.1), "margin"),
    ],
)
def test_what_is_no_share_is_refused(arguments, named):
    with pytest.raises(ParameterError, match=f"^{named} must"):
        share_at_most(*arguments)
