"""Lists, tables and paths: the first rows, how many more there are, and what to filter by."""

from __future__ import annotations

from collections import Counter

from rehydrate.compiler.caps.cutting import MOST_LINES, Shown, clip

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
