"""Settled and Growing: what was found out about a history, for the history that extends it.

A pass changes an entry by what it and earlier entries hold (DESIGN.md, D48). So it need not look
again at a beginning that it got before, and did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from rehydrate.messages import PROVIDER_OF

if TYPE_CHECKING:
    from rehydrate.prompt.entries import History
    from rehydrate.prompt.ir import PromptIR
    from rehydrate.prompt.section import Section

T = TypeVar("T")


def same_objects(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many values both begin with that are the very same objects.

    >>> same_objects((None, True, 7), (None, True, 8, 9))
    2
    """
    return next(compress(count(), map(is_not, one, other)), min(len(one), len(other)))


def shared_entries(entries: tuple[Any, ...], history: History) -> int:
    """Return how many of these entries the history begins with."""
    return len(entries) if history.begins_with(entries) else same_objects(entries, history.entries)


def can_grow(history: History) -> bool:
    """Whether an entry means the same whatever follows it.

    A line of a transcript depends on other lines, and "auto" on all entries.
    """
    return history.format not in (*PROVIDER_OF, "auto")


class Settled(NamedTuple):
    """The entries that a pass got last, of which it would leave the first ones as they are."""

    entries: tuple[Any, ...] = ()
    format: str = ""
    late_bound: tuple[Section, ...] = ()
    originals: Any = None
    end: int = 0
    """How many entries, from the first one on, the pass would leave as they are again."""
    value: Any = None
    """A note of the pass's own about them."""

    @classmethod
    def of(cls, ir: PromptIR, originals: Any, end: int, value: Any = None) -> Self:
        """Note this of the history that a pass got; the first ``end`` entries are settled."""
        history = ir.history
        return cls(history.entries, history.format, ir.late_bound, originals, end, value)

    def within(self, ir: PromptIR, originals: Any) -> Settled:
        """Return what holds for this IR too.

        Nothing does after a change of the format, of the store of originals, or of the late-bound
        sections that were there.
        """
        is_alike = (
            ir.history.format == self.format
            and can_grow(ir.history)
            and originals is self.originals
            and same_objects(self.late_bound, ir.late_bound) == len(self.late_bound)
        )
        if not is_alike:
            return Settled()
        return self._replace(end=min(self.end, shared_entries(self.entries, ir.history)))


class Growing(Generic[T]):
    """A value made from all entries of a history; it is extended where the history was."""

    __slots__ = ("_empty", "_entries", "_format", "_value")

    def __init__(self, empty: T) -> None:
        """Start with the value of an empty history."""
        self._empty = self._value = empty
        self._entries: tuple[Any, ...] = ()
        self._format = ""

    def of(self, history: History, extend: Callable[[T, History, int], T]) -> T:
        """Return the value of this history.

        ``extend`` returns a value with the entries from a position on; it changes nothing.
        """
        entries, format_ = history.entries, history.format
        known, value = len(self._entries), self._value
        is_longer = format_ == self._format and shared_entries(self._entries, history) == known
        if not (is_longer and can_grow(history)):
            known, value = 0, self._empty
        if known < len(entries):
            value = extend(value, history, known)
        self._entries, self._format, self._value = entries, format_, value
        return value
