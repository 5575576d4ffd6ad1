"""One run at a time in a results folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from nwsim.exceptions import StoreError

LOCK = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a results folder to one run while the context lasts.

    The lock is on an empty file that stays (to remove it would let two runs lock two files
    of one name); the system drops the lock when the process ends, however it ends.

    Raises
    ------
    StoreError
        If another run has the folder, or it cannot be locked.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreError(f"cannot lock {folder}: {error.strerror}") from None
    try:
        _lock(handle)
    except BlockingIOError:
        os.close(handle)
        raise StoreError(f"another run is at work in {folder}; wait for its end") from None
    except OSError as error:
        os.close(handle)
        raise StoreError(f"cannot lock {folder}: {error.strerror}") from None
    try:
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock at once, or a moment later: one who asks whether there is a lock holds it briefly."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    time.sleep(0.1)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(folder: Path) -> bool:
    """Return whether a run is at work in a results folder."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False
