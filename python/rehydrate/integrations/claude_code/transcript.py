"""The end of a Claude Code transcript: its last turns, whatever else the file holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAST_TURNS = 60
"""User and assistant lines that a compaction looks at."""
MAX_BYTES = 16_000_000
"""The last bytes of a transcript that are read; a file may have 500 MB."""
MAX_LINE_BYTES = 1_000_000
"""A longer line is left out: reading it could take all the time there is."""


def last_turns(path: Path, turns: int = LAST_TURNS) -> list[dict[str, Any]]:
    """Return the last user and assistant lines of a transcript, oldest first.

    Broken lines, too long ones and those of subagents are left out. The first line is no tool's
    result, since its call would be missing. Raises OSError where the file cannot be read.
    """
    found: list[dict[str, Any]] = []
    for line in _lines_backwards(path):
        entry = _spoken(line)
        if entry is not None:
            found.append(entry)
            if len(found) == turns:
                break
    found.reverse()
    first = next((n for n, entry in enumerate(found) if not _answers(entry)), len(found))
    return found[first:]


def _lines_backwards(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - MAX_BYTES))
        lines = file.read(MAX_BYTES).split(b"\n")
    yield from reversed(lines[1:] if size > MAX_BYTES else lines)


def _spoken(line: bytes) -> dict[str, Any] | None:
    """Return a line that the model saw; None for any other."""
    if not line.strip() or len(line) > MAX_LINE_BYTES:
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant"):
        return None
    message = entry.get("message")
    if entry.get("isSidechain") or not isinstance(message, dict):
        return None
    return entry if isinstance(message.get("content"), str | list) else None


def _answers(entry: dict[str, Any]) -> bool:
    content = entry["message"]["content"]
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )
