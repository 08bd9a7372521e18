"""Excerpts: long texts kept in part, with a mark in the place of each gap.

The engine decides which blocks of a text are kept. This file finds the texts that may be divided,
writes the marks, and builds the messages anew. Nothing ever reads a mark: one that is in a text
already is text like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compact.tool_inputs import InputText, join_inputs, json_escaped, split_inputs
from rehydrate.messages import Conversation, Message, PieceKind

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.formats._reading import Path


MIN_CHARACTERS = 200
"""A message of shorter texts is never divided, so their paths are not needed."""
_DIVISIBLE_KINDS = (PieceKind.TEXT, PieceKind.TOOL_RESULT)

# It has as many tokens as nearly every handle, or more. If handles cost more than this one,
# `Excerpts.fit` gives back blocks after the choice, and better choices are lost.
_SAMPLE_HANDLE = "mem_r2c6z4477yjh6q3n8hv7x5m7j8"
_SAMPLE_GAPS = ((888, 888, 999), (88_888_888, 11_111_111, 88_888_888))
"""The longest mark with numbers under 1,000, and the longest of the largest texts."""


def _pieces(conversation: Conversation) -> list[tuple[Message, int]]:
    """Return all pieces in order: each one's message, and its number there."""
    return [
        (message, number)
        for message in conversation.messages
        for number in range(len(message.pieces))
    ]


class DivisibleTexts(NamedTuple):
    """The texts of a conversation that may be divided."""

    conversation: Conversation
    entries: Sequence[Any]
    """By the index of its message, each entry."""
    places: Mapping[tuple[int, int], Path | InputText]
    """By the index of its message and its number there, where each text is in its entry: its path,
    or the string of a call's input."""
    counter: str | _engine.CustomCounter
    originals: Mapping[int, Message]
    """By their index, the messages with such strings as they were before `split_inputs`."""

    @classmethod
    def find(
        cls,
        conversation: Conversation,
        entries: Sequence[Any],
        pins: Mapping[int, str],
        counter: str | _engine.CustomCounter,
        *,
        kept_for_words: Collection[int] = (),
    ) -> DivisibleTexts:
        """Find the long texts, results and strings in inputs outside of pinned units.

        Pinned units in ``kept_for_words`` are kept only for their words: their tool results are
        divided. Strings in the inputs of finished calls are pieces of their own in the returned
        conversation.
        """
        split = split_inputs(conversation, entries, list(pins))
        places_of = formats.FORMATS[conversation.format].places
        members = {unit: conversation.units[unit].members for unit in pins}
        words = {index for unit in kept_for_words if unit in pins for index in members[unit]}
        whole = {index for unit in pins for index in members[unit]} - words
        places: dict[tuple[int, int], Path | InputText] = {}
        for message in conversation.messages:
            index, pieces = message.index, message.pieces
            if index in whole or all(len(piece.text) <= MIN_CHARACTERS for piece in pieces):
                continue
            kinds = (PieceKind.TOOL_RESULT,) if index in words else _DIVISIBLE_KINDS
            found = places_of(entries[index], index)
            for number, (piece, path) in enumerate(zip(pieces, found, strict=False)):
                if path is not None and piece.kind in kinds:
                    places[index, number] = path
        if split.texts:
            pieces_of_split = _pieces(split.conversation)
            for at, text in split.texts.items():
                message, number = pieces_of_split[at]
                places[message.index, number] = text
        originals = {message.index: message for message in split.originals.values()}
        return cls(split.conversation, entries, places, counter, originals)

    def message_tokens(self, prepared: _native.Prepared) -> list[int]:
        """Return the tokens of each message as it came in.

        A split input is counted whole: its parts may come to a few tokens more or less.
        """
        tokens: list[int] = prepared.message_tokens
        if self.originals:
            whole = _engine.message_tokens(list(self.originals.values()), self.counter)
            count_of = dict(zip(self.originals, whole, strict=True))
            indices = self.conversation.indices
            tokens = [count_of.get(i, n) for i, n in zip(indices, tokens, strict=True)]
        return tokens

    def excerpting(self, *, with_handles: bool) -> _engine.Excerpting:
        """Return what the engine needs to divide the texts; marks with handles cost more."""
        in_inputs = any(isinstance(place, InputText) for place in self.places.values())
        handle = _SAMPLE_HANDLE if with_handles else ""
        marks = [f"\n{_engine.mark('characters', *gap, handle)}\n" for gap in _SAMPLE_GAPS]
        small, large = [
            _engine.count_raw(json_escaped(mark) if in_inputs else mark, self.counter)
            for mark in marks
        ]
        pieces = _pieces(self.conversation)
        block_counts = None
        if not isinstance(self.counter, str):
            block_counts = []
            for message, number in pieces:
                place = self.places.get((message.index, number))
                text = message.pieces[number].text
                division = None if place is None else _engine.divide(text)
                for start, end, *_ in division.blocks if division else ():
                    block = text[start:end]
                    block = json_escaped(block) if isinstance(place, InputText) else block
                    block_counts.append(_engine.count(block, self.counter))
        return _engine.Excerpting(
            [(message.index, number) in self.places for message, number in pieces],
            (small, large),
            block_counts,
        )

    def parts(self, prepared: _native.Prepared) -> Conversation:
        """Return the conversation with the engine's message parts as messages, for embedding."""
        return prepared.parts(self.conversation)


