"""Lists, tables and paths: the first rows, how many more there are, and what to filter by.

Logs and output of commands: the last lines, and what went wrong before them.

Matches of a search: of each file the first, then those that name most, and how many are left.

Diffs: every file's and every hunk's head, and the hunks that fit, of each file some.

Code: what is defined and imported in it, and the lines that name most of the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rehydrate.prompt.caps.cutting import (
    MOST_LINES,
    Outline,
    Shown,
    clip,
    counted,
    short_mark,
    take_by_names,
)
from rehydrate.prompt.caps.kinds import LINE, MATCH, NUMBERED, SIGNATURE, TROUBLE

_FILTERS_ROOM = 600
_LONGEST_ROW = 400
_LONGEST_PATH = 1_000
_SAMPLE = 100
_MOST_FOLDERS = 8


def cap_list(lines: list[str], limit: int, rows: int) -> Shown:
    """The first rows, and what is said of the others.

    >>> print(cap_list([f"src/{n}.py" for n in range(5_000)], 2_000, 100).text[-43:])
    src/99.py
    <BLANKLINE>
    4,900 more. by folder: src 5,000
    """
    left = limit - min(_FILTERS_ROOM, limit // 8)
    out: list[str] = []
    kept: list[str] = []
    shown = 0
    for line in lines:
        if shown == rows:
            break
        row, length = clip(line, _LONGEST_ROW)
        if len(row) + 1 > left:
            break
        out.append(row)
        left -= len(row) + 1
        kept.append(line[:length])
        shown += bool(line.strip())
    present = sum(1 for line in lines if line and not line.isspace())
    said = f"{present - shown:,} more"
    filters = _folders(lines, min(_FILTERS_ROOM, limit // 8))
    body = "\n".join(out)
    return Shown(f"{body}\n\n{said}{filters}"[:limit], "\n".join(kept))


def _folders(lines: list[str], room: int) -> str:
    """Where the rows are, if they are paths: by the folder below what all have in common."""
    paths = [line for line in lines[:MOST_LINES] if len(line) < _LONGEST_PATH and " " not in line]
    separator = "/" if any("/" in path for path in paths[:_SAMPLE]) else "\\"
    found = [path.rpartition(separator)[0] for path in paths if separator in path]
    if not found or len(found) < len(paths) / 2:
        return ""
    split = [folder.split(separator) for folder in found]
    shortest, longest = min(split), max(split)
    common = 0
    while common < min(len(shortest), len(longest)) and shortest[common] == longest[common]:
        common += 1
    folders = Counter(separator.join(parts[: common + 1]) for parts in split)
    is_all = len(lines) <= MOST_LINES
    named = ", ".join(
        f"{name} {count:,}" if is_all else name
        for name, count in folders.most_common(_MOST_FOLDERS)
    )
    others = len(folders) - _MOST_FOLDERS
    said = f". by folder: {named}" + (f", and {others:,} others" if others > 0 else "")
    return said if len(said) < room - 40 else ""


TAIL_SHARE = 0.7
"""Of the room, what the last lines may take: a trouble before them is worth more than one more."""
_FIRST = 8
_AFTER = 6
"""Lines that may belong to a trouble: those that follow it and stand deeper."""
_LONGEST_LOG_LINE = 600

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
    outline = Outline(lines, limit, longest_line=_LONGEST_LOG_LINE)
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
        line = lines[place][:_LONGEST_LOG_LINE]
        if TROUBLE.search(line):
            told = "".join(lines[after] for after in _belonging(lines, place, place + 2))
            kind = _NUMBERS.sub("0", line.strip() + told[:_LONGEST_LOG_LINE])
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


_LONGEST_MATCH = 300
_LONGEST_MATCH_PATH = 80


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
        return f"[... {count}{' in ' if path else ''}{path[-_LONGEST_MATCH_PATH:]} ...]"

    longest = min(max(map(len, first_of), default=0), _LONGEST_MATCH_PATH)
    outline = Outline(
        lines, limit, mark_of=mark_of, mark_length=44 + longest, longest_line=_LONGEST_MATCH
    )
    _fill(outline, first_of.values())
    take_by_names(outline, lines)
    _fill(outline, range(len(files)))
    return outline.render()


def _fill(outline: Outline, places: Iterable[int]) -> None:
    for place in places:
        if outline.left < 0 or (not outline.take(place) and outline.left < _LONGEST_MATCH_PATH):
            return


def _files(lines: list[str]) -> list[str]:
    """The file of each line: as it says itself, else that of the line before it."""
    files: list[str] = []
    path = ""
    for line in lines:
        found = MATCH.match(line[:_LONGEST_MATCH])
        if found:
            path = found["path"] or found["bare"] or path
        elif line and not line[0].isspace() and ("/" in line or "." in line) and len(line) < 260:
            path = line  # a heading, as ripgrep writes for people
        files.append(path)
    return files


def _counts(line: str) -> bool:
    return bool(line) and line != "--"


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


SIGNATURES_SHARE = 0.5
_LONGEST_CODE_LINE = 400


def cap_code(lines: list[str], limit: int) -> Shown:
    """Signatures as far as half of the room goes, outer ones first; then the lines with the most
    names that are not shown yet, and what else fits, from the top.

    >>> lines = [line for n in range(40) for line in (f"def f{n}():", f"    x = {n} + 1", "")]
    >>> print(cap_code(lines, 900).text[:73])
    def f0():
        x = 0 + 1
    <BLANKLINE>
    def f1():
        x = 1 + 1
    <BLANKLINE>
    def f2():
        x = 2 + 1
    """
    numbered = sum(1 for line in lines[:LINE] if NUMBERED.match(line[:LINE]))
    is_numbered = numbered > min(len(lines), LINE) / 2
    outline = Outline(
        lines,
        limit,
        mark_of=(lambda _first, _last: "[...]") if is_numbered else short_mark,
        mark_length=6 if is_numbered else 24,
        longest_line=_LONGEST_CODE_LINE,
    )
    room = outline.left
    signatures = []
    for place, line in enumerate(lines[:MOST_LINES]):
        start = line[:LINE]
        found = NUMBERED.match(start)
        bare = start[found.end() :] if found else start
        if SIGNATURE.match(bare):
            signatures.append((len(bare) - len(bare.lstrip()), place))
    for _, place in sorted(signatures):
        if outline.left < room * (1 - SIGNATURES_SHARE):
            break
        outline.take(place)
    take_by_names(outline, lines)
    for place in range(len(lines)):
        if outline.left < 0 or (not outline.take(place) and outline.left < _LONGEST_CODE_LINE):
            break
    return outline.render()
