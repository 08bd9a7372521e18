"""Tool inputs kept in part: the long strings of finished calls, as pieces of their own.

The engine divides texts, and a file that a call wrote is a string inside the call's input. So
`split_inputs` moves each long string out: the call keeps an empty string in its place, and the
string becomes a new piece after all others. `join_inputs` puts the kept part back. Two kinds of
input stay as the model wrote them: of a call without its result, and in a unit with thinking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate._text import is_utf8
from rehydrate.formats._reading import Path, compact_json, tool_input_text
from rehydrate.formats.calls import Input, at_path, input_texts, with_texts
from rehydrate.messages import Conversation, Message, Piece, PieceKind

MIN_CHARACTERS = 600
"""A shorter string stays: its call would say less, and little is saved."""


class InputText(NamedTuple):
    """A long string, and the call whose input it is in."""

    piece: int
    """The number of the call's piece in its message."""
    input: Input
    text: str


class SplitInputs(NamedTuple):
    """A conversation with the long strings of inputs as pieces of their own."""

    conversation: Conversation
    originals: Mapping[int, Message]
    """Position of a changed message -> the message before the change."""
    texts: Mapping[int, InputText]
    """Number of a new piece among all pieces -> its string."""


def split_inputs(
    conversation: Conversation, entries: Sequence[Any], whole_units: Sequence[int]
) -> SplitInputs:
    """Return the conversation with the long strings of finished calls as pieces of their own.

    The units in `whole_units` and units with thinking stay as they are.
    """
    whole = {index for unit in whole_units for index in conversation.units[unit].members}
    format_ = formats.FORMATS[conversation.format]
    moved: dict[int, list[InputText]] = {}
    for unit in conversation.units:
        found: dict[int, list[InputText]] = {}
        answered = {call for message in unit.messages for call in message.answers}
        for message in unit.messages:
            if message.calls and message.index not in whole and _is_long(message):
                inputs = format_.inputs(entries[message.index])
                if texts := _long_texts(message, inputs, answered):
                    found[message.index] = texts
        if found and not any(_has_thought(each, entries, format_) for each in unit.messages):
            moved |= found
    if not moved:
        return SplitInputs(conversation, {}, {})
    originals: dict[int, Message] = {}
    numbered: dict[int, InputText] = {}
    changed: dict[int, Message] = {}
    end = 0
    for position, message in enumerate(conversation.messages):
        end += len(message.pieces)
        if texts := moved.get(message.index, []):
            originals[position] = message
            changed[message.index] = _split(message, texts)
            numbered |= dict(enumerate(texts, end))
            end += len(texts)
    return SplitInputs(conversation.with_messages(changed), originals, numbered)


def join_inputs(
    message: Message, entry: Any, kept: Sequence[tuple[InputText, str]]
) -> tuple[dict[Path, Any], dict[int, Piece]]:
    """Return the inputs with the kept part of their strings: path in the entry -> value, and number
    of the call's piece -> piece.

    `kept` holds each string with its kept part.
    """
    values: dict[Path, Any] = {}
    pieces: dict[int, Piece] = {}
    for number, (input_, texts) in _by_piece(kept).items():
        for path in input_.paths:
            values[path] = with_texts(at_path(entry, path), texts)
        pieces[number] = _with_input(message.pieces[number], input_, texts)
    return values, pieces


def _by_piece(parts: Iterable[tuple[InputText, str]]) -> dict[int, tuple[Input, dict[str, str]]]:
    """Return the number of each call's piece -> its input, and what becomes of its strings."""
    by_piece: dict[int, tuple[Input, dict[str, str]]] = {}
    for each, part in parts:
        by_piece.setdefault(each.piece, (each.input, {}))[1][each.text] = part
    return by_piece


def _with_input(piece: Piece, input_: Input, texts: dict[str, str]) -> Piece:
    text = tool_input_text(input_.name, with_texts(input_.value, texts))
    return piece._replace(text=text)


def json_escaped(text: str) -> str:
    """Return a text as inside a JSON string, which is how inputs are counted.

    >>> json_escaped('a "b"' + chr(10))
    'a \\\\"b\\\\"\\\\n'
    """
    return compact_json(text)[1:-1]


def _is_long(message: Message) -> bool:
    return any(
        piece.kind is PieceKind.TOOL_INPUT and len(piece.text) >= MIN_CHARACTERS
        for piece in message.pieces
    )


def _long_texts(
    message: Message, inputs: Sequence[Input | None], answered: set[str]
) -> list[InputText]:
    numbers = [n for n, piece in enumerate(message.pieces) if piece.kind is PieceKind.TOOL_INPUT]
    if len(numbers) != len(inputs):
        return []  # these pieces are not of these calls
    return [
        InputText(number, input_, text)
        for number, input_ in zip(numbers, inputs, strict=True)
        if input_ is not None and input_.call in answered
        for text in dict.fromkeys(input_texts(input_.value, is_text=input_.is_text))
        if _is_divisible(text)
    ]


def _is_divisible(text: str) -> bool:
    # The engine takes no half of a surrogate pair.
    is_long = len(text) >= MIN_CHARACTERS and is_utf8(text)
    return is_long and _engine.divide(text) is not None


def _has_thought(message: Message, entries: Sequence[Any], format_: formats.Format) -> bool:
    is_thinking = any(piece.kind is PieceKind.THINKING for piece in message.pieces)
    return is_thinking or format_.signed(entries[message.index])


def _split(message: Message, texts: Sequence[InputText]) -> Message:
    """Return the message with empty strings in its calls, and the strings behind all pieces."""
    pieces = [*message.pieces, *(Piece(each.text, PieceKind.TOOL_INPUT) for each in texts)]
    for number, (input_, empty) in _by_piece((each, "") for each in texts).items():
        pieces[number] = _with_input(pieces[number], input_, empty)
    return message._replace(pieces=tuple(pieces))
