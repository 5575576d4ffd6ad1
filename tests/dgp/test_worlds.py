"""Properties of every registered world."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nwsim.dgp import make_world, to_domain, world_names
from nwsim.dgp.functions.base import derivative_order
from nwsim.exceptions import ParameterError
from tests.dgp.cases import accepts_alpha, draw, world_id, worlds

SOME = worlds(dims=(1, 3), alphas=(0.5, 1.0, 2.0))
ALL = worlds()


def arrays_of(value, found=None):
    """Return every array held by a frozen function, those of its parts included."""
    found = [] if found is None else found
    if isinstance(value, np.ndarray):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            arrays_of(item, found)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            arrays_of(getattr(value, field.name), found)
    return found


@pytest.mark.parametrize("world", SOME, ids=world_id)
def test_draws_are_reproducible_frozen_and_described(world):
    function, again, other = draw(world, 1), draw(world, 1), draw(world, 2)
    X = np.random.default_rng(0).random((200, world.dim))
    copies = [array.copy() for array in arrays_of(function)]
    values = function(X)
    assert values.shape == (200,)
    assert values.dtype == np.float64
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(again(X), values)
    np.testing.assert_array_equal(function(X), values)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(function))(X), values)
    assert not np.array_equal(other(X), values)
    for array, copy in zip(arrays_of(function), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        function.holder_constant = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.alpha = 0.1
    assert (function.name, function.alpha, function.dim, function.domain) == (
        world.name,
        world.alpha,
        world.dim,
        world.domain,
    )
    assert function.label
    assert function.source
    assert world.roughness in ("everywhere", "points", "scale", "none")
    assert np.isfinite(function.holder_constant)
    assert function.holder_constant >= 0.0
    assert hash(world) == hash(dataclasses.replace(world))


@pytest.mark.parametrize("world", SOME, ids=world_id)
def test_a_value_depends_on_its_own_row_only(world):
    function = draw(world)
    X = np.random.default_rng(3).random((1500, world.dim))
    values = function(X)
    order = np.random.default_rng(4).permutation(len(X))
    np.testing.assert_array_equal(function(X[order]), values[order])
    np.testing.assert_array_equal(function(X[1020:1031]), values[1020:1031])
    np.testing.assert_array_equal(function(X[:1]), values[:1])
    np.testing.assert_array_equal(function(np.asfortranarray(X)), values)
    assert function(X[:0]).shape == (0,)


def test_global_numpy_seed_changes_nothing():
    first = draw(make_world("matern", dim=2))
    np.random.seed(0)  # noqa: NPY002
    second = draw(make_world("matern", dim=2))
    np.testing.assert_array_equal(first.frequencies, second.frequencies)


@pytest.mark.parametrize(
    "world", [world for world in SOME if world.domain == "torus"], ids=world_id
)
def test_torus_functions_have_period_one(world):
    function = draw(world)
    rng = np.random.default_rng(5)
    # Dyadic points: adding a whole number is exact.
    X = rng.integers(0, 2**20, size=(400, world.dim)) / 2.0**20
    shift = rng.integers(-3, 4, size=X.shape).astype(float)
    np.testing.assert_allclose(function(X + shift), function(X), rtol=0, atol=1e-7)
    np.testing.assert_allclose(function(to_domain(X + shift, "torus")), function(X), rtol=0, atol=0)


def test_cube_functions_are_not_periodic():
    function = draw(make_world("lacunary"))
    X = np.random.default_rng(6).random((50, 1))
    assert np.abs(function(X + 1.0) - function(X)).max() > 0.1


def seminorm_ratio(function, rng, pairs=3000):
    """Return the largest ``|difference of order l+1| / h^alpha``: at most L.

    A difference of order l + 1 with step h v is the increment over h v of the average of
    ``h^l D_v^l f``, so the class bounds it by ``L h^(l + beta) = L h^alpha``: no
    derivative is approximated.
    """
    steps = derivative_order(function.alpha) + 1
    start = rng.random((pairs, function.dim))
    centre = function.singular_points()
    if centre is not None:
        start[::2] = centre[0]
    direction = rng.normal(size=start.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = 10.0 ** rng.uniform(-3.0, 0.2, size=(pairs, 1))
    end = np.clip(start + length * direction, 0.0, 1.0)
    step = (end - start) / steps
    h = np.linalg.norm(step, axis=1)
    keep = h > 1e-4
    start, step, h = start[keep], step[keep], h[keep]
    difference = np.zeros(len(h))
    coefficient = 1.0
    for j in range(steps + 1):
        difference += coefficient * function(start + j * step)
        coefficient *= -(steps - j) / (j + 1.0)
    size = np.abs(function(start)).max() + 1.0
    return float(np.max((np.abs(difference) - 1e-13 * size) / h**function.alpha))


@pytest.mark.parametrize("world", ALL, ids=world_id)
def test_seminorm_stays_below_the_stated_constant(world):
    for seed in range(3):
        function = draw(world, seed)
        ratio = seminorm_ratio(function, np.random.default_rng(seed))
        assert ratio <= function.holder_constant * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("domain", ["cube", "torus"])
def test_seminorm_test_rejects_a_constant_ten_percent_too_small(alpha, domain):
    function = draw(make_world("cusp", alpha=alpha, dim=2, domain=domain))
    ratio = seminorm_ratio(function, np.random.default_rng(0))
    assert ratio > 0.9 * function.holder_constant


@pytest.mark.parametrize("name", ["analytic", "c2", "c11"])
def test_wave_constant_is_sharp_for_one_wave_with_integer_exponent(name):
    # A single wave attains the bound of its top derivative: L = |w| |u|^2 sup|S''|.
    world = make_world(name, alpha=2.0, n_terms=1)
    ratio = seminorm_ratio(draw(world), np.random.default_rng(0), pairs=20000)
    constant = draw(world).holder_constant
    assert 0.9 * constant < ratio <= constant * (1 + 1e-9)


SMOOTH = [
    world for world in worlds(alphas=(2.0,)) if draw(world).smooth and world.name != "lacunary"
]


@pytest.mark.parametrize("world", SMOOTH, ids=world_id)
def test_gradient_and_laplacian_match_finite_differences(world):
    function = draw(world)
    X = np.random.default_rng(7).random((300, world.dim))
    step = 1e-4
    gradient, laplacian = np.empty_like(X), np.zeros(len(X))
    for j in range(world.dim):
        move = step * np.eye(world.dim)[j]
        up, down = function(X + move), function(X - move)
        gradient[:, j] = (up - down) / (2 * step)
        laplacian += (up - 2 * function(X) + down) / step**2
    size = np.abs(function.gradient(X)).max() + 1.0
    assert function.gradient(X).shape == X.shape
    assert function.laplacian(X).shape == (len(X),)
    np.testing.assert_allclose(function.gradient(X), gradient, rtol=0, atol=2e-5 * size)
    # A third derivative with jumps (c2) leaves an error of order step.
    curve = np.abs(function.laplacian(X)).max() + 1.0
    np.testing.assert_allclose(function.laplacian(X), laplacian, rtol=0, atol=2e-3 * curve)


def test_smooth_worlds_are_the_expected_ones():
    names = {world.name for world in SMOOTH}
    assert names == {"analytic", "c2", "polynomial", "additive", "single_index"}


@pytest.mark.parametrize("name", ["lacunary", "takagi", "matern", "cusp", "bumps", "c11"])
def test_rough_worlds_refuse_derivatives_by_name(name):
    function = draw(make_world(name))
    with pytest.raises(ParameterError, match=f"gradient.*{name}"):
        function.gradient(np.zeros((1, 1)))
    with pytest.raises(ParameterError, match=f"laplacian.*{name}"):
        function.laplacian(np.zeros((1, 1)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(world_names()),
    dim=st.integers(1, 4),
    domain=st.sampled_from(("cube", "torus")),
    alpha=st.floats(0.2, 3.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_world_draws_finite_functions_within_its_class(name, dim, domain, alpha, seed):
    if not accepts_alpha(name, alpha) or (name == "polynomial" and domain == "torus"):
        with pytest.raises(ParameterError, match=r"alpha|domain"):
            make_world(name, alpha=alpha, dim=dim, domain=domain)
        return
    options = {"scale": 0.2} if name == "bumps" else {}
    world = make_world(name, alpha=alpha, dim=dim, domain=domain, **options)
    function = draw(world, seed)
    X = np.random.default_rng(seed).random((20, dim))
    assert np.isfinite(function(X)).all()
    np.testing.assert_array_equal(function(X), draw(world, seed)(X))
    ratio = seminorm_ratio(function, np.random.default_rng(seed), pairs=200)
    assert ratio <= function.holder_constant * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (np.array([[np.nan]]), "X must be finite"),
        (np.array([[np.inf]]), "X must be finite"),
        (np.zeros((3, 2)), "X must have 1 columns"),
        (np.zeros((1, 1, 1)), "X must have 1 or 2 axes"),
        (["a"], "X must be an array of real numbers"),
    ],
)
def test_bad_points_are_refused_by_name(bad, match):
    with pytest.raises(ParameterError, match=match):
        draw(make_world("lacunary"))(bad)


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("lacunary", {"alpha": 0.0}, "alpha must be"),
        ("lacunary", {"alpha": float("nan")}, "alpha must be"),
        ("lacunary", {"dim": 0}, "dim must be"),
        ("lacunary", {"dim": 1.5}, "dim must be"),
        ("lacunary", {"domain": "space"}, "domain must be one of 'cube', 'torus'"),
        ("lacunary", {"base": 1.0}, "base must be"),
        ("lacunary", {"base": 1.0001}, "base must give"),
        ("lacunary", {"highest": 0.3}, "highest must be"),
        ("lacunary", {"highest": 2.0**27}, "highest must be"),
        ("lacunary", {"lowest": 0.5, "domain": "torus"}, "lowest must be"),
        ("lacunary", {"amplitude": -1.0}, "amplitude must be"),
        ("takagi", {"alpha": 1.2}, "alpha must be"),
        ("matern", {"n_features": 3}, "n_features must be"),
        ("matern", {"length_scale": 0.0}, "length_scale must be"),
        ("matern", {"highest": 1e-3}, "highest must be"),
        ("cusp", {"alpha": 2.0}, "alpha must be"),
        ("bumps", {"scale": 0.0}, "scale must be"),
        ("bumps", {"scale": 1e-4, "dim": 3}, "scale must give"),
        ("analytic", {"highest": 0.1}, "highest must be"),
        ("c11", {"alpha": 2.5}, "alpha must be"),
        ("polynomial", {"degree": 3}, "degree must be"),
        ("polynomial", {"domain": "torus"}, "domain must be one of 'cube'"),
        ("additive", {"inner": "additive"}, "inner must name"),
        ("additive", {"inner": "nope"}, "world must be one of 'bumps'"),
        ("additive", {"inner_options": {"bse": 2}}, "no option 'bse'.*base"),
        ("additive", {"inner_options": 3}, "inner_options must map"),
        ("single_index", {"direction": (0.0, 0.0), "dim": 2}, "direction must be"),
        ("single_index", {"direction": (1.0,), "dim": 2}, "direction must be"),
        ("single_index", {"direction": (0.5, 1.0), "dim": 2, "domain": "torus"}, "whole numbers"),
    ],
)
def test_bad_options_are_refused_by_name(name, options, match):
    with pytest.raises(ParameterError, match=match):
        make_world(name, **options)


def test_to_domain():
    X = np.array([[-0.25, 1.5], [0.3, -1e-20]])
    np.testing.assert_array_equal(to_domain(X, "torus"), [[0.75, 0.5], [0.3, 0.0]])
    np.testing.assert_array_equal(to_domain(X, "cube"), [[0.0, 1.0], [0.3, 0.0]])
    with pytest.raises(ParameterError, match="domain must be one of"):
        to_domain(X, "sphere")
