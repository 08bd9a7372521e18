"""Diffs: every file's and every hunk's head, and the hunks that fit, of each file some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rehydrate.compiler.caps.cutting import MOST_LINES, Outline, Shown, short_mark

_FILE = re.compile(r"diff --git |Index: |--- (?=\S)")
_HUNK = re.compile(r"@@ -\d")
_COMMIT = re.compile(r"commit [0-9a-f]{7,40}\b|(?:Author|Date|Subject|From):\s")
_HEADS_SHARE = 0.6


class _Hunk(NamedTuple):
    first: int
    """Its head."""
    end: int
    rank: int
    """Among the hunks of its file."""


def cap_diff(lines: list[str], limit: int) -> Shown:
    """Heads of files, heads of hunks, then whole hunks: the first of each file, the second...

    A hunk that does not fit gives its changed lines, as far as there is room.
    """
    outline = Outline(lines, limit, mark_of=short_mark, mark_length=24)
    lines = lines[:MOST_LINES]
    room = outline.left
    heads = [place for place, line in enumerate(lines) if line[:4] in _HEADS or _COMMIT.match(line)]
    names = [place for place in heads if _is_name(lines[place])]
    for place in names:
        outline.take(place)
        if outline.left < room * (1 - _HEADS_SHARE):
            break
    hunks = list(_hunks(lines))
    for hunk in hunks:
        if outline.left < room * (1 - _HEADS_SHARE):
            break
        outline.take(hunk.first)
    by_rank = sorted(hunks, key=lambda each: (each.rank, each.first))
    partial = [hunk for hunk in by_rank if not outline.take_block(hunk.first, hunk.end)]
    for hunk in partial:
        for place in range(hunk.first, hunk.end):
            if lines[place][:1] in "+-@" and not outline.take(place):
                break
    outline.take_all(heads)
    return outline.render()


_HEADS = {"diff", "--- ", "+++ ", "Inde", "rena", "new ", "dele", "Bina", "simi"}


def _is_name(line: str) -> bool:
    return line.startswith(("Index: ", "+++ ", "rename to", "deleted file", "commit "))


def _hunks(lines: list[str]) -> Iterator[_Hunk]:
    """The hunks, in their order."""
    rank, first = 0, -1
    for place, line in enumerate(lines):
        is_file = line.startswith(("diff --git ", "Index: ")) or (
            line.startswith("--- ")
            and lines[place + 1 : place + 2]
            and lines[place + 1].startswith("+++ ")
        )
        is_hunk = _HUNK.match(line) is not None
        if not (is_file or is_hunk):
            continue
        if first >= 0:
            yield _Hunk(first, place, rank)
            rank += 1
            first = -1
        if is_file:
            rank = 0
        if is_hunk:
            first = place
    if first >= 0:
        yield _Hunk(first, len(lines), rank)
