"""docs/memory.md is true: its first example prints what it says, and its names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import rehydrate.errors
from rehydrate import Memory

PAGE = (Path(__file__).parent.parent.parent / "docs" / "memory.md").read_text(encoding="utf-8")


def test_the_first_example_prints_what_the_page_says():
    found = re.search(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.S)
    assert found is not None
    code, printed = found.groups()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == printed


def test_every_method_and_error_that_the_page_names_exists():
    methods = set(re.findall(r"\bmemory\.(\w+)\(", PAGE)) - {"db"}
    assert {"add", "search", "sync_folder", "hot", "export_items", "import_items"} <= methods
    assert [name for name in methods if not hasattr(Memory, name)] == []
    errors = set(re.findall(r"`(\w+Error)`", PAGE))
    assert len(errors) > 8
    assert [name for name in errors if not hasattr(rehydrate.errors, name)] == []
