"""The memory tool as a function with a schema, for models that do not know it by name."""

from __future__ import annotations

from typing import Any

from rehydrate.integrations.memory_tool.commands import NAMES, ROOT

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
        "command": {"type": "string", "enum": [*NAMES]},
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
