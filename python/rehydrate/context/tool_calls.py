"""The JIT's tools: their definitions, the arguments of their calls, and one call's answer.

`parse_time_range` reads a time range that a model wrote, or says how to write it.
docs/request-context-times.md has a table of the forms. The code is our own, since the libraries for
this guess one moment: dateparser 1.5 reads ``2026-13`` as the 13th of February and ``3`` as a
March; dateutil 2.9 completes ``2026-02`` with today's day. Neither says where a range ends, and
neither knows ``past 3 days``, ``2026-W07`` or ``a..b``. A search needs exactly the range that was
named, with both ends, in a given time zone, or an error that says how to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo  # noqa: F401  UTC: the examples
from typing import Any, Literal, NamedTuple, get_args

from rehydrate._check import shown
from rehydrate.context.time_words import WEEKDAYS, UnreadableError, WallClock, zone_of
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


def read_given(arguments: Mapping[str, Any], tool: ToolDef) -> dict[str, Any]:
    """Return the arguments that are neither None nor ""; raises InvalidArgumentError for one that
    the tool has not."""
    given = {name: value for name, value in arguments.items() if value not in (None, "")}
    known = tool.schema["properties"]
    if unknown := sorted(map(str, given.keys() - known.keys())):
        names = ", ".join(known)
        raise InvalidArgumentError(f"there is no argument {shown(unknown[0])}; send {names}")
    return given


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


def parse_time_range(text: str, now: datetime, timezone: tzinfo | str) -> TimeRange:
    """Return the range from `after` (inclusive) to `before` (exclusive), in UTC.

    ``now`` is an aware datetime. Days and longer units are those of ``timezone``. Raises
    InvalidArgumentError with the reason, today's date and examples, so that a model can correct it.

    >>> now = datetime(2026, 2, 18, 15, 0, tzinfo=UTC)  # a Wednesday
    >>> after, before = parse_time_range("last tuesday", now, "Europe/Berlin")
    >>> after.isoformat(), before.isoformat()
    ('2026-02-16T23:00:00+00:00', '2026-02-17T23:00:00+00:00')
    """
    clock = WallClock.of(now, timezone)
    try:
        if not isinstance(text, str):
            raise UnreadableError(f"it is of type {type(text).__name__}, not text")
        return _checked(clock.read(text), clock.zone)
    except UnreadableError as error:
        why = str(error)
    except (OverflowError, ValueError):  # of datetime's arithmetic
        why = "it lies outside the years 1 to 9999"
    given = repr(text if len(text) <= 60 else f"{text[:57]}...") if isinstance(text, str) else ""
    today = clock.now.date()
    week = f"{today - timedelta(min(7, today.toordinal() - 1))}..{today}"
    raise InvalidArgumentError(
        f"time_range {given}{' ' if given else ''}cannot be used: {why}. Today is "
        f"{WEEKDAYS[today.weekday()].title()}, {today} ({clock.zone}). Send for example "
        f"'{today}', '{week}', 'last tuesday' or 'past 3 days', or leave time_range out"
    )


def describe(span: TimeRange, timezone: tzinfo | str) -> str:
    """Return a range in one line, in the times of a zone.

    >>> now = datetime(2026, 2, 18, 15, 0, tzinfo=UTC)
    >>> describe(parse_time_range("last week", now, "Europe/Berlin"), "Europe/Berlin")
    'Mon 2026-02-09 to Sun 2026-02-15 (Europe/Berlin)'
    """
    zone = zone_of(timezone)
    after, before = (each and each.astimezone(zone) for each in span)
    first = after and _is_midnight(after)
    last = before and _is_midnight(before)
    if after and before:
        if first and last:
            end = before.date() - timedelta(1)
            text = _day(after) if end == after.date() else f"{_day(after)} to {_day(end)}"
        else:
            text = f"{_moment(after)} to {_moment(before)}"
    elif after:
        text = f"since {_day(after) if first else _moment(after)}"
    elif before:
        text = f"until {_day(before.date() - timedelta(1)) if last else _moment(before)}"
    else:
        text = "all times"
    return f"{text} ({zone})"


def _checked(span: TimeRange, zone: tzinfo) -> TimeRange:
    after, before = span
    if after and before and before <= after:
        raise UnreadableError(
            f"it begins at {_moment(after.astimezone(zone))} and has ended by then, at "
            f"{_moment(before.astimezone(zone))}; name the earlier time first, or write dates"
        )
    return span


def _is_midnight(moment: datetime) -> bool:
    return moment.timetz().replace(tzinfo=None) == datetime.min.time()


def _day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()][:3].title()} {day.isoformat()[:10]}"


def _moment(moment: datetime) -> str:
    """Format to the second. The offset tells apart the two equal hours when clocks are set back."""
    return f"{_day(moment)} {moment.time().isoformat('seconds')}{moment:%z}"
