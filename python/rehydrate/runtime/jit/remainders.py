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
        """Keep them, the most relevant first; the same sections have the same handle.

        >>> Remainders().put([])
        'rest_cae66941d9'
        """
        ids = "\0".join(section.id for section in sections)
        handle = PREFIX + blake2b(ids.encode(), digest_size=5).hexdigest()
        self._kept[handle] = tuple(sections)
        self._kept.move_to_end(handle)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return handle

    def get(self, handle: str) -> tuple[Section, ...]:
        """What is kept under the handle; raises UnknownHandleError."""
        if handle not in self._kept:
            raise UnknownHandleError(handle, "remainders")
        return self._kept[handle]
