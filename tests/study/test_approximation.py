"""The study of approximation: its forms of attention, its grids, and what must hold exactly."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nwsim.attention.weights import gaussian_weights
from nwsim.study import load_study

ROOT = Path(__file__).parents[2]
STUDY = load_study("approximation", ROOT / "studies")
assert STUDY.namespace is not None
NAMES = STUDY.namespace
LINE = {"target": "smooth", "dim": 1, "n_keys": 16}
PLANE = {"target": "smooth", "dim": 2, "n_keys": 64}


def drawn(condition, seed=0):
    return STUDY.draw(condition, np.random.default_rng(seed))


def error(condition, target, form, values, seed=1):
    rng = np.random.default_rng(seed)
    return NAMES["approximate"](condition, target, rng, form, values)


@pytest.mark.parametrize("dim", [1, 2])
def test_lifted_inputs_have_one_length_and_dot_products_are_a_gaussian_kernel(dim):
    rng = np.random.default_rng(2)
    q, k = rng.uniform(-1, 1, (20, dim)), NAMES["grid"](5, dim)
    lifted = NAMES["lift"](q)
    np.testing.assert_allclose((lifted**2).sum(axis=1), 2.0 * dim, rtol=1e-14)
    np.testing.assert_allclose(
        NAMES["weights"]("lifted", q, k, 0.4),
        gaussian_weights(lifted, NAMES["lift"](k), 0.4),
        rtol=1e-10,
    )
    raw = NAMES["weights"]("dot", q, k, 0.4)
    assert np.abs(raw - gaussian_weights(q, k, 0.4)).max() > 0.01


def test_raw_dot_products_between_two_keys_are_a_hyperbolic_tangent():
    q, k = np.linspace(-1, 1, 9)[:, None], np.array([[-1.0], [1.0]])
    got = NAMES["weights"]("dot", q, k, 0.5) @ k[:, 0]
    np.testing.assert_allclose(got, np.tanh(q[:, 0] / 0.25), rtol=1e-12, atol=1e-15)


def test_keys_have_the_stated_number_and_spacing_and_hold_the_corners():
    for condition in STUDY.conditions():
        keys = NAMES["grid"](NAMES["per_axis"](condition), condition["dim"])
        assert len(keys) == condition["n_keys"]
        assert np.abs(keys).min(axis=1).max() == 1.0
        along = np.unique(keys[:, 0])
        np.testing.assert_allclose(np.diff(along), NAMES["spacing"](condition), rtol=1e-12)


@pytest.mark.parametrize("condition", [LINE, PLANE])
def test_grids_share_no_inner_points(condition):
    dim = condition["dim"]
    grids = [
        NAMES["grid"](NAMES["per_axis"](condition), dim),
        NAMES["grid"](NAMES["FITTED"][dim], dim),
        NAMES["grid"](NAMES["SCORED"][dim], dim),
        NAMES["points_to_choose_on"](condition, np.random.default_rng(3)),
    ]
    inner = [
        {tuple(point) for point in np.round(own, 12) if np.abs(point).max() < 1.0} for own in grids
    ]
    assert len(inner[3]) > 100
    for first in range(4):
        for second in range(first):
            assert not inner[first] & inner[second]


@pytest.mark.parametrize("dim", [1, 2])
def test_points_on_both_sides_of_the_jump_see_all_of_it(dim):
    condition = {"target": "jump", "dim": dim, "n_keys": 16}
    target = drawn(condition, seed=4)
    below, above = target(NAMES["points_to_score"](condition, target)[-2:])
    assert above - below == pytest.approx(NAMES["JUMP"], abs=1e-9)
    smooth = target._replace(jump=0.0)
    assert len(NAMES["points_to_score"](condition, smooth)) == NAMES["SCORED"][dim] ** dim


@pytest.mark.parametrize("form", NAMES["FORMS"])
@pytest.mark.parametrize("values", ["fixed", "free"])
def test_no_form_passes_a_jump_by_less_than_half_of_it(form, values):
    condition = {**LINE, "target": "jump"}
    target = drawn(condition, seed=5)
    row = error(condition, target, form, values)
    assert row["jump_error"] >= 1.0 - 1e-6
    assert row["short_of_half"] == 1.0 - row["jump_error"]
    # Without the two points at the jump, a narrow kernel can hide it between points.
    without = error(condition, target._replace(jump=0.0), form, values)
    assert "jump_error" not in without


def test_more_keys_help_local_forms_and_not_raw_dot_products():
    errors = {
        form: [
            np.mean(
                [
                    error({**LINE, "n_keys": n}, drawn(LINE, seed), form, "fixed")["sup_error"]
                    for seed in range(4)
                ]
            )
            for n in (8, 64)
        ]
        for form in NAMES["FORMS"]
    }
    assert errors["gaussian"][1] < 0.25 * errors["gaussian"][0]
    assert errors["lifted"][1] < 0.25 * errors["lifted"][0]
    assert errors["dot"][1] > 0.5 * errors["dot"][0]


def test_free_values_find_a_function_of_their_own_span():
    class Span:
        """Attention itself, with one of the bandwidths that are tried."""

        jump = 0.0

        def __call__(self, points):
            keys = NAMES["grid"](8, 1)
            return NAMES["weights"]("dot", points, keys, 0.5) @ np.sin(np.arange(8.0))

    row = error({**LINE, "n_keys": 8}, Span(), "dot", "free")
    assert row["sup_error"] < 1e-6
    fixed = error({**LINE, "n_keys": 8}, Span(), "dot", "fixed")
    assert fixed["sup_error"] > 1e-2


def test_margins_tell_the_spacing_from_a_stall():
    own = [claim for claim in STUDY.claims if claim.rule == "falls_in_logs"]
    assert len(own) == 3
    for claim in own:
        for dim in (1, 2):
            assert claim.margin({"dim": dim}) < 0.5 * abs(claim.theory({"dim": dim}))
    (stalls,) = [claim for claim in STUDY.claims if claim.id == "A1_dot_stalls"]
    for condition in STUDY.conditions():
        counts = [c["n_keys"] for c in STUDY.conditions() if c["dim"] == condition["dim"]]
        largest = sorted(set(counts))[-stalls.tail :]
        falls = [NAMES["spacing"]({**condition, "n_keys": n}) for n in (largest[0], largest[-1])]
        assert stalls.margin < 0.5 * np.log(falls[0] / falls[1])


@pytest.mark.parametrize("dim", [1, 2])
def test_the_slope_of_the_spacing_is_that_of_the_keys_that_are_used(dim):
    sizes = sorted({c["n_keys"] for c in STUDY.conditions() if c["dim"] == dim})[-NAMES["TAIL"] :]
    along = [np.unique(NAMES["grid"](round(n ** (1 / dim)), dim)[:, 0]) for n in sizes]
    gaps = [np.diff(places).min() for places in along]
    # Sizes are even in logs: the slope of a line is that between the ends.
    np.testing.assert_allclose(np.diff(np.log(sizes)), np.log(sizes[1] / sizes[0]), rtol=1e-12)
    want = np.log(gaps[0] / gaps[-1]) / np.log(sizes[0] / sizes[-1])
    assert NAMES["slope"]({"dim": dim}) == pytest.approx(want, rel=1e-12)
    assert -1.08 / dim < want < -1.0 / dim
    assert gaps[-1] <= gaps[0] / 4.0


def test_what_is_printed_is_judged_on_free_values_and_on_the_worst_function():
    """There are parameters for every f: a form that was given its values is no counterexample."""
    (claim,) = [claim for claim in STUDY.claims if claim.id == "A1_printed"]
    assert (claim.rule, claim.method) == ("never_above", "dot_free")
    found = [c for c in STUDY.conditions() if claim.where({**c, "method": "dot_free"})]
    assert {(c["dim"], c["target"], c["n_keys"]) for c in found} == {
        (dim, "smooth", NAMES["LARGEST_FREE"]) for dim in (1, 2)
    }


def test_example_of_the_docs_runs():
    text = (ROOT / "docs" / "systems" / "approximation.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "assert" in example
    exec(example, {})
