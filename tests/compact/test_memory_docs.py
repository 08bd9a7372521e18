"""The pages about compaction tell the truth: their examples print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["memory-compaction.md", "outline.md"])
def test_the_example_prints_what_the_page_says(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.S)
    assert found is not None
    code, printed = found.groups()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == printed
