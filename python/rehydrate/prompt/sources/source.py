"""HydrationSource brings sections into a prompt; SourceRequest is its input, Found its output.

``run(SourceRequest)`` returns a ``Found``, or anything that ``as_found`` can read: a text,
sections, hits of a memory, messages.
"""

from __future__ import annotations

from collections.abc import Callable, Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from rehydrate._check import check_methods, check_timeout, check_whole
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.entries import History
from rehydrate.prompt.request import Budget, ContextRequest, ContextStrategy, TimeRange
from rehydrate.prompt.section import DroppedSection, Priority, Section, ToolDef

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory


TIMEOUT = 1.0
"""Default timeout of a source, in seconds: DESIGN.md D97 says why."""
_RESERVED = frozenset(":[]#")
"""Characters that a source's name must not have: they separate the name from the rest of an id, so
that two sources never share an id."""

SourceKind = Literal[
    "system", "tools", "hot", "history", "temporal", "semantic", "knowledge", "conversation", ""
]


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """The input of a source: the turn's request, and how much of the answer will be used."""

    request: ContextRequest
    """The turn's request. An empty query is replaced with the last user turn of the history."""
    source: str
    """The name of the source."""
    budget_tokens: int | None = None
    """At most this many tokens are used, the most relevant sections first; None: no limit."""
    visible: frozenset[str] = frozenset()
    """Items that the model sees already, as in `Provenance.items`; sections of nothing but these
    are dropped."""
    is_asked_for: bool = True
    """True if the model, or a caller, asked this source. False if its answer goes into a prompt
    unasked: then it must be relevant, and must not contain cold items."""

    @property
    def query(self) -> str:
        """The query of the request."""
        return self.request.query

    @property
    def time_range(self) -> TimeRange | None:
        """The time range of the request, or None."""
        return self.request.time_range

    @property
    def namespace(self) -> str:
        """The namespace of the request."""
        return self.request.namespace

    @property
    def thread(self) -> str:
        """The thread of the request: the conversation's name."""
        return self.request.thread

    @property
    def after(self) -> datetime | None:
        """The begin of the time range (inclusive), or None."""
        return None if self.time_range is None else self.time_range.after

    @property
    def before(self) -> datetime | None:
        """The end of the time range (exclusive), or None."""
        return None if self.time_range is None else self.time_range.before


class Found(NamedTuple):
    """The output of a source."""

    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History | None = None
    dropped: tuple[DroppedSection, ...] = ()
    """The sections that the source itself left out, and why."""
    degraded: tuple[str, ...] = ()
    """The problems: each says what failed, and what was used instead."""
    off: str = ""
    """Why the source did not search at all, such as a missing time range; "" if it did."""


def fit_to_budget(found: Found, request: SourceRequest) -> Found:
    """Return the sections that are new and fit the budget; the others become `dropped`.

    Sections are taken by priority, then relevance, then order; one that does not fit is skipped.
    Those that must stay whole are kept, whatever the budget: the compiler decides if they fit.
    """
    dropped = list(found.dropped)
    new = []
    for section in found.sections:
        items = section.provenance.items
        # A static section is visible because it is in every prompt: it must be there again.
        if items and not section.is_static and request.visible.issuperset(items):
            dropped.append(DroppedSection.of(section, "the model sees it already", request.source))
        else:
            new.append(section)
    kept = _fitting_ids(new, request.budget_tokens)
    reason = f"source {request.source!r} may take {request.budget_tokens or 0:,} tokens"
    dropped += [
        DroppedSection.of(section, reason, request.source)
        for section in new
        if section.id not in kept
    ]
    degraded = found.degraded
    if new and not kept:
        degraded += (f"{request.source}: left out: nothing of what it found fits, {reason}",)
    return found._replace(
        sections=tuple([section for section in new if section.id in kept]),
        dropped=tuple(dropped),
        degraded=degraded,
    )


def _fitting_ids(sections: list[Section], budget_tokens: int | None) -> AbstractSet[str]:
    if budget_tokens is None:
        return {section.id for section in sections}
    remaining = budget_tokens
    kept = set()
    ranked = sorted(
        sections,
        key=lambda section: (-section.must_stay_whole, -section.priority, -section.relevance),
    )
    for section in ranked:
        tokens = section.tokens or 0
        if section.must_stay_whole or tokens <= remaining:
            kept.add(section.id)
            remaining -= tokens
    return kept


Run = Callable[[SourceRequest], Any]


@dataclass(frozen=True, slots=True)
class HydrationSource:
    """A source: its name, its function, its token budget and its timeout.

    ``run`` may be sync or async. Raises InvalidArgumentError for a value outside its limits.

    >>> HydrationSource("weather", lambda request: "Rain until noon.").timeout
    1.0
    """

    name: str
    run: Run
    priority: Priority = Priority.NORMAL
    """Priority of the sections that are made from its texts and hits; a `Section` has its own."""
    budget_tokens: int | None = None
    """Tokens for all its sections together; the request's strategy may give it fewer."""
    timeout: float | None = TIMEOUT
    """Seconds from the call of `hydrate`; a later answer is left out. None: no timeout."""
    blocking: bool = True
    """Whether it may block, on a disk or a network. False: it runs in the caller's thread, and no
    timeout stops it."""
    kind: SourceKind = ""
    """The kind of a source of this package; a strategy may name it by its kind too."""
    query: Callable[[], str] | None = None
    """Returns the query of a turn whose request has none."""
    needs_namespace: bool = False
    """Whether it can answer only a request with a namespace."""
    memory: Memory | None = None
    """The memory that it reads; the whole of a shortened section is there, under its handle."""

    def __post_init__(self) -> None:
        """Check every field."""
        name = self.name
        if not isinstance(name, str) or not name.strip() or not _RESERVED.isdisjoint(name):
            raise InvalidArgumentError(
                f"a source's name is {name!r}; pass a name without {' '.join(sorted(_RESERVED))}"
            )
        check_methods(f"source {name!r}: run", self.run, "__call__", "pass a function")
        check_whole(f"source {name!r}: budget_tokens", self.budget_tokens, or_none=True)
        timeout = check_timeout(f"source {name!r}: timeout", self.timeout)
        object.__setattr__(self, "timeout", timeout)
        if not isinstance(self.priority, Priority):
            raise InvalidArgumentError(
                f"source {name!r}: priority is {self.priority!r}; pass a Priority"
            )

    @property
    def ignores_budget(self) -> bool:
        """Whether all it brings is kept, since the caller wrote it: system, tools and history."""
        return self.kind in ("system", "tools", "history")

    def is_wanted(self, strategy: ContextStrategy) -> bool:
        """Whether the strategy allows it to run, by its name or by its kind."""
        return strategy.wants(self._name_in(strategy))

    def tokens_for(self, strategy: ContextStrategy, budget: Budget) -> int | None:
        """Return its budget: the smaller of its own and the strategy's share; None: no limit."""
        share = strategy.tokens_for(self._name_in(strategy), budget)
        limits = [limit for limit in (self.budget_tokens, share) if limit is not None]
        return min(limits, default=None)

    def _name_in(self, strategy: ContextStrategy) -> str:
        return self.kind if self.kind and self.name not in strategy.shares else self.name


def in_time_range(time: datetime, time_range: TimeRange) -> bool:
    """Whether the time is in the range: from `after`, inclusive, to `before`, exclusive."""
    after, before = time_range
    return (after is None or time >= after) and (before is None or time < before)


class SourceSettings(TypedDict, total=False):
    """The options that every source has."""

    priority: Priority
    budget_tokens: int | None
    timeout: float | None
