"""Caps of texts made of lines: lists, logs, search results, diffs and code.

- A list or table: the first rows, the number of missing ones, and filters by folder.
- A log or a command's output: the last lines, and the errors before them.
- A search result: the first match of each file, then those with the most new names.
- A diff: the heads of files and hunks, then whole hunks, some of each file.
- Code: definitions and imports, then the lines with the most new names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rehydrate._text import plural
from rehydrate.prompt.caps.cutting import (
    MAX_LINES,
    Excerpt,
    LineSelection,
    clip,
    filters_room,
    keep_by_new_names,
    short_mark,
)
from rehydrate.prompt.caps.results import LINE_CHARS, MATCH, NUMBERED, PROBLEM, SIGNATURE

_MAX_ROW_CHARS = 400
_MAX_PATH_CHARS = 1_000
_SEPARATOR_SAMPLE = 100
"""Number of paths that decide which character separates folders."""
_MAX_FOLDERS = 8


def cap_list(lines: list[str], limit: int, rows: int) -> Excerpt:
    """Return the first rows, and below them the number and the folders of the others.

    >>> print(cap_list([f"src/{n}.py" for n in range(5_000)], 2_000, 100).text[-43:])
    src/99.py
    <BLANKLINE>
    4,900 more. by folder: src 5,000
    """
    remaining = limit - filters_room(limit)
    out: list[str] = []
    kept: list[str] = []
    shown = 0
    for line in lines:
        if shown == rows:
            break
        row, length = clip(line, _MAX_ROW_CHARS)
        if len(row) + 1 > remaining:
            break
        out.append(row)
        remaining -= len(row) + 1
        kept.append(line[:length])
        shown += bool(line.strip())
    present = sum(1 for line in lines if line and not line.isspace())
    summary = f"{present - shown:,} more{_folders(lines, filters_room(limit))}"
    body = "\n".join(out)
    return Excerpt(f"{body}\n\n{summary}"[:limit], "\n".join(kept))


def _folders(lines: list[str], room: int) -> str:
    """Return the counts of paths by folder, below the folder that all share; "" for other rows."""
    paths = [line for line in lines[:MAX_LINES] if len(line) < _MAX_PATH_CHARS and " " not in line]
    separator = "/" if any("/" in path for path in paths[:_SEPARATOR_SAMPLE]) else "\\"
    found = [path.rpartition(separator)[0] for path in paths if separator in path]
    if not found or len(found) < len(paths) / 2:
        return ""
    split = [folder.split(separator) for folder in found]
    first, last = min(split), max(split)
    common = 0
    while common < min(len(first), len(last)) and first[common] == last[common]:
        common += 1
    folders = Counter(separator.join(parts[: common + 1]) for parts in split)
    is_complete = len(lines) <= MAX_LINES
    named = ", ".join(
        f"{name} {count:,}" if is_complete else name
        for name, count in folders.most_common(_MAX_FOLDERS)
    )
    others = len(folders) - _MAX_FOLDERS
    summary = f". by folder: {named}" + (f", and {others:,} others" if others > 0 else "")
    return summary if len(summary) < room - 40 else ""


TAIL_SHARE = 0.7
"""Share of the room for the last lines: an error before them is worth more than one line more."""
_FIRST_LINES = 8
_MAX_DETAIL_LINES = 6
"""Maximum number of indented lines after an error that belong to it."""
_MAX_LOG_LINE_CHARS = 600

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


def cap_log(lines: list[str], limit: int, tail_lines: int) -> Excerpt:
    """Return the last lines, the first of each kind of error before them, and the first lines.

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
    selection = LineSelection(lines, limit, max_line_characters=_MAX_LOG_LINE_CHARS)
    reserve = round(selection.remaining * (1 - TAIL_SHARE))
    tail_start = end = len(lines)
    # The empty string after the last line break is not a line.
    tail = range(end - 1, max(-1, end - tail_lines - (not lines[-1]) - 1), -1)
    for index in tail:
        if selection.remaining < reserve or not selection.keep(index):
            break
        tail_start = index
    selection.keep_all(range(min(_FIRST_LINES, tail_start)))
    for index in _problems(lines, tail_start):
        if selection.remaining < 0:
            break
        if selection.keep(index):
            selection.keep_all(_details(lines, index, tail_start))
    for index in tail:
        if not selection.keep(index):
            break
    return selection.render()


