"""Generated cases depend only on the test, not on the run or on Python's hashes."""

from __future__ import annotations

import pytest

from tests.sizes import PROFILE
from tests.stress.programs import run_python

_DRAWS = """
import hashlib, sys
from hypothesis import given, settings
import tests.conftest
from tests.strategies import BY_FORMAT, damaged

def digest_of(format):
    digest = hashlib.sha256()

    @settings(max_examples=8)
    @given(BY_FORMAT[format]().flatmap(damaged))
    def draw(entries):
        digest.update(repr(entries).encode())

    draw()
    return digest.hexdigest()

for format in sys.argv[1:]:
    print(format, digest_of(format))
"""
FORMATS = ("anthropic", "openai_responses", "claude_code")


def test_every_run_draws_the_same_conversations(monkeypatch):
    if PROFILE == "random":
        pytest.skip("asked for other draws")
    drawn = set()
    for seed in ("0", "1"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        ended = run_python(_DRAWS, *FORMATS)
        assert ended.code == 0, ended.err
        assert len(set(ended.out.split())) == 2 * len(FORMATS)
        drawn.add(ended.out)
    assert len(drawn) == 1
