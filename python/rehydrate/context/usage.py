"""ContextUsage: how full a conversation's window is, and what its job has spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class ContextUsage(NamedTuple):
    """Figures of a context. Tokens are in its counter's unit."""

    tokens: int
    """Of the last prompt."""
    upper_bound_tokens: int
    """The most that a provider may count for it; the budgets are compared with this."""
    soft_tokens: int
    hard_tokens: int
    """Of one request."""
    job_tokens: int
    """The new tokens that this job has sent: of each prompt, those after the prefix it shares with
    the one before, since the cache has the rest."""
    max_job_tokens: int | None
    """None: no limit."""
    prompts: int
    compactions: int
    entries: int
    """Added so far."""
    visible_entries: int
    """In the last prompt."""
    sections: int
    """In the last prompt."""

    @property
    def soft_share(self) -> float:
        """The share of the soft budget in use; above 1.0 the next prompt is compacted."""
        return self.upper_bound_tokens / self.soft_tokens

    @property
    def hard_share(self) -> float:
        """The share of the hard budget in use; above 1.0 the prompt is refused."""
        return self.upper_bound_tokens / self.hard_tokens

    @property
    def job_share(self) -> float | None:
        """The share of the job's budget that is spent; None where it has none."""
        limit = self.max_job_tokens
        return None if limit is None else self.job_tokens / limit


INLINE_MS = 5.0
"""Work up to this long may run on the event loop. The interpreter takes its lock from a busy thread
only every 5 ms (`sys.getswitchinterval`), so the loop would wait as long for shorter work in a
thread."""

_PROMPT_MS = 1.0
_VISIBLE_ENTRY_MS = 0.01
"""For an entry that the last prompt had too."""
_NEW_ENTRY_MS = 0.1
"""For a new entry: it is read, checked and hashed."""
_NEW_TOKEN_MS = 0.0008
"""For a new token: it is capped, and compared with the history."""

INLINE_CHARS = 64_000
"""Entries up to this size may be added on the event loop: they are read and counted at 20 MB/s or
more."""
_MAX_PARTS = 4_000


def prompt_ms(visible_entries: int, new_entries: int, new_tokens: int) -> float:
    """Return the time of a prompt that asks no sources and is not compacted, in milliseconds.

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
    """Return whether entries are short enough to be read and counted on the event loop.

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
        if chars > INLINE_CHARS or parts > _MAX_PARTS:
            return False
    return True
