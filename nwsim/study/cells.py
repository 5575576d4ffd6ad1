"""The plan of a run: which conditions, how many replicates, which outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nwsim.exceptions import NwsimError, StudyError
from nwsim.seeding import digest
from nwsim.study.parts import Level, Over, applies, check_replicates, factors_of
from nwsim.study.replicate import declared_outputs
from nwsim.study.specification import Study


@dataclass(frozen=True)
class Cell:
    """One condition of a run.

    Attributes
    ----------
    condition_id : str
        Digest of the factors.
    factors : mapping
        Levels by factor name.
    n_sim : int
        Replicates asked for.
    outputs : mapping of str to tuple of str
        Measures by the methods that run here, in the study's order.
    first : int
        The first of them: 0, unless the ones below were a pilot's.
    """

    condition_id: str
    factors: Mapping[str, Level]
    n_sim: int
    outputs: Mapping[str, tuple[str, ...]]
    first: int = 0

    @property
    def reps(self) -> range:
        """The replicates asked for."""
        return range(self.first, self.first + self.n_sim)


@dataclass(frozen=True)
class Series:
    """The cells of one setting and method along a factor or two, by increasing level."""

    setting: Mapping[str, Any]
    method: str
    cells: tuple[Cell, ...]


def plan_cells(study: Study, profile: str, n_sim: int | None = None) -> tuple[Cell, ...]:
    """Return the cells of a profile in the study's order.

    Parameters
    ----------
    study : Study
    profile : str
    n_sim : int, optional
        Replicates a condition, in place of the profile's number.

    Raises
    ------
    StudyError
        If no condition is left, or if a function of the specification fails.
    """
    chosen = study.profile(profile)
    if n_sim is not None:
        check_replicates("n_sim", n_sim)
    cells = []
    for condition in study.conditions():
        try:
            if not applies(chosen.keep, condition):
                continue
            outputs = declared_outputs(study.methods, study.measures, condition)
            count = chosen.replicates(condition) if n_sim is None else n_sim
        except NwsimError:
            raise
        except Exception as error:
            raise StudyError(
                f"study {study.name!r}, profile {profile!r}: a filter or n_sim fails at "
                f"{condition}: {type(error).__name__}: {error}"
            ) from error
        if outputs:
            cells.append(Cell(digest(condition), condition, count, outputs))
    if not cells:
        raise StudyError(f"study {study.name!r}: profile {profile!r} leaves no condition to run")
    return tuple(cells)


def series_over(
    cells: Sequence[Cell],
    over: Over | None,
    measure: str,
    where: Callable[[Mapping[str, Any]], bool] | None = None,
    method: str | None = None,
) -> Iterator[Series]:
    """Yield one series a setting and method, in order of first appearance.

    A setting holds every factor but ``over``, and the method; only cells where the method
    returns the measure take part.
    """
    along = factors_of(over)
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    settings: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cell in cells:
        for name, measures in cell.outputs.items():
            if measure not in measures or (method is not None and name != method):
                continue
            if where is not None and not where({**cell.factors, "method": name}):
                continue
            setting = {key: level for key, level in cell.factors.items() if key not in along}
            setting["method"] = name
            key = tuple(setting.values())
            groups.setdefault(key, []).append(cell)
            settings[key] = setting
    for key, members in groups.items():
        members = sorted(members, key=lambda cell: tuple(cell.factors[f] for f in along))
        yield Series(settings[key], settings[key]["method"], tuple(members))
