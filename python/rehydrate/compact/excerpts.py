"""Excerpts: long texts kept in part, with a mark in the place of each gap.

The engine decides which blocks of a text are kept. This file finds the texts that may be divided,
writes the marks, and builds the messages anew. Nothing ever reads a mark: one that is in a text
already is text like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compact.tool_inputs import InputText, join_inputs, json_escaped, split_inputs
from rehydrate.messages import Conversation, Message, Piece, PieceKind

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.formats._reading import Path


MIN_CHARACTERS = 200
"""A shorter text is never divided, so its path is not needed."""
_DIVISIBLE_KINDS = (PieceKind.TEXT, PieceKind.TOOL_RESULT)


mark = _engine.mark
"""The mark for a gap; the handle says where a memory has the whole text."""
Division = _engine.Division
"""The blocks of a text."""

# It has as many tokens as nearly every handle, or more. If handles cost more than this one,
# `Excerpts.fit` gives back blocks after the choice, and better choices are lost.
_SAMPLE_HANDLE = "mem_r2c6z4477yjh6q3n8hv7x5m7j8"


def _sample_marks(handle: str) -> tuple[str, str]:
    """Return the longest mark with numbers under 1,000, and the longest of the largest texts, with
    their line breaks."""
    return (
        "\n" + mark("characters", 888, 888, 999, handle) + "\n",
        "\n" + mark("characters", 88_888_888, 11_111_111, 88_888_888, handle) + "\n",
    )


def with_texts(
    message: Message,
    entry: Any,
    format: str,  # noqa: A002  the field's word
    texts: Mapping[int, str],
    paths: Mapping[int, Path],
    inputs: Mapping[int, InputText],
) -> tuple[Message, Any]:
    """Return a message and its entry with these texts, by the number of their piece in the message.

    ``paths`` and ``inputs`` say, by the same numbers, where each text is in the entry.
    """
    pieces = list(message.pieces)
    values: dict[Path, Any] = {}
    for number, text in texts.items():
        if number in paths:
            pieces[number] = pieces[number]._replace(text=text)
            values[paths[number]] = text
    in_inputs = [(inputs[number], text) for number, text in texts.items() if number in inputs]
    if in_inputs:
        changed, calls = join_inputs(message, entry, in_inputs)
        values |= changed
        for number, piece in calls.items():
            pieces[number] = piece
    changed_message = message._replace(pieces=tuple(pieces))
    return changed_message, formats.FORMATS[format].replace(entry, values)


class DivisibleTexts(NamedTuple):
    """The texts of a conversation that may be divided, and the path of each in its entry."""

    conversation: Conversation
    entries: Sequence[Any]
    paths: Mapping[int, Path]
    """Number of a piece among all pieces -> the path of its text."""
    counter: str | _engine.CustomCounter
    inputs: Mapping[int, InputText] = {}
    """Number of a piece among all pieces -> the string of a call's input that it holds."""
    originals: Mapping[int, Message] = {}
    """Position of a message with such a piece -> the message before `split_inputs`."""

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
        conversation = split.conversation
        places = formats.FORMATS[conversation.format].places
        members = {unit: conversation.units[unit].members for unit in pins}
        words = {index for unit in kept_for_words if unit in pins for index in members[unit]}
        whole = {index for unit in pins for index in members[unit]} - words
        paths: dict[int, Path] = {}
        first = 0
        for message in conversation.messages:
            pieces = message.pieces
            if message.index not in whole and any(
                len(piece.text) > MIN_CHARACTERS for piece in pieces
            ):
                found = places(entries[message.index], message.index)
                own = pieces[: len(found)]  # the strings of inputs come behind them
                for number, (piece, path) in enumerate(zip(own, found, strict=True), first):
                    if path is None or piece.kind not in _DIVISIBLE_KINDS:
                        continue
                    if message.index not in words or piece.kind is PieceKind.TOOL_RESULT:
                        paths[number] = path
            first += len(pieces)
        return cls(conversation, entries, paths, counter, split.texts, split.originals)

    def places_of(self, position: int, start: int) -> tuple[dict[int, Path], dict[int, InputText]]:
        """Return where the divisible texts of a message are, by the number of their piece in it;
        ``start`` is the number of its first piece among all."""
        numbers = range(len(self.conversation.messages[position].pieces))
        return (
            {own: self.paths[start + own] for own in numbers if start + own in self.paths},
            {own: self.inputs[start + own] for own in numbers if start + own in self.inputs},
        )

    def message_tokens(self, prepared: _native.Prepared) -> list[int]:
        """Return the tokens of each message as it came in.

        A split input is counted whole: its parts may come to a few tokens more or less.
        """
        tokens: list[int] = prepared.message_tokens
        if self.originals:
            counts = _engine.message_tokens(list(self.originals.values()), self.counter)
            for position, count in zip(self.originals, counts, strict=True):
                tokens[position] = count
        return tokens

    def excerpting(self, *, with_handles: bool) -> _engine.Excerpting:
        """Return what the engine needs to divide the texts; marks with handles cost more."""
        samples = _sample_marks(_SAMPLE_HANDLE if with_handles else "")
        if self.inputs:
            samples = (json_escaped(samples[0]), json_escaped(samples[1]))
        pieces = self._pieces()
        counts = [_engine.count_raw(sample, self.counter) for sample in samples]
        block_counts = None
        if not isinstance(self.counter, str):
            block_counts = []
            for number in sorted([*self.paths, *self.inputs]):
                text = pieces[number].text
                division = _engine.divide(text)
                for start, end, *_ in division.blocks if division else ():
                    block = text[start:end]
                    block = json_escaped(block) if number in self.inputs else block
                    block_counts.append(_engine.count(block, self.counter))
        return _engine.Excerpting(
            [number in self.paths or number in self.inputs for number in range(len(pieces))],
            (counts[0], counts[1]),
            block_counts,
        )

    def parts(self, prepared: _native.Prepared) -> Conversation:
        """Return the conversation with the engine's message parts as messages, for embedding."""
        return prepared.parts(self.conversation)

    def _pieces(self) -> list[Piece]:
        return [piece for message in self.conversation.messages for piece in message.pieces]


