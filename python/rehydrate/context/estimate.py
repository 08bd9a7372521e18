"""What a call of a context will cost, in milliseconds: whether it may run on the event loop.

Rough on purpose, and fast: a few sums over what is known already. The figures are the least of many
runs on one core of a small server; `python -m benches.python.server --estimates` measures again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INLINE_MS = 5.0
"""So much work may run on the event loop. The interpreter takes its lock from a busy thread only
every 5 ms (`sys.getswitchinterval`): the loop would wait as long for shorter work in a thread, and
the work for its thread besides."""

_PROMPT_MS = 1.0
_VISIBLE_ENTRY_MS = 0.01
"""An entry that the last prompt had too is walked over."""
_NEW_ENTRY_MS = 0.1
"""A new one is read, checked, digested."""
_NEW_TOKEN_MS = 0.0008
"""And capped, and looked through for what is in the history already."""

INLINE_CHARS = 64_000
"""Of entries that are added: they are read and counted, at 20 MB/s or more."""
_MOST_PARTS = 4_000


def prompt_ms(visible_entries: int, new_entries: int, new_tokens: int) -> float:
    """Of a prompt that asks no sources and is not compacted.

    >>> prompt_ms(visible_entries=100, new_entries=2, new_tokens=500)
    2.6
    """
    return (
        _PROMPT_MS
        + _VISIBLE_ENTRY_MS * visible_entries
        + _NEW_ENTRY_MS * new_entries
        + _NEW_TOKEN_MS * new_tokens
    )


def is_short_to_add(entries: Iterable[Any]) -> bool:
    """Whether entries are short enough to be read and counted on the event loop.

    >>> is_short_to_add([{"role": "user", "content": "hello"}])
    True
    >>> is_short_to_add([{"role": "user", "content": "hello" * 20_000}])
    False
    """
    chars, parts, left = 0, 0, list(entries)
    while left:
        part = left.pop()
        parts += 1
        if isinstance(part, (str, bytes)):
            chars += len(part)
        elif isinstance(part, Mapping):
            left.extend(part.values())
        elif isinstance(part, (list, tuple)):
            left.extend(part)
        else:
            left.extend(getattr(part, "__dict__", {}).values())  # an object of an SDK's
        if chars > INLINE_CHARS or parts > _MOST_PARTS:
            return False
    return True
