"""docs/cache.md: its table has every rule of the linter."""

from __future__ import annotations

import re
from pathlib import Path

from rehydrate.linting import RULES

PAGE = (Path(__file__).parents[2] / "docs" / "cache.md").read_text(encoding="utf-8")


def test_every_rule_of_the_linter_is_in_the_table():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == list(RULES)
