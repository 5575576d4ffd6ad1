"""The loop that keeps an executor busy: one path for any number of workers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from nwsim._validation import check_integer
from nwsim.exceptions import StudyError
from nwsim.study.cells import Cell
from nwsim.study.executors import ExecutorFactory
from nwsim.study.replicate import Outcome, run_block

MAX_DEATHS = 3
_LARGEST_BLOCK = 16


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
    window: int = 1,
) -> list[Block]:
    """Run every block and hand its outcomes to ``keep``, in order of completion.

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
    window : int
        Blocks in flight at a time.

    Returns
    -------
    list of Block
        The blocks that were given up.

    Raises
    ------
    StudyError
        If a study breaks its own declaration, or if no worker survives its start.
    """
    loop = _Loop(deque(blocks), payload, executor_factory, keep, window)
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
        window: int,
    ) -> None:
        self.queue, self.payload, self.factory, self.keep = queue, payload, factory, keep
        self.window = window
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
            alone = self.suspects or any(self.deaths[block] for block in self.flying.values())
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
        if len(self.given_up) >= MAX_DEATHS and not self.any_finished:
            raise StudyError(f"no worker process survives: the first {MAX_DEATHS} blocks died")

    def abandon(self) -> None:
        """Let go of the executor without waiting for its work."""
        executor, self.executor = self.executor, None
        if executor is not None:
            kill = getattr(executor, "kill", None)
            if kill is not None:
                kill()
            else:
                executor.shutdown(wait=False, cancel_futures=True)
