"""Logs and output of commands: the last lines, and what went wrong before them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rehydrate.compiler.caps.cutting import MOST_LINES, Outline, Shown
from rehydrate.compiler.caps.patterns import TROUBLE

TAIL_SHARE = 0.7
"""Of the room, what the last lines may take: a trouble before them is worth more than one more."""
_FIRST = 8
_AFTER = 6
"""Lines that may belong to a trouble: those that follow it and stand deeper."""
_LONGEST_LINE = 600

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


def cap_log(lines: list[str], limit: int, tail_lines: int) -> Shown:
    """The last lines, the first of each kind of trouble before them, and how it began.

    >>> log = ["start"] + ["tick"] * 900 + ["ERROR: disk full"] + ["tick"] * 900
    >>> print(cap_log(log, 600, 3).text)
    start
    tick
    tick
    tick
    tick
    tick
    tick
    tick
    [... 893 lines omitted, 9-901 ...]
    ERROR: disk full
    [... 897 lines omitted, 903-1799 ...]
    tick
    tick
    tick
    """
    outline = Outline(lines, limit, longest_line=_LONGEST_LINE)
    reserve = round(outline.left * (1 - TAIL_SHARE))
    first = end = len(lines)
    # What follows the last line break is no line.
    last_lines = range(end - 1, max(-1, end - tail_lines - (not lines[-1]) - 1), -1)
    for place in last_lines:
        if outline.left < reserve or not outline.take(place):
            break
        first = place
    outline.take_all(range(min(_FIRST, first)))
    for place in _troubles(lines, first):
        if outline.left < 0:
            break
        if outline.take(place):
            outline.take_all(_belonging(lines, place, first))
    for place in last_lines:
        if not outline.take(place):
            break
    return outline.render()


def _troubles(lines: list[str], end: int) -> Iterator[int]:
    """Lines that say what went wrong, each kind once: those with other numbers are of one kind.

    In a log beyond all measure, what stands at its beginning and at its end.
    """
    seen: set[str] = set()
    for place in (*range(min(end, MOST_LINES)), *range(max(MOST_LINES, end - MOST_LINES), end)):
        line = lines[place][:_LONGEST_LINE]
        if TROUBLE.search(line):
            told = "".join(lines[after] for after in _belonging(lines, place, place + 2))
            kind = _NUMBERS.sub("0", line.strip() + told[:_LONGEST_LINE])
            if kind not in seen:
                seen.add(kind)
                yield place


def _belonging(lines: list[str], place: int, end: int) -> Iterator[int]:
    """The lines after a trouble that tell more of it: a traceback, a place in a file."""
    depth = _depth(lines[place])
    for after in range(place + 1, min(place + 1 + _AFTER, end)):
        line = lines[after]
        if not line.strip() or _depth(line) <= depth:
            return
        yield after


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t│|>-"))
