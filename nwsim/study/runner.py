"""The loop that keeps an executor busy: one path for any number of workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import Any, TypeAlias

from threadpoolctl import threadpool_limits

from nwsim._validation import check_integer
from nwsim.exceptions import StudyError
from nwsim.study.cells import Cell
from nwsim.study.replicate import Outcome, run_block

ExecutorFactory: TypeAlias = Callable[[], Executor]

MAX_DEATHS = 3
_LARGEST_BLOCK = 16
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


@dataclass(frozen=True, eq=False)
class Block:
    """Some replicates of one cell, computed and stored together."""

    cell: Cell
    reps: tuple[int, ...]


def make_blocks(
    cells: Sequence[Cell],
    finished: Mapping[str, Collection[int]],
    workers: int = 1,
    size: int | None = None,
) -> list[Block]:
    """Return the blocks of replicates that are still missing.

    Parameters
    ----------
    cells : sequence of Cell
    finished : mapping of str to collection of int
        Finished replicates by condition_id.
    workers : int
        Blocks are small enough that each worker gets two of a cell.
    size : int, optional
        Replicates a block. It decides how much an interruption loses and nothing else.
    """
    if size is not None:
        check_integer("block_size", size, minimum=1)
    blocks = []
    for cell in cells:
        done = finished.get(cell.condition_id, ())
        missing = [rep for rep in range(cell.n_sim) if rep not in done]
        length = size or min(_LARGEST_BLOCK, max(1, -(-len(missing) // (2 * workers))))
        for start in range(0, len(missing), length):
            blocks.append(Block(cell, tuple(missing[start : start + length])))
    return blocks


def run_blocks(
    blocks: Sequence[Block],
    payload: bytes,
    executor_factory: ExecutorFactory,
    keep: Callable[[Block, list[Outcome]], None],
) -> list[Block]:
    """Run every block and hand its outcomes to ``keep``, in order of completion.

    As many blocks are in flight as the executor can use: one if it works in place, else two
    for each of its workers, so that none idles between two. The very first block flies
    alone: what it imports is then compiled once and cached, not by every worker at a time.

    A broken executor is rebuilt. Since it does not tell which block broke it, all that
    were in flight are tried again one at a time; a block is given up at its third death.

    Parameters
    ----------
    blocks : sequence of Block
    payload : bytes
        The packed :class:`~nwsim.study.replicate.ReplicateTask`.
    executor_factory : callable
        Returns a ``concurrent.futures.Executor``.
    keep : callable
        ``keep(block, outcomes)``, called in this process.

    Returns
    -------
    list of Block
        The blocks that were given up.

    Raises
    ------
    StudyError
        If a study breaks its own declaration, or if no worker survives its start.
    """
    loop = _Loop(deque(blocks), payload, executor_factory, keep)
    try:
        loop.run()
    except BaseException:
        loop.abandon()
        raise
    return loop.given_up


class _Loop:
    def __init__(
        self,
        queue: deque[Block],
        payload: bytes,
        factory: ExecutorFactory,
        keep: Callable[[Block, list[Outcome]], None],
    ) -> None:
        self.queue, self.payload, self.factory, self.keep = queue, payload, factory, keep
        self.window = 1
        self.suspects: deque[Block] = deque()
        self.flying: dict[Future[Any], Block] = {}
        self.deaths: Counter[Block] = Counter()
        self.given_up: list[Block] = []
        self.executor: Executor | None = None
        self.idle_breaks = 0
        self.any_finished = False

    def run(self) -> None:
        while self.queue or self.suspects or self.flying:
            if self.executor is None:
                self.executor = self.factory()
                workers = workers_of(self.executor)
                self.window = 1 if workers == 1 else 2 * workers
            broken = not self._fill(self.executor)
            if self.flying:
                wait(self.flying, return_when=FIRST_COMPLETED)
                broken = self._collect() or broken
            if broken:
                self._rebuild()
        if self.executor is not None:
            self.executor.shutdown()

    def _fill(self, executor: Executor) -> bool:
        """Submit up to the window; False if the executor turns out to be broken."""
        while self.queue or self.suspects:
            alone = (
                not self.any_finished
                or self.suspects
                or any(self.deaths[block] for block in self.flying.values())
            )
            if len(self.flying) >= (1 if alone else self.window):
                break
            source = self.suspects or self.queue
            block = source[0]
            try:
                future = executor.submit(
                    run_block, self.payload, dict(block.cell.factors), block.reps
                )
            except BrokenExecutor:
                return False
            source.popleft()
            self.flying[future] = block
        return True

    def _collect(self) -> bool:
        """Keep what is finished; True if the executor broke."""
        broken, problem = False, None
        for future in [future for future in self.flying if future.done()]:
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                broken = True
                continue
            block = self.flying.pop(future)
            if error is None:
                self.keep(block, future.result())
                self.any_finished = True
            else:
                problem = error
        if problem is not None:
            raise problem
        return broken

    def _rebuild(self) -> None:
        # Every other future of a broken executor ends too; some may hold results.
        wait(self.flying)
        self._collect()
        if not self.flying:
            self.idle_breaks += 1
            if self.idle_breaks >= MAX_DEATHS:
                raise StudyError("the worker processes end as soon as they start")
        for block in self.flying.values():
            self.deaths[block] += 1
            if self.deaths[block] >= MAX_DEATHS:
                self.given_up.append(block)
            else:
                self.suspects.append(block)
        self.flying.clear()
        self.abandon()
        if self.given_up and not self.any_finished:
            self._doubt_workers()

    def _doubt_workers(self) -> None:
        """Go on with other cells; nothing survives if several of them died, or all there are."""
        dead = {block.cell.condition_id for block in self.given_up}
        rest = [block for block in self.queue if block.cell.condition_id in dead]
        others = [block for block in self.queue if block.cell.condition_id not in dead]
        if len(self.given_up) >= MAX_DEATHS and (len(dead) >= MAX_DEATHS or not others):
            raise StudyError(f"no worker process survives: the first {MAX_DEATHS} blocks died")
        self.queue = deque([*others, *rest])

    def abandon(self) -> None:
        """Let go of the executor without waiting for its work."""
        executor, self.executor = self.executor, None
        if executor is not None:
            kill = getattr(executor, "kill", None)
            if kill is not None:
                kill()
            else:
                executor.shutdown(wait=False, cancel_futures=True)


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
    bound, and that of a dask client by its cores; any other counts as this machine's cores.
    """
    for name in ("workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int):
            return max(1, count)
    cores = getattr(getattr(executor, "_client", None), "ncores", None)
    if callable(cores):
        return max(1, sum(cores().values()))
    return os.cpu_count() or 1


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
