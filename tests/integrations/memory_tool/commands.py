"""Commands as a model sends them to the memory tool."""

from __future__ import annotations

from typing import Any

from rehydrate import Memory

NOTES = "/memories/notes.md"


TEXT = "Staging listens on 8443.\nThe pilot prefers short answers.\n"


def create(path: str = NOTES, text: str = TEXT) -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


def view(path: str = NOTES, *view_range: int) -> dict[str, Any]:
    return {
        "command": "view",
        "path": path,
        **({"view_range": [*view_range]} if view_range else {}),
    }


def replace(old: str, new: str | None = None, path: str = NOTES) -> dict[str, Any]:
    given = {"command": "str_replace", "path": path, "old_str": old}
    return given if new is None else {**given, "new_str": new}


def insert(line: Any, text: str, path: str = NOTES) -> dict[str, Any]:
    return {"command": "insert", "path": path, "insert_line": line, "insert_text": text}


def delete(path: str = NOTES) -> dict[str, Any]:
    return {"command": "delete", "path": path}


def rename(old: str, new: str) -> dict[str, Any]:
    return {"command": "rename", "old_path": old, "new_path": new}


def sources(memory: Memory, query: str) -> list[str]:
    return [hit.item.source for hit in memory.search(query)]
