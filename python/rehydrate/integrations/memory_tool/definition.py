"""The memory tool as a function, for models that do not know it by name; limits on its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rehydrate._check import check_whole

ROOT = "/memories"


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
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
        },
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
