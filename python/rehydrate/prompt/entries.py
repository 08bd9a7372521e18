"""History: the conversation in a prompt, entry by entry, with its token counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from rehydrate import formats
from rehydrate._check import check_choice, check_type
from rehydrate.entry_id import EntryId
from rehydrate.messages import Conversation, Message, PieceKind

_LONG_INPUT = 500
"""A tool's input of so many characters is read again rather than held: a message is 300 bytes."""


@dataclass(frozen=True, slots=True)
class History:
    """The conversation: the caller's own entries, in order, in one format.

    ``tokens`` holds the count of each entry, or is empty where nobody counted yet. The entries are
    read once; they must not be changed as long as the history is in use.
    """

    entries: tuple[Any, ...] = ()
    format: str = "plain"
    tokens: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    """Where each entry stood in the list that came in; empty: all of it is here."""
    _read: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        """Refuse what is no history."""
        if type(self.entries) is not tuple:
            check_type("history: entries", self.entries, (list, tuple), "pass a list of messages")
            object.__setattr__(self, "entries", tuple(self.entries))
        check_choice("history: format", self.format, ("auto", *formats.FORMATS))

    @property
    def total_tokens(self) -> int:
        """Of all its entries."""
        return sum(self.tokens)

    def place(self, position: int) -> int:
        """Where the entry stood in the list that came in."""
        return self.places[position] if self.places else position

    def entry_id(self, position: int) -> EntryId:
        """The id of the entry at this position."""
        return EntryId.of(self.place(position))

    @property
    def conversation(self) -> Conversation:
        """Its entries, read and grouped into units; raises InvalidMessageError."""
        found: Conversation | None = self._read.get("conversation")
        if found is None:
            found, entries = formats.read(self.entries, self.format)
            if entries is not self.entries:
                object.__setattr__(self, "entries", tuple(entries))
            self._read["conversation"] = found
        return found

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its entries, read; raises InvalidMessageError."""
        found: tuple[Message, ...] | None = self._read.get("messages")
        resting: _Resting | None = self._read.get("resting")
        if found is None and resting is not None:
            return resting.messages_of(self)
        return self.conversation.messages if found is None else found

    def rest(self) -> None:
        """Keep of what was read what is small beside the entries; the others are read again where
        they are wanted: the long inputs of tools, which are texts of their own."""
        # The lines of a transcript are read in the light of others: all of them, or none.
        if self.format != "claude_code":
            self._read["resting"] = _Resting.of(self.messages)
        # In this order: another thread may be reading.
        self._read.pop("messages", None)
        self._read.pop("conversation", None)

    def with_tokens(self, tokens: Sequence[int], conversation: Conversation | None = None) -> Self:
        """The same, counted; what was read of it is not read again. ``conversation`` is all of it,
        read, where somebody has."""
        name = self.format if conversation is None else conversation.format
        made = type(self)(self.entries, name, tuple(tokens), self.places)
        made._read.update(self._read)
        if conversation is not None:
            made._read["conversation"] = conversation
        return made

    def reworded(
        self,
        entries: Mapping[int, Any],
        messages: Mapping[int, Message],
        tokens: Mapping[int, int],
    ) -> Self:
        """The same with other entries at these positions, which say the same in other words:
        `messages` are these entries, read, so that nothing is read again, and `tokens` theirs."""
        kept = tuple([entries.get(place, entry) for place, entry in enumerate(self.entries)])
        counts = tuple([tokens.get(place, count) for place, count in enumerate(self.tokens)])
        made = type(self)(kept, self.format, counts, self.places)
        read = tuple([messages.get(each.index, each) for each in self.messages])
        made._read["messages"] = read
        whole: Conversation | None = self._read.get("conversation")
        if whole is not None:
            units = [
                unit
                if messages.keys().isdisjoint(unit.members)
                else unit._replace(
                    messages=tuple([messages.get(each.index, each) for each in unit.messages])
                )
                for unit in whole.units
            ]
            made._read["conversation"] = whole._replace(messages=read, units=tuple(units))
        return made

    def followed_by(self, new: Self) -> Self:
        """The same, and after it what came since; what was read is not read again."""
        both = type(self)(
            self.entries + new.entries,
            self.format,
            self.tokens + new.tokens,
            (self.places or tuple(range(len(self.entries)))) + new.places,
        )
        # The lines of a transcript are read in the light of others: it is read as a whole.
        if self.format != "claude_code":
            start = len(self.entries)
            shifted = [each._replace(index=each.index + start) for each in new.messages]
            both._read["messages"] = (*self.messages, *shifted)
        return both


class _Resting(NamedTuple):
    """The messages of a history, without the texts of those that are read again."""

    messages: tuple[Message, ...]
    again: tuple[int, ...]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """The messages at rest."""
        again = tuple([place for place, each in enumerate(messages) if _has_long_input(each)])
        light = list(messages)
        for place in again:
            light[place] = light[place]._replace(pieces=())
        return cls(tuple(light), again)

    def messages_of(self, history: History) -> tuple[Message, ...]:
        """The messages with all their texts."""
        whole = list(self.messages)
        entries = [history.entries[whole[place].index] for place in self.again]
        read = formats.parse(entries, history.format).messages
        for place, message in zip(self.again, read, strict=True):
            whole[place] = whole[place]._replace(pieces=message.pieces)
        return tuple(whole)


def _has_long_input(message: Message) -> bool:
    if not message.calls:
        return False
    inputs = [len(text) for text, kind in message.pieces if kind is PieceKind.TOOL_INPUT]
    return sum(inputs) > _LONG_INPUT
