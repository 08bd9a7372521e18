"""docs/hydrate.md tells the truth: its examples print what it says, and its tables are complete."""

from __future__ import annotations

import re
import subprocess
import sys

from rehydrate.prompt import FOLDER_SUFFIXES, MOST_LEFT_BEHIND, TIMEOUT, HydrateOptions, sources
from tests.stress.programs import ROOT

PAGE = (ROOT / "docs" / "hydrate.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_page_says():
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    code = "".join(code for code, _ in blocks)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout == "".join(printed for _, printed in blocks)


def test_every_source_and_every_option_is_in_a_table():
    rows = set(re.findall(r"^\| `(\w+)", PAGE, re.M))
    makers = {name for name in sources.__all__ if name[0].islower()}
    assert makers | set(HydrateOptions.__annotations__) - {"format"} <= rows


def test_its_figures_are_those_of_the_code():
    assert f"{TIMEOUT * 1e3:g} ms from the call" in PAGE
    assert f"{MOST_LEFT_BEHIND} late calls" in PAGE
    assert all(f"`{suffix}`" in PAGE for suffix in FOLDER_SUFFIXES)
