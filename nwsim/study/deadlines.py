"""A limit on the time for which a worker process may hold a block."""

from __future__ import annotations

import faulthandler
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nwsim._validation import check_real


@dataclass(frozen=True)
class Deadline:
    """Ends a worker that holds a block for too long, and tells which block it was.

    Each call gets a file in ``folder``; the one of a call that was cut off is not empty.

    Parameters
    ----------
    seconds : float
        At least a millisecond. They are counted from when the worker has the block, so
        neither waiting nor the start of a process counts; imports and compilation do.
    folder : Path
    """

    seconds: float
    folder: Path

    def wrap(self, function: Callable[..., Any], number: int) -> Callable[..., Any]:
        """Return the function with the limit on it, under a number of its own."""
        return functools.partial(
            call_within, self.seconds, str(self.folder / str(number)), function
        )

    def passed(self, number: int) -> bool:
        """Return whether the call of that number was cut off."""
        path = self.folder / str(number)
        return path.is_file() and path.stat().st_size > 0


def check_block_timeout(seconds: float) -> float:
    """Return a limit in seconds if it is one."""
    return check_real("block_timeout", seconds, minimum=1e-3, maximum=1e9)


def call_within(seconds: float, report: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; end this process if that takes longer, and say so in a file.

    A signal would wait for compiled code to return. The watchdog here is a thread that
    needs no interpreter, so it also ends a loop that never comes back.
    """
    with open(report, "w") as file:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
        try:
            return function(*args)
        finally:
            faulthandler.cancel_dump_traceback_later()
