"""Whether two results folders say the same, and one replicate computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nwsim._validation import check_integer
from nwsim.exceptions import ParameterError
from nwsim.seeding import digest
from nwsim.study.replicate import Outcome, ReplicateTask
from nwsim.study.results import Results
from nwsim.study.specification import Study

_KEYS = {
    "performance": ("condition_id", "method", "measure"),
    "contrasts": ("contrast", "condition_id", "method", "measure"),
    "claims": ("claim", "setting", "quantity"),
}


def differences(first: Results, second: Results) -> Iterator[str]:
    """Yield one sentence for every row in which two results differ.

    Parameters
    ----------
    first, second : Results

    Notes
    -----
    Estimates agree if ``|a - b| <= 1e-9 |a| + 1e-3 mcse``: processors differ in the last
    bits of a sum, which is far below what the Monte Carlo error lets anyone see. Counts
    and verdicts agree if they are equal.
    """
    for table, keys in _KEYS.items():
        old, new = _rows(first, table, keys), _rows(second, table, keys)
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{table}: {', '.join(key)}"
            if key not in new or key not in old:
                side = first.folder if key in old else second.folder
                yield f"{where}: only in {side}"
                continue
            a, b = old[key], new[key]
            if not _close(a["estimate"], b["estimate"], a["mcse"]):
                yield f"{where}: estimate {a['estimate']!r} and {b['estimate']!r}"
            for column in ("n_sim", "n_failed", "n_empty", "verdict"):
                if column in a and a[column] != b[column]:
                    yield f"{where}: {column} {a[column]} and {b[column]}"


def _rows(results: Results, table: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    frame = getattr(results, table)
    return {tuple(str(row[key]) for key in keys): row for row in frame.to_dict("records")}


def _close(a: float, b: float, mcse: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return abs(a - b) <= 1e-9 * abs(a) + (0.0 if math.isnan(mcse) else 1e-3 * mcse)


def replay(study: Study, condition_id: str, rep: int) -> Outcome:
    """Compute one replicate of one condition again, from nothing but its own key.

    Raises
    ------
    ParameterError
        If the study has no such condition, or ``rep`` is negative.
    """
    check_integer("rep", rep)
    for condition in study.conditions():
        if digest(condition) == condition_id:
            return ReplicateTask.of(study).run(condition, rep)
    raise ParameterError(
        f"condition must be a condition_id of study {study.name!r}, as in its "
        f"performance.csv; got {condition_id!r}"
    )
