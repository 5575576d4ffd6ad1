"""From finished replicates to the tables of a results folder.

Sums run over replicates in their own order, so neither workers nor blocks nor the order
of completion reach a table.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nwsim._typing import FloatArray
from nwsim.exceptions import PrecisionWarning
from nwsim.inference import Estimate, difference, mean, ratio
from nwsim.seeding import digest
from nwsim.study.cells import Cell
from nwsim.study.claims import judge
from nwsim.study.curves import derive
from nwsim.study.derived import Contrast
from nwsim.study.specification import Study
from nwsim.study.store import Store
from nwsim.study.tables import Row, level_text, table_text

CLAIM_COLUMNS = (
    "claim", "setting", "quantity", "theory", "estimate", "mcse", "ci_low", "ci_high", "margin",
    "rule", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """The tables of a run as CSV text by file name, and its counts.

    Attributes
    ----------
    tables : mapping of str to str
    failures : sequence of rows
        condition_id, method, type, count.
    cautions : sequence of rows
        role, category, count of replicates.
    worst_failure : tuple of (share, condition_id, method)
    """

    tables: Mapping[str, str]
    failures: Sequence[Row]
    cautions: Sequence[Row]
    worst_failure: tuple[float, str, str]


def summarise(study: Study, cells: Sequence[Cell], store: Store) -> Summary:
    """Compute every table of a run whose replicates are all finished.

    Parameters
    ----------
    study : Study
    cells : sequence of Cell
    store : Store
        Holds replicates 0, ..., n_sim - 1 of each cell.
    """
    kinds = {measure.name: measure.kind for measure in study.measures}
    rows: list[Row] = []
    failures: list[Row] = []
    estimates: dict[tuple[str, str, str], Estimate] = {}
    cautions: Counter[tuple[str, str]] = Counter()
    worst = (0.0, "", "")
    for cell in cells:
        values, failed = store.values(cell), store.failed(cell)
        cautions.update(store.cautions(cell))
        for method, measures in cell.outputs.items():
            n_failed = len(failed[method])
            worst = max(worst, (n_failed / cell.n_sim, cell.condition_id, method))
            for kind, count in sorted(Counter(failed[method].values()).items()):
                failures.append(
                    {
                        "condition_id": cell.condition_id,
                        "method": method,
                        "type": kind,
                        "count": count,
                    }
                )
            columns = values[method]
            n_empty = int(columns["n_empty"].sum()) if "n_empty" in columns else 0
            for measure in measures:
                if measure == "n_empty":
                    continue
                estimate = _estimate(columns[measure], kinds[measure])
                if kinds[measure] == "mean":
                    estimates[cell.condition_id, method, measure] = estimate
                rows.append(
                    {
                        "study": study.name,
                        "condition_id": cell.condition_id,
                        **cell.factors,
                        "method": method,
                        "measure": measure,
                        "estimate": estimate.estimate,
                        "mcse": estimate.mcse,
                        "n_sim": estimate.n_sim,
                        "n_failed": n_failed,
                        "n_empty": n_empty,
                    }
                )
    claims = [row for claim in study.claims for row in judge(claim, cells, estimates)]
    curves = [
        {"study": study.name, **row}
        for curve in study.curves
        for row in derive(curve, cells, estimates)
    ]
    contrasts = [
        row for contrast in study.contrasts for row in _contrast(study, contrast, cells, store)
    ]
    factors = tuple(study.levels)
    # A factor that every curve runs along would be an empty column.
    along = {factor for factor in factors if all(c.over == factor for c in study.curves)}
    kept = tuple(name for name in factors if not (study.curves and name in along))
    tables = {
        "performance.csv": table_text(
            ("study", "condition_id", *factors, "method", "measure", "estimate", "mcse", "n_sim",
             "n_failed", "n_empty"),
            rows,
        ),
        "contrasts.csv": table_text(
            ("study", "contrast", "condition_id", *factors, "method", "measure", "kind", "factor",
             "level", "baseline", "estimate", "mcse", "n_sim"),
            contrasts,
        ),
        "curves.csv": table_text(
            ("study", "curve", *kept, "method", "measure", "over", "x", "estimate", "mcse"), curves
        ),
        "claims.csv": table_text(CLAIM_COLUMNS, claims),
    }  # fmt: skip
    counted = [
        {"role": role, "category": category, "count": count}
        for (role, category), count in sorted(cautions.items())
    ]
    return Summary(tables, failures, counted, worst)


def _estimate(values: FloatArray, kind: str) -> Estimate:
    n_sim = int(values.size)
    if n_sim == 0:
        return Estimate(math.nan, math.nan, 0)
    with warnings.catch_warnings():
        # The run says once that a single replicate has no precision.
        warnings.simplefilter("ignore", PrecisionWarning)
        average = mean(values)
    if kind == "mean":
        return average
    total = math.fsum(values)
    return Estimate(total, average.mcse * n_sim, n_sim)


def _contrast(
    study: Study, contrast: Contrast, cells: Sequence[Cell], store: Store
) -> Iterator[Row]:
    """Yield the rows of one contrast, each at the condition of its ``level``."""
    for cell, method, other, other_method in contrast_pairs(contrast, cells):
        first, second = _paired(store, (cell, method), (other, other_method), contrast.measure)
        if first.size == 0:
            found = Estimate(math.nan, math.nan, 0)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrecisionWarning)
                compare = difference if contrast.kind == "difference" else ratio
                found = compare(first, second)
        yield {
            "study": study.name,
            "contrast": contrast.name,
            "condition_id": cell.condition_id,
            **cell.factors,
            "method": method,
            "measure": contrast.measure,
            "kind": contrast.kind,
            "factor": contrast.factor,
            "level": level_text(contrast.level),
            "baseline": level_text(contrast.baseline),
            "estimate": found.estimate,
            "mcse": found.mcse,
            "n_sim": found.n_sim,
        }


def contrast_pairs(
    contrast: Contrast, cells: Sequence[Cell]
) -> Iterator[tuple[Cell, str, Cell, str]]:
    """Yield (cell, method) of the level with (cell, method) of its baseline."""
    by_id = {cell.condition_id: cell for cell in cells}
    for cell in cells:
        for method in cell.outputs:
            position: dict[str, Any] = {**cell.factors, "method": method}
            if position[contrast.factor] != contrast.level:
                continue
            if contrast.where is not None and not contrast.where(position):
                continue
            twin = {**position, contrast.factor: contrast.baseline}
            other_method = str(twin.pop("method"))
            other = by_id.get(digest(twin))
            if (
                other is not None
                and contrast.measure in cell.outputs[method]
                and contrast.measure in other.outputs.get(other_method, ())
            ):
                yield cell, method, other, other_method


def _paired(
    store: Store, first: tuple[Cell, str], second: tuple[Cell, str], measure: str
) -> tuple[FloatArray, FloatArray]:
    """Return the values of a measure in the replicates where both sides stand."""
    columns, standing = [], []
    for cell, method in (first, second):
        failed = store.failed(cell)[method]
        reps = np.array([rep for rep in range(cell.n_sim) if rep not in failed], dtype=np.int64)
        columns.append(store.values(cell)[method][measure])
        standing.append(reps)
    common = np.intersect1d(standing[0], standing[1])
    return (
        columns[0][np.isin(standing[0], common)],
        columns[1][np.isin(standing[1], common)],
    )
