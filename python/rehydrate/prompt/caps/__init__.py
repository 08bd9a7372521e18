"""Caps of tool results: a long one is shown in part, by its kind: JSON, log, diff, code, text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.caps import cutting, json_values, texts
from rehydrate.prompt.caps.cutting import NOTICE_TOKENS, Excerpt, notice
from rehydrate.prompt.caps.results import Kind, kind_of, kind_of_lines
from rehydrate.prompt.counting import COUNTER

__all__ = ["Capped", "Caps", "Kind", "cap_text", "kind_of", "notice"]


DEFAULT_TOKENS = 8_000
MIN_TOKENS = 400
ROWS = 100
LOG_LINES = 200
_MAX_CHARACTER_TOKENS = 4
"""Maximum tokens of a character: its bytes."""
_MAX_TRIES = 10
_FULL = 0.9
"""Share of the room from which an excerpt is full."""
_MARGIN = 0.97
"""Factor of each new size, so that the next excerpt is rather too small than too large."""


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
    total, room = _tokens(text), limit - NOTICE_TOKENS
    if total <= limit:
        return None
    search = _SizeSearch(text, room, total)
    kind, excerpt = search.best(lambda size: _cut(text, size, tool, rows, log_lines))
    if excerpt is None:
        kind, excerpt = search.best(lambda size: (Kind.TEXT, cutting.head(text, size)))
    if excerpt is None:  # each of its characters alone has too many tokens
        excerpt = Excerpt("", "")
    return Capped(excerpt.text, kind, max(1, total - _tokens(excerpt.kept)))


def fits(text: str, limit: int) -> bool:
    """Whether the text surely has at most `limit` tokens, as no token is less than a byte."""
    return len(text) <= limit and (text.isascii() or len(text) * _MAX_CHARACTER_TOKENS <= limit)


class _SizeSearch:
    """Searches for the size in characters whose excerpt has about `room` tokens.

    An excerpt may have more tokens per character than the whole. So it is counted, and cut again
    with another size, a few times. The whole is counted once.
    """

    def __init__(self, text: str, room: int, total: int) -> None:
        self._room = room
        self._length = len(text)
        self._first_size = max(1, min(len(text), room * len(text) // total))

    def best(self, cut: Callable[[int], tuple[Kind, Excerpt]]) -> tuple[Kind, Excerpt | None]:
        """Return the largest excerpt that fits the room; None if none does."""
        best: tuple[Kind, Excerpt | None] = (Kind.TEXT, None)
        best_tokens, size = -1, self._first_size
        for _ in range(_MAX_TRIES):
            kind, excerpt = cut(size)
            if not excerpt.kept or len(excerpt.text) > size:
                return best
            tokens = _tokens(excerpt.text)
            if tokens > self._room:
                if best_tokens >= 0:
                    return best
                size = max(1, int(size * min(self._room / tokens * _MARGIN, _MARGIN)))
                continue
            if tokens > best_tokens:
                best_tokens, best = tokens, (kind, excerpt)
            # An excerpt much smaller than its size is limited by something else, such as rows.
            is_full = tokens >= _FULL * self._room or len(excerpt.text) < _FULL * size
            if is_full or size >= self._length:
                return best
            size = min(self._length, int(size * min(self._room / max(tokens, 1), 2) * _MARGIN))
        return best


def _tokens(text: str) -> int:
    return _engine.count(text, COUNTER)


def _cut(text: str, limit: int, tool: str, rows: int, log_lines: int) -> tuple[Kind, Excerpt]:
    """Return the kind of the text, and its excerpt of at most `limit` characters."""
    if json_values.looks_like_json(text):
        try:
            return Kind.JSON, json_values.cap_json(text, limit, rows)
        except (ValueError, RecursionError):
            pass
    kind = kind_of_lines(text, tool)
    if kind is Kind.TEXT:
        return kind, cutting.head(text, limit)
    lines = text.split("\n")
    by_kind: dict[Kind, Callable[[], Excerpt]] = {
        Kind.JSON_LINES: lambda: json_values.cap_json_lines(lines, limit, rows),
        Kind.DIFF: lambda: texts.cap_diff(lines, limit),
        Kind.MATCHES: lambda: texts.cap_matches(lines, limit),
        Kind.LIST: lambda: texts.cap_list(lines, limit, rows),
        Kind.CODE: lambda: texts.cap_code(lines, limit),
        Kind.LOG: lambda: texts.cap_log(lines, limit, log_lines),
    }
    return kind, by_kind[kind]()
