"""Tick labels that short axes have room for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from nwsim._typing import FloatArray

# Least distance of two labels as a part of the axis, for "2^14" and for "10000". On the
# narrowest panels of a page (about an inch) the widest of them still stand apart.
GAP_POWER = 0.22
GAP_PLAIN = 0.36
MOST_LABELS = 4


def sample_size_axis(axes: Axes, values: Sequence[float] | FloatArray, room: float = 1.3) -> None:
    """Make x a logarithmic axis of sample sizes, with ticks at the sizes that were run.

    Powers of two or of ten are written as powers. At most four ticks have labels.

    Parameters
    ----------
    axes : Axes
        Panel.
    values : array_like
        Sample sizes, positive.
    room : float
        The axis goes on by this factor at both ends.
    """
    sizes = np.unique(np.asarray(values, dtype=float))
    axes.set_xscale("log")
    axes.set_xlim(float(sizes[0]) / room, float(sizes[-1]) * room)
    base = next((base for base in (2, 10) if all(is_power(size, base) for size in sizes)), None)
    shown = thinned(np.log(sizes), axes.get_xlim(), GAP_PLAIN if base is None else GAP_POWER)
    texts = [size_text(sizes[index], base) for index in shown]
    axes.xaxis.set_major_locator(FixedLocator(sizes[shown].tolist()))
    axes.xaxis.set_major_formatter(FixedFormatter(texts))
    axes.xaxis.set_minor_locator(FixedLocator(np.delete(sizes, shown).tolist()))
    axes.xaxis.set_minor_formatter(NullFormatter())


def value_axis(axes: Axes, values: Sequence[float] | FloatArray) -> None:
    """Make x a plain axis of numbers around the given ones, with few labels."""
    low, high = float(np.min(values)), float(np.max(values))
    room = 0.08 * (high - low) or 0.5
    axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_locator(MaxNLocator(MOST_LABELS, steps=[1, 2.5, 5, 10]))


def is_power(value: float, base: int) -> bool:
    """Say whether a number is a whole power of the base."""
    exponent = math.log(value) / math.log(base)
    return abs(exponent - round(exponent)) < 1e-9


def size_text(value: float, base: int | None) -> str:
    """Return a sample size as a power of the base, or else as a short number."""
    if base is not None:
        return f"${base}^{{{round(math.log(value) / math.log(base))}}}$"
    return f"{value:.0f}" if 1 <= value < 1e5 else power_text(value)


def power_text(value: float) -> str:
    """Return a number as a power of ten, with a leading digit where it is not 1."""
    exponent = math.floor(math.log10(value) + 1e-9)
    lead = f"{value / 10.0**exponent:.2g}"
    return f"$10^{{{exponent}}}$" if lead == "1" else f"${lead}\\times 10^{{{exponent}}}$"


def thinned(at: FloatArray, limits: tuple[float, float], gap: float) -> list[int]:
    """Return which of the ascending places are far enough apart for a label each.

    Parameters
    ----------
    at : ndarray of shape (k,)
        Places, in logarithms.
    limits : tuple of float
        Ends of the axis, not in logarithms.
    gap : float
        Least distance, as a part of the axis.
    """
    least = gap * math.log(limits[1] / limits[0])
    room = max(least, float(at[-1] - at[0]) / (MOST_LABELS - 1) if len(at) > MOST_LABELS else 0.0)
    shown = [0]
    for index in range(1, len(at)):
        if at[index] - at[shown[-1]] >= room - 1e-9:
            shown.append(index)
    return shown


def limits_log(axes: Axes, values: FloatArray, room: float = 1.7) -> None:
    """Set a logarithmic y axis around the positive values."""
    positive = values[np.isfinite(values) & (values > 0)]
    axes.set_yscale("log", nonpositive="clip")
    if positive.size:
        axes.set_ylim(float(positive.min()) / room, float(positive.max()) * room)
        log_ticks(axes.yaxis)


def log_ticks(axis: Axis) -> None:
    """Label decades, or also 2 and 5 times them where the axis holds few of them."""
    low, high = axis.get_view_interval()
    axis.set_minor_formatter(NullFormatter())
    if high / low < 30:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: power_text(value)))
