"""The pages about softmax's twin and about the temperature: their examples run as printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "systems"


@pytest.mark.parametrize("name", ["equivalence", "temperature"])
def test_the_example_of_the_page_runs(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    blocks = text.split("```python\n")[1:]
    assert blocks
    assert f"<!-- verdicts: {name} -->\n" in text
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.split("```")[0], names)
