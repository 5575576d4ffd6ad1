"""A specification is right, or says in one sentence what is wrong with it."""

from __future__ import annotations

import contextlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import NwsimError, ParameterError, StudyError
from nwsim.study import (
    Claim,
    Contrast,
    Curve,
    CurvePoint,
    CurveRule,
    Figure,
    Grid,
    Measure,
    Method,
    Profile,
    Study,
    known_studies,
    load_study,
)
from nwsim.study.cells import plan_cells
from nwsim.study.replicate import ReplicateTask, unpack
from nwsim.study.rules import CURVE_RULES
from tests.study.toys import rewrite, write_study


def method(condition: Any, data: Any, rng: Any) -> dict[str, float]:
    return {"mse": 1.0}


def draw(condition: Any, rng: Any) -> None:
    return None


FIELDS: dict[str, Any] = {
    "name": "toy",
    "label": "Toy",
    "seed": 1,
    "factors": (Grid({"n_obs": (10, 20), "world": ("a", "b")}),),
    "draw": draw,
    "methods": (Method("m", method),),
    "measures": (Measure("mse", "MSE"), Measure("hits", "hits", kind="count")),
    "profiles": {"quick": Profile(2, rule="toy")},
}

CLAIM: dict[str, Any] = {
    "id": "C",
    "statement": "s",
    "quantity": "mse",
    "theory": 0.0,
    "margin": 0.1,
    "rule": "rate",
}


def test_rules_have_their_own_default_factor() -> None:
    assert Claim(**CLAIM).over == "n_obs"
    assert Claim(**{**CLAIM, "rule": "equivalence"}).over is None


def test_a_shared_factor_has_no_slopes_but_may_have_other_curves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = CurveRule("last", lambda points: [CurvePoint(1.0, points.estimates[-1], 0.0)])
    monkeypatch.setitem(CURVE_RULES, "last", rule)
    shared = {**FIELDS, "shared_streams": ("n_obs",)}
    assert Study(**shared, curves=(Curve("c", "mse", "last"),)).curves
    with pytest.raises(ParameterError, match="must not hold 'n_obs'"):
        Study(**shared, curves=(Curve("c", "mse", "tail_slope"),))


