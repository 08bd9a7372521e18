"""The tools of the JIT: their definitions, the arguments of their calls, and one call's answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple, get_args

from rehydrate._check import shown
from rehydrate.context.log import PREFIX
from rehydrate.context.time_words import parse_time_range
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.request import ContextRequest, ContextStrategy, TimeRange
from rehydrate.prompt.section import Section, ToolDef

REQUEST = ToolDef(
    "request_context",
    "Bring back what is missing from this conversation: earlier messages that are no longer shown, "
    "memories of other conversations, documents. Call it when the user refers to something you "
    "cannot see, or when a fact, decision or result from before would help. You get the actual "
    "messages, word for word, with their times; what you see already is not repeated.",
    {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "What is missing, in a sentence or a few words: what was it about?",
            },
            "scope": {
                "type": "string",
                "enum": ["temporal", "semantic", "knowledge"],
                "description": "Where to look: temporal, what was said at a time (with "
                "time_range); semantic, what was said about something; knowledge, documents. Leave "
                "it out to look everywhere.",
            },
            "time_range": {
                "type": "string",
                "description": "When it was said: 2026-02-17, 2026-02-01..2026-02-17, yesterday, "
                "last tuesday, past 3 days.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)

FETCH = ToolDef(
    "fetch_whole",
    "Read what is shown in part, word for word: all of it, some lines, or what matches a query. "
    'Pass the handle that stands with it: orig_... in "kept whole as", rest_... where more was '
    'found, whole="mem_..." at a passage, #12 in an outline. Of something long send a query or '
    "lines.",
    {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "The handle, as it stands there."},
            "query": {
                "type": "string",
                "description": "What to look for in it: brings the best matches with their line "
                "numbers and says how many lines there are.",
            },
            "lines": {
                "type": "string",
                "description": "Which lines to read, counted from 1: 3400-3500.",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "Where to go on, in characters, if a part was given before.",
            },
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
)


Scope = Literal["temporal", "semantic", "knowledge"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
MAX_QUERY_CHARACTERS = 2_000
"""A query is a question, not a document."""
_MOST = 10**15
"""No text has so many characters."""
_RANGE = re.compile(r"(\d{1,15})(?:\s*(?:-|\u2013|\.\.|:|to)\s*(\d{0,15}))?")  # \u2013: an en dash


class ContextQuery(NamedTuple):
    """The arguments of one call of request_context."""

    query: str
    scope: Scope | None = None
    time_range: TimeRange | None = None

    @classmethod
    def read(
        cls, arguments: Mapping[str, Any], now: datetime, timezone: tzinfo | str
    ) -> ContextQuery:
        """Read the arguments of a call; raises InvalidArgumentError that says what to send.

        >>> from datetime import UTC
        >>> now = datetime(2026, 2, 18, tzinfo=UTC)
        >>> ContextQuery.read({"query": "billing", "scope": "semantic"}, now, "UTC").scope
        'semantic'
        """
        given = read_given(arguments, REQUEST)
        query = given.get("query", "")
        if not isinstance(query, str):
            kind = type(query).__name__
            raise InvalidArgumentError(f"query is of type {kind}; send a sentence as a string")
        if not query.strip():
            raise InvalidArgumentError("query is empty; say in a few words what is missing")
        if len(query) > MAX_QUERY_CHARACTERS:
            raise InvalidArgumentError(
                f"query has {len(query):,} characters, the limit is {MAX_QUERY_CHARACTERS:,}; say "
                "in a sentence what is missing"
            )
        scope = given.get("scope")
        if scope is not None and scope not in SCOPES:
            names = ", ".join(map(repr, SCOPES))
            raise InvalidArgumentError(
                f"scope is {shown(scope)}; send one of {names}, or leave it out to look everywhere"
            )
        when = given.get("time_range")
        span = None if when is None else parse_time_range(when, now, timezone)
        return cls(query.strip(), scope, span)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of sources that it means. A time range rules out those that know no times: a
        memory is then asked by its temporal source, which searches within the range."""
        if self.scope == "knowledge":
            return frozenset({"knowledge", "function"})
        if self.scope == "temporal" or self.time_range is not None:
            more = {"function"} if self.scope is None else set()
            return frozenset({"temporal", "conversation"} | more)
        if self.scope == "semantic":
            return frozenset({"semantic", "conversation"})
        return frozenset({"semantic", "conversation", "knowledge", "function"})

    def request(self, usual: ContextRequest) -> ContextRequest:
        """Return the conversation's request with this query. Sources have no shares here, only
        their own budgets: what is too long or too much stays under a handle."""
        span = self.time_range
        if span is None and self.scope == "temporal":
            span = TimeRange()  # all times
        strategy = ContextStrategy({})
        return replace(usual, query=self.query, strategy=strategy, time_range=span)


