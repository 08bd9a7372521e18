"""Tool results in a history: the texts of each, where they stand, and what they answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import formats
from rehydrate.messages import Message, PieceKind

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path


_CALL_IDS = ("tool_use_id", "tool_call_id", "call_id")


class Text(NamedTuple):
    """One text of a tool's result that may be shown in part."""

    path: Path
    text: str
    call: str
    """The id of the call that it answers; "" where nothing says."""
    tool: str
    """The name of the tool; "" where nothing says."""
    piece: int
    """Its place among the pieces of the message."""


class Results(NamedTuple):
    """The texts of the tool results in one entry."""

    position: int
    """Of the entry, in the list that was read."""
    texts: tuple[Text, ...]


class Tools:
    """The names of the tools that were called so far, by the ids of the calls."""

    def __init__(self) -> None:
        """None yet."""
        self._names: dict[str, str] = {}

    def note(self, message: Message) -> None:
        """Take the calls of a message."""
        if not message.calls:
            return
        inputs = [piece.text for piece in message.pieces if piece.kind == PieceKind.TOOL_INPUT]
        if len(inputs) == len(message.calls):
            for call, said in zip(message.calls, inputs, strict=True):
                self._names[call] = sys.intern(said[:200].partition(" ")[0])

    def __getitem__(self, call: str) -> str:
        """The name of the tool that was called; "" where nobody knows."""
        return self._names.get(call, "")


def results_of(
    messages: Sequence[Message],
    entries: Sequence[Any],
    format: str,  # noqa: A002
    is_long: Callable[[int, Sequence[str]], bool],
) -> Iterator[Results]:
    """Per entry whose results are long, their texts; ``is_long`` says so of an entry's position
    and what its results say.

    What may not be changed is left out: media, blocks with citations, what a provider's own tools
    returned.
    """
    tools = Tools()
    for message in messages:
        tools.note(message)
        found = [text for text, kind in message.pieces if kind is PieceKind.TOOL_RESULT]
        if found and is_long(message.index, found):
            entry = entries[message.index]
            texts = texts_of(message, entry, format, tools)
            if texts:
                yield Results(message.index, texts)


def texts_of(
    message: Message,
    entry: Any,
    format: str,  # noqa: A002
    tools: Tools,
) -> tuple[Text, ...]:
    """The texts of the tool results in one entry."""
    texts = []
    places = formats.FORMATS[format].places(entry, message.index)
    for number, (piece, path) in enumerate(zip(message.pieces, places, strict=True)):
        if path is None or piece.kind != PieceKind.TOOL_RESULT:
            continue
        call = _call_of(entry, path)
        if not call and len(message.answers) == 1:
            (call,) = message.answers
        texts.append(Text(path, piece.text, call, tools[call], number))
    return tuple(texts)


def _call_of(entry: Any, path: Path) -> str:
    """The id of the call that the text at this path answers, as the blocks around it say."""
    found = ""
    for step in ((), *path):
        if step != ():
            if not isinstance(entry, (Mapping, list, tuple)):
                entry = getattr(entry, str(step))
            else:
                entry = entry[step]  # type: ignore[index]
        for key in _CALL_IDS:
            call = entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)
            if isinstance(call, str):
                found = call
    return found
