"""Why each unit was kept or dropped, worked out when somebody asks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine
from rehydrate.compact.result import BlockReport, Dropped, Explanation, UnitReport, once
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import COVERED
from rehydrate.messages import Conversation, Unit

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.excerpts import Cut


NOTHING_NEW = 0.25
"""Up to this share of its features left unmentioned, a unit counts as saying nothing new."""
PREVIEW_CHARACTERS = 160


class DroppedUnit(NamedTuple):
    """A unit that goes, and how much of it memory covers."""

    unit: int
    tokens: int
    coverage: float


class Decision:
    """Which units of a conversation are kept, and the selection that says so."""

    def __init__(
        self,
        conversation: Conversation,
        selection: _native.Selection,
        message_tokens: Sequence[int],
    ) -> None:
        """Keep what was decided; nothing is worked out yet."""
        self.conversation = conversation
        self.selection = selection
        self.message_tokens = message_tokens

    @once
    def kept_messages(self) -> list[bool]:
        """Per message of the conversation, whether it is kept."""
        return self.conversation.kept_messages(self.selection.kept)

    @once
    def dropped_units(self) -> list[DroppedUnit]:
        """The units that go, and how much of each memory covers."""
        kept, signals = self.selection.kept, _engine.signals(self.selection)
        return [
            DroppedUnit(unit, self.unit_tokens[unit], signals[figures.best].coverage)
            for unit, figures in enumerate(_engine.unit_figures(self.selection))
            if not kept[unit]
        ]

    @once
    def unit_tokens(self) -> list[int]:
        """Per unit, the tokens of its messages."""
        tokens = [0] * len(self.conversation.units)
        for message, count in zip(self.conversation.messages, self.message_tokens, strict=True):
            tokens[self.unit_of[message.index]] += count
        return tokens

    @once
    def unit_of(self) -> dict[int, int]:
        """By the index of a message, its unit."""
        units = self.conversation.units
        return {index: unit for unit, whole in enumerate(units) for index in whole.members}


class Report:
    """The reasons of one compaction, and the signals behind them."""

    def __init__(
        self,
        decision: Decision,
        pins: Mapping[int, str],
        target_tokens: int,
        scoring: Scoring,
        *,
        cut: Cut | None,
        stripped_by_unit: Mapping[int, int],
        stale: Mapping[int, int],
        first_change: int,
        handles: Mapping[int, str],
    ) -> None:
        """Keep what the decisions were made from; nothing is worked out yet.

        ``stale`` has, by index, the tokens of each message that lost its thinking behind
        ``first_change``; ``handles`` says, by index, where memory has a dropped message.
        """
        self._decision = decision
        self._conversation = decision.conversation
        self._selection = decision.selection
        self._pins = pins
        self._target_tokens = target_tokens
        self._scoring = scoring
        self._cut = cut
        self._stripped_by_unit = stripped_by_unit
        self._stale = stale
        self._first_change = first_change
        self._handles = handles

    @once
    def explanation(self) -> Explanation:
        """One row a unit."""
        kept = self._selection.kept
        signals = _engine.signals(self._selection)
        blocks = self._blocks()
        saved = self._saved_tokens()
        rows = []
        for unit, figures in enumerate(_engine.unit_figures(self._selection)):
            whole, tokens = self._conversation.units[unit], self._decision.unit_tokens[unit]
            signal, gain = signals[figures.best], figures.gain
            stale = [self._stale[index] for index in whole.members if index in self._stale]
            new = (gain - figures.own) / figures.worth if figures.worth > 0 else 1.0
            reason = self._kept(unit) if kept[unit] else self._dropped(tokens, signal.coverage, new)
            rows.append(
                UnitReport(
                    unit=unit,
                    messages=whole.members,
                    role=_roles(whole),
                    tokens=tokens,
                    **signal._asdict(),
                    gain=gain,
                    kept=kept[unit],
                    reason=reason,
                    preview=_preview(whole),
                    kept_tokens=tokens - saved.get(unit, 0) - sum(stale) if kept[unit] else 0,
                    blocks=tuple(blocks.get(unit, ())),
                    stripped_tokens=self._stripped_by_unit.get(unit, 0) + sum(stale),
                    stripped=f"message {self._first_change} changed before it" if stale else "",
                )
            )
        return Explanation(tuple(rows))

    def _saved_tokens(self) -> dict[int, int]:
        """Per unit that is kept in part, the tokens left out."""
        saved: dict[int, int] = {}
        if self._cut is not None:
            for place, excerpt in self._cut.excerpts.items():
                unit = self._decision.unit_of[self._conversation.messages[place].index]
                left_out = self._decision.message_tokens[place] - excerpt.tokens
                saved[unit] = saved.get(unit, 0) + left_out
        return saved

    def _blocks(self) -> dict[int, list[BlockReport]]:
        """Per unit, the blocks of its divided texts."""
        found: dict[int, list[BlockReport]] = {}
        if self._cut is None:
            return found
        messages = self._cut.conversation.messages
        ends = list(accumulate(len(message.pieces) for message in messages))
        kept_units, figures = self._selection.kept, self._selection.blocks()
        for text, piece in enumerate(self._cut.divided):
            place = bisect_right(ends, piece)
            message = messages[place]
            unit = self._decision.unit_of[message.index]
            measure, rows = self._cut.division(text)
            found.setdefault(unit, []).extend(
                BlockReport(
                    message=message.index,
                    text=piece - (ends[place] - len(message.pieces)),
                    measure=measure,
                    first=row.first,
                    last=row.last,
                    tokens=tokens,
                    gain=gain,
                    kept=bool(kept) and kept_units[unit],
                    handle=self._cut.handles.get(text) or None,
                )
                for row, kept, (tokens, gain) in zip(
                    rows, self._cut.kept[text], figures[text], strict=True
                )
            )
        return found

    @once
    def dropped(self) -> tuple[Dropped, ...]:
        """One record a dropped message."""
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

    def _kept(self, unit: int) -> str:
        if unit in self._pins:
            return self._pins[unit]
        if unit == self._selection.leader:
            return "a user turn must come first"
        if self._selection.laid_down[unit]:
            return "rule of the user"
        return (
            "worth its tokens" if self._scoring.packing == "coverage" else "among the best scores"
        )

    def _dropped(self, tokens: int, coverage: float, new: float) -> str:
        room = self._target_tokens - self._selection.pinned_tokens
        if tokens > max(room, 0):
            return f"needs {tokens:,} tokens where {max(room, 0):,} are free"
        if coverage >= COVERED:
            return f"memory covers {coverage:.0%} of it"
        if self._scoring.packing == "greedy":
            return "others score higher"
        return (
            "most of what it mentions is kept elsewhere"
            if new <= NOTHING_NEW
            else "others are worth more per token"
        )


def _roles(unit: Unit) -> str:
    return "tool use" if unit.calls_tools else unit.role


def _preview(unit: Unit) -> str:
    for message in unit.messages:
        for piece in message.pieces:
            line = " ".join(piece.text[: 4 * PREVIEW_CHARACTERS].split())
            if line:
                return line[:PREVIEW_CHARACTERS]
    return ""
