"""Texts of a thread by handle: `ThreadOriginals` of what it shows in part, and `Remainders`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.history import Entries
from rehydrate.errors import UnknownHandleError
from rehydrate.prompt.originals import About, HeldOriginals, handle_of_text
from rehydrate.prompt.section import Section

PREFIX = "rest_"
MAX_REMAINDERS = 16
"""The oldest go first. What is in them can be found again by asking again."""


class Remainders:
    """Sections by handle."""

    def __init__(self, stored: Mapping[str, tuple[Section, ...]] | None = None) -> None:
        """Start with those that the thread's log has, the oldest first."""
        self._kept: OrderedDict[str, tuple[Section, ...]] = OrderedDict(stored or {})
        self._drop_oldest()
        self._saved = set(self._kept)

    def put(self, sections: Sequence[Section]) -> str:
        """Keep sections in their order and return their handle; the same ones have the same.

        >>> Remainders().put([])
        'rest_7d64c5272e'
        """
        named = "\0".join(f"{section.id}\0{section.content}" for section in sections)
        hashed = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=5)
        handle = PREFIX + hashed.hexdigest()
        self._kept.pop(handle, None)  # to the end; a call at the same time misses it at worst
        self._kept[handle] = tuple(sections)
        self._drop_oldest()
        return handle

    def get(self, handle: str) -> tuple[Section, ...]:
        """Return what is kept under the handle; raises UnknownHandleError."""
        if handle not in self._kept:
            raise UnknownHandleError(handle, "remainders")
        return self._kept[handle]

    def take(self, others: Remainders) -> None:
        """Keep those of others too."""
        self._kept |= others._kept
        self._drop_oldest()

    def unsaved(self) -> dict[str, tuple[Section, ...]]:
        """Return what a log must have for these handles to work after a restart."""
        return {name: kept for name, kept in self._kept.items() if name not in self._saved}

    def note_saved(self, handles: Iterable[str]) -> None:
        """Note that the log has them."""
        self._saved = {*self._saved, *handles} & self._kept.keys()

    def _drop_oldest(self) -> None:
        while len(self._kept) > MAX_REMAINDERS:
            self._kept.popitem(last=False)


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
