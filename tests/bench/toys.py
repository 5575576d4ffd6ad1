"""Workloads and competitors that go wrong in every way, for the tests of the timing."""

from __future__ import annotations

import os
import time

import numpy as np

from nwsim.bench.cases import cases
from nwsim.bench.workloads import Sample, Workload, gaussian_means, relative_to_range


def draw():
    rng = np.random.default_rng(0)
    return Sample(rng.random(50), rng.standard_normal(50), np.linspace(0, 1, 8), 0.2)


WORKLOADS = (Workload("T1", "toy", "a toy", draw, gaussian_means, relative_to_range),)


def right(data):
    return lambda: gaussian_means(data)


def slower(data):
    def run():
        time.sleep(0.02)
        return gaussian_means(data)

    return run


def talkative(data):
    def run():
        print("a line that is no answer")
        return gaussian_means(data)

    return run


def wrong(data):
    return lambda: gaussian_means(data) + 1e-3


def later_undefined(data):
    answers = iter([gaussian_means(data), np.full(8, np.nan)])
    return lambda: next(answers, gaussian_means(data))


def misshapen(data):
    return lambda: gaussian_means(data)[:-1]


def raises(data):
    raise ValueError("this package wants\nsomething else")


def dies(data):
    return lambda: os.abort()


def dies_later(data):
    answers = iter([gaussian_means(data)])

    def run():
        answer = next(answers, None)
        if answer is None:
            print("the last words")
            os._exit(3)
        return answer

    return run


def hangs(data):
    calls = iter(range(1))

    def run():
        if next(calls, None) is None:
            time.sleep(60)
        return gaussian_means(data)

    return run


def needs_a_compiler(data):
    raise ImportError("no C compiler")


CASES = (
    *cases("T1", "right", right, needs="numpy"),
    *cases("T1", "slower", slower, needs="numpy"),
    *cases("T1", "talkative", talkative, needs=""),
    *cases("T1", "half", right, needs="", part={"T1": 4}),
    *cases("T1", "wrong", wrong, needs=""),
    *cases("T1", "rough", wrong, needs="", accuracy="rough"),
    *cases("T1", "later undefined", later_undefined, needs=""),
    *cases("T1", "misshapen", misshapen, needs=""),
    *cases("T1", "raises", raises, needs=""),
    *cases("T1", "dies", dies, needs=""),
    *cases("T1", "dies later", dies_later, needs=""),
    *cases("T1", "hangs", hangs, needs=""),
    *cases("T1", "absent", right, needs="numpy a_package_that_nobody_has"),
    *cases("T1", "no compiler", needs_a_compiler, needs=""),
    *cases("T1", "not in a quick run", right, needs="", slow="T1"),
)
