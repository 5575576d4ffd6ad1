"""Signals that ask a run to end, heard even where a method swallows the exception."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def heard() -> Iterator[Callable[[], None]]:
    """Note signals while the context lasts; their own handlers still get them.

    A handler raises KeyboardInterrupt wherever the process is. That may be within a method
    that catches every exception and returns something else instead: what was computed then is
    not to be kept.

    Yields
    ------
    callable
        Raises KeyboardInterrupt if a signal came.
    """
    came: list[int] = []
    previous: dict[int, Callable[[int, Any], Any]] = {}

    def note(number: int, frame: Any) -> None:
        came.append(number)
        previous[number](number, frame)

    # Only the main thread may set handlers; one that is no function ends the process at once.
    if threading.current_thread() is threading.main_thread():
        for ending in _ENDING:
            own = signal.getsignal(ending)
            if callable(own):
                previous[int(ending)] = own
                signal.signal(ending, note)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    try:
        yield check
    finally:
        for number, own in previous.items():
            signal.signal(number, own)
