"""Remainders: what was found and had no room, until the model asks for it by its handle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from rehydrate.errors import UnknownHandleError
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
