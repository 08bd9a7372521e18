"""Matches of a search: of each file the first, then those that name most, and how many are left."""

from __future__ import annotations

from collections.abc import Iterable

from rehydrate.compiler.caps.cutting import MOST_LINES, Outline, Shown
from rehydrate.compiler.caps.names import take_by_names
from rehydrate.compiler.caps.notices import counted
from rehydrate.compiler.caps.patterns import MATCH

_LONGEST_LINE = 300
_LONGEST_PATH = 80


def cap_matches(lines: list[str], limit: int) -> Shown:
    """Lines as the search gave them: the first of each file, then those with the most names that
    are not shown yet, then others from the top.

    >>> found = [f"a.py:{n}:import os" for n in range(1, 90)] + ["b.py:7:import re"]
    >>> print(cap_matches(found, 112).text)
    a.py:1:import os
    a.py:2:import os
    [... 87 more matches in a.py ...]
    b.py:7:import re
    """
    files = _files(lines[:MOST_LINES])
    first_of: dict[str, int] = {}
    for place, path in enumerate(files):
        first_of.setdefault(path, place)

    def mark_of(first: int, last: int) -> str:
        inside = set(files[first : last + 1])
        count = counted(sum(map(_counts, lines[first : last + 1])), "more match", "more matches")
        if len(inside) > 1:
            beyond = " or more" if last >= len(files) else ""
            return f"[... {count} in {len(inside):,} files{beyond} ...]"
        path = inside.pop() if inside else ""
        return f"[... {count}{' in ' if path else ''}{path[-_LONGEST_PATH:]} ...]"

    longest = min(max(map(len, first_of), default=0), _LONGEST_PATH)
    outline = Outline(
        lines, limit, mark_of=mark_of, mark_length=44 + longest, longest_line=_LONGEST_LINE
    )
    _fill(outline, first_of.values())
    take_by_names(outline, lines)
    _fill(outline, range(len(files)))
    return outline.render()


def _fill(outline: Outline, places: Iterable[int]) -> None:
    for place in places:
        if outline.left < 0 or (not outline.take(place) and outline.left < _LONGEST_PATH):
            return


def _files(lines: list[str]) -> list[str]:
    """The file of each line: as it says itself, else that of the line before it."""
    files: list[str] = []
    path = ""
    for line in lines:
        found = MATCH.match(line[:_LONGEST_LINE])
        if found:
            path = found["path"] or found["bare"] or path
        elif line and not line[0].isspace() and ("/" in line or "." in line) and len(line) < 260:
            path = line  # a heading, as ripgrep writes for people
        files.append(path)
    return files


def _counts(line: str) -> bool:
    return bool(line) and line != "--"
