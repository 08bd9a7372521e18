"""The six commands of the memory tool: what each changes, and its answer.

Commands, answers and errors are those of Anthropic's documentation of the tool
(memory_20250818); so is what a command on a folder does. NAME, DESCRIPTION and SCHEMA are the tool
as a function, for models that do not know it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from rehydrate._check import check_whole
from rehydrate._text import is_utf8


class Refusal(Exception):  # noqa: N818  it is an answer, not an error of the program
    """Its message is the answer to the model; nothing was changed."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on the files of one namespace. What goes beyond is refused, and nothing is dropped.

    >>> FileLimits(max_files=50).max_file_bytes
    1000000
    """

    max_file_bytes: int = 1_000_000
    max_bytes: int = 10_000_000
    """Of all files together."""
    max_files: int = 1_000

    def __post_init__(self) -> None:
        """Refuse a value that cannot be a limit."""
        for name in ("max_file_bytes", "max_bytes", "max_files"):
            check_whole(f"FileLimits: {name}", getattr(self, name), 1)


ROOT = "/memories"
MAX_CHARS = 512


def checked_path(path: object, name: str = "path") -> str:
    """Return a path below /memories without needless slashes; raises Refusal for any other.

    The files are rows of a database, so no path leads out of it. Paths that would lead out of a
    folder are refused all the same: a model that sends one is wrong, or misled.

    >>> checked_path("/memories//notes/a.md")
    '/memories/notes/a.md'
    """
    if not isinstance(path, str) or not path:
        raise Refusal(f"Error: `{name}` is {path!r}; send a path such as {ROOT}/notes.md")
    if len(path) > MAX_CHARS:
        raise Refusal(f"Error: `{name}` has {len(path)} characters; send at most {MAX_CHARS}")
    if not path.isprintable() or "\\" in path:
        raise Refusal(f"Error: Path {path!r} has a character that no file name here may have")
    parts = [part for part in path.split("/") if part and part != "."]
    decoded = unquote(unquote(path)).replace("\\", "/").split("/")
    if not path.startswith("/") or not parts or f"/{parts[0]}" != ROOT:
        raise Refusal(f"Error: Path must start with {ROOT}, got: {path}")
    if ".." in parts or ".." in decoded:
        raise Refusal(f"Error: Path {path} would escape {ROOT} directory")
    return "/" + "/".join(parts)


def folders_of(path: str) -> list[str]:
    """Return the folders above a file, the outermost first.

    >>> folders_of("/memories/a/b.md")
    ['/memories', '/memories/a']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


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
    """Return a line with the two lines before and after it, with their numbers."""
    lines = text.split("\n")
    around = range(max(1, line - 2), min(len(lines), line + 2) + 1)
    return "\n".join(numbered(number, lines[number - 1][:MAX_VIEW_CHARS]) for number in around)


