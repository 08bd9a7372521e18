"""Excerpts: long texts kept in part, each gap marked in its place.

The engine decides which blocks of a text are kept; here the texts that may be divided are found,
the marks are written, and the messages are made anew around what is left. Nothing ever reads a
mark: one that stands in a text already is text like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compact.tool_inputs import InputText, in_json, put_together, take_apart
from rehydrate.messages import Conversation, Message, PieceKind

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.formats._reading import Path


LEAST_CHARACTERS = 200
"""A shorter text is never divided, so nobody needs to ask where it stands."""
_SINGULAR = {"lines": "line", "elements": "element", "members": "member", "characters": "character"}
_DIVISIBLE = (PieceKind.TEXT, PieceKind.TOOL_RESULT)


def mark(measure: str, count: int, first: int, last: int, handle: str = "") -> str:
    """What stands in the place of a gap; the handle is where a memory has the whole text.

    >>> mark("lines", 42, 118, 159), mark("elements", 1, 7, 7)
    ('[... 42 lines omitted, 118-159 ...]', '[... 1 element omitted, 7 ...]')
    >>> mark("lines", 42, 118, 159, "mem_3f")
    '[... 42 lines omitted, 118-159, mem_3f ...]'
    """
    noun = _SINGULAR[measure] if count == 1 else measure
    span = str(first) if first == last else f"{first}-{last}"
    return f"[... {count:,} {noun} omitted, {span}{f', {handle}' if handle else ''} ...]"


# Of as many tokens as nearly every handle, or more: blocks that `Cut.fit` must give back for its
# sake are lost to better choices.
_SAMPLE_HANDLE = "mem_r2c6z4477yjh6q3n8hv7x5m7j8"


def _mark_samples(handle: str) -> tuple[str, str]:
    """The longest marks with numbers under 1,000, and of the largest texts, with a line break
    before."""
    return (
        "\n" + mark("characters", 888, 888, 999, handle) + "\n",
        "\n" + mark("characters", 88_888_888, 11_111_111, 88_888_888, handle) + "\n",
    )


class Row(NamedTuple):
    """One block of a text, in characters; `count`, `first` and `last` in the text's measure."""

    start: int
    end: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    first: int
    last: int


class Division(NamedTuple):
    """The blocks of a text."""

    measure: str
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, measure: str, rows: Sequence[tuple[int, int, int, int, int]]) -> Division:
        """From what the engine says."""
        return cls(measure, tuple(map(Row._make, rows)))

    def render(self, text: str, kept: Sequence[int], handle: str = "") -> str:
        """The kept blocks as they are, and a mark on a line of its own in the place of each gap.

        >>> division = Division("lines", (Row(0, 2, 1, 1, 1), Row(2, 4, 1, 2, 2)))
        >>> division.render("a\\nb\\n", [0, 1])
        '[... 1 line omitted, 1 ...]\\nb\\n'
        """
        out: list[str] = []
        at_line_start = True
        for is_kept, run in groupby(zip(kept, self.rows, strict=True), key=itemgetter(0)):
            rows = [row for _, row in run]
            if is_kept:
                part = text[rows[0].start : rows[-1].end]
                at_line_start = part.endswith("\n")
            else:
                count = sum(row.count for row in rows)
                part = mark(self.measure, count, rows[0].first, rows[-1].last, handle)
                part = part if at_line_start else "\n" + part
                part = part if rows[-1] is self.rows[-1] else part + "\n"
                at_line_start = True
            out.append(part)
        return "".join(out)