class FetchArguments(NamedTuple):
    """The text to read: from a character on, some of its lines, or the parts a query finds."""

    handle: str
    offset: int = 0
    lines: tuple[int, int | None] | None = None
    query: str = ""

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> FetchArguments:
        """Read the arguments of a call; raises InvalidArgumentError that says what to send.

        >>> FetchArguments.read({"handle": "orig_a", "lines": "3400-3500"}).lines
        (3400, 3500)
        """
        given = read_given(arguments, FETCH)
        handle, offset = given.get("handle"), given.get("offset", 0)
        if not isinstance(handle, str) or not handle.strip():
            raise InvalidArgumentError(
                f"handle is {shown(handle)}; send one that stands in the conversation, such as "
                "orig_..., mem_... or rest_..."
            )
        if type(offset) is not int or not 0 <= offset < _MOST:
            raise InvalidArgumentError(f"offset is {shown(offset)}; send a whole number from 0 up")
        ways = [name for name in ("offset", "lines", "query") if given.get(name)]
        if len(ways) > 1:
            raise InvalidArgumentError(f"{' and '.join(ways)} were sent; send one of them")
        handle = handle.strip()
        if handle.startswith(PREFIX) and ways:
            raise InvalidArgumentError(f"{handle} takes no {ways[0]}; send the handle alone")
        query = given.get("query", "")
        if not isinstance(query, str) or len(query) > MAX_QUERY_CHARACTERS:
            raise InvalidArgumentError(
                f"query is {shown(query)}; send a few words, at most {MAX_QUERY_CHARACTERS:,} "
                "characters"
            )
        lines = read_line_range(given["lines"]) if "lines" in given else None
        return cls(handle, offset, lines, query.strip())


def read_given(arguments: Mapping[str, Any], tool: ToolDef) -> dict[str, Any]:
    """Return the arguments that are neither None nor ""; raises InvalidArgumentError for one that
    the tool has not."""
    given = {name: value for name, value in arguments.items() if value not in (None, "")}
    known = tool.schema["properties"]
    if unknown := sorted(map(str, given.keys() - known.keys())):
        names = ", ".join(known)
        raise InvalidArgumentError(f"there is no argument {shown(unknown[0])}; send {names}")
    return given


def read_line_range(given: Any) -> tuple[int, int | None]:
    """Read a range of lines, counted from 1; without an end it means all that follow."""
    text = shown(given) if type(given) is int else given if type(given) is str else ""
    found = _RANGE.fullmatch(text.replace(",", "").strip())
    if found is None:
        raise InvalidArgumentError(
            f'lines is {shown(given)}; send a range such as "3400-3500", or one number'
        )
    first = int(found[1])
    last = first if found[2] is None else int(found[2]) if found[2] else None
    if first < 1 or (last is not None and last < first):
        raise InvalidArgumentError(
            f"lines is {shown(given)}; lines are counted from 1, and a range ends where it begins "
            'or after, as in "3400-3500"'
        )
    return first, last


class Answered(NamedTuple):
    """The answer to one call, and what it brought into the prompt."""

    call: ToolCall
    content: str
    is_error: bool = False
    sections: tuple[Section, ...] = ()
    """Late-bound: they are in `content`, word for word."""
    remaining: int = 0
    """How many more items were found and had no room."""
    query: str = ""
    scope: str | None = None
    time_range: TimeRange | None = None
    elapsed_ms: float = 0.0
    degraded: tuple[str, ...] = ()
    """The problems: each says what failed, as an embedder, and what was used instead."""

    @property
    def tokens(self) -> int:
        """The tokens of the sections."""
        return sum(section.tokens or 0 for section in self.sections)

    @property
    def result(self) -> Any:
        """The result to add to the history, in the format of the call's provider."""
        return self.call.result(self.content, is_error=self.is_error)
