"""Noise laws, mechanisms, samples and the registry itself.

Statistical tests use 5 standard errors (false-alarm rate below 1e-6 each, fixed seeds).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from nwsim.dgp import (
    Mechanism,
    Region,
    World,
    design_names,
    make_design,
    make_noise,
    make_world,
    noise_names,
    register_world,
    world_names,
)
from nwsim.dgp.functions.wave import SINUSOID, WaveSum
from nwsim.dgp.registry import WORLDS
from nwsim.exceptions import ParameterError
from tests.dgp.cases import DESIGN_CASES, NOISE_CASES, draw


@pytest.mark.parametrize(("name", "options"), NOISE_CASES)
def test_noise_has_mean_zero_and_the_stated_variance(name, options):
    noise = make_noise(name, **options)
    X = np.random.default_rng(1).random((200_000, 2))
    values = noise.draw(np.random.default_rng(2), X)
    np.testing.assert_array_equal(noise.variance(X), noise.scale(X) ** 2)
    assert values.shape == noise.variance(X).shape == (len(X),)
    se = values.std() / math.sqrt(len(X))
    assert abs(values.mean()) < 5 * se
    for region in (X[:, 0] < 0.5, X[:, 0] >= 0.5):
        ratio = values[region] ** 2 / noise.variance(X[region])
        error = ratio.std() / math.sqrt(len(ratio))
        assert abs(ratio.mean() - 1.0) < 5 * error
        assert abs(ratio.mean() - 1.15) > 5 * error  # the negative control


def test_heteroskedastic_scale_and_its_mean_square():
    noise = make_noise("heteroskedastic", scale=2.0, strength=0.6)
    X = (np.arange(1000) + 0.5)[:, None] / 1000
    np.testing.assert_allclose(noise.scale(X), 2 * (1 + 0.6 * np.sin(2 * np.pi * X[:, 0])))
    assert noise.variance(X).mean() == pytest.approx(4 * (1 + 0.18))
    np.testing.assert_allclose(noise.scale(X + 1.0), noise.scale(X))
    np.testing.assert_array_equal(noise.scale(X[:, 0]), noise.scale(X))


def test_tails_are_as_named():
    X = np.zeros((200_000, 1))
    kurtosis = {}
    for name, options in (("gaussian", {}), ("student", {"df": 9.0}), ("contaminated", {})):
        values = make_noise(name, **options).draw(np.random.default_rng(3), X)
        kurtosis[name] = np.mean(values**4)
    # 3, 3 + 6/(df - 4), 3 (0.9 + 0.1 * 625)/(0.9 + 0.1 * 25)^2
    assert kurtosis["gaussian"] == pytest.approx(3.0, abs=0.1)
    assert kurtosis["student"] == pytest.approx(4.2, abs=0.5)
    assert kurtosis["contaminated"] == pytest.approx(3 * 63.4 / 3.4**2, rel=0.05)


def test_no_noise_is_allowed():
    np.testing.assert_array_equal(
        make_noise("gaussian", scale=0.0).draw(np.random.default_rng(0), np.zeros((5, 1))), 0.0
    )


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("nope", {}, "noise must be one of 'gaussian'"),
        ("gaussian", {"scale": -0.1}, "scale must be"),
        ("gaussian", {"scale": float("nan")}, "scale must be"),
        ("gaussian", {"df": 3.0}, "no option 'df'; it accepts scale"),
        ("student", {"df": 2.0}, "df must be"),
        ("heteroskedastic", {"strength": 1.0}, "strength must be"),
        ("contaminated", {"share": 1.5}, "share must be"),
        ("contaminated", {"inflation": 0.0}, "inflation must be"),
    ],
)
def test_bad_noise_is_refused_by_name(name, options, match):
    with pytest.raises(ParameterError, match=match):
        make_noise(name, **options)


def test_every_design_and_noise_has_a_case():
    assert {name for name, _ in DESIGN_CASES} == set(design_names())
    assert {name for name, _ in NOISE_CASES} == set(noise_names())


def test_noise_is_frozen():
    for name in noise_names():
        with pytest.raises(dataclasses.FrozenInstanceError):
            make_noise(name).base_scale = 3.0


def mechanism(domain="torus", dim=2, **noise):
    return Mechanism(
        make_world("lacunary", dim=dim, domain=domain),
        make_design("uniform", dim=dim, domain=domain),
        make_noise("student", **noise),
    )


def drawn(source, seed=7, n_obs=500, n_designs=2, n_queries=16, region=(0.25, 0.75)):
    return source.draw(np.random.default_rng(seed), n_obs, n_designs, n_queries, Region(*region))


def test_replicate_is_consistent_read_only_and_reproducible():
    replicate, again = drawn(mechanism()), drawn(mechanism())
    np.testing.assert_array_equal(replicate.queries, again.queries)
    np.testing.assert_array_equal(replicate.truth, replicate.function(replicate.queries))
    assert replicate.queries.shape == (16, 2)
    assert replicate.queries.min() >= 0.25
    assert replicate.queries.max() <= 0.75
    assert len(replicate.samples) == 2
    for j, (sample, other) in enumerate(zip(replicate.samples, again.samples, strict=True)):
        np.testing.assert_array_equal(sample.X, other.X)
        np.testing.assert_array_equal(sample.f, replicate.function(sample.X))
        np.testing.assert_array_equal(sample.noise_variance, 1.0)
        residual = replicate.responses(j) - sample.f
        np.testing.assert_array_equal(replicate.responses(j), again.responses(j))
        assert abs(residual.mean()) < 5 * residual.std() / math.sqrt(500)
        for array in (*sample, replicate.queries, replicate.truth):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0
    assert not np.array_equal(replicate.samples[0].X, replicate.samples[1].X)
    assert not np.array_equal(replicate.responses(0), replicate.responses(1))
    assert not np.array_equal(drawn(mechanism(), seed=8).queries, replicate.queries)
    with pytest.raises(dataclasses.FrozenInstanceError):
        replicate.queries = replicate.truth


def test_each_part_is_the_same_whatever_the_others_take():
    few, many = drawn(mechanism(), n_obs=10), drawn(mechanism(), n_obs=1000, n_designs=5)
    np.testing.assert_array_equal(few.queries, many.queries)
    np.testing.assert_array_equal(few.truth, many.truth)
    moved = drawn(mechanism(), region=(0.0, 1.0))
    np.testing.assert_allclose(moved.queries, 2.0 * few.queries - 0.5)
    np.testing.assert_array_equal(moved.samples[0].X, drawn(mechanism()).samples[0].X)


def test_queries_are_stratified_in_each_coordinate():
    queries = drawn(mechanism(), n_queries=64).queries
    strata = np.floor((queries - 0.25) / 0.5 * 64).astype(int)
    for a in range(2):
        assert sorted(strata[:, a]) == list(range(64))


def test_drawing_leaves_the_mechanism_and_global_state_alone():
    source = mechanism()
    before = repr(source)
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    drawn(source)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert repr(source) == before


def test_levels_of_noise_share_everything_else():
    low, high = (drawn(mechanism(scale=scale)) for scale in (1.0, 3.0))
    np.testing.assert_array_equal(low.samples[0].X, high.samples[0].X)
    np.testing.assert_allclose(
        3.0 * (low.responses(0) - low.samples[0].f), high.responses(0) - high.samples[0].f
    )


def test_parts_that_do_not_fit_are_refused():
    cube, noise = make_world("lacunary"), make_noise("gaussian")
    with pytest.raises(ParameterError, match="design must have the dim"):
        Mechanism(cube, make_design("uniform", dim=2), noise)
    with pytest.raises(ParameterError, match="design must not be on the torus"):
        Mechanism(cube, make_design("uniform", domain="torus"), noise)
    with pytest.raises(ParameterError, match="world must be a World"):
        Mechanism(draw(cube), make_design("uniform"), noise)
    for change in ({"n_obs": 0}, {"n_designs": 0}, {"n_queries": 0}):
        with pytest.raises(ParameterError, match=f"{next(iter(change))} must be"):
            drawn(mechanism(), **change)
    with pytest.raises(ParameterError, match="high of region"):
        drawn(mechanism(), region=(0.5, 0.5))


@dataclass(frozen=True, kw_only=True)
class Tone(World):
    """A user's own world: one sinusoid of random phase."""

    pitch: float = 1.0

    name: ClassVar[str] = "tone"
    label: ClassVar[str] = "Tone"
    source: ClassVar[str] = "a test"
    roughness: ClassVar[str] = "none"

    def draw(self, rng):
        frequency = np.full((1, self.dim), self.pitch)
        return WaveSum.build(self, SINUSOID, frequency, rng.random(1), np.ones(1))


def test_a_users_world_is_registered_once_and_made_by_name():
    register_world(Tone)
    try:
        assert "tone" in world_names()
        function = draw(make_world("tone", alpha=1.0, dim=2, pitch=3.0))
        assert function.name == "tone"
        assert function.holder_constant == pytest.approx(2 * math.pi * 3 * math.sqrt(2))
        with pytest.raises(ParameterError, match="'tone' is already registered"):
            register_world(Tone)
        with pytest.raises(ParameterError, match=r"no option 'loudness'; it accepts .*pitch"):
            make_world("tone", loudness=1)
    finally:
        WORLDS.remove("tone")
    with pytest.raises(ParameterError, match=r"world must be one of .*'lacunary'"):
        make_world("tone")


def test_what_is_not_a_world_is_refused():
    with pytest.raises(ParameterError, match="subclass of World"):
        register_world(dict)

    @dataclass(frozen=True, kw_only=True)
    class Bare(World):
        def draw(self, rng):
            raise NotImplementedError

    with pytest.raises(ParameterError, match="must have a text 'label'"):
        register_world(Bare)
    for name in world_names():
        with pytest.raises(ParameterError, match="already registered"):
            register_world(WORLDS.get(name))