HandleOf = Callable[[Message, str], str]
"""Returns the handle under which a memory has a whole text of a message; "" for none."""


class Excerpt(NamedTuple):
    """A message that is kept in part."""

    entry: Any
    tokens: int
    message: Message
    """The kept part, as compaction reads it."""
    handle: str | None = None
    """The handle of the first text that is cut."""


class Excerpts:
    """The messages that are kept in part, rebuilt so that the result stays within the budget.

    A text is a number among the divided texts. A position is a message's in the conversation.
    """

    def __init__(
        self, divisible: DivisibleTexts, prepared: _native.Prepared, selection: _native.Selection
    ) -> None:
        """Find the texts that lost blocks."""
        self._divisible = divisible
        self._prepared = prepared
        self._blocks = selection.blocks()
        self.kept_blocks: list[bytearray] = [bytearray(flags) for flags in selection.kept_blocks()]
        """For each divided text, 1 for each block that is kept."""
        self.texts_of: dict[int, list[int]] = {}
        """Position of a kept message -> its divided texts."""
        self.handles: dict[int, str] = {}
        """Text kept in part -> the handle under which memory has the whole of it."""
        self.by_position: dict[int, Excerpt] = {}
        conversation = divisible.conversation
        position_of = {index: position for position, index in enumerate(conversation.indices)}
        kept_units, unit_of = selection.kept, conversation.unit_of()
        pieces = _pieces(conversation)
        self._numbers: list[int] = []
        """For each divided text, its number among the pieces of its message."""
        for text, (message, number) in enumerate(pieces[piece] for piece in prepared.divided):
            self._numbers.append(number)
            if kept_units[unit_of[message.index]]:
                self.texts_of.setdefault(position_of[message.index], []).append(text)

    def partial_texts(self) -> list[tuple[Message, str]]:
        """Return the whole texts that lost blocks, each with its message."""
        return [
            (self._message(position), self._text(position, text))
            for position, texts in self.texts_of.items()
            for text in texts
            if 0 in self.kept_blocks[text]
        ]

    def changed_indices(self, *, at_most: bool = False) -> list[int]:
        """Return the indices of the messages that are kept in part.

        `fit` may cut more messages to make room for the marks; ``at_most`` adds all that it may
        cut.
        """
        changed = {*self._partial(), *self.by_position}
        if changed and at_most:
            changed.update(self.texts_of)
        return [self._message(position).index for position in changed]

    def fit(self, kept_tokens: Sequence[int], target_tokens: int, handle_of: HandleOf) -> None:
        """Write the marks, and drop blocks until the target is kept, least gain first.

        `kept_tokens` holds the tokens of each message as a whole, 0 for a dropped one. The engine
        counts block by block; joined blocks and marks may cost a few tokens more.
        """
        partial = self._partial()
        self.by_position = dict(zip(partial, self._rebuild(partial, handle_of), strict=True))
        excess = sum(kept_tokens) - self.saved_tokens(kept_tokens) - target_tokens
        if excess <= 0:
            return
        least_gain_first = sorted(
            (self._blocks[text][block][1], rank, text, block, position)
            for rank, (position, texts) in enumerate(self.texts_of.items())
            for text in texts
            for block, is_kept in enumerate(self.kept_blocks[text])
            if is_kept
        )
        for *_, text, block, position in least_gain_first:
            excerpt = self.by_position.get(position)
            before = kept_tokens[position] if excerpt is None else excerpt.tokens
            self.kept_blocks[text][block] = 0
            (self.by_position[position],) = self._rebuild([position], handle_of)
            excess -= before - self.by_position[position].tokens
            if excess <= 0:
                return

    def entries(self) -> dict[int, Any]:
        """Return index -> the entry that is kept of a message."""
        return {each.message.index: each.entry for each in self.by_position.values()}

    def messages(self) -> dict[int, Message]:
        """Return index -> the message that is kept of a message."""
        return {each.message.index: each.message for each in self.by_position.values()}

    def saved_tokens(self, kept_tokens: Sequence[int]) -> int:
        """Return the tokens that messages kept in part lost."""
        return sum(
            kept_tokens[position] - each.tokens for position, each in self.by_position.items()
        )

    def tokens(self) -> dict[int, int]:
        """Return position -> the tokens of what is kept of a message."""
        return {position: each.tokens for position, each in self.by_position.items()}

    def divided_texts(self) -> _engine.DividedTexts:
        """Return the divided texts, for the report."""
        return self._prepared, self._divisible.conversation, self.kept_blocks, self.handles

    def render(self, position: int, text: int, handle: str = "") -> str:
        """Return the kept blocks of a text of this message, with a mark in each gap."""
        division = self._prepared.division(text)
        return division.render(self._text(position, text), self.kept_blocks[text], handle)

    def _partial(self) -> list[int]:
        """Return the positions of the messages of which a text lost blocks."""
        return [
            position
            for position, texts in self.texts_of.items()
            if any(0 in self.kept_blocks[text] for text in texts)
        ]

    def _message(self, position: int) -> Message:
        return self._divisible.conversation.messages[position]

    def _text(self, position: int, text: int) -> str:
        return self._message(position).pieces[self._numbers[text]].text

    def _rebuild(self, positions: Sequence[int], handle_of: HandleOf) -> list[Excerpt]:
        """Return the messages at these positions with marks in the place of dropped blocks."""
        changed: list[tuple[Message, Any]] = []
        found: list[str | None] = []
        for position in positions:
            message = self._message(position)
            message = self._divisible.originals.get(message.index, message)
            texts: dict[int, str] = {}
            for text in self.texts_of[position]:
                if 0 in self.kept_blocks[text]:
                    handle = handle_of(message, self._text(position, text))
                    self.handles[text] = handle
                    texts[self._numbers[text]] = self.render(position, text, handle)
            changed.append(self._with_texts(message, texts))
            handles = map(self.handles.get, self.texts_of[position])
            found.append(next(filter(None, handles), None))
        tokens = _engine.message_tokens([each for each, _ in changed], self._divisible.counter)
        return [
            Excerpt(entry, count, message, handle)
            for (message, entry), count, handle in zip(changed, tokens, found, strict=True)
        ]

    def _with_texts(self, message: Message, texts: Mapping[int, str]) -> tuple[Message, Any]:
        """Return a message and its entry with these texts, by the number of their piece."""
        divisible = self._divisible
        entry = divisible.entries[message.index]
        pieces = list(message.pieces)
        values: dict[Path, Any] = {}
        in_inputs: list[tuple[InputText, str]] = []
        for number, text in texts.items():
            place = divisible.places[message.index, number]
            if isinstance(place, InputText):
                in_inputs.append((place, text))
            else:
                pieces[number] = pieces[number]._replace(text=text)
                values[place] = text
        changed, calls = join_inputs(message, entry, in_inputs)
        for number, piece in calls.items():
            pieces[number] = piece
        format_ = formats.FORMATS[divisible.conversation.format]
        new_entry = format_.replace(entry, {**values, **changed})
        return message._replace(pieces=tuple(pieces)), new_entry
