"""Results folders as tidy frames."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nwsim.exceptions import StoreError
from nwsim.study.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Results:
    """The tables of a results folder.

    Attributes
    ----------
    name : str
        Name of the study.
    folder : Path
    performance, contrasts, curves, claims : DataFrame
        The CSV files of these names; columns as in ``results/README.md``.
    manifest : dict
    """

    name: str
    folder: Path
    performance: pd.DataFrame
    contrasts: pd.DataFrame
    curves: pd.DataFrame
    claims: pd.DataFrame
    manifest: dict[str, Any]


def results_folder(name: str, profile: str = "standard", out: str | Path | None = None) -> Path:
    """Return where a study's results go.

    ``out/<name>`` if ``out`` is given; else ``results/<name>`` for the profile
    "standard" and ``build/<profile>/<name>`` for any other.
    """
    if out is not None:
        return Path(out) / name
    return Path("results") / name if profile == "standard" else Path("build") / profile / name


def load_results(name: str | Path, root: str | Path = "results") -> Results:
    """Load the results of a study.

    Parameters
    ----------
    name : str or Path
        Name of the study, or a results folder itself.
    root : str or Path
        Folder that holds ``<name>/``.

    Raises
    ------
    StoreError
        If there are no results, or a file of them is missing or incomplete.
    """
    folder = Path(root) / name
    if not (folder / MANIFEST).is_file() and (Path(name) / MANIFEST).is_file():
        folder = Path(name)
    return read_results(folder)


def read_results(folder: Path) -> Results:
    """Load a results folder."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        factors = manifest["specification"]["factors"]
        types = {factor: entry["type"] for factor, entry in factors.items()}
        name = str(manifest["study"])
    except OSError:
        raise StoreError(f"there are no results in {folder}; run the study first") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(f"{folder / MANIFEST} is not a manifest of nwsim") from None
    frames = {
        table: read_table(folder / f"{table}.csv", types)
        for table in ("performance", "contrasts", "curves", "claims")
    }
    return Results(name=name, folder=folder, manifest=manifest, **frames)
