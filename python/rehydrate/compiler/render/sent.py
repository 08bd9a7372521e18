"""Sent: a message in a provider's shape, and where in the history it is from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class Sent(NamedTuple):
    """A message as it is sent."""

    message: Any
    sources: tuple[int, ...]
    """The history's entries that it says, by their position."""


def arguments(value: Any) -> str:
    """A tool call's input as OpenAI has it: JSON in a string; what is no JSON stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def one_or_all(parts: Sequence[dict[str, Any]], kind: str) -> Any:
    """A content of one text as a string, any other as its parts."""
    if len(parts) == 1 and parts[0]["type"] == kind:
        return parts[0]["text"]
    return list(parts)
