"""From a study's figure names to files that are the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from nwsim._files import write_atomic
from nwsim.exceptions import NwsimError, StudyError
from nwsim.report.style import style

# Dates and program versions would change the file without changing the figure.
METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def draw_figures(study: Any, results: Any) -> list[Path]:
    """Draw every figure that a study names, from its results tables alone.

    Parameters
    ----------
    study : Study
        Its ``figures`` are records with ``name``, ``builder`` and ``options``.
    results : Results
        Tables, with the ``folder`` whose ``figures/`` is written.

    Returns
    -------
    list of Path
        ``figures/<name>.pdf`` and ``figures/<name>.png``, in the study's order.

    Raises
    ------
    StudyError
        If a builder cannot be found, fails, or does not return a Figure.
    StoreError
        If the folder cannot be written.
    """
    builders = [(entry, resolve_builder(study, entry.builder)) for entry in study.figures]
    paths = []
    for entry, builder in builders:
        try:
            with style():
                figure = builder(results, **dict(entry.options))
        except NwsimError:
            raise
        except Exception as error:
            raise StudyError(
                f"figure {entry.name!r}: its builder fails with options "
                f"{dict(entry.options)}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(figure, Figure):
            raise StudyError(
                f"figure {entry.name!r}: the builder must return a matplotlib Figure; "
                f"got {type(figure).__name__}"
            )
        paths += save_figure(figure, Path(results.folder) / "figures", entry.name)
    return paths


def resolve_builder(study: Any, builder: str | Callable[..., Figure]) -> Callable[..., Figure]:
    """Return the function that a figure's ``builder`` stands for.

    Parameters
    ----------
    study : Study
        Owner of the figure.
    builder : str or callable
        ``"package.module:function"``; ``"<study name>:function"`` for a function in the
        study's own file; or the function itself.

    Raises
    ------
    StudyError
        If there is no such function.
    """
    if callable(builder):
        return builder
    module_name, colon, function_name = str(builder).partition(":")
    if not (module_name and colon and function_name):
        raise StudyError(f"figure builder must be 'module:function' or a function; got {builder!r}")
    if module_name == study.name:
        # A study's file is no importable module. Its loader keeps the names; for a study
        # built elsewhere, the draw function knows those beside it.
        names = getattr(study, "namespace", None) or getattr(study.draw, "__globals__", {})
        found = names.get(function_name)
    else:
        try:
            found = getattr(import_module(module_name), function_name, None)
        except ModuleNotFoundError as error:
            raise StudyError(f"figure builder {builder!r}: {error}") from None
    if not callable(found):
        raise StudyError(f"figure builder {builder!r}: {module_name} has no such function")
    return found


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PDF and PNG, each by a temporary file and a rename.

    Parameters
    ----------
    figure : Figure
        What to write.
    folder : Path
        Made if it does not exist.
    name : str
        File name without its ending.

    Returns
    -------
    list of Path
        The PDF and the PNG.
    """
    paths = []
    for kind, metadata in METADATA.items():
        buffer = io.BytesIO()
        with style():
            figure.savefig(buffer, format=kind, metadata=metadata)
        paths.append(write_atomic(folder / f"{name}.{kind}", buffer.getvalue()))
    return paths
