"""What tools do, by their names, and what their calls are about.

The names are those of Claude Code, Codex and other common tools. Edit `TOOLS` for your own:
``TOOLS["save_page"] = ToolUse("edited", ("page",))``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rehydrate import _native


class ToolUse(NamedTuple):
    """What a tool does."""

    use: str
    """edited, created, read, deleted, ran, planned."""
    arguments: tuple[str, ...] = ("file_path", "path", "filename", "notebook_path", "target_file")
    """Where its subject is, the first that is there."""


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

_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_PATCH_USES = {"Add": CREATED, "Update": EDITED, "Delete": DELETED}


class Subject(NamedTuple):
    """What a call is about."""

    use: str
    text: str
    """A path, a command, or the steps of a plan, as they are in the call's input."""


def subjects(tool_input: str) -> Iterator[Subject]:
    """Yield what a call is about; ``tool_input`` is its name, a blank and its input as JSON.

    >>> list(subjects('Edit {"file_path":"src/rows.py","old_string":"a"}'))
    [Subject(use='edited', text='src/rows.py')]
    >>> list(subjects('Bash {"command":"cat src/rows.py | head -5"}'))
    [Subject(use='looked up', text='cat src/rows.py'), Subject(use='read', text='src/rows.py')]
    """
    name, _, written = tool_input.partition(" ")
    known = TOOLS.get(name.rpartition("__")[2].rpartition(".")[2].lower())
    if known is None:
        return
    try:
        given = json.loads(written)
    except (ValueError, RecursionError):
        return
    if isinstance(given, str):
        given = {known.arguments[0]: given}
    if not isinstance(given, Mapping):
        return
    found = next((given[name] for name in known.arguments if given.get(name)), None)
    if known.use == PLANNED:
        for step in found if isinstance(found, list) else ():
            yield from _step(step)
    elif isinstance(found, list):  # the words of a command, or a shell and its script
        words = [str(word) for word in found]
        yield from _run(words[-1] if words[1:-1] in (["-lc"], ["-c"]) else " ".join(words))
    elif isinstance(found, str):
        patched = list(_PATCHED.finditer(found))
        if patched:
            for match in patched:
                yield Subject(_PATCH_USES[match[1]], match[2].strip())
        elif known.use == RAN and "code" not in given:
            yield from _run(found)
        elif "\n" not in found or known.use == RAN:
            yield Subject(known.use, found)


def _run(command: str) -> Iterator[Subject]:
    """Yield what a command is about: itself, without the programs that only cut what it prints, and
    the files that it shows and writes."""
    return map(Subject._make, _native.command_subjects(command))


def _step(step: Any) -> Iterator[Subject]:
    """Yield a step of a plan that is not done yet."""
    if isinstance(step, str):
        yield Subject(PLANNED, step)
    elif isinstance(step, Mapping):
        text = step.get("content") or step.get("step") or step.get("title") or step.get("text")
        status = str(step.get("status", "")).lower()
        if isinstance(text, str) and status not in {"completed", "done", "cancelled"}:
            yield Subject(PLANNED, text)
