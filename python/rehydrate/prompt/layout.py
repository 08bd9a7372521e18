"""The layout of a prompt: its segments with their digests, and the values that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from itertools import compress, count, repeat
from operator import eq, itemgetter
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.formats._reading import compact_json
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import Segment
from rehydrate.prompt.ir import PromptIR

_MARK = "cache_control"


def digest_of(value: Any) -> str:
    """Return 128 bits, hexadecimal, of a tool, a system block or a message as it is sent.

    A cache mark does not change the digest, nor does the block around a single text that carries
    one. The order of keys does: a model reads a tool's input in it.

    >>> marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    >>> digest_of({"role": "user", "content": [marked]}) == digest_of(
    ...     {"role": "user", "content": "hi"}
    ... )
    True
    """
    return digest_and_mark(value)[0]


def digest_and_mark(value: Any) -> tuple[str, bool]:
    """Return the digest, and whether the value contains the name of a cache mark."""
    text = compact_json(_without_lone_block(value))
    may_be_marked = _MARK in text
    if may_be_marked:
        text = compact_json(_without_lone_block(_without_marks(value)))
    hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    return hashed.hexdigest(), may_be_marked


def _without_lone_block(value: Any) -> Any:
    """Write a message of one text block as a message of that text."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if isinstance(content, (list, tuple)) and len(content) == 1:
        (block,) = content
        if isinstance(block, Mapping) and len(block) == 2 and block.get("type") == "text":
            return {**value, "content": block.get("text")}
    return value


_DEEPEST_MARK = 16
"""Levels. A mark is on a block, or on one in a tool's result; what is deeper is some tool's data,
which may be nested as deep as Python can go."""


def _without_marks(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST_MARK:
        return value
    if isinstance(value, Mapping):
        kind = value.get("type")
        # The model writes a tool's input: a key of this name in it is not a mark.
        return {
            key: inner
            if key == "input" and kind == "tool_use"
            else _without_marks(inner, depth + 1)
            for key, inner in value.items()
            if key != _MARK
        }
    if isinstance(value, (list, tuple)):
        return [_without_marks(inner, depth + 1) for inner in value]
    return value


_id = itemgetter(0)


class Layout(NamedTuple):
    """The parts of a prompt in the order in which a provider reads them."""

    ir: PromptIR
    """The prompt that is laid out."""
    provider: Provider
    segments: tuple[Segment, ...]
    values: tuple[Any, ...]
    tools: int
    """How many of the parts are tools."""
    system: int
    """How many of the parts are system blocks or messages; they follow the tools."""
    other_names: Mapping[str, int | None]
    """Names of parts besides the ids of their segments, each with the index of the last such part.
    None: the id of a segment that is not a name."""
    notes: tuple[str, ...]
    """Notes on content that was left out or changed."""
    can_go_on: bool
    """Whether new entries leave all parts as they are."""
    start: int = 0
    """How many of the parts were taken from the layout of the last prompt."""

    def index_of(self, name: str) -> int | None:
        """Return the index of the last part of this name."""
        if name in self.other_names:
            return self.other_names[name]
        # Sections are near the beginning, and the entries that are asked for near the end.
        if EntryId.index_of(name) is None:
            return next(compress(count(), map(eq, map(_id, self.segments), repeat(name))), None)
        ids = map(_id, reversed(self.segments))
        from_the_end = next(compress(count(1), map(eq, ids, repeat(name))), None)
        return None if from_the_end is None else len(self.segments) - from_the_end
