"""Messages of the AI SDK, for its tests: model messages, and UI messages with tool parts."""

from __future__ import annotations

from typing import Any

from rehydrate.formats import validate

USER = {"role": "user", "content": "Which berth is free?"}
SAID = {"role": "assistant", "content": [{"type": "text", "text": "Berth 4."}]}
PNG = {"type": "image", "image": "iVBORw0KGgo=", "mediaType": "image/png"}
ASKED = {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "a"}
LISTED = [  # of a version 4 result
    {"type": "text", "text": "Berth 4, at noon."},
    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
]
SPEC = {"name": "f", "inputSchema": {"type": "object"}}
SIGNED = {"anthropic": {"signature": "c2ln"}}
SPOKEN = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Which berth?"}]}


def call(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": id, "toolName": "f", "input": {}, **more}


def answer(id: str = "a", value: Any = "4", **more: Any) -> dict[str, Any]:
    kind = "text" if isinstance(value, str) else "json"
    about = {"toolCallId": id, "toolName": "f"}
    return {"type": "tool-result", **about, "output": {"type": kind, "value": value}, **more}


def old_answer(id: str = "a", **more: Any) -> dict[str, Any]:
    """A result of version 4."""
    return {"type": "tool-result", "toolCallId": id, "toolName": "f", "result": {}, **more}


def decided(*, approved: bool, **more: Any) -> dict[str, Any]:
    return {"type": "tool-approval-response", "approvalId": "p", "approved": approved, **more}


def assistant(*parts: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def tools(*parts: Any) -> dict[str, Any]:
    return {"role": "tool", "content": list(parts)}


def shown(*parts: Any, role: str = "assistant") -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": list(parts)}


def tool(id: str = "a", state: str = "output-available", **more: Any) -> dict[str, Any]:
    result = {"output": "4"} if state == "output-available" else {}
    return {"type": "tool-f", "toolCallId": id, "state": state, "input": {}, **result, **more}


def broken(*entries: Any, format: str = "ai_sdk") -> list[tuple[int, str]]:
    return [(each.index, each.rule) for each in validate(entries, format)]
