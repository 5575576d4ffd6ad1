"""Slopes as the tables state them: by a claim, or else by a curve of fitted slopes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pandas as pd

from nwsim._typing import Factors
from nwsim.inference import rate_exponent
from nwsim.report.drawing import exponent_text, number_text
from nwsim.report.frames import parse_setting, select


class Tables(Protocol):
    """What figure builders read of a study's results."""

    performance: pd.DataFrame
    curves: pd.DataFrame
    claims: pd.DataFrame


def same_level(text: str, value: Any) -> bool:
    """Say whether a level written in a setting is the given value."""
    if isinstance(value, (bool, np.bool_)):
        return text == str(bool(value)).lower()
    if text == str(value):
        return True
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return False


def claimed(
    claims: pd.DataFrame,
    quantity: str,
    condition: Factors,
    rule: str = "rate",
    claim: str | None = None,
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
    claim : str, optional
        Only the claim of this name; default, the first that agrees.

    Returns
    -------
    dict or None
        ``theory``, ``margin``, and, if a row is for this very method, ``estimate`` and
        ``mcse``. A row for another method of the same condition still gives the theory: it is
        the condition's. None if no row agrees.
    """
    rows = claims[(claims["quantity"] == quantity) & (claims["rule"] == rule)]
    if claim is not None:
        rows = rows[rows["claim"] == claim]
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
    results: Tables, measure: str, condition: Factors, curve: str, claim: str | None = None
) -> tuple[float, float]:
    """Return the fitted slope of a line and its standard error, nan if the tables have none.

    It is read from the claim of this very method, or else from the curve of fitted slopes.
    """
    said = claimed(results.claims, measure, condition, claim=claim)
    if said and "estimate" in said:
        return said["estimate"], said["mcse"]
    if {"curve", "measure"} <= set(results.curves.columns):
        shared = {k: v for k, v in condition.items() if k in results.curves.columns}
        rows = select(results.curves, {"curve": curve, "measure": measure} | shared)
        if len(rows) == 1:
            return float(rows["estimate"].iloc[0]), float(rows["mcse"].iloc[0])
    return float("nan"), float("nan")


def fit_text(estimate: float, mcse: float, *, with_error: bool = True) -> str:
    """Return a fitted slope in words, with its standard error; empty if there is none."""
    if not np.isfinite(estimate):
        return ""
    error = f" ± {mcse:.3f}" if with_error and np.isfinite(mcse) else ""
    return number_text(estimate, 3) + error


def slope_note(
    results: Tables, measure: str, condition: Factors, curve: str, *, with_error: bool = True
) -> str:
    """Return what stands beside a line: its fitted slope, and the claimed one in brackets.

    Parameters
    ----------
    results : Tables
        Frames of one study.
    measure : str
        The measure that the line shows.
    condition : mapping
        Factors and method of the line.
    curve : str
        Name of the curve that holds the fitted slope, if no claim does.
    with_error : bool
        Whether the fitted slope comes with its standard error.

    Returns
    -------
    str
        Empty if the tables hold neither slope.
    """
    said = claimed(results.claims, measure, condition)
    fit = fit_text(*fitted_slope(results, measure, condition, curve), with_error=with_error)
    stated = f"({exponent_text(said['theory'])})" if said else ""
    return f"{fit} {stated}".strip()
