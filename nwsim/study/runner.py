"""The loop that keeps an executor busy: one path for any number of workers."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from nwsim._validation import check_integer
from nwsim.exceptions import StudyError
from nwsim.study.cells import Cell
from nwsim.study.deadlines import Deadline
from nwsim.study.executors import (
    THREAD_VARIABLES,
    ExecutorFactory,
    lost_by_executor,
    workers_of,
)
from nwsim.study.replicate import Outcome, run_block

MAX_DEATHS = 3
_LARGEST_BLOCK = 16
_LOOK = 2.0
"""Seconds after which it is asked whether the executor is still there."""


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
        missing = [rep for rep in cell.reps if rep not in done]
        length = size or min(_LARGEST_BLOCK, max(1, -(-len(missing) // (2 * workers))))
        for start in range(0, len(missing), length):
            blocks.append(Block(cell, tuple(missing[start : start + length])))
    return blocks


def run_blocks(
    blocks: Sequence[Block],
    payload: bytes,
    executor_factory: ExecutorFactory,
    keep: Callable[[Block, list[Outcome]], None],
    timeout: float | None = None,
    lose: Callable[[Block, str], None] | None = None,
) -> dict[Block, str]:
    """Run every block and hand its outcomes to ``keep``, in order of completion.

    As many blocks are in flight as the executor can use: one if it works in place, else two
    for each of its workers, so that none idles between two. The very first block flies
    alone: what it imports is then compiled once and cached, not by every worker at a time.

    A broken executor is rebuilt. Since it does not tell which block broke it, all that
    were in flight are tried again one at a time; a block is given up at its third death, or
    as soon as a worker held it for longer than it may.

    Parameters
    ----------
    blocks : sequence of Block
    payload : bytes
        The packed :class:`~nwsim.study.replicate.ReplicateTask`.
    executor_factory : callable
        Returns a ``concurrent.futures.Executor``.
    keep : callable
        ``keep(block, outcomes)``, called in this process.
    timeout : float, optional
        Seconds for which a worker may hold a block before it is ended. Its executor must
        have processes, on this machine.
    lose : callable, optional
        ``lose(block, reason)``, called as soon as a block is given up.

    Returns
    -------
    dict of Block to str
        The blocks that were given up, and why.

    Raises
    ------
    StudyError
        If a study breaks its own declaration, or if no worker survives its start.
    """
    with contextlib.ExitStack() as stack:
        deadline = None
        if timeout is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nwsim-"))
            deadline = Deadline(timeout, Path(folder))
        loop = _Loop(deque(blocks), payload, executor_factory, keep, deadline, lose)
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
        deadline: Deadline | None,
        lose: Callable[[Block, str], None] | None,
    ) -> None:
        self.queue, self.payload, self.factory, self.keep = queue, payload, factory, keep
        self.deadline, self.lose = deadline, lose
        self.numbers = {block: number for number, block in enumerate(queue)}
        self.suspects: deque[Block] = deque()
        self.flying: dict[Future[Any], Block] = {}
        self.deaths: Counter[Block] = Counter()
        self.given_up: dict[Block, str] = {}
        self.executor: Executor | None = None
        self.idle_breaks = 0
        self.any_finished = False

    def run(self) -> None:
        while self.queue or self.suspects or self.flying:
            if self.executor is None:
                self.executor = self.factory()
            broken = not self._fill(self.executor)
            if self.flying:
                broken = not self._wait(FIRST_COMPLETED) or broken
                broken = self._collect() or broken
            if broken:
                self._rebuild()
            if self.given_up and not self.any_finished:
                self._doubt_workers()
        if self.executor is not None:
            self.executor.shutdown()

    def _fill(self, executor: Executor) -> bool:
        """Submit up to the window; False if the executor turns out to be broken."""
        # Asked for each time: a cluster grows and shrinks.
        workers = workers_of(executor)
        window = 1 if workers == 1 else 2 * workers
        while self.queue or self.suspects:
            alone = (
                not self.any_finished
                or self.suspects
                or any(self.deaths[block] for block in self.flying.values())
            )
            if len(self.flying) >= (1 if alone else window):
                break
            source = self.suspects or self.queue
            block, call = source[0], run_block
            if self.deadline is not None:
                call = self.deadline.wrap(run_block, self.numbers[block])
            try:
                future = executor.submit(call, self.payload, dict(block.cell.factors), block.reps)
            except BrokenExecutor:
                return False
            source.popleft()
            self.flying[future] = block
        return True

    def _collect(self) -> bool:
        """Keep what is finished; True if the executor broke."""
        broken, problem = False, None
        for future in [future for future in self.flying if future.done()]:
            try:
                error = future.exception()
            except CancelledError:
                # Nobody here cancels: the connection to a cluster is lost.
                broken = True
                continue
            if isinstance(error, BrokenExecutor):
                broken = True
                continue
            block = self.flying.pop(future)
            if error is None:
                self.keep(block, future.result())
                self.any_finished = True
            elif lost_by_executor(error):
                # It may only have waited on a worker that another block killed.
                self._count_death(block)
            else:
                problem = error
        if problem is not None:
            raise problem
        return broken

    def _rebuild(self) -> None:
        # Every other future of a broken executor ends too; some may hold results.
        self._wait(ALL_COMPLETED)
        self._collect()
        if not self.flying:
            self.idle_breaks += 1
            if self.idle_breaks >= MAX_DEATHS:
                raise StudyError("the worker processes end as soon as they start")
        late = [block for block in self.flying.values() if self._is_late(block)]
        for block in self.flying.values():
            if block in late:
                assert self.deadline is not None
                self._give_up(
                    block, f"they took longer than block_timeout = {self.deadline.seconds:g} s"
                )
            elif late:
                # It is known what broke the executor.
                self.queue.appendleft(block)
            else:
                self._count_death(block)
        self.flying.clear()
        self.abandon()

    def _wait(self, until: str) -> bool:
        """Wait for what is in flight; False if the executor is gone and will not answer.

        A cluster whose scheduler dies may leave futures that nobody ever finishes.
        """
        while True:
            found = wait(self.flying, timeout=_LOOK, return_when=until)
            if not found.not_done or (found.done and until == FIRST_COMPLETED):
                return True
            if not getattr(self.executor, "is_alive", True):
                return False

    def _count_death(self, block: Block) -> None:
        self.deaths[block] += 1
        if self.deaths[block] >= MAX_DEATHS:
            self._give_up(block, "their worker died three times")
        else:
            self.suspects.append(block)

    def _give_up(self, block: Block, reason: str) -> None:
        self.given_up[block] = reason
        if self.lose is not None:
            self.lose(block, reason)

    def _is_late(self, block: Block) -> bool:
        return self.deadline is not None and self.deadline.passed(self.numbers[block])

    def _doubt_workers(self) -> None:
        """Go on with other cells; nothing survives if several of them died, or all there are."""
        dead = {block.cell.condition_id for block in self.given_up}
        rest = [block for block in self.queue if block.cell.condition_id in dead]
        others = [block for block in self.queue if block.cell.condition_id not in dead]
        if len(self.given_up) >= MAX_DEATHS and (len(dead) >= MAX_DEATHS or not others):
            reason = next(iter(self.given_up.values()))
            raise StudyError(
                f"no worker process survives: the first {len(self.given_up)} blocks are lost, "
                f"{reason}"
            )
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


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Pin linear algebra to one thread here and in the processes started meanwhile."""
    previous = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
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
