"""A progress bar that counts finished replicates and is silent off a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(label: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """Show finished work with an ETA on standard error while the context lasts.

    Parameters
    ----------
    label : str
    total, done : int
        Replicates of the run, and those finished before it.

    Yields
    ------
    callable
        ``advance(count)`` after that many replicates are finished.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from tqdm import tqdm

    with tqdm(
        total=total, initial=done, desc=label, unit="rep", dynamic_ncols=True, file=sys.stderr
    ) as bar:
        yield lambda count: (bar.update(count), None)[1]
