"""How results are written: whole files, columns that two rooms agree on, settings as text."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nwsim.exceptions import StoreError

MANIFEST = "manifest.json"
"""What was run, with digests of the tables beside it."""

CLAIM_COLUMNS = (
    *("claim", "setting", "quantity", "theory", "estimate", "mcse"),
    *("ci_low", "ci_high", "margin", "rule", "verdict"),
)
"""Columns of every ``claims.csv``."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path`` that takes its place if all goes well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # A temporary file is private to its owner; results are as readable as any other
        # file.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Put content at a path so that no reader ever meets half of it.

    Parameters
    ----------
    path : Path
        Its folder is made if it does not exist.
    content : str or bytes
        Text is written as UTF-8.

    Raises
    ------
    StoreError
        If the folder cannot be made or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def level_text(value: Any) -> str:
    """Return a value as the text of a CSV field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return str(value)


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return a setting as ``name=level`` pairs, sorted by name and joined by ``;``."""
    return ";".join(f"{name}={level_text(setting[name])}" for name in sorted(setting))


def parse_setting(text: str) -> dict[str, str]:
    """Return the parts of ``name=level;name=level`` as a mapping of texts."""
    return dict(part.split("=", 1) for part in str(text).split(";") if "=" in part)


def check_digests(folder: Path, digests: Mapping[str, Any]) -> None:
    """Refuse tables that are not those their manifest was written with.

    Parameters
    ----------
    folder : Path
    digests : mapping
        SHA-256 by file name. There are none in manifests from before they
        were kept; such a folder is taken as it is.

    Raises
    ------
    StoreError
        If a table is missing or another one; the message names its file.
    """
    for name, expected in digests.items():
        path = folder / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from None
        if found != expected:
            raise StoreError(
                f"{path} is not the table that {MANIFEST} beside it was written with; "
                "run the study again"
            )