def numbered(number: int, line: str) -> str:
    r"""Return a line after its number.

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


_LISTED_LINES = 50
_QUOTED_CHARS = 2_000


class Outcome(NamedTuple):
    """The changes of a command, and its answer."""

    changes: Mapping[str, str | None]
    """New texts by path; None: the file goes."""
    answer: Callable[[Mapping[str, str]], str]
    """Makes the answer from the files as they are afterwards."""


Texts = Mapping[str, str]


def run(arguments: Mapping[str, Any], texts: Texts, *, overwrites: bool) -> Outcome:
    """Return the outcome of a command on these files; raises Refusal."""
    name = arguments.get("command")
    command = _COMMANDS.get(name) if isinstance(name, str) else None
    if command is None:
        raise Refusal(f"Error: `command` is {name!r}; send one of {', '.join(_COMMANDS)}")
    if name == "create":
        return _create(arguments, texts, overwrites)
    return command(arguments, texts)


def _view(arguments: Mapping[str, Any], texts: Texts) -> Outcome:
    path = checked_path(arguments.get("path"))
    if path in texts:
        return _only(shown_file(path, texts[path], arguments.get("view_range")))
    if path == ROOT or _is_folder(path, texts):
        return _only(shown_folder(path, texts))
    raise Refusal(f"The path {path} does not exist. Please provide a valid path.")


def _create(arguments: Mapping[str, Any], texts: Texts, overwrites: bool = False) -> Outcome:
    path = checked_path(arguments.get("path"))
    text = _text(arguments, "file_text")
    if path == ROOT or _is_folder(path, texts) or (path in texts and not overwrites):
        raise Refusal(f"Error: File {path} already exists")
    _check_folders(path, texts)
    return Outcome({path: text}, lambda _: f"File created successfully at: {path}")


def _str_replace(arguments: Mapping[str, Any], texts: Texts) -> Outcome:
    path = checked_path(arguments.get("path"))
    old = _text(arguments, "old_str")
    new = "" if arguments.get("new_str") is None else _text(arguments, "new_str")
    if path not in texts:
        raise Refusal(f"Error: The path {path} does not exist. Please provide a valid path.")
    if not old:
        raise Refusal("No replacement was performed. `old_str` is empty; send the text to replace")
    before = texts[path]
    count = before.count(old)
    quoted = old if len(old) <= _QUOTED_CHARS else f"{old[:_QUOTED_CHARS]}..."
    if not count:
        raise Refusal(
            f"No replacement was performed, old_str `{quoted}` did not appear verbatim in {path}."
        )
    if count > 1:
        raise Refusal(
            f"No replacement was performed. Multiple occurrences of old_str `{quoted}` in lines: "
            f"{_line_numbers(before, old)}. Please ensure it is unique"
        )
    line = before[: before.index(old)].count("\n") + 1
    return Outcome(
        {path: before.replace(old, new)},
        lambda now: (
            "The memory file has been edited. Here is the snippet showing the change (with line "
            f"numbers):\n{snippet(now[path], line)}"
        ),
    )


def _insert(arguments: Mapping[str, Any], texts: Texts) -> Outcome:
    path = checked_path(arguments.get("path"))
    text = _text(arguments, "insert_text")
    line = arguments.get("insert_line")
    if path not in texts:
        raise Refusal(f"Error: The path {path} does not exist")
    lines = texts[path].split("\n")
    if not lines[-1]:
        lines.pop()
    if type(line) is not int or not 0 <= line <= len(lines):
        raise Refusal(
            f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of "
            f"lines of the file: [0, {len(lines)}]"
        )
    lines.insert(line, text.rstrip("\n"))
    after = "\n".join(lines)
    after += "" if after.endswith("\n") else "\n"
    return Outcome({path: after}, lambda _: f"The file {path} has been edited.")


def _delete(arguments: Mapping[str, Any], texts: Texts) -> Outcome:
    path = checked_path(arguments.get("path"))
    if path == ROOT:
        raise Refusal(f"Error: Cannot delete the {ROOT} directory itself")
    gone = _files_at(path, texts)
    if not gone:
        raise Refusal(f"Error: The path {path} does not exist")
    return Outcome(dict.fromkeys(gone), lambda _: f"Successfully deleted {path}")


def _rename(arguments: Mapping[str, Any], texts: Texts) -> Outcome:
    old = checked_path(arguments.get("old_path"), "old_path")
    new = checked_path(arguments.get("new_path"), "new_path")
    if old == ROOT:
        raise Refusal(f"Error: Cannot rename the {ROOT} directory itself")
    if new == ROOT or new in texts or _is_folder(new, texts):
        raise Refusal(f"Error: The destination {new} already exists")
    moved = _files_at(old, texts)
    if not moved:
        raise Refusal(f"Error: The path {old} does not exist")
    if new.startswith(f"{old}/"):
        raise Refusal(f"Error: Cannot rename {old} into itself")
    _check_folders(new, texts)
    changes: dict[str, str | None] = dict.fromkeys(moved)
    changes |= {new + file.removeprefix(old): texts[file] for file in moved}
    return Outcome(changes, lambda _: f"Successfully renamed {old} to {new}")


_COMMANDS: dict[str, Callable[[Mapping[str, Any], Texts], Outcome]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}


def _only(answer: str) -> Outcome:
    return Outcome({}, lambda _: answer)


def _text(arguments: Mapping[str, Any], name: str) -> str:
    text = arguments.get(name)
    if not isinstance(text, str):
        raise Refusal(f"Error: `{name}` is {text!r}; send a string")
    if not is_utf8(text):
        raise Refusal(
            f"Error: `{name}` holds half of a surrogate pair, which is no text; leave it out"
        )
    return text


def _is_folder(path: str, texts: Texts) -> bool:
    return any(file.startswith(f"{path}/") for file in texts)


def _files_at(path: str, texts: Texts) -> list[str]:
    """Return the file of this path, or all files of this folder."""
    return [file for file in texts if file == path or file.startswith(f"{path}/")]


def _check_folders(path: str, texts: Texts) -> None:
    for folder in folders_of(path):
        if folder in texts:
            raise Refusal(f"Error: The path {folder} is a file, not a directory")


def _line_numbers(text: str, wanted: str) -> str:
    """Return the lines in which a text begins, the first of many."""
    numbers: list[int] = []
    line, read = 1, 0
    found = text.find(wanted)
    while found >= 0 and len(numbers) < _LISTED_LINES:
        line += text.count("\n", read, found)
        read = found
        numbers.append(line)
        found = text.find(wanted, found + 1)
    more = ", ..." if found >= 0 else ""
    return ", ".join(map(str, numbers)) + more


NAME = "memory"
DESCRIPTION = (
    f"Your memory: files below {ROOT} that outlive this conversation. View {ROOT} before you begin "
    "a task, and write down what a later conversation needs: progress, decisions, what the user "
    "prefers. `view` shows a directory, or a file with line numbers; `create` writes a new file; "
    "`str_replace` replaces a text that occurs once; `insert` puts text behind a line; `delete` "
    "and `rename` take a file or a directory. Keep the files few, short and up to date."
)


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "enum": [*_COMMANDS]},
        "path": _string(f"For all but rename: a path such as {ROOT}/notes.md."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "For view: the first and the last line; -1: to the end.",
        },
        "file_text": _string("For create: the whole text of the file."),
        "old_str": _string("For str_replace: the text to replace; it must occur once."),
        "new_str": _string("For str_replace: the text in its place; left out: none."),
        "insert_line": {
            "type": "integer",
            "description": "For insert: the line behind which the text goes; 0: at the beginning.",
        },
        "insert_text": _string("For insert: the text."),
        "old_path": _string("For rename: the path now."),
        "new_path": _string("For rename: the new path."),
    },
    "required": ["command"],
    "additionalProperties": False,
}
