"""Whether results can be had again: the same bytes from any workers, tracked numbers by cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nwsim._files import MANIFEST
from nwsim._typing import Factors
from nwsim._validation import check_integer
from nwsim.exceptions import NwsimError, StoreError
from nwsim.seeding import digest, stream
from nwsim.study.cells import plan_cells
from nwsim.study.executors import check_worker_count
from nwsim.study.parts import Profile
from nwsim.study.pipeline import UnsoundRunError, run_study
from nwsim.study.results import TABLES, Results, differences, read_results
from nwsim.study.sources import source_digests
from nwsim.study.specification import Study

ONE_IN = 10
"""One in so many cells of tracked results is computed again, at least one a study."""

_FILES = (*(f"{table}.csv" for table in TABLES), MANIFEST)


@dataclass(frozen=True)
class Check:
    """What was compared, and each difference as a sentence."""

    what: str
    differences: tuple[str, ...]


def check_selection(seed: int, most: int | None, workers: int) -> None:
    """Refuse arguments of :func:`check_tracked` that are out of range."""
    check_integer("seed", seed)
    check_worker_count(workers)
    if most is not None:
        check_integer("cells", most, minimum=1)


def check_workers(study: Study, root: Path, profile: str = "quick") -> Check:
    """Run a profile with one worker and with two, in fresh folders, and compare bytes.

    Parameters
    ----------
    study : Study
    root : Path
        Folders ``workers-1`` and ``workers-2`` of it are used, and stay to be looked at.
    profile : str
    """
    what = f"{study.name}: {profile} with 1 and 2 workers"
    folders = []
    for workers in (1, 2):
        results = _results(study, profile, workers, root / f"workers-{workers}")
        folders.append(results.folder)
    found = [
        f"{study.name}: {name} has other bytes in {folders[1]} than in {folders[0]}"
        for name in _FILES
        if (folders[0] / name).read_bytes() != (folders[1] / name).read_bytes()
    ]
    return Check(f"{what}: {len(_FILES)} files", tuple(found))


def check_tracked(
    study: Study,
    tracked: Path,
    root: Path,
    *,
    seed: int = 1,
    most: int | None = None,
    workers: int = 1,
) -> Check:
    """Compute some cells of tracked results again, with all their replicates, and compare.

    Parameters
    ----------
    study : Study
    tracked : Path
        The results folder of the study.
    root : Path
        What is computed goes to ``root/tracked/<study>``.
    seed : int
        Decides which cells: a tenth of them, at least one.
    most : int, optional
        No more cells than this.
    workers : int

    Notes
    -----
    Numbers agree as :func:`~nwsim.study.results.differences` says. Tables of several cells,
    such as claims, follow from those of the cells and are not compared.

    Raises
    ------
    StoreError
        If there are no results in the folder, or they are not whole.
    """
    check_selection(seed, most, workers)
    old = read_results(tracked)
    try:
        counts = {str(key): int(count) for key, count in old.manifest["n_sim"].items()}
        profile, sources = str(old.manifest["profile"]), dict(old.manifest["sources"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StoreError(f"{tracked / MANIFEST} is not a manifest of nwsim") from None
    planned = {cell.condition_id: cell for cell in plan_cells(study, profile)}
    now = source_digests(study)
    # The drawn cells may agree all the same, and others not.
    found = [
        f"{study.name}: {tracked} was made from other sources: {name} {sources.get(name)} then, "
        f"{digests} now; run the study again"
        for name, digests in now.items()
        if sources.get(name) != digests
    ]
    found += [
        f"{study.name}: condition {key} has {counts.get(key, 'no')} replicates in {tracked} and "
        f"{planned[key].n_sim if key in planned else 'none'} in the study"
        for key in [*counts, *(key for key in planned if key not in counts)]
        if key not in counts or key not in planned or counts[key] != planned[key].n_sim
    ]
    counts = {key: count for key, count in counts.items() if key in planned}
    if not counts:
        return Check(f"{study.name}: tracked results in {tracked}", tuple(found))
    size = min(-(-len(counts) // ONE_IN), most or len(counts))
    rng = stream(seed, {"study": study.name}, 0, "verify")
    chosen = {list(counts)[i] for i in rng.choice(len(counts), size=size, replace=False)}
    new = _results(_part(study, counts, chosen), "tracked", workers, root / "tracked")
    shown = old.performance
    empty = {name: getattr(old, name).iloc[:0] for name in TABLES if name != "performance"}
    part = dataclasses.replace(old, performance=shown[shown["condition_id"].isin(chosen)], **empty)
    # Replicates missing or failed differ in their counts.
    found += [f"{study.name}: {line}" for line in differences(part, new)]
    replicates = sum(counts[key] for key in chosen)
    return Check(
        f"{study.name}: {size} of {len(counts)} cells of {tracked} again, {replicates} replicates",
        tuple(found),
    )


def _part(study: Study, counts: dict[str, int], chosen: set[str]) -> Study:
    """Return a study of some cells and nothing that is derived from several."""

    def count(condition: Factors) -> int:
        return counts[digest(condition)]

    def keep(condition: Factors) -> bool:
        return digest(condition) in chosen

    part = dataclasses.replace(
        study,
        claims=(),
        curves=(),
        contrasts=(),
        figures=(),
        profiles={"tracked": Profile(count, keep, "as in the tracked results")},
    )
    for name in ("namespace", "source"):
        object.__setattr__(part, name, getattr(study, name))
    return part


def _results(study: Study, profile: str, workers: int, out: Path) -> Results:
    """Run a study afresh; a run with losses counts by what its tables say."""
    try:
        return run_study(study, profile, workers, out, replace=True)
    except UnsoundRunError as error:
        return error.results


def verify_study(
    study: Study,
    results: Path,
    root: Path,
    say: Callable[[str], None],
    *,
    seed: int = 1,
    most: int | None = None,
    workers: int = 1,
) -> int:
    """Do both checks of one study and return the number of differences.

    Parameters
    ----------
    study : Study
    results : Path
        Folder of tracked results, ``results/<study>`` in it.
    root : Path
        Folder for what is computed.
    say : callable
        Is given a line for each check and each difference.
    seed, most, workers
        As for :func:`check_tracked`.
    """
    checks: list[Callable[[], Check]] = []
    if "quick" in study.profiles:
        checks.append(lambda: check_workers(study, root))
    else:
        say(f"{study.name}: no profile 'quick', bytes are not compared")
    tracked = results / study.name
    if (tracked / MANIFEST).is_file():
        checks.append(
            lambda: check_tracked(study, tracked, root, seed=seed, most=most, workers=workers)
        )
    else:
        say(f"{study.name}: no results in {tracked}, none are compared")
    total = 0
    for check in checks:
        try:
            done = check()
        except NwsimError as error:
            done = Check(f"{study.name}: cannot be computed", (f"{study.name}: {error}",))
        say(f"{done.what}: {len(done.differences) or 'no'} differences")
        for line in done.differences:
            say(f"  {line}")
        total += len(done.differences)
    return total
