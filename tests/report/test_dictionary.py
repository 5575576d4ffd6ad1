"""results/README.md explains every column that the tables have."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nwsim.report.ledger import CLAIM_COLUMNS, LEDGER_COLUMNS
from tests.report.fake import FACTORS, fake_results

README = Path(__file__).resolve().parents[2] / "results" / "README.md"


def explained(heading: str) -> set[str]:
    """Names in code marks in the first cells of a section's tables."""
    text = README.read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return {
        name
        for line in section.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_column_is_explained() -> None:
    tables = fake_results()
    assert set(tables.performance.columns) <= explained("performance.csv")
    assert set(tables.curves.columns) - set(FACTORS) <= explained("curves.csv")
    assert set(CLAIM_COLUMNS) == explained("claims.csv")
    # "`setting` to `rule`" stands for those of the claims.
    assert set(LEDGER_COLUMNS) - set(CLAIM_COLUMNS) <= explained("ledger.csv")


def test_files_of_a_real_run_are_explained() -> None:
    folders = [path.parent for path in README.parent.glob("*/manifest.json")]
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        factors = set(manifest["specification"]["factors"])
        for name in ("performance", "contrasts", "curves", "claims"):
            header = (folder / f"{name}.csv").read_text(encoding="utf-8").split("\n", 1)[0]
            known = explained(f"{name}.csv") | explained("performance.csv")
            assert set(header.split(",")) - factors <= known
