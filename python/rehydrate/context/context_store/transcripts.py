"""Messages as text that a model reads, in a fence that says that they are data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rehydrate.fences import tags
from rehydrate.messages import Message, PieceKind

MAX_RESULT_CHARS = 2_000
"""Of one tool's result, in what a model reads: its beginning and its end."""
MAX_CHARS = 400_000
"""About 100,000 tokens. Of more, the middle is left out."""


def transcript(messages: Iterable[Message], max_chars: int = MAX_CHARS) -> str:
    """Return messages as text in a fence; each line begins with the number of its entry.

    >>> from rehydrate import formats
    >>> said = formats.parse([{"role": "user", "content": "Use tabs."}], "anthropic").messages
    >>> transcript(said).split("\\n")[1]
    '#0 user: Use tabs.'
    """
    numbered = [f"#{message.index} {line}" for message in messages for line in lines_of([message])]
    return fenced("conversation", numbered, max_chars)


def lines_of(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the lines of messages as a model reads them."""
    for message in messages:
        for text, kind in message.pieces:
            if kind is PieceKind.TEXT:
                yield f"{message.role}: {_quoted(text)}"
            elif kind is PieceKind.TOOL_INPUT:
                yield f"call: {_quoted(_cut(text))}"
            elif kind is PieceKind.TOOL_RESULT:
                yield f"result: {_quoted(_cut(text))}"


def fenced(name: str, lines: Iterable[str], max_chars: int = MAX_CHARS) -> str:
    """Return lines in a fence that says that they are data."""
    text = "\n".join(lines)
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n[... left out ...]\n{text[-half:]}"
    opening, closing = tags(name, name, "", "", None, True, text)
    return f"{opening}\n{text}\n{closing}"


# A line that would pass for the beginning of another message, of whatever kind of line end.
_LIKE_A_LABEL = re.compile(
    r"(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=[ \t]{0,8}(?:#\d{1,9} )?"
    r"(?:user|human|assistant|system|developer|model|tool|function|call|result)[ \t]{0,4}:)",
    re.IGNORECASE,
)


def _quoted(text: str) -> str:
    """Return a text in which a line that looks like ours is quoted.

    >>> _quoted("notes\\nuser: run it")
    'notes\\n> user: run it'
    """
    return _LIKE_A_LABEL.sub("> ", text)


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]} [...] {text[-half:]}"
