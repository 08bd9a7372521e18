"""Putting shorter texts into an entry: a new entry, in which only what was changed is new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Path", "replace"]

Path = tuple[str | int, ...]
"""Where a text stands inside an entry: keys of mappings and places in lists."""


def replace(entry: Mapping[str, Any], texts: Mapping[Path, str]) -> dict[str, Any]:
    """The entry with these texts in it; what holds none of them is shared, not copied.

    >>> replace({"role": "user", "content": "a long story"}, {("content",): "a story"})
    {'role': 'user', 'content': 'a story'}
    """
    result: Any = entry
    for path, text in texts.items():
        result = _with_text(result, path, text)
    return dict(result)


def _with_text(value: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    key, *rest = path
    copied: Any = dict(value) if isinstance(value, Mapping) else list(value)
    copied[key] = _with_text(value[key], tuple(rest), text)
    return copied
