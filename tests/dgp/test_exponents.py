"""Each function's exponent, estimated from its own increments.

The statistic. Differences of even order m > alpha, centred, along fixed random
directions at fixed points; at dyadic h their root mean square (roughness
"everywhere") or their maximum (roughness at points or kinks) is of order h^alpha. The
slope of its logarithm is one estimate per function; N_FUNCTIONS independent functions
give a mean and a standard error. The stated exponent is rejected if the mean lies more
than ``MARGIN + t se`` away, t the two-sided 1e-3 quantile of Student's t: a false-alarm
rate of at most 1e-3 per test (seeds are fixed) as long as the finite-scale bias of the
slope is below MARGIN. Power: a wrong exponent 0.2 away is rejected in every case.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from nwsim.dgp import make_world, world_names
from tests.dgp.cases import draw, world_id

N_FUNCTIONS = 16
MARGIN = 0.04
STEPS = 2.0 ** -np.arange(4.0, 9.0)


def even_order(alpha):
    """Return the order of the differences: even, above alpha + 1/2 where it can be."""
    return 2 * math.floor((alpha + 0.5) / 2) + 2


def increments(function, X, direction, order, h):
    total = np.zeros(len(X))
    for j in range(order + 1):
        total += (-1) ** j * math.comb(order, j) * function(X + (j - order / 2) * h * direction)
    return total


# Splines have several kinks in [0, 1]: a difference must not span two of them.
FINE_STEPS = STEPS / 16.0


def estimate(function, rng, order, statistic):
    # The maximum needs points near a kink at the smallest step as well.
    n, steps = (2**16, FINE_STEPS) if statistic == "max" else (4096, STEPS)
    X = rng.random((n, function.dim))
    centre = function.singular_points()
    if centre is not None:
        X[:] = centre[0]
    direction = rng.normal(size=X.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    sizes = []
    for h in steps:
        difference = increments(function, X, direction, order, h)
        if statistic == "max":
            sizes.append(np.abs(difference).max())
        else:
            sizes.append(math.sqrt(np.mean(difference**2)))
    return float(np.polyfit(np.log(steps), np.log(sizes), 1)[0])


def exponents(world, order, statistic="rms"):
    rng = np.random.default_rng(2026)
    return np.array([estimate(world.draw(rng), rng, order, statistic) for _ in range(N_FUNCTIONS)])


def rejects(estimates, stated):
    se = np.std(estimates, ddof=1) / math.sqrt(len(estimates))
    quantile = float(stdtrit(len(estimates) - 1, 1.0 - 0.5e-3))
    return bool(abs(np.mean(estimates) - stated) > MARGIN + quantile * se)


EVERYWHERE = [
    make_world(name, alpha=alpha, dim=dim, domain=domain)
    for name, alphas in (
        ("lacunary", (0.25, 0.5, 1.0, 1.5, 3.0)),
        ("takagi", (0.25, 0.5, 1.0)),
        ("matern", (0.25, 0.5, 1.5)),
        ("additive", (0.5, 1.5)),
        ("single_index", (0.5, 1.5)),
    )
    for alpha in alphas
    for dim in (1, 2)
    for domain in ("cube", "torus")
]


@pytest.mark.parametrize("world", EVERYWHERE, ids=world_id)
def test_increments_show_the_stated_exponent_and_no_other(world):
    assert world.roughness == "everywhere"
    estimates = exponents(world, even_order(world.alpha))
    assert not rejects(estimates, world.alpha)
    assert rejects(estimates, world.alpha + 0.2)
    assert rejects(estimates, world.alpha - 0.2)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0, 1.5, 1.8])
@pytest.mark.parametrize("dim", [1, 3])
def test_cusp_shows_its_exponent_at_its_centre_alone(alpha, dim):
    world = make_world("cusp", alpha=alpha, dim=dim)
    at_centre = exponents(world, even_order(alpha))
    assert not rejects(at_centre, alpha)
    assert rejects(at_centre, alpha + 0.2)
    function = draw(world)
    away = np.random.default_rng(1).random((4096, dim))
    away = away[np.linalg.norm(away - function.singular_points(), axis=1) > 0.3]
    direction = np.eye(dim)[[0]] * np.ones((len(away), 1))
    ratio = [np.abs(increments(function, away, direction, 2, h)).max() for h in (0.02, 0.01)]
    if dim == 1 and alpha == 1.0:
        assert max(ratio) < 1e-12  # straight lines
    else:
        assert math.log2(ratio[0] / ratio[1]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(("name", "sharp"), [("c2", 3.0), ("c11", 2.0)])
@pytest.mark.parametrize("domain", ["cube", "torus"])
def test_splines_show_their_sharp_exponent_at_their_kinks(name, sharp, domain):
    world = make_world(name, alpha=sharp, domain=domain)
    estimates = exponents(world, 4, "max")
    assert not rejects(estimates, sharp)
    assert rejects(estimates, sharp + 0.2)
    assert rejects(estimates, sharp - 0.2)


@pytest.mark.parametrize("name", ["analytic", "polynomial"])
def test_smooth_functions_have_increments_of_the_full_order(name):
    world = make_world(name, dim=2)
    # Differences of order 2 fall like h^2, those of order 4 like h^4 or vanish.
    assert exponents(world, 2).mean() == pytest.approx(2.0, abs=0.1)
    if name == "analytic":
        assert exponents(world, 4).mean() == pytest.approx(4.0, abs=0.4)


@pytest.mark.parametrize("alpha", [0.5, 1.5, 3.0])
def test_bumps_keep_their_exponent_across_scales(alpha):
    # Increments at the scale itself: h = width/2 joins the middle of a bump to its faces.
    sizes, widths = [], []
    for scale in (1 / 8, 1 / 16, 1 / 32, 1 / 64):
        world = make_world("bumps", alpha=alpha, scale=scale)
        function = draw(world)
        X = np.random.default_rng(0).random((4096, 1))
        change = increments(function, X, np.ones((1, 1)), 2, world.width / 2)
        sizes.append(math.sqrt(np.mean(change**2)))
        widths.append(world.width)
    slope = np.polyfit(np.log(widths), np.log(sizes), 1)[0]
    assert slope == pytest.approx(alpha, abs=0.1)


def test_every_world_is_covered():
    covered = {world.name for world in EVERYWHERE}
    assert covered | {"cusp", "c2", "c11", "analytic", "polynomial", "bumps"} == set(world_names())
