"""HydrationSource: what brings sections; SourceRequest and Found, its question and its answer.

A source is asked through ``run(SourceRequest)`` and answers with a ``Found``, or with anything that
``found_in`` understands: a text, sections, hits of a memory, messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from rehydrate._check import check_timeout
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.entries import History
from rehydrate.prompt.meta import DroppedSection
from rehydrate.prompt.request import Budget, ContextRequest, ContextStrategy, TimeRange
from rehydrate.prompt.section import Priority, Section
from rehydrate.prompt.tool_def import ToolDef

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory


TIMEOUT = 0.2
"""Seconds a source may take unless it says otherwise."""
_RESERVED = frozenset(":[]#")
"""They join a source's name to what it brought: no id of one source is ever another's."""

SourceKind = Literal[
    "system", "tools", "hot", "history", "temporal", "semantic", "knowledge", "conversation", ""
]


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What a source is asked: the turn's request, and how much of the answer will be used."""

    request: ContextRequest
    """Its query filled in: where it was "", it is the last user turn of the history."""
    source: str
    """The name of the source that is asked."""
    budget_tokens: int | None = None
    """So many tokens are used at most, the most relevant first; None: all it brings."""
    visible: frozenset[str] = frozenset()
    """What the model sees already, by `Provenance.items`: brought again, it is left out."""
    is_asked_for: bool = True
    """Whether somebody asked this very source, as the model does in the middle of a turn. False: it
    goes into a prompt by itself, so it must be relevant, and nothing of it may be cold."""

    @property
    def query(self) -> str:
        """What to look for."""
        return self.request.query

    @property
    def time_range(self) -> TimeRange | None:
        """The time that is meant."""
        return self.request.time_range

    @property
    def namespace(self) -> str:
        """Whose turn it is."""
        return self.request.namespace

    @property
    def thread(self) -> str:
        """The conversation's name."""
        return self.request.thread

    @property
    def after(self) -> datetime | None:
        """Where the time that is meant begins."""
        return None if self.time_range is None else self.time_range.after

    @property
    def before(self) -> datetime | None:
        """Where it ends."""
        return None if self.time_range is None else self.time_range.before


class Found(NamedTuple):
    """What a source brought."""

    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History | None = None
    dropped: tuple[DroppedSection, ...] = ()
    """What it left out by itself, and why."""
    degraded: tuple[str, ...] = ()
    """What did not work, and was done otherwise."""
    off: str = ""
    """Why it did not even look, as a source of times does that no time was named to."""


Run = Callable[[SourceRequest], Any]


@dataclass(frozen=True, slots=True)
class HydrationSource:
    """A source: its name, how it is asked, and what it may take of tokens and of time.

    ``run`` may be sync or async. Raises InvalidArgumentError for a value outside its limits.

    >>> HydrationSource("weather", lambda request: "Rain until noon.").timeout
    0.2
    """

    name: str
    run: Run
    priority: Priority = Priority.NORMAL
    """Of the sections that it makes from texts and hits; a `Section` has its own."""
    budget_tokens: int | None = None
    """What all its sections may take; the request's strategy may give it less."""
    timeout: float | None = TIMEOUT
    """Counted from the call of `hydrate`; what comes later is left out. None: it is waited for."""
    blocking: bool = True
    """Whether it may wait for something. False: it runs in the caller's thread, and no deadline
    can stop it."""
    kind: SourceKind = ""
    """Which of the sources inside the build it is: a strategy means it by this name too."""
    query: Callable[[], str] | None = None
    """Says what the turn is about as far as this source can tell, where the request does not."""
    needs_namespace: bool = False
    """Whether it can answer only a request that says whose turn it is."""
    memory: Memory | None = None
    """The memory that it reads: what it brings in part is whole there, under its handle."""

    def __post_init__(self) -> None:
        """Check every field."""
        name = self.name
        if not isinstance(name, str) or not name.strip() or not _RESERVED.isdisjoint(name):
            raise InvalidArgumentError(
                f"a source's name is {name!r}; pass a name without {' '.join(sorted(_RESERVED))}"
            )
        if not callable(self.run):
            raise InvalidArgumentError(
                f"source {name!r}: run is of type {type(self.run).__name__}; pass a function"
            )
        budget = self.budget_tokens
        if budget is not None and (type(budget) is not int or budget < 0):
            raise InvalidArgumentError(
                f"source {name!r}: budget_tokens is {budget!r}; pass a whole number from 0 up, "
                "or None"
            )
        timeout = check_timeout(f"source {name!r}: timeout", self.timeout)
        object.__setattr__(self, "timeout", timeout)
        if not isinstance(self.priority, Priority):
            raise InvalidArgumentError(
                f"source {name!r}: priority is {self.priority!r}; pass a Priority"
            )

    @property
    def comes_whole(self) -> bool:
        """Whether it brings what the caller laid down: no budget cuts it here."""
        return self.kind in ("system", "tools", "history")

    def is_wanted(self, strategy: ContextStrategy) -> bool:
        """Whether the strategy lets it run, by its name or by its kind."""
        return strategy.wants(self._named_in(strategy))

    def tokens_for(self, strategy: ContextStrategy, budget: Budget) -> int | None:
        """What its sections may take: the lesser of its own budget and the strategy's share."""
        share = strategy.tokens_for(self._named_in(strategy), budget)
        limits = [limit for limit in (self.budget_tokens, share) if limit is not None]
        return min(limits, default=None)

    def _named_in(self, strategy: ContextStrategy) -> str:
        return self.kind if self.kind and self.name not in strategy.shares else self.name


class SourceSettings(TypedDict, total=False):
    """What can be said of every source when it is made."""

    priority: Priority
    budget_tokens: int | None
    timeout: float | None
