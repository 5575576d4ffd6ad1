"""One look for all figures, applied for the time of a drawing and put back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

STYLE_FILE = Path(__file__).with_name("nwsim.mplstyle")

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")
"""Okabe & Ito (2008), told apart by readers with any common colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Second key beside colour, for a print in black and white."""

WIDTH = 7.0
"""Width of a figure across a page, in inches."""

Arguments = ParamSpec("Arguments")


@contextmanager
def style() -> Iterator[None]:
    """Draw with the nwsim style whatever the user's own settings; restore them after."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings = matplotlib.rc_params_from_file(STYLE_FILE, use_default_template=False)
        matplotlib.rcParams.update(settings)
        yield


def styled(builder: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Let a figure builder run inside :func:`style`."""

    @wraps(builder)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with style():
            return builder(*args, **kwargs)

    return wrapped


def new_figure(width: float = WIDTH, height: float = 3.0) -> Figure:
    """Return an empty figure on an Agg canvas; no pyplot state, no global backend."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def panels(rows: int, columns: int, *, height: float = 2.1, **options: Any) -> Any:
    """Return a figure and its ``(rows, columns)`` array of axes, each ``height`` inches high."""
    figure = new_figure(height=height * rows + 0.5)
    width = WIDTH if columns > 1 else 0.62 * WIDTH
    figure.set_size_inches(width, height * rows + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def blank(reason: str) -> Figure:
    """Return a figure that says in words why there is nothing to draw."""
    figure = new_figure(height=1.2)
    figure.text(0.5, 0.5, f"nothing to draw: {reason}", ha="center", va="center", wrap=True)
    return figure


DOTTED = (0, (1, 1.4))
"""Dashes of lines that are theory or a reference, not estimates."""


class Look(NamedTuple):
    """How one line is drawn."""

    color: str
    marker: str


COMPARED = (
    Look("#000000", "o"),
    Look("#D55E00", "s"),
    Look("#009E73", "^"),
    Look("#CC79A7", "D"),
    Look("#0072B2", "v"),
    Look("#E69F00", "P"),
    Look("#56B4E9", "X"),
)
"""Looks of the few levels of a factor that a page compares, the usual one first."""


def look_of(position: int) -> Look:
    """Return the look of the line at a position, the same in every panel.

    After all colours are used they come again with other markers.
    """
    turn = position // len(COLOURS)
    return Look(COLOURS[position % len(COLOURS)], MARKERS[(position + turn) % len(MARKERS)])


def ink(colour: str) -> str:
    """Return a colour dark enough for small letters on white, of the same hue."""
    red, green, blue = to_rgb(colour)
    brightness = 0.299 * red + 0.587 * green + 0.114 * blue
    factor = min(1.0, 0.42 / brightness) if brightness > 0 else 1.0
    return str(to_hex((red * factor, green * factor, blue * factor)))
