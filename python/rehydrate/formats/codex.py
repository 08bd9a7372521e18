"""Codex rollouts: JSONL lines around the items of OpenAI's Responses API.

The model saw the `response_item` lines. All others (session_meta, turn_context, event_msg) are
ignored, and so are snapshots of files, and the turns that the user took back (an event
`thread_rolled_back`). A `compacted` line is a message that Codex writes in the user's name: its
summary, with the state that the provider keeps of what was before.

The oldest rollouts have bare items as lines, behind a line with the session's instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.formats import openai_responses
from rehydrate.formats._reading import (
    STATE_BLOCKS,
    Places,
    codex_kept,
    codex_line,
    codex_lines,
    codex_turns_taken_back,
    entries_without_thinking,
    read_entries,
    read_places,
    replace_texts,
    type_of,
)
from rehydrate.formats.calls import Inputs
from rehydrate.messages import Conversation

NAME = "codex"
replace = replace_texts

kept, turns_taken_back = codex_kept, codex_turns_taken_back


class Line(NamedTuple):
    """A line of the conversation, and its item."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    item: Mapping[str, Any]
    path: tuple[str, ...]
    """Where the item is in its line."""
    is_turn: bool
    """Whether the user wrote it, and not Codex in the user's name."""


_SUMMARY = ("payload", "message")


def parse(entries: Sequence[Any]) -> Conversation:
    """Read the lines of a rollout; raises InvalidMessageError for an entry that is no line."""
    return read_entries(NAME, entries)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the path of each text in a line's item; None where it must not change."""
    return read_places(NAME, entry, index)


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the input of a line's call."""
    line = line_of(entry, 0)
    assert line is not None
    return [
        found and found._replace(paths=tuple([(*line.path, *path) for path in found.paths]))
        for found in openai_responses.inputs(line.item)
    ]


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the line's item is a thought, or holds its signature."""
    line = line_of(entry, 0)
    return line is not None and openai_responses.signed(line.item)


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each line without reasoning: itself, a copy, or None where nothing is left."""
    return entries_without_thinking(NAME, entries)


def spoken_lines(entries: Sequence[Any]) -> list[Line]:
    """Return the lines of the conversation: those that the model saw, less what was taken back.

    Raises InvalidMessageError for an entry that is no line of a rollout.
    """
    return list(map(Line._make, codex_lines(entries)))


def line_of(entry: Mapping[str, Any], index: int) -> Line | None:
    """Return a line that the model saw, on whatever branch it is; None for any other.

    Raises InvalidMessageError for an entry that is no line of a rollout.
    """
    line = codex_line(entry, index)
    return line and Line(*line)


def taken_back(entries: Sequence[Any]) -> frozenset[int]:
    """Return the indices of lines that the model saw before the user took them back, and of the
    events by which they did: both go together.

    >>> def said(text):
    ...     message = {"type": "message", "role": "user", "content": text}
    ...     return {"type": "response_item", "payload": message}
    >>> event = {"type": "thread_rolled_back", "num_turns": 1}
    >>> event = {"type": "event_msg", "payload": event}
    >>> taken_back([said("Use tabs."), said("Use spaces."), event])
    frozenset({1, 2})
    """
    there = {line.index for line in spoken_lines(entries)}
    lines = enumerate(entries)
    gone = [n for n, entry in lines if line_of(entry, n) is not None and n not in there]
    return frozenset([*gone, *(n for n, entry in enumerate(entries) if turns_taken_back(entry))])


def items_of(entries: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the items of the conversation as they were sent, each with the index of its line."""
    for line in spoken_lines(entries):
        if line.path != _SUMMARY:
            yield line.index, line.item
            continue
        for part in line.item["content"]:
            if type_of(part) in STATE_BLOCKS:
                yield line.index, part
            else:
                yield line.index, {"role": "user", "content": part["text"]}
