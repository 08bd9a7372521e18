"""EntryId: the name of one entry of a history, wherever a prompt's parts are named by strings."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["EntryId"]

_PREFIX = "history["


class EntryId(str):
    """``history[12]``: the entry of that index in the list that the caller gave.

    It is a string, since ids of sections and of tools stand beside it in breakpoints, provenance,
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
        """The id of the entry. One object serves all prompts: a server has thousands of them."""
        return EntryId(f"{_PREFIX}{index}]")

    @staticmethod
    def run(first: int, last: int, *, has_gaps: bool) -> str:
        """One name for several entries: ``history[4-17]``, or ``history[4..17]`` with gaps."""
        if first == last:
            return EntryId.of(first)
        return f"{_PREFIX}{first}{'..' if has_gaps else '-'}{last}]"

    @staticmethod
    def index_of(name: str) -> int | None:
        """The index that the name says; None for the name of anything else."""
        inside = name[len(_PREFIX) : -1]
        is_entry = name.startswith(_PREFIX) and name.endswith("]") and inside.isdigit()
        return int(inside) if is_entry else None
