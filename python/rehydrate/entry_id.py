"""EntryId: the id of one entry of a history, next to the ids of sections and tools."""

from __future__ import annotations

import re
from functools import lru_cache

_ENTRY = re.compile(r"history\[(0|[1-9][0-9]{0,15})\]")


class EntryId(str):
    """``history[12]``: the entry of that index in the caller's list.

    It is a string, because ids of sections and tools are next to it in breakpoints, provenance,
    traces and JSON. Make it with ``EntryId.of``; read one with ``EntryId.index_of``.

    >>> EntryId.of(12)
    'history[12]'
    >>> EntryId.index_of("history[12]"), EntryId.index_of("memory:rules")
    (12, None)
    """

    __slots__ = ()

    @staticmethod
    @lru_cache(maxsize=4_096)
    def of(index: int) -> EntryId:
        """Return the id of the entry. Ids are shared: a server has thousands of prompts."""
        return EntryId(f"history[{index}]")

    @staticmethod
    def index_of(name: str) -> int | None:
        """Return the index in the name; None for any other name, also ``history[07]``."""
        found = _ENTRY.fullmatch(name)
        return int(found[1]) if found else None
