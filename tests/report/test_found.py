"""Tables of verdicts in documents are those of the results, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from nwsim.cli import main
from nwsim.exceptions import StoreError
from nwsim.report.found import BLOCK, fill_documents, filled, table_of

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = """\
claim,setting,quantity,theory,estimate,mcse,ci_low,ci_high,margin,rule,verdict
A1,n=1,mse,0.5,0.51234,0.1,0.3,0.7,0.1,equivalence,supported
A1,n=2,mse,0.5,0.9,0.1,0.7,1.1,0.1,equivalence,refuted
A2,n=1,gap,0.0,,,,,0.1,equivalence,inconclusive
"""
PAGE = "# T\n\nwords\n<!-- verdicts: toy -->\nold\n<!-- end -->\nmore\n"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "toy"
    folder.mkdir(parents=True)
    (folder / "claims.csv").write_text(CLAIMS)
    claims = [
        {"id": "A1", "statement": "a | b"},
        {"id": "A1", "statement": "and c."},
        {"id": "A2", "statement": "d"},
    ]
    digests = {"claims.csv": hashlib.sha256(CLAIMS.encode()).hexdigest()}
    manifest = {"specification": {"claims": claims}, "tables": digests}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path / "results"


def test_a_row_a_claim(results: Path) -> None:
    assert table_of(results / "toy").splitlines()[2:] == [
        "| `A1` | a \\| b and c. | **supported-with-conditions** | supported 1, refuted 1 "
        "| 0.512 to 0.9 | 0.5 |",
        "| `A2` | d | **inconclusive** | inconclusive 1 |  | 0 |",
    ]


def test_a_document_is_filled_once(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "deep" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE)
    (tmp_path / "docs" / "plain.md").write_text("none")
    assert fill_documents(tmp_path / "docs", results) == [page]
    text = page.read_text()
    assert text.startswith("# T\n\nwords\n<!-- verdicts: toy -->\n| claim |")
    assert text.endswith("|\n<!-- end -->\nmore\n")
    assert "old" not in text
    assert fill_documents(tmp_path / "docs", results) == []


def test_what_is_missing_is_named_and_nothing_written(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(PAGE)
    (docs / "b.md").write_text(PAGE.replace("toy", "other"))
    with pytest.raises(StoreError, match="other"):
        fill_documents(docs, results)
    assert (docs / "a.md").read_text() == PAGE
    (results / "toy" / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="is not a manifest"):
        filled(PAGE, results)
    assert main(["docs", str(tmp_path / "none")]) == 2
    assert "there are no documents in" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_documents_have_the_tracked_results(path: Path) -> None:
    """`make docs` after a standard run mends this."""
    text = path.read_text(encoding="utf-8")
    assert text.count("<!-- verdicts:") == len(BLOCK.findall(text))
    assert filled(text, ROOT / "results") == text
