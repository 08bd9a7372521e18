"""Digests: whether two prompts send the same, cache marks aside."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from rehydrate.formats._reading import compact_json

_MARK = "cache_control"


def digest_of(value: Any) -> str:
    """128 bits, hexadecimal, of a tool, a system block or a message as it is sent.

    A cache mark changes nothing, nor does the block that a lone text becomes to carry one. The
    order of keys does: a model reads a tool's input in it.

    >>> marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    >>> digest_of({"role": "user", "content": [marked]}) == digest_of(
    ...     {"role": "user", "content": "hi"}
    ... )
    True
    """
    return digest_and_mark(value)[0]


def digest_and_mark(value: Any) -> tuple[str, bool]:
    """The digest, and whether there may be a cache mark: its name stands somewhere in it."""
    text = compact_json(_plain(value))
    may_be_marked = _MARK in text
    if may_be_marked:
        text = compact_json(_plain(_unmarked(value)))
    hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    return hashed.hexdigest(), may_be_marked


def _plain(value: Any) -> Any:
    """A message of one text as that text."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if isinstance(content, (list, tuple)) and len(content) == 1:
        (block,) = content
        if isinstance(block, Mapping) and len(block) == 2 and block.get("type") == "text":
            return {**value, "content": block.get("text")}
    return value


def _unmarked(value: Any) -> Any:
    if isinstance(value, Mapping):
        kind = value.get("type")
        # What a tool is called with is the model's own: a key of this name in it is no mark.
        return {
            key: inner if key == "input" and kind == "tool_use" else _unmarked(inner)
            for key, inner in value.items()
            if key != _MARK
        }
    if isinstance(value, (list, tuple)):
        return [_unmarked(inner) for inner in value]
    return value
