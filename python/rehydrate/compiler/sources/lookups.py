"""Lookups: calls that look up what stands elsewhere, and a conversation without them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from rehydrate.ir import History
from rehydrate.messages import Message, PieceKind, Unit

_Told: TypeAlias = tuple[History, Sequence[datetime]]


class Lookups:
    """The calls of some tools, by their names."""

    def __init__(self, names: frozenset[str]) -> None:
        """Take the names."""
        self._names = names
        self._last: tuple[History, _Told] | None = None

    def of(self, history: History, times: Sequence[datetime]) -> _Told:
        """The entries, and when each was said, without those that only look up."""
        if not self._names:
            return history, times
        last = self._last
        if last is None or last[0] is not history:  # reading it again takes longer than the rest
            last = self._last = (history, self._without(history, times))
        return last[1]

    def unit(self, unit: Unit) -> Unit:
        """The unit without its lookups and their results, as far as they stand in pieces of
        their own."""
        ids = {call for message in unit.messages for call in self._calls(message)}
        if not ids:
            return unit
        return unit._replace(messages=tuple([_without(each, ids) for each in unit.messages]))

    def _without(self, history: History, times: Sequence[datetime]) -> _Told:
        gone: set[int] = set()
        for unit in history.conversation.units:
            rest = self.unit(unit)
            if rest is not unit and not any(map(_says_something, rest.messages)):
                gone.update(unit.members)
        if not gone:
            return history, times
        kept = [place for place in range(len(history.entries)) if place not in gone]
        return History(
            tuple([history.entries[place] for place in kept]),
            history.format,
            tuple([history.tokens[place] for place in kept]),
            tuple([history.place(place) for place in kept]),
        ), [times[place] for place in kept]

    def _calls(self, message: Message) -> list[str]:
        inputs = [piece.text for piece in message.pieces if piece.kind is PieceKind.TOOL_INPUT]
        if len(inputs) != len(message.calls):
            return []
        named = zip(message.calls, inputs, strict=True)
        return [call for call, text in named if text.partition(" ")[0] in self._names]


def _without(message: Message, ids: set[str]) -> Message:
    """The message without the pieces of these calls, or of their results."""
    pieces = list(message.pieces)
    for kind, of in (
        (PieceKind.TOOL_INPUT, message.calls),
        (PieceKind.TOOL_RESULT, message.answers),
    ):
        places = [place for place, piece in enumerate(message.pieces) if piece.kind is kind]
        if len(places) == len(of):
            gone = [place for place, call in zip(places, of, strict=True) if call in ids]
            pieces = [
                piece for piece in pieces if not any(piece is message.pieces[n] for n in gone)
            ]
    return message._replace(pieces=tuple(pieces))


def _says_something(message: Message) -> bool:
    said = [piece for piece in message.pieces if piece.kind is not PieceKind.THINKING]
    return message.images > 0 or any(piece.text.strip() for piece in said)
