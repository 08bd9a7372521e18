"""What the memory tool shows of files and folders, in the words of its documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rehydrate.integrations.memory_tool.refusal import Refusal

MAX_LINES = 999_999
MAX_VIEW_CHARS = 16_000
"""The tool's description, which the model knows, says that longer views are cut here."""
_WIDTH = len(str(MAX_LINES))
_DEPTH = 2


def shown_folder(path: str, texts: Mapping[str, str]) -> str:
    """Return a folder with all that is in it, two levels deep, each with its size."""
    begin = f"{path}/"
    sizes: dict[tuple[str, ...], int] = {}
    folders: set[tuple[str, ...]] = set()
    total = 0
    for file, text in texts.items():
        if not file.startswith(begin):
            continue
        size = len(text.encode())
        total += size
        names = tuple(file.removeprefix(begin).split("/"))
        for depth in range(1, min(_DEPTH, len(names)) + 1):
            if _is_hidden(names[depth - 1]):
                break
            above = names[:depth]
            sizes[above] = sizes.get(above, 0) + size
            if depth < len(names):
                folders.add(above)
    lines = [
        f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding "
        "hidden items and node_modules:",
        f"{human_size(total)}\t{path}",
    ]
    for names in sorted(sizes):
        end = "/" if names in folders else ""
        lines.append(f"{human_size(sizes[names])}\t{begin}{'/'.join(names)}{end}")
    return "\n".join(lines)


def shown_file(path: str, text: str, view_range: object) -> str:
    """Return the lines of a file with their numbers, up to `MAX_VIEW_CHARS` of them."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise Refusal(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = _lines_of(view_range, len(lines))
    shown: list[str] = []
    room, number = MAX_VIEW_CHARS, first
    while number <= last and len(line := lines[number - 1]) <= room:
        shown.append(numbered(number, line))
        room -= len(line) + 1
        number += 1
    if number == first:  # the first line alone is too long
        shown.append(numbered(number, line[:room]))
        shown.append(f"[line {number} is cut: it has {len(line):,} characters]")
        number += 1
    if number <= last:
        shown.append(
            f"[lines {number}-{last} are not shown: view them with view_range [{number}, {last}]]"
        )
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(shown)


def snippet(text: str, line: int) -> str:
    """Return a line with the two lines before and behind it, with their numbers."""
    lines = text.split("\n")
    around = range(max(1, line - 2), min(len(lines), line + 2) + 1)
    return "\n".join(numbered(number, lines[number - 1][:MAX_VIEW_CHARS]) for number in around)


def numbered(number: int, line: str) -> str:
    r"""Return a line behind its number.

    >>> numbered(3, "Hello.")
    '     3\tHello.'
    """
    return f"{number:>{_WIDTH}}\t{line}"


def human_size(size: int) -> str:
    """Return a size as people read it.

    >>> human_size(0), human_size(900), human_size(5_632), human_size(2_097_152)
    ('0B', '900B', '5.5K', '2M')
    """
    value, unit = float(size), "B"
    for larger in "KMG":
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{int(value)}{unit}" if value == int(value) else f"{value:.1f}{unit}"


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "node_modules"


def _lines_of(view_range: object, count: int) -> tuple[int, int]:
    """Return the first and the last line to show."""
    if view_range is None:
        return 1, count
    if (
        not isinstance(view_range, Sequence)
        or len(view_range) != 2
        or not all(type(each) is int for each in view_range)
    ):
        raise Refusal(
            f"Error: Invalid `view_range` parameter: {view_range!r}. It should be "
            "[start_line, end_line], or [start_line, -1] for the rest of the file."
        )
    first = max(1, view_range[0])
    last = count if view_range[1] == -1 else min(view_range[1], count)
    if first > count or last < first:
        raise Refusal(
            f"Error: Invalid `view_range` parameter: {list(view_range)}. It should be within the "
            f"range of lines of the file: [1, {count}]"
        )
    return first, last
