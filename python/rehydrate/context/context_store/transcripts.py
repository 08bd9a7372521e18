"""Messages as text that a model reads, in a fence that says that they are data."""

from __future__ import annotations

from collections.abc import Iterable

from rehydrate import _native
from rehydrate._native import fence_tags
from rehydrate.messages import Message

MAX_CHARS = 400_000
"""About 100,000 tokens. Of more, the middle is left out."""


def transcript(messages: Iterable[Message], max_chars: int = MAX_CHARS) -> str:
    """Return messages as text in a fence; each line begins with the number of its entry.

    >>> from rehydrate import formats
    >>> said = formats.parse([{"role": "user", "content": "Use tabs."}], "anthropic").messages
    >>> transcript(said).split("\\n")[1]
    '#0 user: Use tabs.'
    """
    return fenced("conversation", _native.transcript_lines(messages, True), max_chars)


def lines_of(messages: Iterable[Message]) -> list[str]:
    """Return the texts of messages as a model reads them, but for the model's thinking.

    Of a tool's call or result they have the beginning and the end. A line that would pass for the
    beginning of another message is quoted.
    """
    return _native.transcript_lines(messages, False)


def fenced(name: str, lines: Iterable[str], max_chars: int = MAX_CHARS) -> str:
    """Return lines in a fence that says that they are data."""
    text = "\n".join(lines)
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n[... left out ...]\n{text[-half:]}"
    opening, closing = fence_tags(name, name, "", "", None, True, text)
    return f"{opening}\n{text}\n{closing}"
