"""A strict AI SDK: the schemas of `ModelMessage` and `UIMessage`, and what it throws of a prompt.

It shares no code with rehydrate. The schemas are those of `ai` 6 (`modelMessageSchema`,
`validateUIMessages`), the errors `InvalidPromptError` and `MissingToolResultsError`. In addition
what its providers want: a result directly follows its call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Part = Mapping[str, Any]

_STRINGS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "reasoning": ("text",),
    "image": (),
    "file": ("mediaType",),
    "tool-call": ("toolCallId", "toolName"),
    "tool-result": ("toolCallId", "toolName"),
    "tool-approval-request": ("approvalId", "toolCallId"),
    "tool-approval-response": ("approvalId",),
}
_OF_ROLE = {
    "user": {"text", "image", "file"},
    "assistant": {
        *("text", "file", "reasoning", "tool-call", "tool-result", "tool-approval-request"),
    },
    "tool": {"tool-result", "tool-approval-response"},
}
_ITEMS = {
    "text": ("text",),
    "image-data": ("data", "mediaType"),
    "file-data": ("data", "mediaType"),
    "image-url": ("url",),
    "file-url": ("url", "mediaType"),  # of version 7
}
_STATES = {
    *("input-streaming", "input-available", "approval-requested", "approval-responded"),
    *("output-available", "output-error", "output-denied"),
}


def refusal(messages: list[Any]) -> str | None:
    """Return why `generateText` throws; None for `messages` that it takes."""
    json.dumps(messages)
    waiting: dict[str, str] = {}  # call: state
    approvals: dict[str, str] = {}
    for number, message in enumerate(messages):
        why = _shape(message)
        if why:
            return f"message {number}: {why}"
        if message["role"] != "tool":
            if missing := [call for call, state in waiting.items() if state == "open"]:
                return f"message {number}: MissingToolResultsError of {missing}"
            waiting, approvals = {}, {}
        content = message["content"]
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool-call":
                is_run = part.get("providerExecuted") is True
                waiting[part["toolCallId"]] = "provider's" if is_run else "open"
            elif part["type"] == "tool-approval-request":
                approvals[part["approvalId"]] = part["toolCallId"]
            elif part["type"] == "tool-approval-response":
                if part["approvalId"] not in approvals:
                    return f"message {number}: InvalidToolApprovalError"
                waiting[approvals[part["approvalId"]]] = "decided"
            elif message["role"] == "tool" and waiting.pop(part["toolCallId"], None) is None:
                return f"message {number}: a result without a call"
    if missing := [call for call, state in waiting.items() if state == "open"]:
        return f"at the end: MissingToolResultsError of {missing}"
    return None


def _shape(message: Any) -> str | None:
    role, content = message.get("role"), message.get("content")
    if role == "system" or (role in ("user", "assistant") and isinstance(content, str)):
        return None if isinstance(content, str) else "a system message of parts"
    if role not in _OF_ROLE or not isinstance(content, list):
        return f"role {role!r} with a content of {type(content).__name__}"
    return next(filter(None, (_part(part, _OF_ROLE[role]) for part in content)), None)


def _part(part: Any, known: set[str]) -> str | None:
    kind = part.get("type")
    if kind not in known:
        return f"a part {kind!r}"
    if any(not isinstance(part.get(key), str) for key in _STRINGS[kind]):
        return f"a part {kind!r} without {_STRINGS[kind]}"
    if kind == "tool-approval-response" and not isinstance(part.get("approved"), bool):
        return "an approval that says neither yes nor no"
    if kind == "tool-call" and "input" not in part:
        return "a call without an input"
    return _output(part.get("output")) if kind == "tool-result" else None


def _output(output: Any) -> str | None:
    if not isinstance(output, Mapping):
        return "a result without an output"
    kind, value = output.get("type"), output.get("value")
    if kind == "content":
        for item in value if isinstance(value, list) else [{}]:
            keys = _ITEMS.get(item.get("type"))
            if keys is None or any(not isinstance(item.get(key), str) for key in keys):
                return f"an item {item!r}"
        return None
    is_taken = (
        (kind in ("text", "error-text") and isinstance(value, str))
        or (kind in ("json", "error-json") and "value" in output)
        or kind == "execution-denied"
    )
    return None if is_taken else f"an output {kind!r}"


def ui_refusal(messages: list[Any]) -> str | None:
    """Return why `validateUIMessages` or `convertToModelMessages` throws; None where both take
    them, and what comes out has a result for each call but those of the last message."""
    json.dumps(messages)
    for number, message in enumerate(messages):
        if message.get("role") not in ("system", "user", "assistant"):
            return f"message {number}: role {message.get('role')!r}"
        if not isinstance(message.get("id"), str):
            return f"message {number}: no id"
        if not isinstance(message.get("parts"), list) or not message["parts"]:
            return f"message {number}: no parts"
        for part in message["parts"]:
            why = _ui_part(part, is_last=number == len(messages) - 1)
            if why:
                return f"message {number}: {why}"
    return None


def _ui_part(part: Any, *, is_last: bool) -> str | None:  # noqa: PLR0911  reasons
    kind = part.get("type")
    if not isinstance(kind, str):
        return "a part without a type"
    if kind.startswith("tool-") or kind == "dynamic-tool":
        if not isinstance(part.get("toolCallId"), str) or part.get("state") not in _STATES:
            return "a tool without an id or a state"
        if kind == "dynamic-tool" and not isinstance(part.get("toolName"), str):
            return "a tool without a name"
        if not is_last and part["state"] in ("input-available", "approval-requested"):
            return "MissingToolResultsError"
        return None
    known = {"text", "reasoning", "file", "source-url", "source-document", "step-start"}
    if kind not in known and not kind.startswith("data-"):
        return f"a part {kind!r}"
    needs = {"text": "text", "reasoning": "text", "file": "mediaType"}.get(kind)
    return f"a part {kind!r} without {needs}" if needs and needs not in part else None