class Divisible(NamedTuple):
    """Which texts of a conversation may be divided, and where each of them stands."""

    conversation: Conversation
    entries: Sequence[Any]
    paths: Mapping[int, Path]
    """By the piece's number among all pieces."""
    counter: str | _engine.CustomCounter
    inputs: Mapping[int, InputText] = {}
    """By the piece's number, the string of a call's input that it is."""
    whole: Mapping[int, Message] = {}
    """By the place of a message with such pieces, the message as it was read."""

    @classmethod
    def find(
        cls,
        conversation: Conversation,
        entries: Sequence[Any],
        pins: Mapping[int, str],
        counter: str | _engine.CustomCounter,
        *,
        words: Collection[int] = (),
        inputs: bool = False,
    ) -> Divisible:
        """The long texts and results of what is not always kept.

        Of pinned units that are kept for what is said in them, ``words``, the results are divided.
        With ``inputs`` also long strings in the inputs of finished calls, which are pieces of their
        own in its conversation.
        """
        apart = take_apart(conversation, entries, list(pins)) if inputs else None
        if apart is not None:
            conversation = apart.conversation
        places = formats.FORMATS[conversation.format].places
        members = {unit: conversation.units[unit].members for unit in pins}
        said = {index for unit in words if unit in pins for index in members[unit]}
        whole = {index for unit in pins for index in members[unit]} - said
        paths: dict[int, Path] = {}
        first = 0
        for message in conversation.messages:
            pieces = message.pieces
            if message.index not in whole and any(
                len(piece.text) > LEAST_CHARACTERS for piece in pieces
            ):
                found = places(entries[message.index], message.index)
                read = pieces[: len(found)]  # behind them stand the strings of inputs
                for number, (piece, path) in enumerate(zip(read, found, strict=True), first):
                    if path is None or piece.kind not in _DIVISIBLE:
                        continue
                    if message.index not in said or piece.kind is PieceKind.TOOL_RESULT:
                        paths[number] = path
            first += len(pieces)
        if apart is None:
            return cls(conversation, entries, paths, counter)
        return cls(conversation, entries, paths, counter, apart.texts, apart.whole)

    def message_tokens(self, prepared: _native.Prepared) -> list[int]:
        """Tokens of each message as it came in: an input is counted in one piece, with its calls'
        own spelling."""
        tokens: list[int] = prepared.message_tokens
        if self.whole:
            counts = _engine.message_tokens(list(self.whole.values()), self.counter)
            for place, count in zip(self.whole, counts, strict=True):
                tokens[place] = count
        return tokens

    def columns(self, *, with_handles: bool) -> _engine.Excerpting:
        """What the engine needs to know of it; marks with handles cost more."""
        samples = _mark_samples(_SAMPLE_HANDLE if with_handles else "")
        if self.inputs:
            samples = (in_json(samples[0]), in_json(samples[1]))
        pieces = [piece for message in self.conversation.messages for piece in message.pieces]
        counts = [_engine.count_raw(sample, self.counter) for sample in samples]
        block_counts = None
        if not isinstance(self.counter, str):
            block_counts = []
            for number in sorted([*self.paths, *self.inputs]):
                text = pieces[number].text
                division = _engine.divide(text)
                for start, end, *_ in division[1] if division else ():
                    part = in_json(text[start:end]) if number in self.inputs else text[start:end]
                    block_counts.append(_engine.count(part, self.counter))
        return _engine.Excerpting(
            [number in self.paths or number in self.inputs for number in range(len(pieces))],
            (counts[0], counts[1]),
            block_counts,
        )

    def parts(self, prepared: _native.Prepared) -> Conversation:
        """The conversation with its parts as messages: what vectors are made of."""
        parts = prepared.parts()
        if parts is None:
            return self.conversation
        pieces = [piece for message in self.conversation.messages for piece in message.pieces]
        starts = [0, *accumulate(len(message.pieces) for message in self.conversation.messages)]
        divided = dict(enumerate(prepared.divided))
        numbers = set(divided.values())
        divisions = {text: Division.of(*prepared.division(text)) for text in divided}
        made = []
        for place, block in parts:
            message = self.conversation.messages[place]
            if block is None:
                rest = range(starts[place], starts[place + 1])
                kept = tuple(pieces[number] for number in rest if number not in numbers)
            else:
                text, row = block
                whole, span = pieces[divided[text]], divisions[text].rows[row]
                kept = (whole._replace(text=whole.text[span.start : span.end]),)
            made.append(message._replace(pieces=kept))
        return self.conversation._replace(messages=tuple(made), units=())


HandleOf = Callable[[Message, str], str]
"""Where a memory has a whole text of a message; "" where none has."""


class Excerpt(NamedTuple):
    """A message of which only a part is kept."""

    entry: Any
    tokens: int
    message: Message
    """What is left of it, as compaction reads it."""