def test_a_right_specification() -> None:
    study = Study(**FIELDS, claims=Claim(**CLAIM))  # type: ignore[arg-type]
    assert study.claims == (Claim(**CLAIM),)
    assert study.factor_types == {"n_obs": "int", "world": "str"}
    assert len(study.conditions()) == 4
    with pytest.raises(AttributeError):
        study.seed = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        study.factors[0].levels["n_obs"] = (1,)  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "a b"}, "study name"),
        ({"label": ""}, "label"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"factors": ()}, "factors"),
        ({"factors": (Grid({"n_obs": (1,)}), Grid({"n": (1,)}))}, "n, n_obs"),
        ({"factors": (Grid({"n_obs": (1,)}), Grid({"n_obs": (1.0,)}))}, "float and int"),
        ({"draw": None}, "draw"),
        ({"methods": ()}, "methods"),
        ({"methods": (Method("m", method), Method("m", method))}, "'m' occurs twice"),
        ({"methods": ("m",)}, "methods must hold Method"),
        ({"measures": (Measure("a", "A"), Measure("a", "B"))}, "'a' occurs twice"),
        ({"measures": (Measure("a", "A", methods=("x",)),)}, "'m'; got 'x'"),
        ({"profiles": {}}, "profiles"),
        ({"profiles": {"quick": 3}}, "Profile"),
        ({"shared_streams": ("x",)}, "'n_obs', 'world'; got 'x'"),
        ({"max_failure_share": 1.5}, "max_failure_share"),
        ({"claims": (Claim(**{**CLAIM, "quantity": "mes"}),)}, "must be one of 'mse'; got 'mes'"),
        ({"claims": (Claim(**{**CLAIM, "quantity": "hits"}),)}, "'mse'; got 'hits'"),
        ({"claims": (Claim(**CLAIM, method="x"),)}, "method of claim 'C'"),
        ({"claims": (Claim(**{**CLAIM, "over": "size"}),)}, "over of claim 'C'"),
        ({"claims": (Claim(**{**CLAIM, "over": "world"}),)}, "with numbers as levels"),
        ({"claims": (Claim(**{**CLAIM, "rule": "equivalence", "over": "world"}),)}, "numbers"),
        ({"factors": (Grid({"n_obs": (0, 20)}),), "claims": (Claim(**CLAIM),)}, "positive numbers"),
        ({"claims": (Claim(**CLAIM), Claim(**CLAIM, method="m"))}, "'C' judges 'mse' twice for m"),
        ({"curves": (Curve("c", "mse", "local_slope", "world"),)}, "over of curve 'c'"),
        ({"claims": (Claim(**CLAIM),), "shared_streams": ("n_obs",)}, "must not hold 'n_obs'"),
        ({"claims": (Claim(**CLAIM), Claim(**CLAIM))}, "'C' judges 'mse' twice for every"),
        ({"curves": (Curve("c", "x", "local_slope"),)}, "measure of curve 'c'"),
        ({"contrasts": (Contrast("k", "mse", "size", 1, 2),)}, "factor of contrast 'k'"),
        # Without shared random numbers two levels are no pairs.
        ({"contrasts": (Contrast("k", "mse", "n_obs", 10, 20),)}, "must be one of 'method'; got"),
        (
            {
                "contrasts": (Contrast("k", "mse", "n_obs", 10, 20),),
                "shared_streams": ("world",),
            },
            "must be one of 'method', 'world'; got 'n_obs'",
        ),
        (
            {"contrasts": (Contrast("k", "mse", "n_obs", 10, 30),), "shared_streams": ("n_obs",)},
            "baseline of contrast 'k'",
        ),
        ({"contrasts": (Contrast("k", "mse", "method", "m", "x"),)}, "baseline of contrast 'k'"),
        ({"figures": (Figure("f", "a:b"), Figure("f", "a:b"))}, "'f' occurs twice"),
    ],
)
def test_wrong_specifications_name_the_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Study(**{**FIELDS, **change})
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Grid({}), "levels"),
        (lambda: Grid({"a": ()}), "at least one level"),
        (lambda: Grid({"a": "xyz"}), "tuple of levels"),
        (lambda: Grid({"a": (1, 1)}), "distinct"),
        (lambda: Grid({"a": (1, 0.5)}), "float and int"),
        (lambda: Grid({"a": (math.nan,)}), "finite"),
        (lambda: Grid({"a": (None,)}), "factor 'a'"),
        (lambda: Grid({"a": ("x;y",)}), "';' or '='"),
        (lambda: Grid({"a": ("x\ry",)}), "printable"),
        (lambda: Grid({"a": ("",)}), "printable"),
        (lambda: Grid({"estimate": (1,)}), "rename"),
        (lambda: Method("m", 3), "function of method 'm'"),  # type: ignore[arg-type]
        (lambda: Measure("m", "M", kind="sum"), "'mean', 'count'; got 'sum'"),
        (lambda: Measure("n_empty", "M"), "count"),
        (lambda: Profile(0, rule="r"), "n_sim"),
        (lambda: Profile(5), "rule"),
        (
            lambda: Claim(**{**CLAIM, "rule": "guess"}),
            "must be one of 'rate', 'rate_of_log', 'falls_as', 'equivalence'",
        ),
        (lambda: Claim(**{**CLAIM, "margin": 0.0}), "margin of claim 'C'"),
        (lambda: Claim(**{**CLAIM, "theory": math.nan}), "theory of claim 'C'"),
        (lambda: Claim(**CLAIM, tail=1), "2 levels"),
        (lambda: Claim(**{**CLAIM, "rule": "equivalence"}, tail=2), "judges one condition"),
        (lambda: Curve("c", "mse", "spline"), "must be one of 'local_slope', 'tail_slope'"),
        (lambda: Contrast("k", "mse", "a", 1, 1), "differ"),
        (lambda: Contrast("k", "mse", "a", 1, 2, kind="log"), "kind"),
        (lambda: Figure("f", "nowhere"), "module:function"),
        (lambda: Figure("../f", "a:b"), "figure name"),
    ],
)
def test_wrong_parts_name_the_field(make: Any, named: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert named in str(caught.value)


junk = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=2), st.integers()),
)  # fmt: skip