def _problems(lines: list[str], end: int) -> Iterator[int]:
    """Yield the lines with errors and warnings, the first of each kind.

    Lines that differ only in numbers are of one kind. Of a very long log only the start and the end
    are read.
    """
    kinds: set[str] = set()
    for index in (*range(min(end, MAX_LINES)), *range(max(MAX_LINES, end - MAX_LINES), end)):
        line = lines[index][:_MAX_LOG_LINE_CHARS]
        if PROBLEM.search(line):
            detail = "".join(lines[after] for after in _details(lines, index, index + 2))
            kind = _NUMBERS.sub("0", line.strip() + detail[:_MAX_LOG_LINE_CHARS])
            if kind not in kinds:
                kinds.add(kind)
                yield index


def _details(lines: list[str], index: int, end: int) -> Iterator[int]:
    """Yield the indented lines after an error, such as its traceback."""
    depth = _depth(lines[index])
    for after in range(index + 1, min(index + 1 + _MAX_DETAIL_LINES, end)):
        line = lines[after]
        if not line.strip() or _depth(line) <= depth:
            return
        yield after


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t│|>-"))


_MAX_MATCH_CHARS = 300
_MAX_MATCH_PATH_CHARS = 80
_MAX_HEADING_CHARS = 260


def cap_matches(lines: list[str], limit: int) -> Excerpt:
    """Return matches of a search: of each file the first, then those with the most new names.

    Others from the top fill what room is left.

    >>> found = [f"a.py:{n}:import os" for n in range(1, 90)] + ["b.py:7:import re"]
    >>> print(cap_matches(found, 112).text)
    a.py:1:import os
    a.py:2:import os
    [... 87 more matches in a.py ...]
    b.py:7:import re
    """
    paths = _paths(lines[:MAX_LINES])
    first_of: dict[str, int] = {}
    for index, path in enumerate(paths):
        first_of.setdefault(path, index)

    def gap_mark(first: int, last: int) -> str:
        gap_paths = set(paths[first : last + 1])
        count = plural(sum(map(_is_counted, lines[first : last + 1])), "more match", "more matches")
        if len(gap_paths) > 1:
            beyond = " or more" if last >= len(paths) else ""
            return f"[... {count} in {len(gap_paths):,} files{beyond} ...]"
        path = gap_paths.pop() if gap_paths else ""
        return f"[... {count}{' in ' if path else ''}{path[-_MAX_MATCH_PATH_CHARS:]} ...]"

    longest_path = min(max(map(len, first_of), default=0), _MAX_MATCH_PATH_CHARS)
    selection = LineSelection(
        lines,
        limit,
        gap_mark=gap_mark,
        mark_characters=44 + longest_path,
        max_line_characters=_MAX_MATCH_CHARS,
    )
    _fill(selection, first_of.values(), _MAX_MATCH_PATH_CHARS)
    keep_by_new_names(selection, lines)
    _fill(selection, range(len(paths)), _MAX_MATCH_PATH_CHARS)
    return selection.render()


def _fill(selection: LineSelection, indices: Iterable[int], min_room: int) -> None:
    """Keep the lines that fit, until one does not and less than `min_room` characters remain."""
    for index in indices:
        if selection.remaining < 0:
            return
        if not selection.keep(index) and selection.remaining < min_room:
            return


def _paths(lines: list[str]) -> list[str]:
    """Return the file of each line: its own path, or else that of the line before."""
    paths: list[str] = []
    path = ""
    for line in lines:
        found = MATCH.match(line[:_MAX_MATCH_CHARS])
        if found:
            path = found["path"] or found["bare"] or path
        elif _is_heading(line):
            path = line
        paths.append(path)
    return paths


def _is_heading(line: str) -> bool:
    """Whether the line is a path alone, which ripgrep writes above the matches of a file."""
    if not line or line[0].isspace() or len(line) >= _MAX_HEADING_CHARS:
        return False
    return "/" in line or "." in line


