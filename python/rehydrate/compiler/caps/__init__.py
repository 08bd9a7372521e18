"""Caps: a long tool result shown in part, by what it is made of; JSON, logs, diffs, code, text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rehydrate.compiler.caps import (
    code,
    cutting,
    diffs,
    json_source,
    json_values,
    lists,
    logs,
    matches,
)
from rehydrate.compiler.caps.cutting import Shown
from rehydrate.compiler.caps.kinds import Kind, kind_of, kind_of_lines
from rehydrate.compiler.caps.notices import CHARS_A_TOKEN, NOTICE_ROOM, notice
from rehydrate.errors import InvalidArgumentError

__all__ = ["Capped", "Caps", "Kind", "cap_text", "kind_of", "notice"]

DEFAULT_TOKENS = 8_000
LEAST_TOKENS = 400
ROWS = 100
LOG_LINES = 200


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a tool's result is shown, at 3.5 characters a token.

    >>> caps = Caps(by_tool={"Read": 16_000, "get_schema": None})
    >>> caps.tokens("Read"), caps.tokens("Bash"), caps.tokens("get_schema")
    (16000, 8000, None)
    """

    default_tokens: int | None = DEFAULT_TOKENS
    by_tool: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    """By a tool's name; None: never capped."""
    rows: int = ROWS
    """Of a list that does not fit, the first so many rows."""
    log_lines: int = LOG_LINES
    """Of a log that does not fit, the last so many lines."""

    def __post_init__(self) -> None:
        """Refuse what is no cap."""
        caps = {"default_tokens": self.default_tokens} | {
            f"by_tool[{tool!r}]": tokens for tool, tokens in self.by_tool.items()
        }
        for name, tokens in caps.items():
            if tokens is not None and not (type(tokens) is int and tokens >= LEAST_TOKENS):
                raise InvalidArgumentError(
                    f"caps: {name} is {tokens!r}; pass a whole number from {LEAST_TOKENS} up, "
                    "or None for no cap"
                )
        for name in ("rows", "log_lines"):
            count = getattr(self, name)
            if type(count) is not int or count < 1:
                raise InvalidArgumentError(
                    f"caps: {name} is {count!r}; pass a whole number from 1 up"
                )

    def tokens(self, tool: str = "") -> int | None:
        """The cap of a tool's results."""
        return self.by_tool.get(tool, self.default_tokens)

    def characters(self, tool: str = "") -> int | None:
        """The same in characters."""
        tokens = self.tokens(tool)
        return None if tokens is None else int(tokens * CHARS_A_TOKEN)


class Capped(NamedTuple):
    """A text that is shown in part."""

    body: str
    """What is shown of it."""
    kind: Kind
    omitted: int
    """Characters."""

    def render(self, handle: str = "") -> str:
        """The body, and the notice."""
        return self.body + notice(self.omitted, handle)


def cap_text(
    text: str, limit: int, *, tool: str = "", rows: int = ROWS, log_lines: int = LOG_LINES
) -> Capped | None:
    """The text in at most `limit` characters, the notice aside; None where it stays whole.

    A text that is longer by no more than a notice stays whole too. So what a cap has made stays as
    it is, whatever is written in it. Takes time in proportion to the text.

    >>> capped = cap_text("word " * 10_000, 28_000)
    >>> print(capped.render()[-91:].strip())
    [truncated: 6286 tokens omitted. call again with stricter filters to see specific parts.]
    """
    if len(text) <= limit + NOTICE_ROOM:
        return None
    kind, shown = _shown(text, limit, tool, rows, log_lines)
    if len(shown.text) > limit or not shown.kept:
        kind, shown = Kind.TEXT, cutting.head(text, limit)
    return Capped(shown.text, kind, max(1, len(text) - shown.kept))


def _shown(text: str, limit: int, tool: str, rows: int, log_lines: int) -> tuple[Kind, Shown]:
    if json_source.looks_like_json(text):
        try:
            return Kind.JSON, json_values.cap_json(text, limit, rows)
        except (ValueError, RecursionError):
            pass
    kind = kind_of_lines(text, tool)
    if kind is Kind.TEXT:
        return kind, cutting.head(text, limit)
    lines = text.split("\n")
    by_kind: dict[Kind, Callable[[], Shown]] = {
        Kind.JSON_LINES: lambda: json_values.cap_json_lines(lines, limit, rows),
        Kind.DIFF: lambda: diffs.cap_diff(lines, limit),
        Kind.MATCHES: lambda: matches.cap_matches(lines, limit),
        Kind.LIST: lambda: lists.cap_list(lines, limit, rows),
        Kind.CODE: lambda: code.cap_code(lines, limit),
        Kind.LOG: lambda: logs.cap_log(lines, limit, log_lines),
    }
    return kind, by_kind[kind]()
