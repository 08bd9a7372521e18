"""Changes to texts of a history: originals kept first, entries made anew, and the trace of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compiler.caps.notices import LONGEST_HANDLE
from rehydrate.compiler.originals import About, Originals
from rehydrate.compiler.target import traced
from rehydrate.failing import words_of
from rehydrate.ir.prompt import PromptIR

if TYPE_CHECKING:
    from rehydrate.formats._excerpting import Path
    from rehydrate.messages import Message


class Change(NamedTuple):
    """A text that is to stand in a place of an entry, and what is said of that in the trace."""

    path: Path
    text: str
    note: str


class Changes:
    """What one pass does to the entries of a history."""

    def __init__(self, name: str) -> None:
        """Nothing yet, by the pass of this name."""
        self._name = name
        self._by_position: dict[int, Sequence[Change]] = {}
        self._degraded: list[str] = []

    def keep(self, originals: Originals, text: str, about: About) -> str | None:
        """The handle of the text; None where it is not kept, and so has to stay as it is."""
        try:
            handle = originals.put(text, about=about)
            if not isinstance(handle, str) or not 0 < len(handle) <= LONGEST_HANDLE:
                raise ValueError(f"the handle is no string of 1 to {LONGEST_HANDLE} characters")
        except Exception as error:
            said = f"{self._name}: {words_of(error, 'originals')}; the result stays whole"
            if said not in self._degraded:
                self._degraded.append(said)
            return None
        return handle

    def add(self, position: int, changes: Sequence[Change]) -> None:
        """Note the changes to the entry at this position."""
        if changes:
            self._by_position[position] = changes

    def apply(
        self, ir: PromptIR, messages: Sequence[Message], notes: Sequence[str] = ()
    ) -> PromptIR:
        """The IR with these changes and a trace of them; `messages` are its history's, read."""
        history = ir.history
        said = list(notes)
        ids = []
        if self._by_position:
            entries = {}
            by_index = {message.index: message for message in messages}
            made = []
            for position, changes in self._by_position.items():
                texts = {change.path: change.text for change in changes}
                ids.append(f"history[{history.place(position)}]")
                said += [f"{ids[-1]} {change.note}" for change in changes]
                message, entry = by_index[position], history.entries[position]
                places = formats.FORMATS[history.format].places(entry, position)
                pieces = [
                    piece if path is None else piece._replace(text=texts.get(path, piece.text))
                    for piece, path in zip(message.pieces, places, strict=True)
                ]
                made.append(message._replace(pieces=tuple(pieces)))
                entries[position] = formats.FORMATS[history.format].replace(entry, texts)
            counts = _engine.message_tokens(made, ir.counter) if history.tokens else []
            history = history.reworded(
                entries,
                {message.index: message for message in made},
                {message.index: count for message, count in zip(made, counts, strict=False)},
            )
        meta = replace(ir.meta, degraded=(*ir.meta.degraded, *self._degraded))
        after = ir.replace(history=history, meta=meta)
        return traced(self._name, ir, after, ids, (*said, *self._degraded))
