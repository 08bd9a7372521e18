"""The six commands of the memory tool: what each changes, and its answer.

Commands, answers and errors are those of Anthropic's documentation of the tool
(memory_20250818); so is what a command on a folder does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rehydrate._text import is_utf8
from rehydrate.integrations.memory_tool.views import (
    ROOT,
    Refusal,
    checked_path,
    folders_of,
    shown_file,
    shown_folder,
    snippet,
)

_LISTED_LINES = 50
_QUOTED_CHARS = 2_000


class Outcome(NamedTuple):
    """What a command changes, and what it answers."""

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
NAMES = tuple(_COMMANDS)


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
