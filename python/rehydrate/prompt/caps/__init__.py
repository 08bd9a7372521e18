"""Caps: a long tool result shown in part, by what it is made of; JSON, logs, diffs, code, text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.caps import cutting, json_values, texts
from rehydrate.prompt.caps.cutting import NOTICE_TOKENS, Shown, notice
from rehydrate.prompt.caps.kinds import Kind, kind_of, kind_of_lines
from rehydrate.prompt.counting import COUNTER

__all__ = ["Capped", "Caps", "Kind", "cap_text", "kind_of", "notice"]


DEFAULT_TOKENS = 8_000
LEAST_TOKENS = 400
_LONGEST_CHARACTER = 4
"""Bytes, and so tokens."""
_TRIES = 10
_FULL, _LESS = 0.9, 0.97
ROWS = 100
LOG_LINES = 200


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a tool's result is shown, in tokens (o200k_base), the notice included.

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


class Capped(NamedTuple):
    """A text that is shown in part."""

    body: str
    """What is shown of it."""
    kind: Kind
    omitted: int
    """Tokens."""

    def render(self, handle: str = "") -> str:
        """The body, and the notice."""
        return self.body + notice(self.omitted, handle)


def cap_text(
    text: str, limit: int, *, tool: str = "", rows: int = ROWS, log_lines: int = LOG_LINES
) -> Capped | None:
    """The text in at most `limit` tokens with its notice; None where it stays whole.

    What a cap has made is within it, and so it stays as it is, whatever is written in it. Takes
    time in proportion to the text.

    >>> capped = cap_text("word " * 10_000, 8_000)
    >>> print(capped.render()[-91:].strip())
    [truncated: 2129 tokens omitted. call again with stricter filters to see specific parts.]
    """
    if fits(text, limit):
        return None
    total, room = _tokens(text), limit - NOTICE_TOKENS
    if total <= limit:
        return None
    fitting = _Fitting(text, room, total)
    kind, shown = fitting.best(lambda size: _shown(text, size, tool, rows, log_lines))
    if shown is None:
        kind, shown = fitting.best(lambda size: (Kind.TEXT, cutting.head(text, size)))
    if shown is None:  # not one of its characters has room: they are of many tokens each
        shown = Shown("", "")
    return Capped(shown.text, kind, max(1, total - _tokens(shown.kept)))


def fits(text: str, limit: int) -> bool:
    """Whether it surely has no more tokens than that: none is less than a byte."""
    return len(text) <= limit and (text.isascii() or len(text) * _LONGEST_CHARACTER <= limit)


class _Fitting:
    """The number of characters at which what is shown of a text has about so many tokens.

    What is shown may have more tokens a character than the whole, so it is counted and cut anew,
    a few times; the whole is counted once.
    """

    def __init__(self, text: str, room: int, total: int) -> None:
        self._room = room
        self._size = max(1, min(len(text), room * len(text) // total))
        self._total = len(text)

    def best(self, cut: Callable[[int], tuple[Kind, Shown]]) -> tuple[Kind, Shown | None]:
        """The fullest that is within the room; None where nothing is."""
        best: tuple[Kind, Shown | None] = (Kind.TEXT, None)
        most, size = -1, self._size
        for _ in range(_TRIES):
            kind, shown = cut(size)
            if not shown.kept or len(shown.text) > size:
                return best
            tokens = _tokens(shown.text)
            if tokens > self._room:
                if most >= 0:
                    return best
                size = max(1, int(size * min(self._room / tokens * _LESS, _LESS)))
                continue
            if tokens > most:
                most, best = tokens, (kind, shown)
            is_full = tokens >= _FULL * self._room or len(shown.text) < _FULL * size
            if is_full or size >= self._total:  # or the room is not what limits it
                return best
            size = min(self._total, int(size * min(self._room / max(tokens, 1), 2) * _LESS))
        return best


def _tokens(text: str) -> int:
    return _engine.count(text, COUNTER)


def _shown(text: str, limit: int, tool: str, rows: int, log_lines: int) -> tuple[Kind, Shown]:
    if json_values.looks_like_json(text):
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
        Kind.DIFF: lambda: texts.cap_diff(lines, limit),
        Kind.MATCHES: lambda: texts.cap_matches(lines, limit),
        Kind.LIST: lambda: texts.cap_list(lines, limit, rows),
        Kind.CODE: lambda: texts.cap_code(lines, limit),
        Kind.LOG: lambda: texts.cap_log(lines, limit, log_lines),
    }
    return kind, by_kind[kind]()
