"""Cases that the property tests share: every registered name must appear in them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from nwsim.dgp import RegressionFunction, World, make_world, world_names
from nwsim.dgp.registry import WORLDS

ALPHAS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
DIMS = (1, 2, 3)

# Composites over a smooth inner world, besides their default rough one.
SMOOTH_COMPOSITES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("additive", {"inner": "analytic", "alpha": 2.0}),
    ("additive", {"inner": "c2", "alpha": 2.0}),
    ("single_index", {"inner": "analytic", "alpha": 2.0}),
)


def accepts_alpha(name: str, alpha: float) -> bool:
    """Whether a family takes this exponent; 2 is excluded for a cusp."""
    return alpha <= WORLDS.get(name).max_alpha and not (name == "cusp" and alpha >= 2.0)


def worlds(dims: tuple[int, ...] = DIMS, alphas: tuple[float, ...] = ALPHAS) -> list[World]:
    """Every registered world over dims, domains and the exponents it takes."""
    found = []
    for name, dim in itertools.product(world_names(), dims):
        for domain in WORLDS.get(name).domains:
            for alpha in alphas:
                if accepts_alpha(name, alpha):
                    found.append(make_world(name, alpha=alpha, dim=dim, domain=domain))
    for (name, options), dim, domain in itertools.product(
        SMOOTH_COMPOSITES, dims, ("cube", "torus")
    ):
        found.append(make_world(name, dim=dim, domain=domain, **options))
    return found


def world_id(world: World) -> str:
    inner = getattr(world, "inner", "")
    return f"{world.name}{'-' + inner if inner else ''}-{world.dim}-{world.domain}-{world.alpha:g}"


def draw(world: World, seed: int = 20260529) -> RegressionFunction:
    return world.draw(np.random.default_rng(seed))


DESIGN_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("uniform", {}),
    ("uniform", {"domain": "torus"}),
    ("grid", {}),
    ("gaussian", {"mean": 0.5, "scale": 0.3}),
    ("correlated_gaussian", {"correlation": 0.6}),
    ("beta", {"a": 3.0, "b": 1.5}),
    ("clustered", {"n_clusters": 3, "spread": 0.2}),
    ("isotropic", {"law": "student", "df": 6.0}),
    ("isotropic", {"law": "laplace", "scale": 0.5}),
)
NOISE_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gaussian", {"scale": 0.5}),
    ("heteroskedastic", {"scale": 0.5, "strength": 0.7}),
    ("student", {"scale": 2.0, "df": 7.0}),
    ("contaminated", {"share": 0.2, "inflation": 3.0}),
)
