"""Marks that the figures share: estimates with intervals, and lines of a stated slope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from nwsim.inference.verdicts import Z95
from nwsim.report.style import DOTTED, Look

# Wide and pale, below the data: it stays visible where estimates lie on top of it.
STATED: dict[str, Any] = {"lw": 4.0, "alpha": 0.28, "zorder": 1.5, "solid_capstyle": "butt"}
PRINTED: dict[str, Any] = {"lw": 1.0, "ls": (0, (1.2, 1.4)), "zorder": 1.6}


def exponent_text(value: float) -> str:
    """Return an exponent as a simple fraction where it is one, else with three decimals."""
    fraction = Fraction(value).limit_denominator(30)
    if abs(float(fraction) - value) < 1e-9:
        if fraction.denominator == 1:
            return str(fraction.numerator).replace("-", "−")
        return f"{fraction.numerator}/{fraction.denominator}".replace("-", "−")
    return number_text(value, 3)


def number_text(value: float, decimals: int) -> str:
    """Return a number with a typographic minus sign."""
    return f"{value:.{decimals}f}".replace("-", "−")


def draw_line(
    axes: Axes,
    rows: pd.DataFrame,
    look: Look,
    x: str = "n_obs",
    *,
    hollow: bool = False,
    joined: bool = True,
    shift: float | None = None,
    log: bool = True,
    x_log: bool = True,
) -> tuple[float, float] | None:
    """Draw estimates with 95% Monte Carlo intervals; return the last point drawn.

    Points that are not ``joined`` are still linked by a hair line, below all intervals. A
    ``shift`` moves them sideways, by a factor on a logarithmic axis and else by a summand.

    On a logarithmic axis an estimate that is not positive (a corrected squared bias may be
    negative) is drawn as an arrow that hangs from the upper end of its interval.
    """
    at = rows[x].to_numpy(dtype=float)
    if shift is not None:
        at = at * shift if x_log else at + shift
    y = rows["estimate"].to_numpy(dtype=float)
    half = np.nan_to_num(Z95 * rows["mcse"].to_numpy(dtype=float), nan=0.0)
    shown = np.isfinite(y) & ((y > 0) if log else True)
    if not shown.any():
        lines_end = None
    else:
        axes.errorbar(
            at[shown],
            y[shown],
            yerr=half[shown],
            color=look.color,
            marker=look.marker,
            mfc="white" if hollow else look.color,
            mew=0.8,
            elinewidth=0.8 if joined else 1.1,
            ls="none" if not joined else (0, (4, 1.2)) if hollow else "-",
        )
        if not joined:
            axes.plot(at[shown], y[shown], color=look.color, lw=0.5, alpha=0.45, zorder=1.8)
        last = int(np.flatnonzero(shown)[-1])
        lines_end = (float(at[last]), float(y[last]))
    hanging = np.isfinite(y) & ~shown & (y + half > 0)
    for i in np.flatnonzero(hanging):
        axes.annotate(
            "",
            xy=(at[i], 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(at[i], y[i] + half[i]),
            textcoords="data",
            arrowprops={
                "arrowstyle": "-|>",
                "color": look.color,
                "lw": 0.7,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            annotation_clip=False,
        )
    return lines_end


def draw_slope(
    axes: Axes,
    rows: pd.DataFrame,
    slope: float,
    color: str,
    x: str = "n_obs",
    *,
    printed: bool = False,
    logs: bool = False,
) -> None:
    """Draw the power law ``x**slope`` over the range of two or more points.

    Estimates are its values, or their ``logs``; the axis is logarithmic in the first case alone.

    It goes through the centre of the larger half of the points; one that is ``printed``
    somewhere and meant to be compared starts with the first point.
    """
    at = rows[x].to_numpy(dtype=float)
    y = rows["estimate"].to_numpy(dtype=float)
    usable = np.isfinite(y) & (logs | (y > 0))
    if usable.sum() < 2 or not math.isfinite(slope):
        return
    log_x, log_y = np.log(at[usable]), y[usable] if logs else np.log(y[usable])
    through = slice(0, 1) if printed else slice(len(log_x) // 2, None)
    level = float(np.mean(log_y[through] - slope * log_x[through]))
    ends = np.array([at.min() / (1.0 if printed else 1.2), at.max() * 1.2])
    law = level + slope * np.log(ends)
    axes.plot(ends, law if logs else np.exp(law), color=color, **(PRINTED if printed else STATED))


def draw_margin(axes: Axes, said: Mapping[float, tuple[float, float]]) -> None:
    """Draw theory and margin, given by place: across the panel where they are the same."""
    band: dict[str, Any] = {"color": "#EDEDED", "lw": 0, "zorder": 0.4}
    line: dict[str, Any] = {"color": "#444444", "ls": DOTTED, "lw": 1.0, "zorder": 1.5}
    theory, margin = np.array(list(said.values())).T
    if len(set(said.values())) == 1:
        axes.axhspan(theory[0] - margin[0], theory[0] + margin[0], **band)
        axes.axhline(theory[0], **line)
    else:
        places = list(said)
        axes.fill_between(places, theory - margin, theory + margin, **band)
        axes.plot(places, theory, **line)
