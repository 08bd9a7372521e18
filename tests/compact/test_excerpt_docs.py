"""docs/excerpts.md tells the truth: its example prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "excerpts.md"


def test_the_example_prints_what_the_page_says():
    found = re.search(
        r"```python\n(.*?)```\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S
    )
    assert found is not None
    code, printed = found.groups()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == printed
