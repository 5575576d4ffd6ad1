"""Rules along paired levels and along two factors, and claims about contrasts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from nwsim.exceptions import ParameterError, StudyError
from nwsim.inference import Estimate, mean
from nwsim.seeding import digest
from nwsim.study import (
    Claim,
    ClaimRule,
    Contrast,
    Curve,
    CurvePoint,
    Grid,
    Measure,
    Method,
    Points,
    Profile,
    Study,
    register_rule,
)
from nwsim.study.cells import Cell
from nwsim.study.derived import derive, judge
from nwsim.study.rules import CLAIM_RULES

N_SIM = 40


@dataclasses.dataclass
class Planted:
    """Replicates with a planted mean; levels of one n share their noise."""

    mean: Any
    spread: float = 0.05

    def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(int(cell.factors["n_obs"]))
        noise = self.spread * rng.standard_normal(N_SIM)
        own = 0.1 * np.random.default_rng(int(digest(cell.factors)[:8], 16)).standard_normal(N_SIM)
        value = self.mean(cell.factors) + (1.0 if method == "more" else 0.0)
        return np.arange(N_SIM), value * (1.0 + noise + self.spread * own)

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        return mean(self.column(cell, method, measure)[1])


def cells_of(levels: dict[str, tuple[Any, ...]], methods: tuple[str, ...] = ("m",)) -> list[Cell]:
    return [
        Cell(digest(factors), factors, N_SIM, dict.fromkeys(methods, ("mse",)))
        for factors in Grid(levels).conditions()
    ]


PATH = {"n_obs": (100, 200), "t": tuple(k / 5 for k in range(6))}


def along(rule: str, **changes: Any) -> Claim:
    options = {"theory": 0.0, "margin": 0.01, "rule": rule, "over": "t", **changes}
    return Claim("C", "a statement", "mse", **options)


@pytest.mark.parametrize(
    ("mean", "never_rises", "straight_line"),
    [
        (lambda f: 2.0 - f["t"], "supported", "supported"),
        (lambda f: 2.0 - (1.0 - (1.0 - f["t"]) ** 3), "supported", "refuted"),
        (lambda f: 1.0 + f["t"], "refuted", "refuted"),
        (lambda f: 2.0 - f["t"] + 2.0 * (f["t"] > 0.9), "refuted", "refuted"),
    ],
)
def test_rules_along_a_path_say_what_was_planted(mean, never_rises, straight_line):
    cells, sample = cells_of(PATH), Planted(mean)
    for rule, expected in (("never_rises", never_rises), ("straight_line", straight_line)):
        rows = judge(along(rule), cells, sample, shared=("t",))
        assert [row["verdict"] for row in rows] == [expected, expected]
        assert [row["setting"] for row in rows] == ["method=m;n_obs=100", "method=m;n_obs=200"]


def test_ends_and_the_optimum_between_them():
    cells = cells_of(PATH)
    bowl = Planted(lambda f: 1.0 + 4.0 * (f["t"] - 0.4) ** 2)
    slope = Planted(lambda f: 1.0 + f["t"])
    assert {r["verdict"] for r in judge(along("interior_optimum"), cells, bowl)} == {"supported"}
    assert {r["verdict"] for r in judge(along("interior_optimum"), cells, slope)} == {"refuted"}
    assert {r["verdict"] for r in judge(along("ends"), cells, slope)} == {"supported"}
    falling = Planted(lambda f: 2.0 - f["t"])
    (row, _) = judge(along("ends"), cells, falling)
    assert row["verdict"] == "refuted"
    assert row["estimate"] == pytest.approx(math.log(2.0), abs=0.05)


def test_curves_of_the_best_level_have_an_interval():
    cells, sample = cells_of(PATH), Planted(lambda f: 1.0 + 4.0 * (f["t"] - 0.4) ** 2)
    (row, _) = derive(Curve("best", "mse", "best_level", over="t"), cells, sample, ("t",))
    assert (row["estimate"], row["ci_low"], row["ci_high"]) == (0.4, 0.4, 0.4)
    assert math.isnan(row["x"])
    shares = derive(Curve("share", "mse", "best_share", over="t"), cells, sample, ("t",))
    assert [row["estimate"] for row in shares[:6]] == [0, 0, 1, 0, 0, 0]
    steps = derive(Curve("step", "mse", "steps", over="t"), cells, sample, ("t",))
    assert [row["x"] for row in steps[:5]] == [0.2, 0.4, 0.6, 0.8, 1.0]
    half = 1.959963984540054 * steps[0]["mcse"]
    assert steps[0]["ci_high"] == pytest.approx(steps[0]["estimate"] + half)


def test_bootstraps_are_the_same_every_time_and_differ_between_settings():
    cells = cells_of(PATH)
    seen: list[Points] = []

    def look(points: Points) -> list[CurvePoint]:
        seen.append(points)
        return []

    from nwsim.study import CurveRule
    from nwsim.study.rules import CURVE_RULES

    register_rule(CurveRule("look", look))
    try:
        curve = Curve("c", "mse", "look", over="t")
        derive(curve, cells, Planted(lambda f: 1.0))
        derive(curve, cells, Planted(lambda f: 1.0))
    finally:
        CURVE_RULES.pop("look")
    first, second, again, _ = [points.rng().random(3).tolist() for points in seen]
    assert first == again
    assert first != second
    assert dict(seen[0].setting) == {"n_obs": 100, "method": "m"}


@pytest.fixture
def two_factors():
    groups: list[Any] = []

    def judge_both(points: Points, theory: float, margin: float) -> Any:
        from nwsim.inference import equivalence

        groups.append(list(points.groups()))
        return equivalence(1.0, 0.0, theory, margin)

    register_rule(ClaimRule("both", judge_both, n_factors=2))
    yield groups
    CLAIM_RULES.pop("both")


def test_two_factors_come_in_groups_of_pairs(two_factors):
    cells, sample = cells_of({**PATH, "alpha": (1.0, 2.0)}), Planted(lambda f: 1.0 + f["t"])
    rows = judge(along("both", theory=1.0, over=("n_obs", "t")), cells, sample, shared=("t",))
    assert [row["setting"] for row in rows] == ["alpha=1.0;method=m", "alpha=2.0;method=m"]
    assert [group.level for group in two_factors[0]] == [100.0, 200.0]
    assert two_factors[0][0].levels.tolist() == list(PATH["t"])
    assert two_factors[0][0].values.shape == (N_SIM, 6)
    np.testing.assert_allclose(
        two_factors[0][0].values.mean(axis=0), 1.0 + np.arange(6) / 5, atol=0.1
    )


def test_one_factor_has_no_groups():
    points = Points(*[np.ones(2)] * 3, *[np.ones(2, dtype=int)] * 2)
    with pytest.raises(ParameterError, match="two factors"):
        next(points.groups())


@pytest.mark.parametrize(
    ("kind", "rule", "theory", "verdict"),
    [
        ("ratio", "equivalence", 2.0, "supported"),
        ("ratio", "equivalence", 1.0, "refuted"),
        ("difference", "not_above", 1.1, "supported"),
        ("difference", "not_above", 0.9, "refuted"),
        ("difference", "refutes_above", 1.1, "inconclusive"),
        ("difference", "refutes_above", 0.9, "refuted"),
    ],
)
def test_a_claim_may_judge_a_contrast(kind, rule, theory, verdict):
    cells = cells_of({"n_obs": (100, 200)}, methods=("m", "more"))
    contrast = Contrast("gap", "mse", "method", "more", "m", kind=kind)
    claim = Claim("C", "a statement", "gap", theory, 0.05, rule, where=lambda c: c["n_obs"] > 100)
    (row,) = judge(claim, cells, Planted(lambda f: 1.0), contrasts=(contrast,))
    assert (row["verdict"], row["quantity"]) == (verdict, "gap")
    assert row["setting"] == "method=more;n_obs=200"


def study(**changes: Any) -> Study:
    options: dict[str, Any] = {
        "name": "s",
        "label": "S",
        "seed": 1,
        "factors": (Grid({**PATH, "world": ("a", "b")}),),
        "draw": lambda condition, rng: None,
        "methods": (Method("m", lambda condition, data, rng: {"mse": 1.0}),),
        "measures": (Measure("mse", "error"),),
        "contrasts": (Contrast("gap", "mse", "t", 1.0, 0.0),),
        "profiles": {"quick": Profile(1, rule="r")},
        "shared_streams": ("t",),
    }
    return Study(**{**options, **changes})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"claims": (along("never_rises", over="n_obs"),)}, "shared_streams must hold 'n_obs'"),
        ({"claims": (along("never_rises", over="world"),)}, "numbers as levels"),
        ({"curves": (Curve("c", "mse", "steps"),)}, "shared_streams must hold 'n_obs'"),
        (
            {"claims": (Claim("C", "s", "gap", 0.0, 0.1, "never_rises", over="t"),)},
            "cannot judge the contrast 'gap'",
        ),
        (
            {"claims": (Claim("C", "s", "gap", 0.0, 0.1, "never_above"),)},
            "rule 'never_above' cannot judge the contrast 'gap'",
        ),
        ({"claims": (along("never_above", over="world"),)}, "numbers as levels"),
        ({"claims": (Claim("C", "s", "nothing", 0.0, 0.1, "equivalence"),)}, "'mse', 'gap'"),
        ({"contrasts": (Contrast("mse", "mse", "t", 1.0, 0.0),)}, "named like a measure"),
    ],
)
def test_rules_refuse_what_they_cannot_run_along(changes, named):
    with pytest.raises(ParameterError) as caught:
        study(**changes)
    assert named in str(caught.value)


def test_two_factor_rules_need_an_independent_and_a_shared_one(two_factors):
    study(claims=(along("both", over=("n_obs", "t")),))
    with pytest.raises(ParameterError, match="must not hold 't'"):
        study(claims=(along("both", over=("t", "n_obs")),))
    for over in ("t", ("t", "t"), ("a", "b", "c")):
        with pytest.raises(ParameterError, match="two different factors"):
            along("both", over=over)
    with pytest.raises(ParameterError, match="must be a factor"):
        along("never_rises", over=("n_obs", "t"))


def test_only_one_sided_rules_take_a_margin_of_zero():
    for rule in ("not_above", "refutes_above", "never_above", "share_at_most", "share_at_least"):
        assert Claim("C", "s", "mse", 0.0, 0.0, rule).margin == 0.0
    with pytest.raises(ParameterError, match="margin"):
        Claim("C", "s", "mse", 0.0, 0.0, "equivalence")
    with pytest.raises(ParameterError, match="margin"):
        along("ends", margin=-0.1)


@pytest.mark.parametrize(("rule", "often"), [("not_above", True), ("refutes_above", False)])
def test_a_rare_event_of_great_cost_is_no_support(rule, often):
    # One in fifty costs sixty times as much: the mean is 2.18 times what most replicates have.
    rng = np.random.default_rng(20261130)
    verdicts = []
    for _ in range(400):
        values = np.where(rng.random(60) < 0.02, 60.0, rng.normal(1.0, 0.01, 60))
        points = Points(
            levels=np.ones(1),
            estimates=np.array([values.mean()]),
            mcse=np.array([values.std(ddof=1) / 60**0.5]),
            n_sim=np.array([60]),
            n_planned=np.array([60]),
        )
        verdicts.append(CLAIM_RULES[rule].judge(points, 1.0, 0.05).verdict)
    # The chance of none in 60 is .298; a share of 400 below .2 has one of 1e-5.
    assert (verdicts.count("supported") > 80) == often
    assert verdicts.count("refuted") > 0
    if not often:
        assert "supported" not in verdicts


class OneOdd(Planted):
    """Replicates of which one, at one level, is above all others; and some may be lost."""

    odd = 5.0
    lost: tuple[int, ...] = ()

    def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
        reps, values = np.arange(cell.n_sim), np.linspace(-1.0, 0.0, cell.n_sim)
        if (cell.factors["n_obs"], cell.factors["t"]) == (200, 0.4):
            values[0] = self.odd
        kept = ~np.isin(reps, self.lost)
        return reps[kept], values[kept]

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        values = self.column(cell, method, measure)[1]
        if values.size < 2:
            return Estimate(math.nan, math.nan, values.size)
        return mean(values)


def every(rule: str = "never_above", over: str | None = None) -> Claim:
    return along(rule, margin=0.5, over=over)


def test_a_claim_about_every_replicate_is_refuted_by_one():
    sample = OneOdd(lambda f: 0.0)
    rows = judge(every(), cells_of(PATH), sample)
    assert {row["setting"]: row["verdict"] for row in rows if row["verdict"] != "supported"} == {
        "method=m;n_obs=200;t=0.4": "refuted"
    }
    assert {row["estimate"] for row in rows} == {0.0, 5.0}
    for row in rows:
        assert all(math.isnan(row[name]) for name in ("mcse", "ci_low", "ci_high"))
    # Along a factor all levels are judged, not the largest alone.
    found = {row["setting"]: row for row in judge(every(over="t"), cells_of(PATH), sample)}
    assert {name: row["verdict"] for name, row in found.items()} == {
        "method=m;n_obs=100": "supported",
        "method=m;n_obs=200": "refuted",
    }
    assert found["method=m;n_obs=200"]["estimate"] == 5.0
    # Negative control: by their mean all settings hold.
    means = judge(every(rule="not_above"), cells_of(PATH), sample)
    assert {row["verdict"] for row in means} == {"supported"}


@pytest.mark.parametrize(
    ("n_sim", "lost", "expected"),
    [
        (40, (), {"supported", "refuted"}),
        (19, (), {"inconclusive", "refuted"}),
        (1, (), {"inconclusive", "refuted"}),
        # What is lost might have been a counterexample; one that stands is one.
        (40, (7,), {"inconclusive", "refuted"}),
        (40, (0,), {"inconclusive"}),
        (40, tuple(range(40)), {"inconclusive"}),
    ],
)
def test_counterexamples_stand_however_few_replicates_do(n_sim, lost, expected):
    sample = OneOdd(lambda f: 0.0)
    sample.lost = lost
    cells = [dataclasses.replace(cell, n_sim=n_sim) for cell in cells_of(PATH)]
    for over in (None, "t"):
        assert {row["verdict"] for row in judge(every(over=over), cells, sample)} == expected


class Shares(Planted):
    """Replicates of which the first few are 1."""

    count = 0

    def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(cell.n_sim), (np.arange(cell.n_sim) < self.count).astype(float)

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        return mean(self.column(cell, method, measure)[1])


@pytest.mark.parametrize(
    ("count", "n_sim", "at_most", "at_least"),
    [
        # Of 40, none at all bounds a share by 7.2%: no standard error of 0.
        (0, 40, "inconclusive", "refuted"),
        (0, 59, "supported", "refuted"),
        (40, 40, "refuted", "inconclusive"),
        (59, 59, "refuted", "supported"),
        (20, 40, "refuted", "refuted"),
        (3, 60, "inconclusive", "refuted"),
    ],
)
def test_shares_are_judged_by_exact_bounds(count, n_sim, at_most, at_least):
    sample = Shares(lambda f: 0.0)
    sample.count = count
    cells = [
        dataclasses.replace(cell, n_sim=n_sim) for cell in cells_of({"n_obs": (100,), "t": (0.5,)})
    ]
    (low,) = judge(Claim("C", "s", "mse", 0.0, 0.05, "share_at_most"), cells, sample)
    (high,) = judge(Claim("C", "s", "mse", 1.0, 0.05, "share_at_least"), cells, sample)
    assert (low["verdict"], high["verdict"]) == (at_most, at_least)
    for row in (low, high):
        assert row["estimate"] == pytest.approx(count / n_sim, abs=1e-15)
        assert row["ci_low"] <= row["estimate"] <= row["ci_high"]
    assert (low["theory"], high["theory"]) == (0.0, 1.0)
    assert low["ci_low"] == pytest.approx(high["ci_low"], abs=1e-12)


@pytest.mark.parametrize("rule", ["share_at_most", "share_at_least"])
def test_shares_are_of_measures_that_are_0_or_1(rule):
    with pytest.raises(StudyError, match="measures that are 0 or 1; got"):
        judge(Claim("C", "s", "mse", 0.0, 0.05, rule), cells_of(PATH), Planted(lambda f: 1.0))


def test_losses_at_different_levels_add_up_for_pairs():
    # A different replicate is lost at each of six levels: one in forty there, six of them together.
    class Lossy(Planted):
        def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
            reps, values = super().column(cell, method, measure)
            kept = reps != round(5 * float(cell.factors["t"]))
            return reps[kept], values[kept]

    many = [dataclasses.replace(cell, n_sim=N_SIM - 1) for cell in cells_of(PATH)]
    # Each level alone has as many as were planned, and the pairs have not.
    rows = judge(along("never_rises"), many, Lossy(lambda f: 2.0 - f["t"]), shared=("t",))
    assert {row["verdict"] for row in rows} == {"inconclusive"}
    whole = judge(along("never_rises"), cells_of(PATH), Planted(lambda f: 2.0 - f["t"]), ("t",))
    assert {row["verdict"] for row in whole} == {"supported"}


@pytest.mark.parametrize("rule", ["steps", "departure", "crossing", "log_log_slope", "best_level"])
def test_one_level_is_nothing_to_compare(rule):
    # A small profile may leave one level; what needs two is then undefined, and no failure.
    cells, sample = cells_of({"n_obs": (100,), "t": (0.5,)}), Planted(lambda f: 1.0)
    (row,) = derive(Curve("c", "mse", rule, over="t"), cells, sample, ("t",))
    assert math.isnan(row["estimate"])
    for claimed in ("never_rises", "straight_line", "falls_in_logs", "ends"):
        (verdict,) = judge(along(claimed), cells, sample, ("t",))
        assert verdict["verdict"] == "inconclusive"


def test_groups_may_have_different_numbers_of_replicates(two_factors):
    # Half as many were planned, and stand, at the second n: nothing is lost.
    class Fewer(Planted):
        def column(self, cell: Cell, method: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
            reps, values = super().column(cell, method, measure)
            return reps[: cell.n_sim], values[: cell.n_sim]

    cells = [
        dataclasses.replace(cell, n_sim=N_SIM if cell.factors["n_obs"] == 100 else N_SIM // 2)
        for cell in cells_of(PATH)
    ]
    claim = along("both", theory=1.0, over=("n_obs", "t"))
    (row,) = judge(claim, cells, Fewer(lambda f: 1.0 + f["t"]), shared=("t",))
    assert row["verdict"] == "supported"
    assert [len(group.values) for group in two_factors[0]] == [N_SIM, N_SIM // 2]
    few = [dataclasses.replace(cell, n_sim=2 * N_SIM) for cell in cells]
    (row,) = judge(claim, few, Planted(lambda f: 1.0 + f["t"]), shared=("t",))
    assert row["verdict"] == "inconclusive"
