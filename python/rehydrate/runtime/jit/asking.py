"""Asking: what a call of request_context says, checked so that the model can put it right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple, get_args

from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import ContextRequest, ContextStrategy, TimeRange
from rehydrate.runtime.jit.definitions import REQUEST
from rehydrate.runtime.jit.times import parse_time_range

Scope = Literal["temporal", "semantic", "knowledge"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
MAX_QUERY_CHARACTERS = 2_000
"""A query is a question, not a document."""
_SHOWN = 80


class Asking(NamedTuple):
    """What the model asks for."""

    query: str
    scope: Scope | None = None
    time_range: TimeRange | None = None

    @classmethod
    def read(cls, arguments: Mapping[str, Any], now: datetime, timezone: tzinfo | str) -> Asking:
        """From the arguments of a call; raises InvalidArgumentError that says what to send.

        >>> from datetime import UTC
        >>> now = datetime(2026, 2, 18, tzinfo=UTC)
        >>> Asking.read({"query": "billing", "scope": "semantic"}, now, "UTC").scope
        'semantic'
        """
        given = {name: value for name, value in arguments.items() if value not in (None, "")}
        if unknown := sorted(map(str, given.keys() - REQUEST.properties.keys())):
            names = ", ".join(REQUEST.properties)
            raise InvalidArgumentError(f"there is no argument {shown(unknown[0])}; send {names}")
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
        """The kinds of sources that are meant. A time rules out what has none: a memory is then
        asked by its temporal source, which searches within the range."""
        if self.scope == "knowledge":
            return frozenset({"knowledge", "function"})
        if self.scope == "temporal" or self.time_range is not None:
            more = {"function"} if self.scope is None else set()
            return frozenset({"temporal", "conversation"} | more)
        if self.scope == "semantic":
            return frozenset({"semantic", "conversation"})
        return frozenset({"semantic", "conversation", "knowledge", "function"})

    def request(self, usual: ContextRequest) -> ContextRequest:
        """The conversation's request, for sources of these kinds and no others: each may take what
        its own budget says, since what is too long or too much is not lost here."""
        span = self.time_range
        if span is None and self.scope == "temporal":
            span = TimeRange()  # all times
        strategy = ContextStrategy({})
        return replace(usual, observation=self.query, strategy=strategy, time_range=span)


def shown(value: object) -> str:
    """A value as an error names it, however long it is."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
