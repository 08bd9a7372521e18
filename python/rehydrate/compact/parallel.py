"""Parallel calls: each call with its result is kept or dropped by itself, where the API allows it.

`Parted` turns an assistant message with several calls into several messages with one call each,
every one before its own result. That is a valid conversation, so the whole compaction works on it
as on any other. At the end the kept parts are put together again: a message of which every part is
kept unchanged is the caller's own object, any other has only the blocks that are kept.

    assistant [text, call a, call b]   user [result a, result b]
    assistant [text, call a]   user [result a]   assistant [call b]   user [result b]

What must stay together is never parted; `rust/rehydrate-py/src/parting.rs` says what that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rehydrate import _engine
from rehydrate.compact.report import Report

if TYPE_CHECKING:
    from rehydrate.compact.result import Compaction
    from rehydrate.messages import Conversation


Parted = _engine.Parted
"""A conversation's entries with parallel calls parted; `Parted.of` parts them."""


def rounding(
    parted: Parted,
    conversation: Conversation,
    kept: Sequence[bool],
    counter: str | _engine.CustomCounter,
) -> int:
    """Return what these messages cost more in parts than whole: some counters round up."""
    both, part_count = parted.both_ways(conversation, kept)
    tokens = _engine.message_tokens(both, counter) if part_count else []
    return sum(tokens[:part_count]) - sum(tokens[part_count:])


def parted_of(compaction: Compaction[Any]) -> Parted | None:
    """Return how the calls of a compaction's messages were parted; None if they were not."""
    reasons = compaction._reasons
    return reasons.parted if isinstance(reasons, Report) else None
