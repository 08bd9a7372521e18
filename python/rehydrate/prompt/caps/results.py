"""The texts of tool results in a history, each with its path, its call and its tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import formats
from rehydrate.messages import Message, PieceKind

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path


_ID_KEYS = ("tool_use_id", "tool_call_id", "call_id")


class Text(NamedTuple):
    """A text of a tool result that may be shown in part."""

    path: Path
    text: str
    tool_call_id: str
    """The id of the call that it answers; "" if unknown."""
    tool: str
    """The name of the tool; "" if unknown."""
    piece_index: int
    """Its index among the pieces of the message."""


class Results(NamedTuple):
    """The texts of the tool results in one entry."""

    entry_index: int
    """Index of the entry in the list that was read."""
    texts: tuple[Text, ...]


class ToolNames:
    """The names of the called tools, by the ids of the calls."""

    def __init__(self) -> None:
        """Start with none."""
        self._names: dict[str, str] = {}

    def add(self, message: Message) -> None:
        """Add the calls of a message."""
        if not message.calls:
            return
        inputs = [piece.text for piece in message.pieces if piece.kind == PieceKind.TOOL_INPUT]
        if len(inputs) == len(message.calls):
            for tool_call_id, text in zip(message.calls, inputs, strict=True):
                self._names[tool_call_id] = sys.intern(text[:200].partition(" ")[0])

    def __getitem__(self, tool_call_id: str) -> str:
        """Return the name of the tool; "" for an unknown call."""
        return self._names.get(tool_call_id, "")


def results_of(
    messages: Sequence[Message],
    entries: Sequence[Any],
    format: str,  # noqa: A002
    is_long: Callable[[int, Sequence[str]], bool],
) -> Iterator[Results]:
    """Yield the texts of each entry whose results are long.

    ``is_long`` tells this from the index of the entry and the texts of its results. Texts that must
    not change are left out: media, blocks with citations, results of a provider's own tools.
    """
    tools = ToolNames()
    for message in messages:
        tools.add(message)
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
    tools: ToolNames,
) -> tuple[Text, ...]:
    """Return the texts of the tool results in one entry."""
    texts = []
    paths = formats.FORMATS[format].places(entry, message.index)
    for index, (piece, path) in enumerate(zip(message.pieces, paths, strict=True)):
        if path is None or piece.kind != PieceKind.TOOL_RESULT:
            continue
        tool_call_id = _tool_call_id(entry, path)
        if not tool_call_id and len(message.answers) == 1:
            (tool_call_id,) = message.answers
        texts.append(Text(path, piece.text, tool_call_id, tools[tool_call_id], index))
    return tuple(texts)


def _tool_call_id(entry: Any, path: Path) -> str:
    """Return the call's id from the innermost block on the path that has one; "" without one."""
    found = ""
    for step in ((), *path):
        if step != ():
            if not isinstance(entry, (Mapping, list, tuple)):
                entry = getattr(entry, str(step))
            else:
                entry = entry[step]  # type: ignore[index]
        for key in _ID_KEYS:
            id_ = entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)
            if isinstance(id_, str):
                found = id_
    return found
