"""Paging: as much of a text as there is room for, byte for byte, and where to go on."""

from __future__ import annotations

from typing import NamedTuple

from rehydrate import _engine
from rehydrate.compiler.counts import COUNTER

_CHARACTERS_A_TOKEN = 8
"""No page has more: longer tokens are rare, and a page that is too short is followed by another."""


class Page(NamedTuple):
    """A stretch of a text."""

    text: str
    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the text."""
        return self.end - self.start == self.total


def page_of(text: str, offset: int, room_tokens: int, end: int | None = None) -> Page:
    r"""The page that begins at a character and ends at `end` at the latest; where it has to be
    cut, after a line if that loses little.

    >>> page_of("one\ntwo\nthree\n", 4, 2)
    Page(text='two\n', start=4, end=8, total=14)
    """
    stop = len(text) if end is None else end
    most = min(stop, offset + max(room_tokens, 0) * _CHARACTERS_A_TOKEN)
    fits, beyond = offset, most + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        is_within = _engine.count(text[offset:middle], COUNTER) <= room_tokens
        fits, beyond = (middle, beyond) if is_within else (fits, middle)
    if fits < stop:
        line = text.rfind("\n", offset, fits) + 1
        if line > offset + (fits - offset) // 2:
            fits = line
    return Page(text[offset:fits], offset, fits, len(text))
