"""ContextRequest: the query of a turn, its budget and its sources (`Budget`, `ContextStrategy`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from rehydrate._check import check_share, check_type, check_whole
from rehydrate.errors import InvalidArgumentError

SOFT_TOKENS = 50_000
HARD_TOKENS = 180_000
KEEP_LAST = 12
MAX_TOKENS = 2**53
"""Of any budget or count: up to here a number is exact wherever it is multiplied by a share."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The token limits of a prompt and of a job.

    Counts that are estimates (of every provider but OpenAI) are compared by their upper bound. Tool
    schemas and images count too. Raises InvalidArgumentError for a value outside its limits.

    >>> Budget(soft_tokens=8_000).target_tokens
    4800
    """

    soft_tokens: int = SOFT_TOKENS
    """A prompt with more is compacted."""
    hard_tokens: int = HARD_TOKENS
    """A prompt with more is not sent: BudgetExceededError. The model's window, less a margin."""
    compact_to: float = 0.6
    """A compaction leaves this share of `soft_tokens`. The rest is room for the next turns, since
    each compaction breaks the cached prefix."""
    keep_last: int = KEEP_LAST
    """The last messages are kept before anything competes: at most this number, newest first, and
    in at most a 32nd of the room."""
    max_job_tokens: int | None = None
    """The tokens that all requests of a job may send together. A prefix that the last request had
    too is not counted again. A request over it raises BudgetExceededError. None: no limit."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_whole("budget: soft_tokens", self.soft_tokens, 1, MAX_TOKENS)
        check_whole("budget: hard_tokens", self.hard_tokens, 1, MAX_TOKENS)
        check_whole("budget: max_job_tokens", self.max_job_tokens, 1, MAX_TOKENS, or_none=True)
        check_whole("budget: keep_last", self.keep_last)
        if self.soft_tokens > self.hard_tokens:
            raise InvalidArgumentError(
                f"budget: soft_tokens is {self.soft_tokens:,}, hard_tokens {self.hard_tokens:,}; "
                "the soft one comes first: lower it or raise the other"
            )
        is_number = isinstance(self.compact_to, (int, float)) and self.compact_to is not True
        if not (is_number and 0.05 <= self.compact_to <= 1):
            raise InvalidArgumentError(
                f"budget: compact_to is {self.compact_to!r}; pass a number from 0.05 to 1"
            )

    @property
    def target_tokens(self) -> int:
        """The tokens that a compaction leaves."""
        return int(self.soft_tokens * self.compact_to)


class TimeRange(NamedTuple):
    """From `after` (inclusive) to `before` (exclusive), as aware datetimes; None: no limit."""

    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ContextStrategy:
    """The sources that run, and the largest share of the soft budget that each may take.

    A source that is not named runs with its own budget. A share of 0 turns a source off.

    >>> ContextStrategy.only("semantic").wants("temporal")
    False
    """

    shares: Mapping[str, float] = field(
        default_factory=lambda: {"temporal": 0.1, "semantic": 0.15, "knowledge": 0.15},
        hash=False,
    )
    exclusive: bool = False
    """Whether sources that are not named do not run."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_type("strategy: shares", self.shares, Mapping, "pass names of sources with shares")
        for name, share in self.shares.items():
            check_type("strategy: a source", name, str, "pass its name")
            check_share(f"strategy: the share of {name!r}", share)

    @classmethod
    def only(cls, *sources: str) -> ContextStrategy:
        """Return a strategy with these sources and no others, each with its own budget."""
        return cls(dict.fromkeys(sources, 1.0), exclusive=True)

    def wants(self, source: str) -> bool:
        """Whether the source runs."""
        return self.shares.get(source, 0.0 if self.exclusive else 1.0) > 0

    def tokens_for(self, source: str, budget: Budget) -> int | None:
        """Return the limit of the source's share; None for a source without one."""
        share = self.shares.get(source)
        return None if share is None else math.floor(share * budget.soft_tokens)


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The query of the next prompt, and how to find what it needs.

    >>> ContextRequest("Which port does staging use?").budget.soft_tokens
    50000
    """

    query: str = ""
    """The user's new words, or the tool result that the turn goes on from. Sources search for it.
    "": the last user turn of the history."""
    strategy: ContextStrategy = field(default_factory=ContextStrategy)
    budget: Budget = field(default_factory=Budget)
    thread: str = ""
    """The conversation's name."""
    time_range: TimeRange | None = None
    namespace: str = ""
    """The namespace of every memory that has none of its own."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_type("query", self.query, str, "pass a string")
        check_type("strategy", self.strategy, ContextStrategy, 'pass ContextStrategy({"hot": 0.1})')
        check_type("budget", self.budget, Budget, "pass Budget(soft_tokens=...)")
        check_type("thread", self.thread, str, "pass the conversation's name")
        check_type("namespace", self.namespace, str, "pass a namespace's name")
        if self.time_range is not None:
            check_type("time_range", self.time_range, TimeRange, "pass TimeRange(after, before)")
