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

from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats import openai_responses
from rehydrate.formats._reading import (
    NONE,
    PROOF,
    STATE_BLOCKS,
    Places,
    as_entry,
    replace_texts,
    type_of,
)
from rehydrate.formats.calls import Inputs
from rehydrate.messages import Conversation

NAME = "codex"
replace = replace_texts

_LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_UNSEEN = frozenset({"ghost_snapshot", "other"})
_WRITTEN = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions"),
    *("<INSTRUCTIONS>", "<turn_aborted>", "<skill>", "<user_shell_command>"),
    *("<subagent_notification>", "<permissions instructions>", "<collaboration_mode>"),
)
"""Beginnings of what Codex writes in the user's name."""


class Line(NamedTuple):
    """A line of the conversation, and its item."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    item: Mapping[str, Any]
    path: tuple[str, ...]
    """Where the item is in its line."""

    @property
    def is_turn(self) -> bool:
        """Whether the user wrote it, and not Codex in the user's name."""
        item = self.item
        if self.path == _SUMMARY or item.get("role") != "user":
            return False
        return any(text and not text.startswith(_WRITTEN) for text in _texts(item))


_ITEM, _SUMMARY = ("payload",), ("payload", "message")


def detect(entry: Mapping[str, Any]) -> int:
    """PROOF: a line with a payload, or one that only the oldest rollouts have."""
    if "role" in entry:
        return NONE
    if type_of(entry) in _LINES and isinstance(entry.get("payload"), Mapping):
        return PROOF
    is_old = "type" not in entry and (
        "record_type" in entry or {"instructions", "timestamp"} <= entry.keys()
    )
    return PROOF if is_old else NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read the lines of a rollout; raises InvalidMessageError for an entry that is no line."""
    lines = spoken_lines(entries)
    found = {line.index for line in lines}
    ignored = [index for index in range(len(entries)) if index not in found]
    numbered = [(line.index, line.item, line.is_turn) for line in lines]
    return openai_responses.read_items(NAME, numbered, ignored)


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the Responses API that the items break, by index of the line."""
    return openai_responses.broken_rules_of([line[:2] for line in spoken_lines(entries)])


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the path of each text in a line's item; None where it must not change."""
    line = line_of(entry, index)
    assert line is not None
    if line.path == _SUMMARY:
        return [_SUMMARY] if _texts(line.item) else []
    found = openai_responses.places(line.item, index)
    return [None if path is None else (*line.path, *path) for path in found]


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
    shown = list(entries)
    lines = [line for n, entry in enumerate(entries) if (line := line_of(entry, n)) is not None]
    items = [line.item for line in lines]
    for line, was, now in zip(lines, items, openai_responses.without_thinking(items), strict=True):
        if now is None:
            shown[line.index] = None
        elif now is not was:
            shown[line.index] = {**entries[line.index], "payload": now} if line.path else now
    return shown


def spoken_lines(entries: Sequence[Any]) -> list[Line]:
    """Return the lines of the conversation: those that the model saw, less what was taken back.

    Raises InvalidMessageError for an entry that is no line of a rollout.
    """
    read = [as_entry(raw, index) for index, raw in enumerate(entries)]
    lines = [line_of(entry, index) for index, entry in enumerate(read)]
    turns = [line is not None and line.is_turn for line in lines]
    is_kept = kept(turns, [turns_taken_back(entry) for entry in read])
    return [line for line, keep in zip(lines, is_kept, strict=True) if keep and line is not None]


def kept(turns: Sequence[bool], taken_back: Sequence[int]) -> list[bool]:
    """Return whether each line is still there: some are turns of the user's, others take back so
    many turns, with all behind them.

    >>> kept([True, False, True, False, False], [0, 0, 0, 0, 1])
    [True, True, False, False, True]
    """
    is_kept = [True] * len(turns)
    open_turns: list[int] = []
    for index, (is_turn, taken) in enumerate(zip(turns, taken_back, strict=True)):
        if is_turn:
            open_turns.append(index)
        elif taken and open_turns:
            start = open_turns[-taken:][0]
            is_kept[start:index] = [False] * (index - start)
            del open_turns[-taken:]
    return is_kept


def line_of(entry: Mapping[str, Any], index: int) -> Line | None:
    """Return a line that the model saw, on whatever branch it is; None for any other.

    Raises InvalidMessageError for an entry that is no line of a rollout.
    """
    kind, payload = type_of(entry), entry.get("payload")
    if not isinstance(payload, Mapping):
        if kind in _LINES:
            remedy = f"a '{kind}' line needs its payload; leave the line out"
            raise InvalidMessageError(index, "payload", payload, "a mapping", remedy)
        if not kind and "role" not in entry:
            return None  # the first line of an old rollout, or a note on its state
        return None if kind in _UNSEEN else Line(index, entry, ())
    if kind == "response_item":
        return None if type_of(payload) in _UNSEEN else Line(index, payload, _ITEM)
    if kind == "compacted":
        return Line(index, {"role": "user", "content": _summary(payload)}, _SUMMARY)
    return None


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


def turns_taken_back(entry: Mapping[str, Any]) -> int:
    """Return how many turns of the user's a line takes back."""
    payload = entry.get("payload")
    if type_of(entry) != "event_msg" or not isinstance(payload, Mapping):
        return 0
    count = payload.get("num_turns") if type_of(payload) == "thread_rolled_back" else 0
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0


def _summary(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the content of Codex' summary: its words, and the state that the provider keeps."""
    text = payload.get("message")
    content: list[Mapping[str, Any]] = []
    if isinstance(text, str) and text:
        content.append({"type": "input_text", "text": text})
    history = payload.get("replacement_history")
    items = history if isinstance(history, (list, tuple)) else ()
    states = [item for item in items if isinstance(item, Mapping) and type_of(item) in STATE_BLOCKS]
    return [*content, *states]


def _texts(item: Mapping[str, Any]) -> list[str]:
    content = item.get("content")
    parts = content if isinstance(content, (list, tuple)) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return [text for text in texts if isinstance(text, str)]