class Cut:
    """The messages that are kept in part, made anew so that all together keep the budget."""

    def __init__(
        self, divisible: Divisible, prepared: _native.Prepared, selection: _native.Selection
    ) -> None:
        """Find the texts of which blocks were left out."""
        self._divisible = divisible
        self._prepared = prepared
        self._selection = selection
        conversation = divisible.conversation
        self._starts = [0, *accumulate(len(message.pieces) for message in conversation.messages)]
        self.divided: tuple[int, ...] = tuple(prepared.divided)
        """Per divided text, its number among all pieces."""
        self.kept: list[bytearray] = [bytearray(flags) for flags in selection.kept_blocks()]
        """Per divided text, 1 for each block that is kept."""
        self.texts_of: dict[int, list[int]] = {}
        """Per place of a message that has divided texts and is kept, these texts."""
        kept_units = selection.kept
        unit_of = {
            index: unit for unit, whole in enumerate(conversation.units) for index in whole.members
        }
        place = 0
        for text, piece in enumerate(self.divided):
            while self._starts[place + 1] <= piece:
                place += 1
            if kept_units[unit_of[conversation.messages[place].index]]:
                self.texts_of.setdefault(place, []).append(text)
        self._handle_of: HandleOf
        self.handles: dict[int, str] = {}
        """By the number of a divided text kept in part, where memory has the whole of it."""
        self.excerpts: dict[int, Excerpt] = {}
        """By the place of the message in the conversation."""

    def partial_texts(self) -> list[tuple[Message, str]]:
        """The whole texts of which blocks are left out, each with its message."""
        return [
            self._whole(place, text)
            for place, texts in self.texts_of.items()
            for text in texts
            if 0 in self.kept[text]
        ]

    def changed(self, *, at_most: bool = False) -> list[int]:
        """The places, in the list that came in, of messages that are kept in part.

        `fit` may find more, for the sake of the marks: with ``at_most`` all that it may find.
        """
        partial = {place for place, texts in self.texts_of.items() if self._is_partial(texts)}
        partial.update(self.excerpts)
        if partial and at_most:
            partial.update(self.texts_of)
        messages = self._divisible.conversation.messages
        return [messages[place].index for place in partial]

    def fit(self, kept_tokens: Sequence[int], target_tokens: int, handle_of: HandleOf) -> None:
        """Write the marks, with handles where there are some, so that the target is kept.

        `kept_tokens` has the tokens of each message as a whole, 0 where it is dropped. Blocks are
        counted one by one when they are chosen, and two of them together may come to a token more,
        and so may a mark: then blocks are given back, least gain first.
        """
        self._handle_of = handle_of
        partial = [place for place, texts in self.texts_of.items() if self._is_partial(texts)]
        self.excerpts = dict(zip(partial, self._make(partial), strict=True))
        excess = sum(kept_tokens) - self.saved_tokens(kept_tokens) - target_tokens
        if excess <= 0 or not self.texts_of:
            return
        blocks = self._selection.blocks()
        least = sorted(
            (blocks[text][block][1], place, text, block)
            for place, texts in self.texts_of.items()
            for text in texts
            for block, is_kept in enumerate(self.kept[text])
            if is_kept
        )
        for _, place, text, block in least:
            before = self.excerpts[place].tokens if place in self.excerpts else kept_tokens[place]
            self.kept[text][block] = 0
            (self.excerpts[place],) = self._make([place])
            excess -= before - self.excerpts[place].tokens
            if excess <= 0:
                return

    def entries(self) -> dict[int, Any]:
        """By the place of a message in the list that came in, what is kept of it."""
        messages = self._divisible.conversation.messages
        return {messages[place].index: each.entry for place, each in self.excerpts.items()}

    def messages(self) -> dict[int, Message]:
        """By the same place, what is left of it, as compaction reads it."""
        return {each.message.index: each.message for each in self.excerpts.values()}

    def saved_tokens(self, kept_tokens: Sequence[int]) -> int:
        """The tokens of what is left out of messages."""
        return sum(kept_tokens[place] - each.tokens for place, each in self.excerpts.items())

    @property
    def conversation(self) -> Conversation:
        """The conversation whose pieces the divided texts are."""
        return self._divisible.conversation

    def division(self, text: int) -> Division:
        """The blocks of a divided text."""
        return Division.of(*self._prepared.division(text))

    def _whole(self, place: int, text: int) -> tuple[Message, str]:
        """A message and one of its divided texts."""
        message = self._divisible.conversation.messages[place]
        return message, message.pieces[self.divided[text] - self._starts[place]].text

    def _is_partial(self, texts: Sequence[int]) -> bool:
        return any(0 in self.kept[text] for text in texts)

    def _make(self, places: Sequence[int]) -> list[Excerpt]:
        messages: list[Message] = []
        entries: list[Any] = []
        divisible, conversation = self._divisible, self._divisible.conversation
        replace = formats.FORMATS[conversation.format].replace
        for place in places:
            message = divisible.whole.get(place, conversation.messages[place])
            entry = divisible.entries[message.index]
            pieces = list(message.pieces)
            texts: dict[Path, Any] = {}
            inputs: list[tuple[InputText, str]] = []
            for text in self.texts_of[place]:
                if 0 in self.kept[text]:
                    number = self.divided[text]
                    whole = self._whole(place, text)[1]
                    handle = self._handle_of(message, whole)
                    self.handles[text] = handle
                    shown = self.division(text).render(whole, self.kept[text], handle)
                    if number in divisible.inputs:
                        inputs.append((divisible.inputs[number], shown))
                    else:
                        own = number - self._starts[place]
                        pieces[own] = pieces[own]._replace(text=shown)
                        texts[divisible.paths[number]] = shown
            if inputs:
                values, calls = put_together(message, entry, inputs)
                texts |= values
                for own, piece in calls.items():
                    pieces[own] = piece
            messages.append(message._replace(pieces=tuple(pieces)))
            entries.append(replace(entry, texts))
        tokens = _engine.message_tokens(messages, self._divisible.counter)
        return [Excerpt(*each) for each in zip(entries, tokens, messages, strict=True)]
