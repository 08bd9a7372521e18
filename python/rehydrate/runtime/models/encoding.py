"""encodable: a request as UTF-8 can hold it."""

from __future__ import annotations

from typing import Any


def encodable(value: Any) -> Any:
    """The same value, where halves of surrogate pairs that no other half follows are U+FFFD.

    JSON escapes and file names can hold them, UTF-8 cannot: one in a history, and the SDK raises
    for every request from then on. The same text always becomes the same, so that a prefix holds.

    >>> encodable({"content": ["caf\\ud83d", "\\ud83d\\ude00"]})
    {'content': ['caf�', '😀']}
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {encodable(key): encodable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(inner) for inner in value]
    return value
