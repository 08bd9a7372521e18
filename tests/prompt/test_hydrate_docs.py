"""docs/hydrate.md: its tables are complete, and its figures are those of the code."""

from __future__ import annotations

import re

from rehydrate.prompt import HydrateOptions, sources
from rehydrate.prompt.hydration import MAX_ABANDONED
from rehydrate.prompt.sources.knowledge import FOLDER_SUFFIXES
from rehydrate.prompt.sources.source import TIMEOUT
from tests.stress.programs import ROOT

PAGE = (ROOT / "docs" / "hydrate.md").read_text(encoding="utf-8")


def test_every_source_and_every_option_is_in_a_table():
    rows = set(re.findall(r"^\| `(\w+)", PAGE, re.M))
    makers = {name for name in sources.__all__ if name[0].islower()}
    assert makers | set(HydrateOptions.__annotations__) - {"format"} <= rows


def test_its_figures_are_those_of_the_code():
    assert f"{TIMEOUT * 1e3:g} ms from the call" in PAGE
    assert f"{MAX_ABANDONED} late calls" in PAGE
    assert all(f"`{suffix}`" in PAGE for suffix in FOLDER_SUFFIXES)
