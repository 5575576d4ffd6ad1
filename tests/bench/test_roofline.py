"""Probes of the machine: their answers, what they count, and shares of a limit."""

from __future__ import annotations

import numpy as np
import pytest

from nwsim.bench import roofline, timing
from nwsim.bench.native import NoCompilerError
from nwsim.bench.roofline import CASES, WORKLOADS, pairs_of
from nwsim.bench.workloads import WORKLOADS as TASKS
from nwsim.numerics import probes


@pytest.mark.parametrize("name", ["exponentials", "multiply_adds"])
def test_probes_and_their_interpreted_twins_agree(name):
    loop = getattr(probes, name)
    x = np.linspace(-3.0, 0.0, 7)
    compiled, interpreted = np.empty(7), np.empty(7)
    loop(x, 2, compiled)
    loop.py_func(x, 2, interpreted)
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-14)


def test_the_probe_of_multiply_adds_counts_them():
    # Every four of them are one polynomial p -> (((p x + 1/2) x + 1/4) x + 1/8) x + 1.
    x, out = np.array([0.3, -0.8]), np.empty(2)
    probes.multiply_adds(x, 1, out)
    p = np.ones(2)
    for k in range(probes.MULTIPLY_ADDS):
        p = p * x + (0.5, 0.25, 0.125, 1.0)[k % 4]
    np.testing.assert_allclose(out, p, rtol=1e-14)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.workload}-{case.competitor}")
def test_probes_run_and_answer_as_their_reference(case, monkeypatch, tmp_path):
    monkeypatch.setattr(roofline, "_REPEATS", 20)
    workload = next(entry for entry in WORKLOADS if entry.name == case.workload)
    data = workload.draw()
    assert data.operations > 0
    try:
        answer = case.prepare(data)()
    except NoCompilerError as error:
        pytest.skip(str(error))
    if case.accuracy != "none":
        bound = {"1e-12": 1e-14, "float32": 1e-6}[case.accuracy]
        assert workload.error(data, answer, workload.reference(data)) < bound


def test_pairs_are_kernel_evaluations():
    pairs = {task.name: pairs_of(task) for task in TASKS if task.name in ("W1", "W3", "W6", "W7")}
    assert pairs == {"W1": 10**7, "W3": 2 * 10**7, "W6": 8 * 4096**2, "W7": 8 * 4096 * 512}


def test_the_share_of_the_limit_is_the_ratio_of_its_row():
    base = dict.fromkeys(timing.COLUMNS, "") | {"workload": "W1", "n_rounds": 3, "status": "ok"}
    own = base | {"competitor": "nwsim direct", "kind": "direct", "relative_to": "nwsim direct"}
    own |= {"median_s": 0.02, "q25_s": 0.01, "q75_s": 0.04, "ratio": 1.0}
    limit = own | {"competitor": "C", "kind": "limit", "median_s": 0.01, "ratio": 0.55}
    found = roofline.reached([own, limit])
    assert [(row["implementation"], row["fraction_of_limit"]) for row in found] == [
        ("C", 1.0),
        ("nwsim direct", 0.55),
    ]
    assert found[1]["median_per_s"] == 1e7 / 0.02
    assert found[1]["q25_per_s"] == 1e7 / 0.04
    assert roofline.reached([own]) == []