@given(field=st.sampled_from(sorted(FIELDS)), value=junk)
def test_no_value_of_a_field_breaks_construction(field: str, value: Any) -> None:
    # Accepted or refused by name; any other exception fails the test.
    with contextlib.suppress(ParameterError):
        assert Study(**{**FIELDS, field: value}).conditions()


@given(
    value=junk,
    part=st.sampled_from(
        [
            (Grid, {"levels": {"a": (1, 2)}}),
            (Method, {"name": "m", "function": method, "where": None}),
            (Measure, {"name": "m", "label": "M", "unit": "", "kind": "mean", "methods": None}),
            (Profile, {"n_sim": 1, "keep": None, "rule": "r"}),
            (Claim, {**CLAIM, "tail": None, "where": None}),
            (Curve, {"name": "c", "measure": "m", "rule": "local_slope", "tail": None}),
            (Contrast, {"name": "c", "measure": "m", "factor": "a", "level": 1, "baseline": 2}),
            (Figure, {"name": "f", "builder": "a:b", "options": {}}),
        ]
    ),
    data=st.data(),
)
def test_no_value_of_a_part_breaks_construction(value: Any, part: Any, data: Any) -> None:
    kind, fields = part
    field = data.draw(st.sampled_from(sorted(fields)))
    with contextlib.suppress(ParameterError):
        kind(**{**fields, field: value})


def test_union_of_grids_has_each_condition_once() -> None:
    grids = (Grid({"n": (1, 2), "w": ("a",)}), Grid({"w": ("a", "b"), "n": (2, 3)}))
    study = Study(**{**FIELDS, "factors": grids})
    assert [tuple(c.values()) for c in study.conditions()] == [
        (1, "a"), (2, "a"), (3, "a"), (2, "b"), (3, "b"),
    ]  # fmt: skip


def test_replicates_may_depend_on_the_condition() -> None:
    profiles = {
        "quick": Profile(lambda c: 100 // c["n_obs"], rule="work is constant"),
        "bad": Profile(lambda c: 0.5, rule="x"),  # type: ignore[arg-type,return-value]
        "none": Profile(1, keep=lambda c: False, rule="x"),
        "broken": Profile(1, keep=lambda c: c["nope"], rule="x"),
    }
    study = Study(**{**FIELDS, "profiles": profiles})
    assert [cell.n_sim for cell in plan_cells(study, "quick")] == [10, 10, 5, 5]
    assert {cell.n_sim for cell in plan_cells(study, "quick", 3)} == {3}
    with pytest.raises(ParameterError, match="n_sim"):
        plan_cells(study, "bad")
    with pytest.raises(StudyError, match="leaves no condition"):
        plan_cells(study, "none")
    with pytest.raises(StudyError, match="KeyError"):
        plan_cells(study, "broken")
    with pytest.raises(ParameterError, match="'quick', 'bad', 'none', 'broken'; got 'huge'"):
        plan_cells(study, "huge")


def test_loading_by_name_path_and_value(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    (tmp_path / "_helper.py").write_text("")
    assert known_studies(tmp_path) == ("toy",)
    study = load_study("toy", tmp_path)
    assert load_study(path).name == "toy"
    assert load_study(study) is study
    assert not [name for name in sys.modules if name.startswith("nwsim_study_")]
    task = ReplicateTask.of(study).pack()
    assert b"nwsim_study_toy" in task
    path.unlink()
    # By value: the bytes open although neither file nor module exists any more.
    assert unpack(task).run({"n_obs": 5, "world": "a"}, 0).scalars


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Odd(BaseException): ...\nraise Odd('x')", "Odd: x"),
        ("STUDY = 3", "must define STUDY"),
        ("from nwsim.study import Grid\nGrid({})", "levels must map"),
    ],
)
def test_broken_study_files(tmp_path: Path, source: str, named: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    with pytest.raises(StudyError, match=named) as caught:
        load_study("bad", tmp_path)
    assert "bad.py" in str(caught.value)


def test_unknown_studies_are_listed(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    for name in ("nope", "../toy", "", "a/b"):
        with pytest.raises(StudyError, match="known studies: toy"):
            load_study(name, tmp_path)
    with pytest.raises(StudyError, match="no study file"):
        load_study(tmp_path / "none.py")
    rewrite(path, 'name="toy"', 'name="other"')
    with pytest.raises(NwsimError, match="must be 'toy'"):
        load_study("toy", tmp_path)
