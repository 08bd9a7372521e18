"""Inputs of finished tool calls kept in part: their long strings, as texts of their own.

What a call wrote into a file stands in its input, and the engine divides texts. So the message is
read anew: in the place of each long string its call has an empty one, and the string is a further
piece behind all others. What is kept of it goes back into the input; a call whose result is not
there yet, a turn that is still open, and what stands beside a thought stay as the model wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.formats._reading import Path, compact_json, tool_input_text
from rehydrate.formats.calls import Input, at_path, input_texts, with_texts
from rehydrate.messages import Conversation, Message, Piece, PieceKind

LEAST_CHARACTERS = 1_000
"""A shorter string stays: its call would say less, and little is saved."""


class InputText(NamedTuple):
    """A long string, and the call in whose input it stands."""

    piece: int
    """The number of the call's piece in its message."""
    input: Input
    text: str


class Apart(NamedTuple):
    """A conversation with the long strings of inputs as pieces of their own."""

    conversation: Conversation
    whole: Mapping[int, Message]
    """By the place of a message that was changed for it, the message as it was read."""
    texts: Mapping[int, InputText]
    """By the number of such a piece among all pieces."""

    def is_whole(self) -> bool:
        """Whether nothing was taken apart."""
        return not self.texts


def take_apart(
    conversation: Conversation, entries: Sequence[Any], whole_units: Sequence[int]
) -> Apart:
    """The conversation with the long strings in inputs of finished calls apart.

    Those of `whole_units` stay, and those of the turn that is open, and of units with a thought.
    """
    stays = {index for unit in whole_units for index in conversation.units[unit].members}
    stays.update(range(open_turn(conversation), len(entries)))
    format_ = formats.FORMATS[conversation.format]
    split: dict[int, tuple[Message, list[InputText]]] = {}
    for unit in conversation.units:
        found: list[tuple[Message, list[InputText]]] = []
        answered = {call for message in unit.messages for call in message.answers}
        for message in unit.messages:
            if message.calls and message.index not in stays and _is_long(message):
                texts = _long_texts(message, format_.inputs(entries[message.index]), answered)
                if texts:
                    found.append((message, texts))
        if found and not any(_is_signed(each, entries, format_) for each in unit.messages):
            split |= {message.index: (_apart(message, texts), texts) for message, texts in found}
    return _numbered(conversation, split)


def open_turn(conversation: Conversation) -> int:
    """Where the turn at the end begins that the assistant has not ended; behind all where it has.

    A turn ends in words of the assistant's, with no call.
    """
    messages = conversation.messages
    last = next((each for each in reversed(messages) if each.role != "system"), None)
    if last is None or (last.role == "assistant" and not last.calls) or last.is_user_turn:
        return messages[-1].index + 1 if messages else 0
    turns = (message.index for message in reversed(messages) if message.is_user_turn)
    return next(turns, 0)


def put_together(
    message: Message, entry: Any, kept: Sequence[tuple[InputText, str]]
) -> tuple[dict[Path, Any], dict[int, Piece]]:
    """What is left of inputs: by their paths in the entry, and the pieces of their calls.

    `kept` has each string with what is shown of it.
    """
    by_piece: dict[int, tuple[Input, dict[str, str]]] = {}
    for each, shown in kept:
        by_piece.setdefault(each.piece, (each.input, {}))[1][each.text] = shown
    values: dict[Path, Any] = {}
    pieces: dict[int, Piece] = {}
    for number, (input_, texts) in by_piece.items():
        for path in input_.paths:
            values[path] = with_texts(at_path(entry, path), texts)
        said = tool_input_text(input_.name, with_texts(input_.value, texts))
        pieces[number] = message.pieces[number]._replace(text=said)
    return values, pieces


def in_json(text: str) -> str:
    """A text as it stands in a string of JSON, which is how inputs are counted.

    >>> in_json('a "b"' + chr(10))
    'a \\\\"b\\\\"\\\\n'
    """
    return compact_json(text)[1:-1]


def _is_long(message: Message) -> bool:
    return any(
        piece.kind is PieceKind.TOOL_INPUT and len(piece.text) >= LEAST_CHARACTERS
        for piece in message.pieces
    )


def _long_texts(
    message: Message, inputs: Sequence[Input | None], answered: set[str]
) -> list[InputText]:
    numbers = [n for n, piece in enumerate(message.pieces) if piece.kind is PieceKind.TOOL_INPUT]
    if len(numbers) != len(inputs):
        return []  # not the pieces of these calls
    return [
        InputText(number, input_, text)
        for number, input_ in zip(numbers, inputs, strict=True)
        if input_ is not None and input_.call in answered
        for text in dict.fromkeys(input_texts(input_.value, is_text=input_.is_text))
        if _is_divided(text)
    ]


def _is_divided(text: str) -> bool:
    if len(text) < LEAST_CHARACTERS:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair: no text that the engine takes
        return False
    return _engine.divide(text) is not None


def _is_signed(message: Message, entries: Sequence[Any], format_: formats.Format) -> bool:
    has_thought = any(piece.kind is PieceKind.THINKING for piece in message.pieces)
    return has_thought or format_.signed(entries[message.index])


def _apart(message: Message, texts: Sequence[InputText]) -> Message:
    """The message with empty strings in its calls, and the strings behind all other pieces."""
    pieces = list(message.pieces)
    by_piece: dict[int, tuple[Input, dict[str, str]]] = {}
    for each in texts:
        by_piece.setdefault(each.piece, (each.input, {}))[1][each.text] = ""
    for number, (input_, empty) in by_piece.items():
        said = tool_input_text(input_.name, with_texts(input_.value, empty))
        pieces[number] = pieces[number]._replace(text=said)
    pieces += [Piece(each.text, PieceKind.TOOL_INPUT) for each in texts]
    return message._replace(pieces=tuple(pieces))


def _numbered(
    conversation: Conversation, split: Mapping[int, tuple[Message, list[InputText]]]
) -> Apart:
    """The conversation with these messages in it, and their strings by number."""
    if not split:
        return Apart(conversation, {}, {})
    messages = tuple(
        split[message.index][0] if message.index in split else message
        for message in conversation.messages
    )
    by_index = {message.index: message for message in messages}
    units = tuple(
        unit._replace(messages=tuple(by_index[index] for index in unit.members))
        for unit in conversation.units
    )
    whole: dict[int, Message] = {}
    texts: dict[int, InputText] = {}
    end = 0
    for place, message in enumerate(messages):
        end += len(message.pieces)
        if message.index in split:
            whole[place] = conversation.messages[place]
            own = split[message.index][1]
            texts |= dict(enumerate(own, end - len(own)))
    return Apart(conversation._replace(messages=messages, units=units), whole, texts)
