"""What the studies of ensembles must show whatever their numbers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nwsim.seeding import stream
from nwsim.study import Study, load_study

STUDIES = Path(__file__).parents[2] / "studies"


def rows(study: Study, condition: dict[str, Any], rep: int = 0) -> dict[str, dict[str, float]]:
    """Return what every method says in one replicate."""
    owners = {k: v for k, v in condition.items() if k not in study.shared_streams}
    data = study.draw(condition, stream(study.seed, owners, rep, "data"))
    return {
        method.name: dict(method.function(condition, data, np.random.default_rng(rep)))
        for method in study.methods
        if method.where is None or method.where(condition)
    }


@pytest.fixture(scope="module")
def hdi() -> Study:
    return load_study("hdi", STUDIES)


@pytest.fixture(scope="module")
def decomposition() -> Study:
    return load_study("decomposition", STUDIES)


def setting(**changes: Any) -> dict[str, Any]:
    base = {"world": "isotropic", "dim": 10, "n_obs": 256, "n_heads": 4, "d_k": 2, "noise": 1.0}
    return {**base, "hdi": 0.0, **changes}


def test_identical_heads_are_one_head(hdi):
    found = rows(hdi, setting())["fixed"]
    assert found["head_covariance"] == pytest.approx(3.0 * found["variance"], rel=1e-10)
    assert found["mse"] == pytest.approx(found["head_mse"], rel=1e-10)


def test_the_index_that_is_shared_is_known_without_a_floor(hdi):
    known = rows(hdi, setting(world="index_shared"))["fixed"]
    assert known["floor2"] == pytest.approx(0.0, abs=1e-20)
    assert known["bias2"] > 0.001
    away = rows(hdi, setting(world="index_shared", hdi=1.0))["fixed"]
    assert away["floor2"] > 2.0 * known["bias2"]


def test_levels_of_the_index_share_their_draw(hdi):
    first, second = (
        hdi.draw(condition, stream(hdi.seed, {"n_obs": 256}, 3, "data"))
        for condition in (setting(), setting(hdi=1.0))
    )
    np.testing.assert_array_equal(first.queries, second.queries)
    np.testing.assert_array_equal(first.samples[1].X, second.samples[1].X)
    np.testing.assert_array_equal(first.truth, second.truth)


def test_the_printed_index_is_not_0_for_identical_heads_of_two_columns(hdi):
    found = rows(hdi, setting(n_obs=1024))["index"]
    assert found["printed_hdi"] == pytest.approx(0.5)
    assert found["subspace_hdi"] == pytest.approx(0.0, abs=1e-12)
    assert found["printed_hdi_scaled"] == pytest.approx(1.0 - 16 * 0.5)


def cell(**changes: Any) -> dict[str, Any]:
    base = {"n_obs": 256, "function": "random", "noise": "gaussian"}
    return {**base, "heads": "orthogonal", "n_heads": 8, **changes}


@pytest.mark.parametrize("noise", ["gaussian", "heteroskedastic"])
def test_parts_add_up_on_every_route(decomposition, noise):
    found = rows(decomposition, cell(noise=noise))
    assert set(found) == {"conditional", "geometric", "plain"}
    for row in found.values():
        assert row["identity_gap"] < 1e-13
        parts = row["bias2"] + row["variance"] + row["head_covariance"]
        assert parts == pytest.approx(row["mse"], rel=1e-12)


def test_a_fixed_function_is_the_same_in_every_replicate(decomposition):
    draws = [
        decomposition.draw(cell(function=kind), np.random.default_rng(seed))
        for kind in ("fixed", "random")
        for seed in (1, 2)
    ]
    np.testing.assert_array_equal(draws[0].truth, draws[1].truth)
    assert not np.array_equal(draws[2].truth, draws[3].truth)
    assert not np.array_equal(draws[0].samples[0].X, draws[1].samples[0].X)


def test_mixed_heads_are_alike_as_they_say(decomposition):
    found = rows(decomposition, cell(n_obs=1024, heads="mixed", n_heads=6))["conditional"]
    assert found["covariance_2_1"] == pytest.approx(found["covariance_1_1"], rel=1e-12)
    assert found["covariance_6_5"] < 0.5 * found["covariance_6_6"]
    frames = decomposition.draw.__globals__["frames"](cell(heads="mixed", n_heads=6))
    gram = frames[:, :, 0] @ frames[:, :, 0].T
    expected = np.eye(6)
    expected[0, 1] = expected[1, 0] = 1.0
    expected[2, 3] = expected[3, 2] = 0.5
    np.testing.assert_allclose(gram, expected, atol=1e-12)


def test_one_head_of_many_kinds_is_one_head(decomposition):
    for kind in ("identical", "correlated", "orthogonal"):
        frames = decomposition.draw.__globals__["frames"](cell(heads=kind, n_heads=1))
        assert frames.shape == (1, 33, 1)
        assert np.linalg.norm(frames) == pytest.approx(1.0)
