"""Where blocks are computed: in place, in processes of this machine, on a Dask cluster.

All are executors of ``concurrent.futures``, so that the runner is the same for each.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import nwsim
from nwsim._validation import check_choice, check_integer
from nwsim.exceptions import ParameterError, StudyError
from nwsim.study.faults import error_text
from nwsim.study.versions import versions

ExecutorFactory: TypeAlias = Callable[[], Executor]

EXECUTORS = ("local", "dask")
MAX_WORKERS = 1024
"""More is a slip: each is a process with all packages loaded."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_PATIENCE = 10.0
"""Seconds that a scheduler may take to answer."""


def check_worker_count(workers: int) -> int:
    """Return a number of workers if it is one."""
    return check_integer("workers", workers, minimum=1, maximum=MAX_WORKERS)


class InlineExecutor(Executor):
    """Runs each call at once in this process, behind the interface of a pool."""

    workers = 1

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
        self.workers = workers
        # Forked children could inherit a held lock of a thread pool; spawned ones
        # start clean.
        super().__init__(
            max_workers=workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
        )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; processes that this starts never see Ctrl-C.

        The parent alone reacts to it: it stops the pool and keeps the checkpoint.
        """
        with _without_interrupts():
            return super().submit(fn, *args, **kwargs)

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
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, however it ended.

    A worker waits for work on a queue whose both ends it holds itself: it would wait
    for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def workers_of(executor: Executor) -> int:
    """Return how many calls an executor runs at a time.

    Executors of this module say it themselves, those of ``concurrent.futures`` by their
    bound, and that of a Dask client by its cores; any other counts as this machine's cores.
    """
    for name in ("workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int):
            return max(1, count)
    cores = getattr(getattr(executor, "_client", None), "ncores", None)
    if callable(cores):
        return max(1, sum(cores().values()))
    return os.cpu_count() or 1


def local_executor(workers: int, in_place: bool = True) -> ExecutorFactory:
    """Return a factory of executors for this machine.

    Parameters
    ----------
    workers : int
        1 runs in this process; more start that many processes.
    in_place : bool
        False starts a process for one worker, too.
    """
    check_worker_count(workers)
    if workers == 1 and in_place:
        return InlineExecutor
    return lambda: WorkerPool(workers)


def dask_executor(workers: int = 1, scheduler: str | None = None) -> ExecutorFactory:
    """Return a factory of executors on a Dask cluster.

    Parameters
    ----------
    workers : int
        Processes of one thread each that are started here if no scheduler is given.
    scheduler : str, optional
        Address of a running one, such as ``"tcp://node7:8786"``. Its workers must have one
        thread each and the versions and sources of this process; any other refuses to work.

    Raises
    ------
    ParameterError
        If the package ``distributed`` is not installed.
    """
    check_worker_count(workers)
    if importlib.util.find_spec("distributed") is None:
        raise ParameterError(
            "executor 'dask' needs the package distributed: pip install -e '.[cluster]'"
        )
    here = None if scheduler is None else installed()
    return lambda: DaskExecutor(workers, scheduler, here)


def make_executor(name: str, workers: int, scheduler: str | None = None) -> ExecutorFactory:
    """Return a factory of executors by name, "local" or "dask".

    Raises
    ------
    ParameterError
        On another name, or if a scheduler is given that the executor has no use for.
    """
    if scheduler == "":
        raise ParameterError("scheduler must be an address such as tcp://node7:8786; it is empty")
    if check_choice("executor", name, EXECUTORS) == "dask":
        return dask_executor(workers, scheduler)
    if scheduler is not None:
        raise ParameterError(f"scheduler needs executor 'dask'; got executor {name!r}")
    return local_executor(workers)


class DaskExecutor(Executor):
    """The ``concurrent.futures`` interface of a Dask client, and what belongs to it.

    Parameters
    ----------
    workers : int
    scheduler : str or None
    here : mapping of str to str or None
        What workers must agree in, by field; those started here are not asked.

    Raises
    ------
    StudyError
        If the scheduler cannot be reached.
    """

    def __init__(self, workers: int, scheduler: str | None, here: Mapping[str, str] | None) -> None:
        import dask
        from distributed import Client, LocalCluster

        # Deaths are counted by the runner, which tries what was hit again one at a time.
        reported = {"distributed.scheduler.allowed-failures": 0}
        self._here = here
        self._cluster = None
        # Started later, it would lift the block of Ctrl-C below.
        multiprocessing.resource_tracker.ensure_running()
        # Threads and processes inherit that they never see Ctrl-C; see WorkerPool. A slow
        # disk or a busy port is no news, and as an error it would break the start.
        with _without_interrupts(), warnings.catch_warnings(), dask.config.set(reported):
            warnings.simplefilter("ignore")
            # It reports a lost connection by pages of its own; the runner has a line for it.
            self._logger = logging.getLogger("distributed")
            self._level = self._logger.level
            self._logger.setLevel(logging.CRITICAL)
            try:
                if scheduler is None:
                    self._cluster = LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                self._client = Client(self._cluster or scheduler, timeout=_PATIENCE)
            # A process that dies while it starts is a RuntimeError there.
            except (OSError, ValueError, RuntimeError) as error:
                if self._cluster is not None:
                    self._cluster.close()
                raise StudyError(
                    f"cannot reach a Dask scheduler at {scheduler or 'this machine'!r}: "
                    f"{error_text(error)}"
                ) from None
        self._calls = self._client.get_executor(pure=False)

    @property
    def workers(self) -> int:
        """How many calls run at a time now: a cluster may grow and shrink."""
        return sum(self._client.ncores().values())

    @property
    def is_alive(self) -> bool:
        """Whether the scheduler is there; when it goes, some futures never end."""
        return bool(self._client.status == "running")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; BrokenExecutor if the scheduler is gone."""
        if not self.is_alive:
            raise BrokenExecutor("the scheduler is gone")
        future: Future[Any] = self._calls.submit(run_remotely, self._here, fn, *args, **kwargs)
        return future

    def kill(self) -> None:
        """Stop now: what is computed on a cluster of others runs to its end and is dropped."""
        # A client that is closed cannot cancel; nothing may wait for ever on what is gone.
        with contextlib.suppress(Exception):
            self._calls.shutdown(wait=False)
        with contextlib.suppress(TimeoutError, OSError):
            self._client.close(timeout=_PATIENCE)
        if self._cluster is not None:
            with contextlib.suppress(TimeoutError, OSError):
                self._cluster.close(timeout=_PATIENCE)
        self._logger.setLevel(self._level)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish what was submitted, unless told otherwise, and close the connection."""
        if wait and not cancel_futures:
            self._calls.shutdown(wait=True)
        self.kill()


def run_remotely(
    here: Mapping[str, str] | None, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a function on a worker of Dask, if the worker is fit for it.

    Raises
    ------
    StudyError
        If the worker has several threads, or differs from the process that sent the call.
    """
    from distributed import get_worker

    worker = get_worker()
    if worker.state.nthreads != 1:
        # Records of warnings and numpy's error state are those of a process.
        raise StudyError(
            f"the Dask worker {worker.address} has {worker.state.nthreads} threads; "
            "start workers with one thread each"
        )
    for field, value in (here or {}).items():
        there = installed()[field]
        if there != value:
            raise StudyError(
                f"the Dask worker {worker.address} has another {field}: {there} there, {value} here"
            )
    # For what is not loaded yet; run_block sees to what is.
    os.environ.update(dict.fromkeys((*THREAD_VARIABLES, "NUMBA_NUM_THREADS"), "1"))
    return fn(*args, **kwargs)


def lost_by_executor(error: BaseException | None) -> bool:
    """Return whether an executor that repeats calls itself has given one up."""
    kind = type(error)
    return kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed.")


@functools.cache
def installed() -> Mapping[str, str]:
    """Return the versions and sources of this process that can change a number, by name."""
    root = Path(nwsim.__file__).parent
    sources = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        sources.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    found = {f"version of {name}": value for name, value in versions().items()}
    return {**found, "state of nwsim's sources": sources.hexdigest()[:16]}


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C here; threads and processes that start meanwhile never see it."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
