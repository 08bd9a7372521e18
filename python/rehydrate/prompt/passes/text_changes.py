"""TextChanges: the texts that a pass replaces in the entries of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine, formats
from rehydrate._text import safe_error_text
from rehydrate.prompt.caps import MAX_HANDLE_CHARS
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import About, Originals
from rehydrate.prompt.target import traced

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path


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
