"""The reasons of a compaction: why each unit was kept or dropped, computed on first access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rehydrate import _engine
from rehydrate.compact.result import Dropped, Explanation
from rehydrate.compact.scoring import Scoring

if TYPE_CHECKING:
    from rehydrate.compact.excerpts import Excerpts


T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - a decorator
    """`functools.cached_property` without the lock that it holds up to Python 3.11.

    All instances share that lock: threads wait for each other, and a child process that is forked
    meanwhile waits for ever. Two threads may compute the same value; both get an equal one.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """Keep the method."""
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        """Compute the value; from then on the instance's own attribute hides this descriptor."""
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value


class _Facts(NamedTuple):
    """What the reasons of one compaction are made of."""

    decision: _engine.Decision
    pins: Mapping[int, str]
    """Unit -> the reason why it is always kept."""
    target_tokens: int
    scoring: Scoring
    excerpts: Excerpts | None
    stripped_by_unit: Mapping[int, int]
    stale_tokens: Mapping[int, int]
    """Index of a message -> the tokens of thinking that it lost after `first_change`."""
    first_change: int | None
    handles: Mapping[int, str]
    """Index of a dropped message -> its handle in memory."""
    parted: _engine.Parted | None
    """How parallel calls were parted: the reasons are by the messages that came in."""


class Report(_Facts):
    """The reasons of one compaction, and their signals: `result.Reasons`."""

    @lazy_property
    def explanation(self) -> Explanation:
        """One row for each unit; where calls were parted, the parts of a message are in several."""
        conversation, excerpts = self.decision.conversation, self.excerpts
        rows = self.decision.unit_reports(
            pins=self.pins,
            reply=conversation.answered_reply() if self.scoring.keeps_reply else None,
            divided=excerpts.divided_texts() if excerpts else None,
            cut=excerpts.tokens() if excerpts else {},
            stripped=self.stripped_by_unit,
            stale=self.stale_tokens,
            first_change=self.first_change,
            **self._shared(),
        )
        return Explanation(tuple(rows))

    @lazy_property
    def dropped(self) -> tuple[Dropped, ...]:
        """One record for each message that is gone, with all its parts where it was parted."""
        return tuple(self.decision.dropped(handles=self.handles, **self._shared()))

    def _shared(self) -> dict[str, Any]:
        return {
            "target_tokens": self.target_tokens,
            "by_coverage": self.scoring.packing == "coverage",
            "origins": self.parted.origins if self.parted else None,
        }
