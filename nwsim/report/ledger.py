"""The ledger: every claim of every study with its verdicts, gathered by code."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nwsim._files import CLAIM_COLUMNS, MANIFEST, check_digests, parse_setting, write_atomic
from nwsim.exceptions import StoreError
from nwsim.inference import combine

VERDICTS = ("supported", "refuted", "inconclusive")
"""Verdicts of a setting, in the order in which conditions are told."""

LEDGER_COLUMNS = ["claim", "study", *CLAIM_COLUMNS[1:], "conditions"]

Row = dict[str, str]


def write_ledger(results_root: Path | str) -> Path:
    """Gather ``results/*/claims.csv`` into ``results/ledger.csv``.

    One row a claim and setting, copied as it stands in the study's file, and after the
    settings of each claim one row ``setting=all`` with the combined verdict. The column
    ``conditions`` of that row says, from the rows above it, which settings got which verdict.

    Parameters
    ----------
    results_root : path
        The folder that holds one folder a study.

    Returns
    -------
    Path
        The ledger.

    Raises
    ------
    StoreError
        If the folder does not exist, tables are not those of their manifest, a file lacks
        columns, or the ledger cannot be written.
    """
    root = Path(results_root)
    if not root.is_dir():
        raise StoreError(f"results folder {root} does not exist")
    rows: list[Row] = []
    for path in sorted(root.glob("*/claims.csv")):
        check_whole(path.parent)
        rows += read_claims(path)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, LEDGER_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for claim in sorted({row["claim"] for row in rows}, key=natural):
        own = [row for row in rows if row["claim"] == claim]
        writer.writerows(own)
        writer.writerow(total(claim, own))
    return write_atomic(root / "ledger.csv", buffer.getvalue().encode())


def check_whole(folder: Path) -> None:
    """Refuse a study's folder whose tables are of two runs, or were changed by hand.

    Raises
    ------
    StoreError
        If there is no manifest, or a table is not the one it was written with.
    """
    try:
        digests = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["tables"]
        known = {str(name): str(digest) for name, digest in digests.items()}
    except OSError as error:
        raise StoreError(f"cannot read {folder / MANIFEST}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(f"{folder / MANIFEST} is not a manifest of nwsim") from None
    check_digests(folder, known)


def read_claims(path: Path) -> list[Row]:
    """Return the rows of one study's claims as texts, so that no digit changes on the way."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in CLAIM_COLUMNS if name not in (reader.fieldnames or [])]
            if missing:
                raise StoreError(f"{path} lacks the columns {', '.join(missing)}")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StoreError(f"cannot read {path}: {error}") from None
    if any(None in row or None in row.values() for row in rows):
        raise StoreError(f"{path} has a row of the wrong length")
    return [
        {"study": path.parent.name} | {name: row[name] for name in CLAIM_COLUMNS} for row in rows
    ]


def total(claim: str, rows: Sequence[Row]) -> Row:
    """Return the row ``setting=all`` of one claim."""
    return {
        "claim": claim,
        "study": ";".join(distinct(row["study"] for row in rows)),
        "setting": "all",
        "quantity": ";".join(distinct(row["quantity"] for row in rows)),
        "rule": ";".join(distinct(row["rule"] for row in rows)),
        "verdict": combine([row["verdict"] for row in rows]),
        "conditions": conditions(rows),
    }


def conditions(rows: Sequence[Row]) -> str:
    """Say which settings got which verdict, factors that never vary left out.

    Examples
    --------
    ``supported 3 of 4: alpha=0.5 dim=1|2, alpha=2 dim=1; refuted 1 of 4: alpha=2 dim=2``
    """
    whole = [_identity(row) for row in rows]
    names = distinct(name for identity in whole for name in identity)
    varying = [name for name in names if len({identity.get(name, "") for identity in whole}) > 1]
    words = []
    for verdict in (word for word in VERDICTS if any(row["verdict"] == word for row in rows)):
        own = [
            tuple(identity.get(name, "") for name in varying)
            for identity, row in zip(whole, rows, strict=True)
            if row["verdict"] == verdict
        ]
        text = f"{verdict} {len(own)} of {len(rows)}"
        if len(own) < len(rows):
            text += ": " + ", ".join(
                " ".join(
                    f"{name}={'|'.join(sorted(levels, key=natural))}"
                    for name, levels in zip(varying, box, strict=True)
                    if levels != frozenset({""})
                )
                for box in boxes(own)
            )
        words.append(text)
    return "; ".join(words)


def boxes(points: Sequence[tuple[str, ...]]) -> list[tuple[frozenset[str], ...]]:
    """Cover points exactly by few products of sets, joining along one axis after another."""
    cover = [tuple(frozenset({level}) for level in point) for point in dict.fromkeys(points)]
    for axis in range(len(cover[0]) if cover else 0):
        joined: dict[tuple[frozenset[str], ...], frozenset[str]] = {}
        for box in cover:
            rest = (*box[:axis], *box[axis + 1 :])
            joined[rest] = joined.get(rest, frozenset()) | box[axis]
        cover = [(*rest[:axis], levels, *rest[axis:]) for rest, levels in joined.items()]
    return cover


def natural(text: str) -> list[tuple[int, float, str]]:
    """Return a sort key in which R2 comes before R10, and 0.5 before 1.5."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(0, float(part), "") if i % 2 else (1, 0.0, part) for i, part in enumerate(parts)]


def distinct(texts: Iterable[str]) -> list[str]:
    """Return the texts without repetition, in order of first appearance."""
    return list(dict.fromkeys(texts))


def _identity(row: Row) -> Row:
    return {"study": row["study"], "quantity": row["quantity"]} | parse_setting(row["setting"])
