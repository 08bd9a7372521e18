"""Remainders: what was found and had no room, until the model asks for it by its handle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from rehydrate.errors import UnknownHandleError
from rehydrate.ir import Section

PREFIX = "rest_"
MOST = 16
"""So many are kept; those that were made longest ago go first. What is in them can be found again
by asking again."""


class Remainders:
    """Sections by handle."""

    def __init__(self) -> None:
        """Nothing is left of anything yet."""
        self._kept: OrderedDict[str, tuple[Section, ...]] = OrderedDict()

    def put(self, sections: Sequence[Section]) -> str:
        """Keep them in their order; the same sections have the same handle.

        >>> Remainders().put([])
        'rest_7d64c5272e'
        """
        named = "\0".join(f"{section.id}\0{section.content}" for section in sections)
        hashed = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=5)
        handle = PREFIX + hashed.hexdigest()
        self._kept.pop(handle, None)  # to the end; calls side by side see it gone at worst
        self._kept[handle] = tuple(sections)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return handle

    def get(self, handle: str) -> tuple[Section, ...]:
        """What is kept under the handle; raises UnknownHandleError."""
        if handle not in self._kept:
            raise UnknownHandleError(handle, "remainders")
        return self._kept[handle]
