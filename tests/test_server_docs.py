"""docs/server.md: its names exist, and its figures are those of the code."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import rehydrate
from rehydrate import Context
from rehydrate._concurrency.workers import COMPUTING, STORING
from rehydrate.context.prompt_builder import INLINE_MS
from rehydrate.process import DEFAULT_LIMIT_BYTES

PAGE = (Path(__file__).parents[1] / "docs" / "server.md").read_text(encoding="utf-8")


def test_every_option_of_warm_up_is_in_its_table():
    options = set(re.findall(r"^\| `(\w+)=", PAGE, re.MULTILINE))
    assert options == set(signature(rehydrate.warm_up).parameters)


def test_its_figures_are_those_of_the_code():
    assert f"at most {INLINE_MS:g} ms by estimate" in PAGE
    assert f"{STORING.size} more are for memories" in PAGE
    assert 2 <= COMPUTING.size <= 8
    assert f"the default is {DEFAULT_LIMIT_BYTES >> 20} MiB" in PAGE


def test_what_it_says_never_waits_does_not():
    context = Context()
    with context._thread.lock:
        assert context.is_busy
        assert (context.history, context.ir, context.usage.prompts) == ([], None, 0)
