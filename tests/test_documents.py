"""The Python that the documents show runs as it stands, each block by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/attention.md", "docs/engines.md")
BLOCKS = [
    (page, number, block)
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    )
]


def test_every_page_has_one() -> None:
    assert {page for page, _, _ in BLOCKS} == set(PAGES)


@pytest.mark.parametrize(("page", "number", "block"), BLOCKS)
def test_a_block_runs(page: str, number: int, block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(block, f"{page}, block {number}", "exec"), {})
