"""docs/tool-results.md tells the truth: its examples run, in order, and print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "tool-results.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says():
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", PAGE, re.S)
    assert len(blocks) == 3
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == expected
