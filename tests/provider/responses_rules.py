"""Rules of the Responses API beyond the shape of a request: calls and outputs, reasoning, ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.provider.errors import RefusedError
from tests.provider.openai_tools import check_choice, check_functions

# The prefix of an item's id, and the API's name for a call.
_ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "computer_call": "cu",
}
_CALLS = {
    "function_call": "function call",
    "custom_tool_call": "custom tool call",
    "computer_call": "computer call",
    "local_shell_call": "local shell call",
    "shell_call": "shell call",
    "apply_patch_call": "apply patch call",
}


def kind_of(item: Mapping[str, Any]) -> str:
    return item.get("type", "message")


def is_by_model(item: Mapping[str, Any]) -> bool:
    """Return whether the model made this item; the client made the others."""
    kind = kind_of(item)
    if kind == "message":
        return item["role"] == "assistant"
    if item.get("execution") == "server":
        return True  # what the server looked up for the model is a part of its turn
    return not kind.endswith("_output") and kind not in ("mcp_approval_response", "item_reference")


def check_rules(request: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> None:
    """Raise RefusedError for the first broken rule."""
    if not items and not request.get("prompt"):
        words = "One of 'input' or 'previous_response_id' or 'prompt' or 'conversation' must be"
        raise RefusedError(f"Missing required parameter: {words} provided.", param="input")
    check_choice(request)
    tools = request.get("tools") or []
    check_functions([tool for tool in tools if tool["type"] == "function"], "tools[{}].parameters")
    _check_ids(items)
    _check_pairs(items)


def _check_ids(items: Sequence[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        item_id, kind = item.get("id"), kind_of(item)
        # The shell's output has the id of its call.
        if not isinstance(item_id, str) or kind in ("local_shell_call_output", "item_reference"):
            continue
        prefix = _ID_PREFIXES.get(kind)
        if prefix and not item_id.startswith(prefix):
            words = f"Invalid 'input[{index}].id': '{item_id}'. Expected an ID that begins with"
            param = f"input[{index}].id"
            raise RefusedError(f"{words} '{prefix}'.", param=param, code="invalid_value")
        if item_id in seen:
            words = (
                f"Duplicate item found with id {item_id}. Remove duplicate items from your input"
            )
            raise RefusedError(f"{words} and try again.", param="input")
        seen.add(item_id)


def _check_pairs(items: Sequence[Mapping[str, Any]]) -> None:
    waiting: dict[tuple[str, str], int] = {}
    for index, item in enumerate(items):
        kind = kind_of(item)
        if kind in _CALLS:
            call = (kind, item["call_id"])
            if call in waiting:
                words = f"Duplicate {_CALLS[kind]} found with call_id {call[1]}."
                raise RefusedError(words, param="input")
            waiting[call] = index
        elif kind.removesuffix("_output") in _CALLS:
            called = kind.removesuffix("_output")
            answer = item["id"] if kind == "local_shell_call_output" else item["call_id"]
            if waiting.pop((called, answer), None) is None:
                words = f"No tool call found for {_CALLS[called]} output with call_id {answer}."
                raise RefusedError(words, param="input")
    for kind, call_id in waiting:
        raise RefusedError(f"No tool output found for {_CALLS[kind]} {call_id}.", param="input")
