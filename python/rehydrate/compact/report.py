"""Why each unit was kept or dropped, worked out when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rehydrate.compact.compaction import Dropped, Explanation, UnitReport
from rehydrate.compact.scoring import Scoring
from rehydrate.messages import Conversation, Unit

if TYPE_CHECKING:
    from rehydrate import _native

COVERED = 0.5
"""From this coverage on, being in memory is named as the reason for a drop."""
NOTHING_NEW = 0.25
"""Up to this share of its features left unmentioned, a unit counts as saying nothing new."""
PREVIEW_CHARACTERS = 160


class Report:
    """The decisions of one compaction and the signals behind them."""

    def __init__(
        self,
        conversation: Conversation,
        selection: _native.Selection,
        message_tokens: Sequence[int],
        pins: Mapping[int, str],
        target_tokens: int,
        scoring: Scoring,
    ) -> None:
        """Keep what the decisions were made from; nothing is worked out yet."""
        self._conversation = conversation
        self._selection = selection
        self._message_tokens = message_tokens
        self._pins = pins
        self._target_tokens = target_tokens
        self._scoring = scoring

    @cached_property
    def kept_messages(self) -> list[bool]:
        """Per message of the conversation, whether it is kept."""
        kept_units = self._selection.kept
        kept = {
            index
            for unit, whole in enumerate(self._conversation.units)
            if kept_units[unit]
            for index in whole.members
        }
        return [message.index in kept for message in self._conversation.messages]

    @cached_property
    def explanation(self) -> Explanation:
        """One row a unit."""
        kept = self._selection.kept
        signals = self._selection.signals()
        rows = []
        for unit, (best, tokens, gain, own, worth) in enumerate(self._selection.units()):
            whole = self._conversation.units[unit]
            structural, recency, semantic, coverage, odds, score = signals[best]
            new = (gain - own) / worth if worth > 0 else 1.0
            reason = self._kept(unit) if kept[unit] else self._dropped(tokens, coverage, new)
            rows.append(
                UnitReport(
                    unit=unit,
                    messages=whole.members,
                    role=_roles(whole),
                    tokens=tokens,
                    structural=structural,
                    recency=recency,
                    semantic=semantic,
                    coverage=coverage,
                    odds=odds,
                    score=score,
                    gain=gain,
                    kept=kept[unit],
                    reason=reason,
                    preview=_preview(whole),
                )
            )
        return Explanation(tuple(rows))

    @cached_property
    def dropped(self) -> tuple[Dropped, ...]:
        """One record a dropped message."""
        unit_of = {index: row for row in self.explanation if not row.kept for index in row.messages}
        signals = self._selection.signals()
        return tuple(
            Dropped(
                index=message.index,
                role=message.role,
                tokens=tokens,
                unit=unit_of[message.index].unit,
                score=signal[-1],
                reason=unit_of[message.index].reason,
            )
            for message, tokens, signal in zip(
                self._conversation.messages, self._message_tokens, signals, strict=True
            )
            if message.index in unit_of
        )

    def _kept(self, unit: int) -> str:
        if unit in self._pins:
            return self._pins[unit]
        if unit == self._selection.leader:
            return "a user turn must come first"
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
            "what it mentions is kept elsewhere"
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
