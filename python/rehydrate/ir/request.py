"""ContextRequest: what a turn is about, and ContextStrategy: which sources answer, and how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from rehydrate.checking import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.ir.budget import Budget


class TimeRange(NamedTuple):
    """From `after` (inclusive) to `before` (exclusive); None on one side: no limit there. Aware
    datetimes."""

    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ContextStrategy:
    """Which sources run, and which share of the soft budget each may take at most.

    A source that is not named runs with its own budget; a share of 0 turns it off.

    >>> ContextStrategy.only("semantic").wants("temporal")
    False
    """

    shares: Mapping[str, float] = field(
        default_factory=lambda: {"temporal": 0.1, "semantic": 0.15, "knowledge": 0.15},
        hash=False,
    )
    exclusive: bool = False
    """Whether sources that are not named stay out."""

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        check_type("strategy: shares", self.shares, Mapping, "pass names of sources with shares")
        for name, share in self.shares.items():
            check_type("strategy: a source", name, str, "pass its name")
            is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
            if not (is_number and 0 <= share <= 1):
                raise InvalidArgumentError(
                    f"strategy: the share of {name!r} is {share!r}; pass a number from 0 to 1"
                )

    @classmethod
    def only(cls, *sources: str) -> ContextStrategy:
        """These sources and no others, each with its own budget."""
        return cls(dict.fromkeys(sources, 1.0), exclusive=True)

    def wants(self, source: str) -> bool:
        """Whether the source is to run."""
        return self.shares.get(source, 0.0 if self.exclusive else 1.0) > 0

    def tokens_for(self, source: str, budget: Budget) -> int | None:
        """What the source may take at most; None: as much as it has."""
        share = self.shares.get(source)
        return None if share is None else math.floor(share * budget.soft_tokens)


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What the next prompt is for.

    >>> ContextRequest("Which port does staging use?").budget.soft_tokens
    50000
    """

    observation: str = ""
    """What happened: the user's new words, or the tool's answer that the turn goes on from. It is
    what sources look for. "": the last user turn of the history."""
    strategy: ContextStrategy = field(default_factory=ContextStrategy)
    budget: Budget = field(default_factory=Budget)
    thread: str = ""
    """The conversation's name."""
    time_range: TimeRange | None = None
    identity: str = ""
    """Whose turn it is: the namespace of every memory that has none of its own."""

    def __post_init__(self) -> None:
        """Refuse what is no request."""
        check_type("observation", self.observation, str, "pass a string")
        check_type("strategy", self.strategy, ContextStrategy, 'pass ContextStrategy({"hot": 0.1})')
        check_type("budget", self.budget, Budget, "pass Budget(soft_tokens=...)")
        check_type("thread", self.thread, str, "pass the conversation's name")
        check_type("identity", self.identity, str, "pass a namespace's name")
        if self.time_range is not None:
            check_type("time_range", self.time_range, TimeRange, "pass TimeRange(after, before)")
