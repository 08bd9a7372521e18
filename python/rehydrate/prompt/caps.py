"""Caps of tool results: a long one is shown in part, by its kind: JSON, log, diff, code, text.

The engine finds the kind and cuts the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.counting import COUNTER

__all__ = ["Capped", "Caps", "Kind", "cap_text", "kind_of", "notice"]


DEFAULT_TOKENS = 8_000
MIN_TOKENS = 400
ROWS = 100
LOG_LINES = 200
_MAX_CHARACTER_TOKENS = 4
"""Maximum tokens of a character: its bytes."""
NOTICE_TOKENS = 128
"""Maximum tokens of a notice, with a handle of 128 characters. They are reserved, so that a text
with its notice is within the cap and is never capped again."""
MAX_HANDLE_CHARS = 128


class Kind(StrEnum):
    """The kind of a text."""

    JSON = "json"
    JSON_LINES = "json_lines"
    DIFF = "diff"
    MATCHES = "matches"
    LIST = "list"
    CODE = "code"
    LOG = "log"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum tokens (o200k_base) of a tool's result, its notice included.

    >>> caps = Caps(by_tool={"Read": 16_000, "get_schema": None})
    >>> caps.tokens("Read"), caps.tokens("Bash"), caps.tokens("get_schema")
    (16000, 8000, None)
    """

    default_tokens: int | None = DEFAULT_TOKENS
    by_tool: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    """Caps by the name of the tool; None: never capped."""
    rows: int = ROWS
    """Maximum number of rows of a list that is cut, from its start."""
    log_lines: int = LOG_LINES
    """Maximum number of last lines of a log that is cut."""

    def __post_init__(self) -> None:
        """Check every field; raises InvalidArgumentError."""
        caps = {"default_tokens": self.default_tokens} | {
            f"by_tool[{tool!r}]": tokens for tool, tokens in self.by_tool.items()
        }
        for name, tokens in caps.items():
            if tokens is not None and not (type(tokens) is int and tokens >= MIN_TOKENS):
                raise InvalidArgumentError(
                    f"caps: {name} is {tokens!r}; pass a whole number from {MIN_TOKENS} up, "
                    "or None for no cap"
                )
        for name in ("rows", "log_lines"):
            count = getattr(self, name)
            if type(count) is not int or count < 1:
                raise InvalidArgumentError(
                    f"caps: {name} is {count!r}; pass a whole number from 1 up"
                )

    def tokens(self, tool: str = "") -> int | None:
        """Return the cap of a tool's results; None: never capped."""
        return self.by_tool.get(tool, self.default_tokens)


class Capped(NamedTuple):
    """A text that is shown in part."""

    body: str
    """The shown part."""
    kind: Kind
    omitted: int
    """Number of omitted tokens."""

    def render(self, handle: str = "") -> str:
        """Return the body with its notice."""
        return self.body + notice(self.omitted, handle)


def cap_text(
    text: str, limit: int, *, tool: str = "", rows: int = ROWS, log_lines: int = LOG_LINES
) -> Capped | None:
    """Return the text in at most `limit` tokens, its notice included; None if it fits whole.

    A capped text fits, so capping it again changes nothing, whatever it says. Takes time in
    proportion to the text.

    >>> capped = cap_text("word " * 10_000, 8_000)
    >>> print(capped.render()[-91:].strip())
    [truncated: 2129 tokens omitted. call again with stricter filters to see specific parts.]
    """
    if fits(text, limit):
        return None
    capped = _engine.cap_text(text, limit, NOTICE_TOKENS, COUNTER, tool, rows, log_lines)
    return capped and Capped(capped[0], Kind(capped[1]), capped[2])


def fits(text: str, limit: int) -> bool:
    """Whether the text surely has at most `limit` tokens, as no token is less than a byte."""
    return len(text) <= limit and (text.isascii() or len(text) * _MAX_CHARACTER_TOKENS <= limit)


def kind_of(text: str, tool: str = "") -> Kind:
    """Return the kind of a text that the tool with this name returned.

    >>> kind_of('[{"id": 1}, {"id": 2}]'), kind_of("src/a.py:3:import os\\nsrc/b.py:9:import os")
    (<Kind.JSON: 'json'>, <Kind.MATCHES: 'matches'>)
    """
    return Kind(_engine.kind_of_text(text, tool))


def notice(omitted: int, handle: str = "") -> str:
    """Return the notice that `omitted` tokens are missing, and the handle of the whole.

    Nothing ever reads a notice. One that is in a content is content like any other.

    >>> print(notice(1_000).strip())
    [truncated: 1000 tokens omitted. call again with stricter filters to see specific parts.]
    >>> print(notice(1_000, "orig_a").splitlines()[-1])
    [kept whole as orig_a]
    """
    text = (
        f"\n\n[truncated: {omitted} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    return f"{text}\n[kept whole as {handle}]" if handle else text
