"""Digests: two values that are sent have equal digests if they differ in cache marks only."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from rehydrate.formats._reading import compact_json

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


def _without_marks(value: Any) -> Any:
    if isinstance(value, Mapping):
        kind = value.get("type")
        # The model writes a tool's input: a key of this name in it is no mark.
        return {
            key: inner if key == "input" and kind == "tool_use" else _without_marks(inner)
            for key, inner in value.items()
            if key != _MARK
        }
    if isinstance(value, (list, tuple)):
        return [_without_marks(inner) for inner in value]
    return value
