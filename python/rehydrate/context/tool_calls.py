"""The tools of the JIT: their definitions, the arguments of their calls, and one call's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple, get_args

from rehydrate._native import request_arguments
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
        known = REQUEST.schema["properties"]
        return cls(*request_arguments(arguments, known, SCOPES, now, timezone))

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
        their own budgets: the part that is too long or too much stays under a handle."""
        span = self.time_range
        if span is None and self.scope == "temporal":
            span = TimeRange()  # all times
        strategy = ContextStrategy({})
        return replace(usual, query=self.query, strategy=strategy, time_range=span)


class Answered(NamedTuple):
    """The answer to one call, and its sections in the prompt."""

    call: ToolCall
    content: str
    is_error: bool = False
    sections: tuple[Section, ...] = ()
    """Late-bound: they are in `content`, word for word."""
    remaining: int = 0
    """The number of further items that were found and had no room."""
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
