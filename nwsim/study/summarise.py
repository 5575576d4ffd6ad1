"""From finished replicates to the tables of a results folder.

Sums run over replicates in their own order, so neither workers nor blocks nor the order
of completion reach a table.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nwsim._typing import FloatArray
from nwsim.exceptions import PrecisionWarning
from nwsim.inference import Estimate, mean
from nwsim.study.cells import Cell
from nwsim.study.derived import compare, defined, derive, judge
from nwsim.study.points import Column
from nwsim.study.results import Row, columns_of, table_text
from nwsim.study.specification import Study
from nwsim.study.store import Store


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
    missing : mapping of str to int
        Replicates that no worker finished, by condition_id.
    worst_failure : tuple of (share, condition_id, method)
    estimates : mapping of (condition_id, method, measure) to Estimate
        Those of kind "mean".
    """

    tables: Mapping[str, str]
    failures: Sequence[Row]
    cautions: Sequence[Row]
    missing: Mapping[str, int]
    worst_failure: tuple[float, str, str]
    estimates: Mapping[tuple[str, str, str], Estimate]


@dataclass(frozen=True)
class _Finished:
    """The replicates of a checkpoint, as rows are derived from them."""

    store: Store
    estimates: dict[tuple[str, str, str], Estimate] = field(default_factory=dict)

    def estimate(self, cell: Cell, method: str, measure: str) -> Estimate:
        return self.estimates[cell.condition_id, method, measure]

    def column(self, cell: Cell, method: str, measure: str) -> Column:
        return self.store.column(cell, method, measure)


@np.errstate(over="ignore", invalid="ignore")
def summarise(study: Study, cells: Sequence[Cell], store: Store) -> Summary:
    """Compute every table of a run from the replicates that stand.

    Parameters
    ----------
    study : Study
    cells : sequence of Cell
    store : Store
        Holds the replicates asked for of each cell, or those that could be finished.
    """
    kinds = {measure.name: measure.kind for measure in study.measures}
    rows: list[Row] = []
    failures: list[Row] = []
    sample = _Finished(store)
    cautions: Counter[tuple[str, str]] = Counter()
    missing: dict[str, int] = {}
    worst = (0.0, "", "")
    for cell in cells:
        values, failed = store.values(cell), store.failed(cell)
        finished = len(store.finished((cell,))[cell.condition_id])
        if finished < cell.n_sim:
            missing[cell.condition_id] = cell.n_sim - finished
        cautions.update(store.cautions(cell))
        for method, measures in cell.outputs.items():
            n_failed = len(failed[method])
            if finished:
                worst = max(worst, (n_failed / finished, cell.condition_id, method))
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
                    sample.estimates[cell.condition_id, method, measure] = estimate
                rows.append(
                    {
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
    shared = study.shared_streams
    found: dict[str, list[Row]] = {
        "performance": rows,
        "contrasts": [row for c in study.contrasts for row in compare(c, cells, sample)],
        "curves": [row for c in study.curves for row in derive(c, cells, sample, shared)],
        "claims": [
            row for c in study.claims for row in judge(c, cells, sample, shared, study.contrasts)
        ],
    }
    factors = tuple(study.levels)
    tables = {
        f"{name}.csv": table_text(
            columns_of(name, factors), [{"study": study.name, **row} for row in own]
        )
        for name, own in found.items()
    }
    counted = [
        {"role": role, "category": category, "count": count}
        for (role, category), count in sorted(cautions.items())
    ]
    return Summary(tables, failures, counted, missing, worst, sample.estimates)


def _estimate(values: FloatArray, kind: str) -> Estimate:
    n_sim = int(values.size)
    if n_sim == 0:
        return Estimate(math.nan, math.nan, 0)
    with warnings.catch_warnings():
        # The run says once that a single replicate has no precision.
        warnings.simplefilter("ignore", PrecisionWarning)
        average = mean(values)
    average = defined(average)
    if kind == "mean":
        return average
    total = math.fsum(values)
    return Estimate(total, average.mcse * n_sim, n_sim)
