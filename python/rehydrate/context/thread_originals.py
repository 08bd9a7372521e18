"""ThreadOriginals: the wholes of what a stored thread shows in part, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.history import Entries
from rehydrate.errors import UnknownHandleError
from rehydrate.prompt.originals import About, HeldOriginals, handle_of_text

_LEAST_CHARACTERS = 64
"""No text so short is shown in part."""


class ThreadOriginals:
    """The originals of one stored thread, for any number of threads of the process.

    Most texts that are shortened are texts of the thread's own entries. They are not stored again:
    they are found by their hashes, which are made when somebody asks for one. Any other text is
    `unsaved` until the thread's log has it.
    """

    def __init__(self, entries: Entries, stored: Mapping[str, str]) -> None:
        """Take the entries, and the texts that the log has, by handle."""
        self._entries = entries
        self._stored = dict(stored)
        self._held = HeldOriginals()
        self._unsaved: dict[str, str] = {}
        self._hashed = 0
        self._places: dict[str, tuple[int, int]] = {}
        """Of an entry's text, by its handle: the entry's index and the number among its texts."""
        self._lock = ForkSafeLock()

    def put(self, text: str, /, *, about: About = About()) -> str:  # noqa: B008
        """Keep the text and return its handle; the same text has the same handle."""
        handle = self._held.put(text, about=about)
        with self._lock:
            if handle not in self._stored:
                self._unsaved[handle] = text
        return handle

    def get(self, handle: str, /) -> str:
        """Return the text, byte for byte; raises UnknownHandleError for a handle not given out."""
        try:
            return self._held.get(handle)
        except UnknownHandleError:  # of an earlier process, or it had to make room
            pass
        with self._lock:
            text = self._stored.get(handle) or self._unsaved.get(handle)
            if text is None:
                self._hash_new_entries()
                text = self._text_of_entry(handle)
        if text is None:
            raise UnknownHandleError(handle, "originals")
        return text

    def unsaved(self) -> dict[str, str]:
        """Return the texts that a log must have for their handles to work after a restart."""
        with self._lock:
            if self._unsaved:
                self._hash_new_entries()
                for handle in self._unsaved.keys() & self._places.keys():
                    del self._unsaved[handle]
            return dict(self._unsaved)

    def note_saved(self, saved: Mapping[str, str]) -> None:
        """Note that the log has these texts."""
        with self._lock:
            self._stored |= saved
            for handle in saved:
                self._unsaved.pop(handle, None)

    def _hash_new_entries(self) -> None:
        if self._hashed > len(self._entries):  # a prompt that nobody received was undone
            self._places.clear()
            self._hashed = 0
        for index in range(self._hashed, len(self._entries)):
            for number, text in enumerate(self._texts_of(index)):
                self._places.setdefault(handle_of_text(text), (index, number))
        self._hashed = len(self._entries)

    def _text_of_entry(self, handle: str) -> str | None:
        place = self._places.get(handle)
        if place is None:
            return None
        index, number = place
        return next(text for at, text in enumerate(self._texts_of(index)) if at == number)

    def _texts_of(self, index: int) -> Iterator[str]:
        for message in self._entries.at_indices([index]).messages:
            for piece in message.pieces:
                if len(piece.text) >= _LEAST_CHARACTERS:
                    yield piece.text
