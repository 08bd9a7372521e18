"""docs/cache.md is true: its example prints what it says, and its table has every rule."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rehydrate.linting import RULES

PAGE = (Path(__file__).parents[2] / "docs" / "cache.md").read_text(encoding="utf-8")


EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.S)


def test_the_page_has_its_examples():
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_page_says(code, printed):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == printed


def test_every_rule_of_the_linter_is_in_the_table():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == list(RULES)
