"""Entries without the model's thinking, as far as their formats have parts in common.

A format says with `without_thinking(entries)` what each entry is once its thinking is gone: the
entry itself where it has none, a copy without it, or None where nothing else is left to say. The
entries themselves are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate.formats._reading import type_of

__all__ = ["THINKING_BLOCKS", "Nothing", "content_without_thinking", "is_thinking"]

THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})


class Nothing:
    """What is left of a content that was nothing but thinking, and white space around it."""


def is_thinking(block: object, kinds: frozenset[str] = THINKING_BLOCKS) -> bool:
    """Whether a block of a content is of one of these types."""
    return isinstance(block, Mapping) and type_of(block) in kinds


def content_without_thinking(content: Any, kinds: frozenset[str] = THINKING_BLOCKS) -> Any:
    """The content without blocks of these types: itself where it has none, or `Nothing`.

    >>> content_without_thinking([{"type": "thinking", "thinking": "hm"}, "Done."])
    ['Done.']
    >>> content_without_thinking([{"type": "thinking", "thinking": "hm"}, "\\n"]) is Nothing
    True
    """
    if not isinstance(content, (list, tuple)) or not any(is_thinking(b, kinds) for b in content):
        return content
    rest = [block for block in content if not is_thinking(block, kinds)]
    if all(map(_is_blank, rest)):  # which the providers refuse
        return Nothing
    return tuple(rest) if isinstance(content, tuple) else rest


def _is_blank(block: object) -> bool:
    if isinstance(block, Mapping) and type_of(block) == "text":
        block = block.get("text")
    return isinstance(block, str) and not block.strip()
