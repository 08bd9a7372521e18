"""Tool results in a history: their texts, and the tools that returned them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import formats
from rehydrate.messages import Message, PieceKind

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path
    from rehydrate.prompt.entries import History


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

    position: int
    """Position of the entry in the history."""
    texts: tuple[Text, ...]


class ToolNames:
    """The names of the called tools, by the ids of the calls."""

    def __init__(self) -> None:
        """Start with none."""
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, messages: Iterable[Message], last: int) -> ToolNames:
        """Return those of the messages up to the one of this index."""
        names = cls()
        for message in messages:
            if message.index > last:
                break
            names.add(message)
        return names

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
    history: History, start: int, is_long: Callable[[int, Sequence[str]], bool]
) -> Iterator[Results]:
    """Yield the texts of each entry whose results are long, from the position ``start`` on.

    ``is_long`` tells this from the position of the entry and the texts of its results. Texts that
    must not change are left out: media, blocks with citations, results of a provider's own tools.
    """
    tools: ToolNames | None = None
    for message in history.messages_from(start):
        if tools is not None:
            tools.add(message)
        found = [text for text, kind in message.pieces if kind is PieceKind.TOOL_RESULT]
        if not (found and is_long(message.index, found)):
            continue
        if tools is None:  # few histories have a long result among the new entries
            tools = ToolNames.of(history.messages, message.index)
        texts = texts_of(message, history.entries[message.index], history.format, tools)
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
