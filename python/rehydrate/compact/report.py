"""The reasons of a compaction: why each unit was kept or dropped, computed on first access."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rehydrate import _engine
from rehydrate.compact.result import BlockReport, Dropped, Explanation, UnitReport
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import COVERED
from rehydrate.messages import Conversation, Unit

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.excerpts import Excerpts


MAX_UNSAID = 0.25
"""A unit repeats what is kept if at most this share of what it mentions is new."""
PREVIEW_CHARACTERS = 160


class DroppedUnit(NamedTuple):
    """A dropped unit, and the share of it that memory covers."""

    unit: int
    tokens: int
    coverage: float


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


class Decision:
    """The engine's selection, and the units and messages that it keeps."""

    def __init__(
        self,
        conversation: Conversation,
        selection: _native.Selection,
        message_tokens: Sequence[int],
    ) -> None:
        """Keep the arguments; nothing is computed yet."""
        self.conversation = conversation
        self.selection = selection
        self.message_tokens = message_tokens

    @lazy_property
    def kept_messages(self) -> list[bool]:
        """For each message of the conversation, whether it is kept."""
        return self.conversation.kept_messages(self.selection.kept)

    @lazy_property
    def dropped_units(self) -> list[DroppedUnit]:
        """The dropped units, and the share of each that memory covers."""
        kept, signals = self.selection.kept, _engine.signals(self.selection)
        return [
            DroppedUnit(unit, self.unit_tokens[unit], signals[figures.best].coverage)
            for unit, figures in enumerate(_engine.unit_figures(self.selection))
            if not kept[unit]
        ]

    @lazy_property
    def unit_tokens(self) -> list[int]:
        """For each unit, the tokens of its messages."""
        tokens = [0] * len(self.conversation.units)
        for message, count in zip(self.conversation.messages, self.message_tokens, strict=True):
            tokens[self.unit_of[message.index]] += count
        return tokens

    @lazy_property
    def unit_of(self) -> dict[int, int]:
        """Message index -> unit."""
        return self.conversation.unit_of()


