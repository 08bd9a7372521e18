"""docs/memory.md: its names exist."""

from __future__ import annotations

import re
from pathlib import Path

import rehydrate.errors
from rehydrate import Memory

PAGE = (Path(__file__).parent.parent.parent / "docs" / "memory.md").read_text(encoding="utf-8")


def test_every_method_and_error_that_the_page_names_exists():
    methods = set(re.findall(r"\bmemory\.(\w+)\(", PAGE)) - {"db"}
    assert {"add", "search", "sync_folder", "hot", "export_items", "import_items"} <= methods
    assert [name for name in methods if not hasattr(Memory, name)] == []
    errors = set(re.findall(r"`(\w+Error)`", PAGE))
    assert len(errors) > 8
    assert [name for name in errors if not hasattr(rehydrate.errors, name)] == []
