"""Slopes as the tables state them: by a claim, or else by a curve of fitted slopes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from nwsim._files import parse_setting
from nwsim._typing import Factors
from nwsim.exceptions import ParameterError
from nwsim.report.drawing import exponent_text, number_text
from nwsim.report.frames import select


class Tables(Protocol):
    """What figure builders read of a study's results."""

    @property
    def performance(self) -> pd.DataFrame:
        """Estimates by condition, method and measure."""

    @property
    def contrasts(self) -> pd.DataFrame:
        """Comparisons of pairs."""

    @property
    def curves(self) -> pd.DataFrame:
        """Slopes."""

    @property
    def claims(self) -> pd.DataFrame:
        """Theory, estimate and margin by claim and setting."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Resolved specification, with labels and units of the measures."""


class Said(NamedTuple):
    """What a claim says about a line; a claim about another method has no estimate of it."""

    claim: str
    theory: float
    margin: float
    estimate: float = math.nan
    mcse: float = math.nan


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
    names: Sequence[str] | None = None,
    theory_of: str | None = None,
) -> Said | None:
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
    names : sequence of str, optional
        Only these claims; the first of them that covers the condition is taken. Default all,
        which must then agree.
    theory_of : str, optional
        A method whose claims also state the theory for methods that have none of their own.
        Default, a claim about one method says nothing about another.

    Returns
    -------
    Said or None
        None if no row covers the condition.

    Raises
    ------
    ParameterError
        If several rows cover the condition and differ, and ``names`` does not choose.
    """
    rows = claims[(claims["quantity"] == quantity) & (claims["rule"] == rule)]
    own: dict[Said, None] = {}
    lent: dict[Said, None] = {}
    for row in rows.to_dict("records"):
        parts = parse_setting(str(row["setting"]))
        method = parts.pop("method", None)
        if any(
            name not in condition or not same_level(text, condition[name])
            for name, text in parts.items()
        ):
            continue
        values = [float(row[name]) for name in ("theory", "margin", "estimate", "mcse")]
        if method is None or "method" not in condition or method == condition["method"]:
            own[Said(str(row["claim"]), *values)] = None
        elif method == theory_of:
            lent[Said(str(row["claim"]), *values[:2])] = None
    return _only(own, quantity, condition, names) or _only(lent, quantity, condition, names)


def _only(
    found: Mapping[Said, None], quantity: str, condition: Factors, names: Sequence[str] | None
) -> Said | None:
    """Return the one claim of those found that ``names`` chooses, or on which all agree."""
    for name in names if names is not None else (None,):
        chosen = [said for said in found if name is None or said.claim == name]
        if len({tuple(map(repr, said[1:])) for said in chosen}) > 1:
            setting = ", ".join(f"{factor}={level}" for factor, level in condition.items())
            ids = ", ".join(dict.fromkeys(said.claim for said in chosen))
            raise ParameterError(
                f"claims must name which of {ids} is meant; they differ about {quantity} at "
                f"{setting}"
            )
        if chosen:
            return chosen[0]
    return None


def check_claims(results: Tables, option: str, names: Sequence[str] | None) -> list[str] | None:
    """Return the ids as a list, after a look whether the study has them.

    Raises
    ------
    ParameterError
        If ``names`` is one text, or an id is none of the study's.
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise ParameterError(f"{option} must be a sequence of claim ids; got {names!r}")
    stated = results.manifest.get("specification", {}).get("claims")
    known = list(dict.fromkeys(str(entry["id"]) for entry in stated or []))
    unknown = [name for name in names if stated is not None and name not in known]
    if unknown:
        raise ParameterError(
            f"{option} must be ids of the study's claims ({', '.join(known) or 'it has none'}); "
            f"got {', '.join(map(repr, unknown))}"
        )
    return list(names)


def fitted_slope(
    results: Tables, measure: str, condition: Factors, curve: str, said: Said | None = None
) -> tuple[float, float]:
    """Return the fitted slope of a line and its standard error, nan if the tables have none.

    It is that of the claim, if the claim is about this very method, or else that of the curve
    of fitted slopes.
    """
    if said is not None and math.isfinite(said.estimate):
        return said.estimate, said.mcse
    if {"curve", "measure"} <= set(results.curves.columns):
        shared = {k: v for k, v in condition.items() if k in results.curves.columns}
        rows = select(results.curves, {"curve": curve, "measure": measure} | shared)
        if len(rows) == 1:
            return float(rows["estimate"].iloc[0]), float(rows["mcse"].iloc[0])
    return math.nan, math.nan


def fit_text(estimate: float, mcse: float, *, with_error: bool = True) -> str:
    """Return a fitted slope in words, ± one standard error; empty if there is none."""
    if not math.isfinite(estimate):
        return ""
    error = f" ± {mcse:.3f}" if with_error and math.isfinite(mcse) else ""
    return number_text(estimate, 3) + error


def slope_note(
    results: Tables,
    measure: str,
    condition: Factors,
    curve: str,
    said: Said | None,
    *,
    with_error: bool = True,
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
    said : Said or None
        What a claim says about the line.
    with_error : bool
        Whether the fitted slope is followed by ± one standard error.

    Returns
    -------
    str
        Empty if the tables hold neither slope.
    """
    fit = fit_text(*fitted_slope(results, measure, condition, curve, said), with_error=with_error)
    stated = f"({exponent_text(said.theory)})" if said else ""
    return f"{fit} {stated}".strip()
