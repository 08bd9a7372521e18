"""Tool results in a history: their texts, their tools, and what a pass puts in their place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate._text import safe_error_text
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import About, Originals
from rehydrate.prompt.target import traced

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path
    from rehydrate.prompt.entries import History


MAX_HANDLE_CHARS = 128
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


class TextChange(NamedTuple):
    """The new text at a path in an entry, and a note for the trace."""

    path: Path
    text: str
    note: str


class TextChanges:
    """The changes of one pass to the entries of a history."""

    def __init__(self, pass_name: str) -> None:
        """Start without changes."""
        self._pass_name = pass_name
        self._by_position: dict[int, Sequence[TextChange]] = {}
        self._degraded: list[str] = []

    def keep(self, originals: Originals, text: str, about: About) -> str | None:
        """Store the original text and return its handle.

        None: it could not be stored, so it must stay whole in the prompt. `apply` reports that.
        """
        try:
            handle = originals.put(text, about=about)
            if not isinstance(handle, str) or not 0 < len(handle) <= MAX_HANDLE_CHARS:
                raise ValueError(f"the handle is no string of 1 to {MAX_HANDLE_CHARS} characters")
        except Exception as error:
            problem = (
                f"{self._pass_name}: {safe_error_text(error, 'originals')}; the result stays whole"
            )
            if problem not in self._degraded:
                self._degraded.append(problem)
            return None
        return handle

    def add(self, position: int, changes: Sequence[TextChange]) -> None:
        """Add the changes to the entry at this position."""
        if changes:
            self._by_position[position] = changes

    def first_position(self, ir: PromptIR) -> int:
        """Return the position of the first entry that changes; behind the last one if none does.

        It is 0 where a text could not be stored: the next prompt tries again.
        """
        if self._degraded:
            return 0
        return min(self._by_position, default=len(ir.history.entries))

    def apply(self, ir: PromptIR, notes: Sequence[str] = ()) -> PromptIR:
        """Return the IR with these changes and a trace of them. Changed entries are new objects."""
        history = ir.history
        notes = list(notes)
        ids = []
        if self._by_position:
            format_ = formats.FORMATS[history.format]
            messages = history.messages_from(min(self._by_position))
            by_index = {message.index: message for message in messages}
            entries, changed_messages = {}, {}
            for position, changes in self._by_position.items():
                ids.append(history.entry_id(position))
                notes += [f"{ids[-1]} {change.note}" for change in changes]
                texts = {change.path: change.text for change in changes}
                message, entry = by_index[position], history.entries[position]
                pieces = [
                    piece if path is None else piece._replace(text=texts.get(path, piece.text))
                    for piece, path in zip(
                        message.pieces, format_.places(entry, position), strict=True
                    )
                ]
                changed_messages[position] = message._replace(pieces=tuple(pieces))
                entries[position] = format_.replace(entry, texts)
            counts = (
                _engine.message_tokens([*changed_messages.values()], ir.counter)
                if history.tokens
                else []
            )
            tokens = dict(zip(changed_messages, counts, strict=False))
            history = history.with_changed_entries(entries, changed_messages, tokens)
        meta = replace(ir.meta, degraded=(*ir.meta.degraded, *self._degraded))
        after = ir.replace(history=history, meta=meta)
        return traced(self._pass_name, ir, after, ids, (*notes, *self._degraded))
