"""Paging: as much of a text as there is room for, byte for byte, and where to read on."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rehydrate import _engine
from rehydrate.context.tool_calls import shown
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.sources.passages import line_count

_CHARACTERS_A_TOKEN = 8
"""No page has more: longer tokens are rare, and a page that is too short is followed by another."""
_RANGE = re.compile(r"(\d+)(?:\s*(?:-|\u2013|\.\.|:|to)\s*(\d*))?")  # \u2013: an en dash


class Page(NamedTuple):
    """A part of a text, by its characters."""

    text: str
    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole text."""
        return self.end - self.start == self.total


def page_of(text: str, offset: int, max_tokens: int, end: int | None = None) -> Page:
    r"""Return the page from a character on, up to ``end`` or as much as has room.

    It ends after a line where that loses less than half of it.

    >>> page_of("one\ntwo\nthree\n", 4, 2)
    Page(text='two\n', start=4, end=8, total=14)
    """
    stop = len(text) if end is None else end
    limit = min(stop, offset + max(max_tokens, 0) * _CHARACTERS_A_TOKEN)
    fits, beyond = offset, limit + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        is_within = _engine.count(text[offset:middle], COUNTER) <= max_tokens
        fits, beyond = (middle, beyond) if is_within else (fits, middle)
    if fits < stop:
        line = text.rfind("\n", offset, fits) + 1
        if line > offset + (fits - offset) // 2:
            fits = line
    return Page(text[offset:fits], offset, fits, len(text))


def read_line_range(given: Any) -> tuple[int, int | None]:
    """Read a range of lines, counted from 1; without an end it means all that follow."""
    text = str(given).replace(",", "").strip() if type(given) in (int, str) else ""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise InvalidArgumentError(
            f'lines is {shown(given)}; send a range such as "3400-3500", or one number'
        )
    first = int(found[1])
    last = first if found[2] is None else int(found[2]) if found[2] else None
    if first < 1 or (last is not None and last < first):
        raise InvalidArgumentError(
            f"lines is {shown(given)}; lines are counted from 1, and a range ends where it begins "
            'or after, as in "3400-3500"'
        )
    return first, last


def line_span(text: str, lines: tuple[int, int | None], handle: str) -> tuple[int, int]:
    """Return where lines begin and end, in characters. A range may end beyond the text."""
    first, last = lines
    total = line_count(text)
    if first > max(total, 1):
        raise InvalidArgumentError(
            f"lines begin at {first:,}, and {handle} has {total:,}; send a range within 1-{total}"
        )
    start = _skip_lines(text, 0, first - 1)
    return start, len(text) if last is None else _skip_lines(text, start, last - first + 1)


def _skip_lines(text: str, offset: int, lines: int) -> int:
    """Return the offset of the text that many lines further."""
    for _ in range(lines):
        offset = text.find("\n", offset) + 1
        if not offset:
            return len(text)
    return offset


def describe_page(text: str, page: Page, end: int, *, in_lines: bool) -> tuple[str, str]:
    """Return what a page shows, and how to read on up to ``end``; "" where that is reached."""
    onward = f"; go on with offset {page.end}" if page.end < end else ""
    if not in_lines:
        return f"characters {page.start:,} to {page.end:,} of {page.total:,}", onward
    where = f"{line_numbers(text, page.start, page.end)} of {line_count(text):,}"
    if onward and page.text.endswith("\n"):
        first = text.count("\n", 0, page.end) + 1
        onward = f'; go on with lines="{first}-{text.count(chr(10), 0, end - 1) + 1}"'
    return where, onward


def line_numbers(text: str, start: int, end: int) -> str:
    """Return the numbers of the lines from start to end; those of its characters in part of a line.

    >>> line_numbers("a\\nb\\nc\\n", 2, 6), line_numbers("abc", 1, 2)
    ('lines 2-3', 'characters 1-2 (line 1)')
    """
    first = text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, max(end - 1, start))
    begins_line = start == 0 or text[start - 1] == "\n"
    ends_line = end == len(text) or text[end - 1] == "\n"
    if first == last and not (begins_line and ends_line):
        return f"characters {start}-{end} (line {first})"
    return f"line {first}" if first == last else f"lines {first}-{last}"
