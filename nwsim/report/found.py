"""What studies found, as tables of verdicts within documents: no number there is typed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from nwsim._files import write_atomic
from nwsim.exceptions import StoreError
from nwsim.inference import combine
from nwsim.report.ledger import VERDICTS, Row, check_whole, distinct, read_claims

BLOCK = re.compile(
    r"(<!-- verdicts: (?P<study>[a-z][a-z0-9_]*) -->\n)(?P<old>.*?)(<!-- end -->)", re.S
)
"""A place for the verdicts of one study, from its mark to the next end."""

_HEAD = (
    "| claim | says | verdict | settings | estimates | theory |",
    "|---|---|---|---|---|---|",
)


def filled(text: str, results_root: Path | str) -> str:
    """Return a document with the tables of its blocks as the results have them.

    Parameters
    ----------
    text : str
        Markdown; the lines ``<!-- verdicts: NAME -->`` and ``<!-- end -->`` enclose a block.
    results_root : path
        The folder that holds one folder a study.

    Raises
    ------
    StoreError
        If a study that a block names has no results.
    """
    root = Path(results_root)
    return BLOCK.sub(lambda found: found[1] + table_of(root / found["study"]) + found[4], text)


def fill_documents(folder: Path | str, results_root: Path | str) -> list[Path]:
    """Fill the blocks of every document of a folder; return those that changed.

    Raises
    ------
    StoreError
        If the folder does not exist, or a study that a block names has no results.
    """
    if not Path(folder).is_dir():
        raise StoreError(f"there are no documents in {folder}")
    changed = []
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.md"))}
    # All are made before any is written.
    new = {path: filled(text, results_root) for path, text in texts.items()}
    for path, text in new.items():
        if text != texts[path]:
            changed.append(write_atomic(path, text))
    return changed


def table_of(folder: Path) -> str:
    """Return the table of one study: a row a claim, in the study's order."""
    check_whole(folder)
    rows = read_claims(folder / "claims.csv")
    lines = [*_HEAD]
    statements = _statements(folder / "manifest.json")
    for claim in distinct(row["claim"] for row in rows):
        own = [row for row in rows if row["claim"] == claim]
        lines.append(_line(claim, statements.get(claim, ""), own))
    return "\n".join(lines) + "\n"


def _line(claim: str, statement: str, rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    told = ", ".join(f"{word} {counts[word]}" for word in VERDICTS if counts[word])
    cells = (
        f"`{claim}`",
        statement.replace("|", "\\|"),
        f"**{combine([row['verdict'] for row in rows])}**",
        told,
        _range(rows, "estimate"),
        _range(rows, "theory"),
    )
    return f"| {' | '.join(cells)} |"


def _range(rows: Sequence[Mapping[str, str]], column: str) -> str:
    """Return the least and the largest value, to three digits."""
    values = [float(row[column]) for row in rows if row[column]]
    if not values:
        return ""
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _statements(path: Path) -> dict[str, str]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        found: dict[str, list[str]] = {}
        for claim in manifest["specification"]["claims"]:
            # An id may stand for several quantities, each with a sentence of its own.
            found.setdefault(claim["id"], []).append(claim["statement"])
        return {name: " ".join(distinct(sentences)) for name, sentences in found.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"cannot read the claims of {path}: {error}") from None