def piece_starts(messages: Iterable[Message]) -> list[int]:
    """Return the number of each message's first piece among all pieces, and their total."""
    return [0, *accumulate(len(message.pieces) for message in messages)]


HandleOf = Callable[[Message, str], str]
"""Returns the handle under which a memory has a whole text of a message; "" for none."""


class Excerpt(NamedTuple):
    """A message that is kept in part."""

    entry: Any
    tokens: int
    message: Message
    """The kept part, as compaction reads it."""


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
        self._selection = selection
        conversation = divisible.conversation
        self._starts = piece_starts(conversation.messages)
        self.divided: tuple[int, ...] = tuple(prepared.divided)
        """For each divided text, its number among all pieces."""
        self.kept_blocks: list[bytearray] = [bytearray(flags) for flags in selection.kept_blocks()]
        """For each divided text, 1 for each block that is kept."""
        self.texts_of: dict[int, list[int]] = {}
        """Position of a kept message -> its divided texts."""
        kept_units, unit_of = selection.kept, conversation.unit_of()
        position = 0
        for text, piece in enumerate(self.divided):
            while self._starts[position + 1] <= piece:
                position += 1
            if kept_units[unit_of[conversation.messages[position].index]]:
                self.texts_of.setdefault(position, []).append(text)
        self._handle_of: HandleOf
        self.handles: dict[int, str] = {}
        """Text kept in part -> the handle under which memory has the whole of it."""
        self.by_position: dict[int, Excerpt] = {}

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
        partial = {position for position, texts in self.texts_of.items() if self._is_partial(texts)}
        partial.update(self.by_position)
        if partial and at_most:
            partial.update(self.texts_of)
        return [self._message(position).index for position in partial]

    def fit(self, kept_tokens: Sequence[int], target_tokens: int, handle_of: HandleOf) -> None:
        """Write the marks, and drop blocks until the target is kept, least gain first.

        `kept_tokens` holds the tokens of each message as a whole, 0 for a dropped one. The engine
        counts block by block; joined blocks and marks may cost a few tokens more.
        """
        self._handle_of = handle_of
        partial = [position for position, texts in self.texts_of.items() if self._is_partial(texts)]
        self.by_position = dict(zip(partial, self._rebuild(partial), strict=True))
        excess = sum(kept_tokens) - self.saved_tokens(kept_tokens) - target_tokens
        if excess <= 0 or not self.texts_of:
            return
        blocks = self._selection.blocks()
        least_gain_first = sorted(
            (blocks[text][block][1], position, text, block)
            for position, texts in self.texts_of.items()
            for text in texts
            for block, is_kept in enumerate(self.kept_blocks[text])
            if is_kept
        )
        for _, position, text, block in least_gain_first:
            excerpt = self.by_position.get(position)
            before = kept_tokens[position] if excerpt is None else excerpt.tokens
            self.kept_blocks[text][block] = 0
            (self.by_position[position],) = self._rebuild([position])
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

    def _message(self, position: int) -> Message:
        return self._divisible.conversation.messages[position]

    def _text(self, position: int, text: int) -> str:
        return self._message(position).pieces[self.divided[text] - self._starts[position]].text

    def _is_partial(self, texts: Sequence[int]) -> bool:
        return any(0 in self.kept_blocks[text] for text in texts)

    def _rebuild(self, positions: Sequence[int]) -> list[Excerpt]:
        """Return the messages at these positions with marks in the place of dropped blocks."""
        messages: list[Message] = []
        entries: list[Any] = []
        divisible = self._divisible
        for position in positions:
            message = divisible.originals.get(position, self._message(position))
            texts: dict[int, str] = {}
            for text in self.texts_of[position]:
                if 0 not in self.kept_blocks[text]:
                    continue
                whole = self._text(position, text)
                handle = self._handle_of(message, whole)
                self.handles[text] = handle
                kept = self._prepared.division(text).render(whole, self.kept_blocks[text], handle)
                texts[self.divided[text] - self._starts[position]] = kept
            changed, entry = with_texts(
                message,
                divisible.entries[message.index],
                divisible.conversation.format,
                texts,
                *divisible.places_of(position, self._starts[position]),
            )
            messages.append(changed)
            entries.append(entry)
        tokens = _engine.message_tokens(messages, divisible.counter)
        return [Excerpt(*each) for each in zip(entries, tokens, messages, strict=True)]