class Report:
    """The reasons of one compaction, and their signals: `result.Reasons`."""

    def __init__(
        self,
        decision: Decision,
        pins: Mapping[int, str],
        target_tokens: int,
        scoring: Scoring,
        *,
        excerpts: Excerpts | None,
        stripped_by_unit: Mapping[int, int],
        stale_tokens: Mapping[int, int],
        first_change: int,
        handles: Mapping[int, str],
    ) -> None:
        """Keep the arguments; nothing is computed yet.

        ``stale_tokens`` maps the index of a message to the tokens of thinking that it lost after
        ``first_change``; ``handles`` maps the index of a dropped message to its handle in memory.
        """
        self._decision = decision
        self._conversation = decision.conversation
        self._selection = decision.selection
        self._pins = pins
        self._target_tokens = target_tokens
        self._scoring = scoring
        self._excerpts = excerpts
        self._stripped_by_unit = stripped_by_unit
        self._stale_tokens = stale_tokens
        self._first_change = first_change
        self._handles = handles

    @lazy_property
    def explanation(self) -> Explanation:
        """One row for each unit."""
        kept = self._selection.kept
        signals = _engine.signals(self._selection)
        blocks = self._blocks()
        saved, stale_tokens = self._saved_tokens(), self._stale_tokens
        rows = []
        for number, figures in enumerate(_engine.unit_figures(self._selection)):
            unit, tokens = self._conversation.units[number], self._decision.unit_tokens[number]
            signal, gain = signals[figures.best], figures.gain
            stale = [stale_tokens[index] for index in unit.members if index in stale_tokens]
            reason = (
                self._why_kept(number)
                if kept[number]
                else self._why_dropped(tokens, signal.coverage, figures.unsaid)
            )
            kept_tokens = tokens - saved.get(number, 0) - sum(stale)
            rows.append(
                UnitReport(
                    unit=number,
                    messages=unit.members,
                    role="tool use" if unit.calls_tools else unit.role,
                    tokens=tokens,
                    **signal._asdict(),
                    gain=gain,
                    kept=kept[number],
                    reason=reason,
                    preview=_preview(unit),
                    kept_tokens=kept_tokens if kept[number] else 0,
                    blocks=tuple(blocks.get(number, ())),
                    stripped_tokens=self._stripped_by_unit.get(number, 0) + sum(stale),
                    stripped=f"message {self._first_change} changed before it" if stale else "",
                )
            )
        return Explanation(tuple(rows))

    def _saved_tokens(self) -> dict[int, int]:
        """Return unit -> tokens left out, for units that are kept in part."""
        saved: dict[int, int] = {}
        if self._excerpts is not None:
            for position, excerpt in self._excerpts.by_position.items():
                unit = self._decision.unit_of[self._conversation.messages[position].index]
                left_out = self._decision.message_tokens[position] - excerpt.tokens
                saved[unit] = saved.get(unit, 0) + left_out
        return saved

    def _blocks(self) -> dict[int, list[BlockReport]]:
        """Return unit -> the blocks of its divided texts."""
        found: dict[int, list[BlockReport]] = {}
        excerpts = self._excerpts
        if excerpts is None:
            return found
        messages = excerpts.conversation.messages
        ends = list(accumulate(len(message.pieces) for message in messages))
        kept_units, figures = self._selection.kept, self._selection.blocks()
        for text, piece in enumerate(excerpts.divided):
            position = bisect_right(ends, piece)
            message = messages[position]
            unit = self._decision.unit_of[message.index]
            measure, blocks = excerpts.division(text)
            found.setdefault(unit, []).extend(
                BlockReport(
                    message=message.index,
                    text=piece - (ends[position] - len(message.pieces)),
                    measure=measure,
                    first=block.first,
                    last=block.last,
                    tokens=tokens,
                    gain=gain,
                    kept=bool(kept) and kept_units[unit],
                    handle=excerpts.handles.get(text) or None,
                )
                for block, kept, (tokens, gain) in zip(
                    blocks, excerpts.kept_blocks[text], figures[text], strict=True
                )
            )
        return found

    @lazy_property
    def dropped(self) -> tuple[Dropped, ...]:
        """One record for each dropped message."""
        unit_of = {index: row for row in self.explanation if not row.kept for index in row.messages}
        signals = _engine.signals(self._selection)
        return tuple(
            Dropped(
                index=message.index,
                role=message.role,
                tokens=tokens,
                unit=unit_of[message.index].unit,
                score=signal.score,
                reason=unit_of[message.index].reason,
                handle=self._handles.get(message.index),
            )
            for message, tokens, signal in zip(
                self._conversation.messages, self._decision.message_tokens, signals, strict=True
            )
            if message.index in unit_of
        )

    def _why_kept(self, unit: int) -> str:
        if unit in self._pins:
            return self._pins[unit]
        if unit == self._conversation.answered_reply() and self._scoring.keeps_reply:
            return "reply that the user answers"
        if unit == self._selection.leader:
            return "a user turn must come first"
        if self._selection.laid_down[unit]:
            return "rule of the user"
        return (
            "worth its tokens" if self._scoring.packing == "coverage" else "among the best scores"
        )

    def _why_dropped(self, tokens: int, coverage: float, unsaid: float) -> str:
        free = max(self._target_tokens - self._selection.pinned_tokens, 0)
        if tokens > free:
            return f"needs {tokens:,} tokens where {free:,} are free"
        if coverage >= COVERED:
            return f"memory covers {coverage:.0%} of it"
        if self._scoring.packing == "greedy":
            return "others score higher"
        return (
            "most of what it mentions is kept elsewhere"
            if unsaid <= MAX_UNSAID
            else "others are worth more per token"
        )


def _preview(unit: Unit) -> str:
    for message in unit.messages:
        for piece in message.pieces:
            line = " ".join(piece.text[: 4 * PREVIEW_CHARACTERS].split())
            if line:
                return line[:PREVIEW_CHARACTERS]
    return ""
