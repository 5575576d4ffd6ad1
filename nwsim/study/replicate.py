"""One replicate: a draw, then every method, each on a stream of its own.

This is the only part of the runner that can change a number. It runs in worker
processes, so it imports neither pandas nor anything that draws.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import functools
import math
import numbers
import os
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from nwsim._typing import Factors
from nwsim.exceptions import StudyError
from nwsim.seeding import canonical, stream
from nwsim.study import registrations
from nwsim.study.faults import error_text
from nwsim.study.parts import Measure, Method
from nwsim.study.specification import Study

_ATOMS = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes),
        *(types.FunctionType, types.BuiltinFunctionType),
    )
)
# numpy's defaults.
_ERROR_STATE: dict[str, Any] = {
    "divide": "warn",
    "over": "warn",
    "under": "ignore",
    "invalid": "warn",
}


class Outcome(NamedTuple):
    """What one replicate left.

    ``scalars`` maps each method that stood to its measures; ``failures`` holds (method,
    type, message); ``cautions`` holds (method or "draw", warning category) once each.
    """

    rep: int
    scalars: dict[str, dict[str, float]]
    failures: tuple[tuple[str, str, str], ...]
    cautions: tuple[tuple[str, str], ...]


def declared_outputs(
    methods: Sequence[Method], measures: Sequence[Measure], condition: Factors
) -> dict[str, tuple[str, ...]]:
    """Return the measures that each method must return in a condition."""
    here = [m for m in measures if m.where is None or m.where(condition)]
    outputs = {}
    for method in methods:
        if method.where is None or method.where(condition):
            outputs[method.name] = tuple(
                m.name for m in here if m.methods is None or method.name in m.methods
            )
    return outputs


@dataclass(frozen=True)
class ReplicateTask:
    """The part of a study that workers need."""

    study: str
    seed: int
    shared_streams: tuple[str, ...]
    draw: Callable[..., Any]
    methods: tuple[Method, ...]
    measures: tuple[Measure, ...]

    @classmethod
    def of(cls, study: Study) -> ReplicateTask:
        """Return the task of a study."""
        return cls(
            study.name, study.seed, study.shared_streams, study.draw, study.methods, study.measures
        )

    def pack(self) -> bytes:
        """Return the task as bytes that any process with nwsim installed can open.

        The module of a study file is not importable by name, so cloudpickle writes its
        functions by value; what it registered goes with them.

        Raises
        ------
        StudyError
            If a function of the study uses something that cannot be pickled.
        """
        try:
            return cloudpickle.dumps((registrations.collect(), self))
        except Exception as error:
            raise StudyError(
                f"study {self.study!r} uses what cannot be sent to worker processes: "
                f"{error_text(error)}"
            ) from None

    def run(self, condition: Factors, rep: int) -> Outcome:
        """Return the outcome of one replicate of one condition.

        Raises
        ------
        StudyError
            If a method returns other measures than the declared ones: the study is
            wrong, and no replicate of it can be trusted.
        """
        condition = MappingProxyType(dict(condition))
        owners = {k: v for k, v in condition.items() if k not in self.shared_streams}
        outputs = declared_outputs(self.methods, self.measures, condition)
        functions = {method.name: method.function for method in self.methods}
        cautions: dict[tuple[str, str], None] = {}
        data, error = self._call(
            "draw", cautions, self.draw, condition, stream(self.seed, owners, rep, "data")
        )
        scalars: dict[str, dict[str, float]] = {}
        failures: list[tuple[str, str, str]] = []
        for name, measures in outputs.items():
            if error is not None:
                failures.append((name, type(error).__name__, f"draw: {error_text(error)}"))
                continue
            rng = stream(self.seed, owners, rep, f"method:{name}")
            with self._protected(data) as own:
                returned, problem = self._call(name, cautions, functions[name], condition, own, rng)
            if problem is not None:
                failures.append((name, type(problem).__name__, error_text(problem)))
                continue
            values = self._checked(name, measures, returned, condition, rep)
            odd = [measure for measure, value in values.items() if not math.isfinite(value)]
            if odd:
                kind = "NaN" if any(math.isnan(values[measure]) for measure in odd) else "Infinity"
                failures.append((name, kind, f"not finite: {', '.join(odd)}"))
            else:
                scalars[name] = values
        return Outcome(rep, scalars, tuple(failures), tuple(cautions))

    @contextlib.contextmanager
    def _protected(self, data: Any) -> Iterator[Any]:
        """Give a method data of which it can change nothing that another one gets."""
        own = data
        if not shareable(data):
            try:
                own = copy.deepcopy(data)
            except Exception as error:
                raise StudyError(
                    f"study {self.study!r}: draw returns a {type(data).__name__} that methods "
                    f"could change for each other and that cannot be copied: {error_text(error)}"
                ) from None
        with read_only(own):
            yield own

    @staticmethod
    def _call(
        role: str, cautions: dict[tuple[str, str], None], function: Callable[..., Any], *args: Any
    ) -> tuple[Any, BaseException | None]:
        # Warnings are recorded, whatever filters the process has: a filter that turns
        # them into errors in one process must not change which replicates stand. Nor must
        # numpy's error state, whoever changed it: the caller, the study or another method.
        with warnings.catch_warnings(record=True) as caught, np.errstate(**_ERROR_STATE):
            warnings.simplefilter("always")
            error: BaseException | None = None
            process = os.getpid()
            try:
                result = function(*args)
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                # Also SystemExit: a library's way out must not end the other replicates.
                result, error = None, problem
            finally:
                if os.getpid() != process:
                    # A child that the function forked: it would go on with the run as well.
                    os._exit(1)
        for warning in caught:
            cautions[(role, warning.category.__name__)] = None
        return result, error

    def _checked(
        self, method: str, measures: tuple[str, ...], returned: Any, condition: Factors, rep: int
    ) -> dict[str, float]:
        place = f"study {self.study!r}, method {method!r} at {canonical(condition)}, rep {rep}"
        if not isinstance(returned, Mapping):
            raise StudyError(
                f"{place}: must return a mapping of measures; got {type(returned).__name__}"
            )
        missing = [name for name in measures if name not in returned]
        surplus = [str(name) for name in returned if name not in measures]
        if missing or surplus:
            parts = []
            if missing:
                parts.append(f"declared but not returned: {', '.join(missing)}")
            if surplus:
                parts.append(f"returned but not declared: {', '.join(surplus)}")
            raise StudyError(f"{place}: measures {'; '.join(parts)}")
        counts = {measure.name for measure in self.measures if measure.kind == "count"}
        values = {}
        for name in measures:
            value = returned[name]
            if isinstance(value, np.ndarray) and value.ndim == 0:
                value = value[()]
            if not isinstance(value, numbers.Real):
                raise StudyError(f"{place}: measure {name!r} must be a number; got {value!r}")
            try:
                # Of the two zeros the checkpoint keeps one.
                values[name] = float(value) + 0.0
            except OverflowError:
                raise StudyError(f"{place}: measure {name!r} is too large for a float") from None
            if name in counts and (values[name] < 0 or values[name] % 1 > 0):
                raise StudyError(f"{place}: count {name!r} must be whole, 0 or more; got {value!r}")
        return values


def shareable(data: Any) -> bool:
    """Return whether no method can change data whose arrays are read-only.

    So it is with arrays, scalars and texts, in tuples, named tuples and frozen dataclasses at
    any depth; functions and classes count as well, since a copy would be the same object.
    """
    seen: set[int] = set()
    queue = [data]
    while queue:
        item = queue.pop()
        kind = type(item)
        if kind in _ATOMS or isinstance(item, (np.generic, enum.Enum, type)) or id(item) in seen:
            continue
        seen.add(id(item))
        if kind is np.ndarray:
            if item.dtype.hasobject:
                return False
        elif isinstance(item, tuple) and not hasattr(item, "__dict__"):
            queue += item
        elif dataclasses.is_dataclass(item) and kind.__dataclass_params__.frozen:
            queue += [getattr(item, entry.name, None) for entry in dataclasses.fields(item)]
            queue += getattr(item, "__dict__", {}).values()
        else:
            return False
    return True


@contextlib.contextmanager
def read_only(data: Any) -> Iterator[None]:
    """Make the arrays of a draw read-only: no method may change what another one gets.

    They are looked for in tuples, lists, mappings and dataclasses, and among the arrays that
    an array is a view of; what other objects hold is theirs to protect. Afterwards they are
    as before: a draw may return an array that it fills again in the next replicate.
    """
    seen: set[int] = set()
    frozen: list[np.ndarray[Any, Any]] = []
    queue = [data]
    while queue:
        item = queue.pop()
        if item is None or isinstance(item, (str, bytes, int, float)) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            if item.flags.writeable:
                item.flags.writeable = False
                frozen.append(item)
            queue.append(item.base)
        elif isinstance(item, (tuple, list, set, frozenset)):
            queue += item
        elif isinstance(item, Mapping):
            queue += item.values()
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            queue += [getattr(item, entry.name, None) for entry in dataclasses.fields(item)]
    try:
        yield
    finally:
        # A view may be written again only once its base may.
        for array in reversed(frozen):
            # A base that the draw itself protects keeps its views from that, for good.
            with contextlib.suppress(ValueError):
                array.flags.writeable = True


@functools.lru_cache(maxsize=4)
def unpack(payload: bytes) -> ReplicateTask:
    """Open a packed task, once a process."""
    task: ReplicateTask
    registered, task = cloudpickle.loads(payload)
    registrations.restore(registered)
    return task


def run_block(payload: bytes, condition: Factors, reps: Sequence[int]) -> list[Outcome]:
    """Run some replicates of one condition; the function that executors are given.

    Every replicate is computed alone and on one thread, so neither the block it is in
    nor the process it runs on can change it.
    """
    task = unpack(payload)
    with threadpool_limits(limits=1):
        return [task.run(condition, rep) for rep in reps]
