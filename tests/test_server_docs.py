"""docs/server.md is true: its examples print what it says, and its names exist."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from inspect import signature
from io import StringIO
from pathlib import Path

import pytest

import rehydrate
from rehydrate import Context
from rehydrate._concurrency.workers import COMPUTING, STORING
from rehydrate.context import INLINE_MS
from rehydrate.process import DEFAULT_LIMIT_BYTES

PAGE = (Path(__file__).parents[1] / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    rehydrate.process.cache_limit(DEFAULT_LIMIT_BYTES)


def test_the_examples_print_what_the_page_says():
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for code, expected in blocks:
        with redirect_stdout(StringIO()) as printed:
            exec(code, {})
        assert printed.getvalue() == expected


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
    with context._lock:
        assert context.is_busy
        assert (context.history, context.ir, context.usage.prompts) == ([], None, 0)