def _is_counted(line: str) -> bool:
    return bool(line) and line != "--"


_HUNK = re.compile(r"@@ -\d")
_COMMIT = re.compile(r"commit [0-9a-f]{7,40}\b|(?:Author|Date|Subject|From):\s")
_HEADS = {"diff", "--- ", "+++ ", "Inde", "rena", "new ", "dele", "Bina", "simi"}
"""The first four characters of the lines in the head of a file."""
HEADS_SHARE = 0.6
"""Share of the room for the heads of files and hunks."""


class _Hunk(NamedTuple):
    first: int
    """Index of its head."""
    end: int
    rank: int
    """Its number among the hunks of its file, from 0."""


def cap_diff(lines: list[str], limit: int) -> Excerpt:
    """Return the heads of files and hunks, then whole hunks: the first of each file, the second...

    Of a hunk that does not fit, as many changed lines are kept as fit.
    """
    selection = LineSelection(lines, limit, gap_mark=short_mark, mark_characters=24)
    lines = lines[:MAX_LINES]
    reserve = selection.remaining * (1 - HEADS_SHARE)
    heads = [index for index, line in enumerate(lines) if line[:4] in _HEADS or _COMMIT.match(line)]
    selection.keep_all([index for index in heads if _is_name(lines[index])], reserve=reserve)
    hunks = list(_hunks(lines))
    selection.keep_all([hunk.first for hunk in hunks], reserve=reserve)
    by_rank = sorted(hunks, key=lambda hunk: (hunk.rank, hunk.first))
    partial = [hunk for hunk in by_rank if not selection.keep_block(hunk.first, hunk.end)]
    for hunk in partial:
        for index in range(hunk.first, hunk.end):
            if lines[index][:1] in "+-@" and not selection.keep(index):
                break
    selection.keep_all(heads)
    return selection.render()


def _is_name(line: str) -> bool:
    return line.startswith(("Index: ", "+++ ", "rename to", "deleted file", "commit "))


def _hunks(lines: list[str]) -> Iterator[_Hunk]:
    """Yield the hunks in their order."""
    rank, first = 0, -1
    for index, line in enumerate(lines):
        is_file = line.startswith(("diff --git ", "Index: ")) or (
            line.startswith("--- ")
            and lines[index + 1 : index + 2]
            and lines[index + 1].startswith("+++ ")
        )
        is_hunk = _HUNK.match(line) is not None
        if not (is_file or is_hunk):
            continue
        if first >= 0:
            yield _Hunk(first, index, rank)
            rank += 1
            first = -1
        if is_file:
            rank = 0
        if is_hunk:
            first = index
    if first >= 0:
        yield _Hunk(first, len(lines), rank)


SIGNATURES_SHARE = 0.5
"""Share of the room for definitions and imports."""
_MAX_CODE_LINE_CHARS = 400


def cap_code(lines: list[str], limit: int) -> Excerpt:
    """Return definitions and imports, outer ones first, then the lines with the most new names.

    Others from the top fill what room is left.

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
    sample = lines[:_NUMBERED_SAMPLE]
    numbered = sum(1 for line in sample if NUMBERED.match(line[:LINE_CHARS]))
    is_numbered = numbered > len(sample) / 2
    selection = LineSelection(
        lines,
        limit,
        gap_mark=(lambda _first, _last: "[...]") if is_numbered else short_mark,
        mark_characters=6 if is_numbered else 24,
        max_line_characters=_MAX_CODE_LINE_CHARS,
    )
    signatures = []
    for index, line in enumerate(lines[:MAX_LINES]):
        start = line[:LINE_CHARS]
        found = NUMBERED.match(start)
        bare = start[found.end() :] if found else start
        if SIGNATURE.match(bare):
            signatures.append((len(bare) - len(bare.lstrip()), index))
    outer_first = [index for _, index in sorted(signatures)]
    selection.keep_all(outer_first, reserve=selection.remaining * (1 - SIGNATURES_SHARE))
    keep_by_new_names(selection, lines)
    _fill(selection, range(len(lines)), _MAX_CODE_LINE_CHARS)
    return selection.render()


_NUMBERED_SAMPLE = 200
"""Number of lines that decide whether the lines are numbered."""
