"""docs/request-context.md tells the truth: its examples print what it says."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "request-context.md"


def test_the_examples_print_what_the_page_says():
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for program, expected in blocks:
        with redirect_stdout(StringIO()) as printed:
            exec(program, {})
        assert printed.getvalue() == expected
