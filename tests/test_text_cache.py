"""The cache of a process: its limit holds at once, in children too; clearing loses nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rehydrate import _native, compact_context, count_tokens
from rehydrate.errors import InvalidArgumentError
from rehydrate.process import DEFAULT_LIMIT_BYTES, cache_limit, cached_bytes, clear_cache
from tests.stress.programs import needs_fork, run_python

MIB = 1 << 20


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    cache_limit(DEFAULT_LIMIT_BYTES)
    clear_cache()


def fill(start: int = 0) -> None:
    for number in range(start, start + 400):
        count_tokens(" ".join(f"part_{number}_{word}" for word in range(600)))
    rows = np.ones((400, 384), np.float32)
    _native.cache_vectors("a space", [f"{start + row}" for row in range(len(rows))], rows)
    messages = [
        {"role": "user", "content": " ".join(f"word{number}x{n}" for n in range(900))}
        for number in range(start, start + 200)
    ]
    compact_context(messages, "word7x7", 0.5)


def test_a_smaller_limit_holds_at_once_and_from_then_on():
    clear_cache()
    fill()
    assert cached_bytes() > 2 * MIB
    assert cache_limit(MIB) == cache_limit() == MIB
    assert cached_bytes() <= MIB
    fill(1_000)
    assert 0 < cached_bytes() <= MIB


def test_a_larger_limit_holds_more():
    cache_limit(MIB)
    fill()
    small = cached_bytes()
    cache_limit(64 * MIB)
    fill()
    assert cached_bytes() > 2 * small


def test_what_is_cleared_is_worked_out_again_and_is_the_same():
    messages = [{"role": "user", "content": f"note {n} about part_{n}.py"} for n in range(30)]
    before = compact_context(messages, "part_7", 0.3)
    clear_cache()
    assert cached_bytes() == 0
    assert compact_context(messages, "part_7", 0.3).indices == before.indices
    assert cached_bytes() > 0


@pytest.mark.parametrize("limit", [0, -1, MIB - 1, 64.0, True, "64 MiB"])
def test_a_limit_that_is_invalid_is_refused(limit: object):
    with pytest.raises(InvalidArgumentError, match="limit_bytes is"):
        cache_limit(limit)
    assert cache_limit() == DEFAULT_LIMIT_BYTES


@needs_fork
def test_a_child_has_its_parents_limit():
    ended = run_python(
        """
        import os
        import rehydrate
        rehydrate.process.cache_limit(1 << 20)
        if (child := os.fork()) == 0:
            for number in range(1_000):
                rehydrate.count_tokens(" ".join(f"part_{number}_{word}" for word in range(600)))
            held = rehydrate.process.cached_bytes()
            os._exit(7 if 0 < held <= rehydrate.process.cache_limit() == 1 << 20 else 8)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "7\n", "")
