"""Insertions: where dynamic sections stand between the messages of a prompt."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from rehydrate.formats.neutral import RenderedMessage
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import Section
from rehydrate.prompt.target import Target


def insertions(
    dynamic: Sequence[Section],
    history: History,
    messages: Sequence[RenderedMessage],
    target: Target,
) -> dict[int, list[Section]]:
    """Return the sections by the index of the message that they stand before."""
    last_turn = _last_user_turn(history)
    by_anchor: dict[int | None, list[Section]] = {}
    for section in dynamic:
        anchor = last_turn if section.anchor is None else section.anchor
        by_anchor.setdefault(anchor, []).append(section)
    entry_indices = [
        history.entry_index(each.sources[0]) if each.sources else -1 for each in messages
    ]
    highest = list(accumulate(entry_indices, max))  # up to and with each message
    values = [each.message for each in messages]
    inserted: dict[int, list[Section]] = {}
    for anchor, group in by_anchor.items():
        before = len(messages) if anchor is None else bisect_left(highest, anchor)
        index = insertion_point(values, before, target)
        inserted.setdefault(index, []).extend(group)
    return inserted


def _last_user_turn(history: History) -> int | None:
    """Return the entry index of the last user turn."""
    for message in reversed(history.light_messages):
        if message.is_user_turn:
            return history.entry_index(message.index)
    return None


def insertion_point(messages: Sequence[Any], index: int, target: Target) -> int:
    """Return this index, or the nearest one before it where a section may stand.

    It may not stand between a call and its results, nor behind thinking that ends a message: then
    it stands before the call. Nor may it stand behind a system message amid Anthropic's, which the
    reply must follow. Messages behind the index do not count, because they were not there when the
    section came in.
    """
    while index and (start := _inseparable_start(messages, index, target)) is not None:
        index = start
    return index


def _inseparable_start(messages: Sequence[Any], index: int, target: Target) -> int | None:
    """Return the index of the message that must not be separated from what follows `index`.

    It is a message with an open call, or one that ends in thinking, in the last turn before
    `index`. None: there is no such message.
    """
    answered: set[str] = set()
    has_spoken = False
    for n in range(index - 1, -1, -1):
        message = messages[n]
        if target.provider == "anthropic" and message.get("role") == "system":
            if n == index - 1:
                return n
            continue
        parsed = target.render_cache.parsed(message, target.provider)
        if n == index - 1 and _ends_in_thinking(message):
            return n
        if (has_spoken or not parsed.answers) and parsed.role != "assistant":
            return None  # a turn before the last that had calls, or the user's words
        answered.update(parsed.answers)
        if not answered.issuperset(parsed.calls):
            return n
        has_spoken = parsed.role == "assistant"
    return None


def _ends_in_thinking(message: Any) -> bool:
    if message.get("type") == "reasoning":
        return True
    content = message.get("content")
    last = content[-1] if isinstance(content, (list, tuple)) and content else None
    return isinstance(last, dict) and last.get("type") in ("thinking", "redacted_thinking")
