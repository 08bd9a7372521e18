"""Generated cases depend only on the test, not on the run or on Python's hashes."""

from __future__ import annotations

import os

import pytest

from tests.stress.programs import run_python

_DRAWS = """
import hashlib, sys
from hypothesis import given
import tests.conftest
from tests.strategies import BY_FORMAT, damaged

digest = hashlib.sha256()

@given(BY_FORMAT[sys.argv[1]]().flatmap(damaged))
def draw(entries):
    digest.update(repr(entries).encode())

draw()
print(digest.hexdigest())
"""


@pytest.mark.parametrize("format", ["anthropic", "openai_responses", "claude_code"])
def test_every_run_draws_the_same_conversations(format, monkeypatch):
    if os.environ.get("HYPOTHESIS_PROFILE") == "random":
        pytest.skip("asked for other draws")
    drawn = set()
    for seed in ("0", "1"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        ended = run_python(_DRAWS, format)
        assert ended.code == 0, ended.err
        drawn.add(ended.out)
    assert len(drawn) == 1
