"""Slopes as the tables state them: by a claim, or else by a curve of fitted slopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from nwsim._typing import Factors
from nwsim.inference import rate_exponent
from nwsim.report.drawing import number_text
from nwsim.report.frames import parse_setting, select


class Tables(Protocol):
    """What figure builders read of a study's results."""

    performance: pd.DataFrame
    curves: pd.DataFrame
    claims: pd.DataFrame


def same_level(text: str, value: Any) -> bool:
    """Say whether a level written in a setting is the given value."""
    if text == str(value):
        return True
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return False


def claimed(
    claims: pd.DataFrame, quantity: str, condition: Factors, rule: str = "rate"
) -> dict[str, float] | None:
    """Return what the claims say about a quantity in a condition.

    Parameters
    ----------
    claims : DataFrame
        The table of claims.
    quantity : str
        A measure.
    condition : mapping
        Factors and possibly ``method``.
    rule : str
        Only claims decided by this rule.

    Returns
    -------
    dict or None
        ``theory``, ``margin``, and, if a row is for this very method, ``estimate`` and
        ``mcse``. A row for another method of the same condition still gives the theory: it is
        the condition's. None if no row agrees.
    """
    rows = claims[(claims["quantity"] == quantity) & (claims["rule"] == rule)]
    other: dict[str, float] | None = None
    for row in rows.to_dict("records"):
        parts = parse_setting(str(row["setting"]))
        method = parts.pop("method", None)
        if any(
            name not in condition or not same_level(text, condition[name])
            for name, text in parts.items()
        ):
            continue
        known = {name: float(row[name]) for name in ("theory", "margin")}
        if method is None or "method" not in condition or method == condition["method"]:
            return known | {name: float(row[name]) for name in ("estimate", "mcse")}
        other = other or known
    return other


def stated_slope(results: Tables, measure: str, condition: Factors) -> float:
    """Return the claimed slope, or else the exponent that R1 states."""
    said = claimed(results.claims, measure, condition)
    if said:
        return said["theory"]
    return float(rate_exponent(condition["alpha"], condition["dim"]))


def fitted_slope(
    results: Tables,
    measure: str,
    condition: Factors,
    said: Mapping[str, float] | None,
    curve: str,
    with_error: bool = True,
) -> str:
    """Return the fitted slope with its standard error, from a claim or else from a curve.

    ``with_error=False`` leaves the error out where space is short.
    """
    if said and "estimate" in said:
        return slope_text(said["estimate"], said["mcse"] if with_error else float("nan"))
    shared = {k: v for k, v in condition.items() if k in results.curves.columns}
    if not {"curve", "measure"} <= set(results.curves.columns):
        return "no slope"
    rows = select(results.curves, {"curve": curve, "measure": measure} | shared)
    if len(rows) != 1:
        return "no slope"
    mcse = float(rows["mcse"].iloc[0]) if with_error else float("nan")
    return slope_text(float(rows["estimate"].iloc[0]), mcse)


def slope_text(estimate: float, mcse: float) -> str:
    """Return a slope and its standard error as they stand beside a line."""
    if not np.isfinite(estimate):
        return "no slope"
    return number_text(estimate, 3) + (f" ± {mcse:.3f}" if np.isfinite(mcse) else "")
