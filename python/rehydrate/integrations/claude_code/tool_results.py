"""PostToolUse: long results are shown in part, in the shape that the tool gave them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rehydrate.integrations.claude_code.events import HookInput, Reply

CAP_TOKENS = 8_000
MIN_CAPPED_CHARS = 8_000
"""A shorter text is not counted: most results are short, and counting loads the engine."""
_BINARY_KEYS = frozenset({"data", "base64", "blob"})
_DATA_URL = re.compile(r"\s*data:[\w.+-]{1,80}/[\w.+-]{1,80}(?:;[\w.=+-]{1,80}){0,4};base64,")
_MAX_DEPTH = 32


def post_tool(given: HookInput) -> Reply:
    """Return the result with its long texts cut, the whole of each kept under a handle.

    Where the whole cannot be kept, nothing is cut.
    """
    tool = given.text("tool_name")
    response = given.payload.get("tool_response")
    # Our own tools answer within a budget, and with whole texts when they are asked for.
    if "rehydrate" in tool or not _has_long_text(response):
        return None
    from rehydrate.prompt.caps import cap_text

    session = given.session

    def capped(text: str) -> str:
        short = cap_text(text, CAP_TOKENS, tool=tool)
        if short is None:
            return text
        handle = session.keep(text)
        return f"{short.render()}\n{how_to_read(handle, session.id)}"

    changed = _map_texts(response, capped)
    if changed == response:
        return None
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": changed}}


def how_to_read(handle: str, session: str) -> str:
    """Return how a model reads the whole, in a line."""
    return (
        f"[the whole: fetch_whole of the MCP server rehydrate, with handle {handle!r} and thread "
        f"{session!r}; or in a shell: rehydrate claude fetch {handle}]"
    )


def _has_long_text(value: Any, depth: int = 0) -> bool:
    if isinstance(value, str):
        return len(value) > MIN_CAPPED_CHARS
    if depth > _MAX_DEPTH:
        return False
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has_long_text(one, depth + 1) for one in inner)


def _map_texts(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """Return the value in its own shape, its long texts changed; binary data stays."""
    if isinstance(value, str):
        is_text = len(value) > MIN_CAPPED_CHARS and not _DATA_URL.match(value)
        return change(value) if is_text else value
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_map_texts(one, change, depth + 1) for one in value]
    if isinstance(value, dict):
        if value.get("isImage") is True:  # Bash printed a picture
            return value
        return {
            key: one if key in _BINARY_KEYS else _map_texts(one, change, depth + 1)
            for key, one in value.items()
        }
    return value
