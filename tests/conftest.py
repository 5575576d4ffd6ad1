"""Settings shared by all tests."""

from __future__ import annotations

import os

# One thread each: results do not depend on them, and several test processes share the cores.
for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
):
    os.environ.setdefault(_variable, "1")

import pytest  # noqa: E402  (the variables above must be set before numpy loads)
from hypothesis import settings  # noqa: E402

# The same examples on every run: a failure here is a fault of the code, not of the day.
settings.register_profile("nwsim", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("nwsim")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--run-slow", action="store_true", default=False, help="also run tests marked slow"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-slow"):
        return
    skip = pytest.mark.skip(reason="slow: give --run-slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def pytest_configure() -> None:
    """Hear Ctrl-C also where a shell started the tests in the background, which ignores it."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
