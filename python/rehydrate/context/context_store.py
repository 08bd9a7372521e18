"""The continuous context store: what a thread must not lose, as verbatim spans under five headings.

The engine reads turns by rules, checks what a model proposes and writes the markdown
(`rust/rehydrate-core/src/context_store`). Here are its names, and the table of what tools do, by
their names. The names are those of Claude Code, Codex and other common tools. Edit `TOOLS` for your
own: ``TOOLS["save_page"] = ToolUse("edited", ("page",))``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

ASSISTANT_TRUST = 0.75
"""A model's words: they are not an instruction, and may be wrong."""


class Heading(StrEnum):
    """The headings of the store, in their order."""

    TASK_STATE = "Task State"
    """The work that is being done now: always current."""
    DECISIONS = "Decisions"
    FILES = "Files & Code"
    CONTEXT = "Important Context"
    """Notes that the user labelled, errors and their fixes; errors drift."""
    PREFERENCES = "User Preferences"
    """Rules and wishes of the user: they hold until they are contradicted."""


class Status(StrEnum):
    """The states of an item."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    """A later item holds instead of it."""
    RESOLVED = "resolved"
    FADED = "faded"
    """Nothing referred to it for long; it is found by asking, and no longer shown."""


class ToolUse(NamedTuple):
    """The effect of a tool."""

    use: str
    """edited, created, read, deleted, ran, planned."""
    arguments: tuple[str, ...] = ("file_path", "path", "filename", "notebook_path", "target_file")
    """The keys that may hold its subject. The first one present counts."""


EDITED, CREATED, READ, DELETED, RAN, PLANNED = (
    "edited", "created", "read", "deleted", "ran", "planned",
)  # fmt: skip
_COMMAND = ("command", "cmd", "script", "code")
_PLAN = ("todos", "plan", "items", "tasks")

TOOLS: dict[str, ToolUse] = {
    **dict.fromkeys(
        ("edit", "multiedit", "notebookedit", "str_replace_editor", "edit_file", "replace",
         "str_replace_based_edit_tool", "search_replace", "replace_in_file", "apply_diff"),
        ToolUse(EDITED),
    ),
    **dict.fromkeys(
        ("write", "write_file", "create_file", "write_to_file", "create", "save_file"),
        ToolUse(CREATED),
    ),
    **dict.fromkeys(
        ("read", "read_file", "view", "open_file", "cat", "view_file", "notebookread", "get_file"),
        ToolUse(READ),
    ),
    **dict.fromkeys(("delete_file", "remove_file"), ToolUse(DELETED)),
    **dict.fromkeys(
        ("bash", "shell", "exec_command", "run_terminal_cmd", "execute_command", "local_shell",
         "run_command", "terminal", "execute_bash", "python", "run_shell_command"),
        ToolUse(RAN, _COMMAND),
    ),
    **dict.fromkeys(
        ("todowrite", "update_plan", "write_todos", "todo_write", "update_todos"),
        ToolUse(PLANNED, _PLAN),
    ),
    "apply_patch": ToolUse(EDITED, ("input", "patch")),
}  # fmt: skip
"""By a tool's name in small letters."""
