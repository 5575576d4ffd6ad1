"""Executors that the runner can be given: in this process, or a pool of processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, TypeAlias

from threadpoolctl import threadpool_limits

from nwsim._validation import check_integer

ExecutorFactory: TypeAlias = Callable[[], Executor]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


class InlineExecutor(Executor):
    """Runs each call at once in this process, behind the interface of a pool."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call and return a finished future; an interrupt passes through."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class WorkerPool(ProcessPoolExecutor):
    """A pool of spawned processes that can be stopped without waiting for its work."""

    def __init__(self, workers: int) -> None:
        # Forked children could inherit a held lock of a thread pool; spawned ones
        # start clean.
        super().__init__(
            max_workers=workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
        )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; processes that this starts never see Ctrl-C.

        The parent alone reacts to it: it stops the pool and keeps the checkpoint. Blocking
        the signal here delays it for the parent and is inherited from the first
        instruction by a process that starts meanwhile.
        """
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)

    def kill(self) -> None:
        """Stop the workers now; whatever they were computing is lost."""
        processes = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        for process in processes:
            process.join(timeout=5)


def _start_worker() -> None:
    # Read by numba when it is first imported, which is later than this.
    os.environ["NUMBA_NUM_THREADS"] = "1"


def local_executor(workers: int) -> ExecutorFactory:
    """Return a factory of executors for this machine.

    Parameters
    ----------
    workers : int
        1 runs in this process; more start that many processes.
    """
    check_integer("workers", workers, minimum=1)
    return InlineExecutor if workers == 1 else lambda: WorkerPool(workers)


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Pin linear algebra to one thread here and in the processes started meanwhile."""
    previous = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
