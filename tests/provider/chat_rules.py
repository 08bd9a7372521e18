"""Rules of the chat API beyond the shape of a request: calls and their tool messages.

Ids must be unique within one round: an assistant message and the tool messages after it. A later
round may use them again, as some servers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.provider.errors import RefusedError
from tests.provider.openai_tools import check_choice, check_functions

_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)


def check_rules(request: Mapping[str, Any]) -> None:
    """Raise RefusedError for the first broken rule."""
    check_choice(request)
    tools = request.get("tools") or []
    functions = [tool["function"] for tool in tools if tool["type"] == "function"]
    check_functions(functions, "tools[{}].function.parameters")
    waiting: dict[str, int] = {}  # calls of the message before, with its index
    answers: dict[str, int] | None = None  # tool messages so far; None: none may follow
    for index, message in enumerate(request["messages"]):
        if message["role"] == "tool":
            _check_answer(index, message, waiting, answers)
            assert answers is not None
            answers[message["tool_call_id"]] = index
            waiting.pop(message["tool_call_id"])
            continue
        _check_answered(waiting, index)
        waiting, answers = {}, None
        calls = message.get("tool_calls") or []
        if calls:
            waiting = {call["id"]: index for call in calls}
            answers = {}
            if len(waiting) < len(calls):
                words = f"Duplicate value for 'tool_calls[].id' in messages[{index}]."
                raise RefusedError(
                    f"Invalid parameter: {words}", param=f"messages.[{index}].tool_calls"
                )
        _check_content(index, message)
    _check_answered(waiting, len(request["messages"]))


def _check_answer(
    index: int,
    message: Mapping[str, Any],
    waiting: Mapping[str, int],
    answers: Mapping[str, int] | None,
) -> None:
    call = message["tool_call_id"]
    if answers is None:
        words = "messages with role 'tool' must be a response to a preceeding message with"
        raise RefusedError(
            f"Invalid parameter: {words} 'tool_calls'.", param=f"messages.[{index}].role"
        )
    where = f"messages.[{index}].tool_call_id"
    if call in answers:
        words = f"Duplicate value for 'tool_call_id' of '{call}', in messages[{answers[call]}]"
        raise RefusedError(f"Invalid parameter: {words} and messages[{index}].", param=where)
    if call not in waiting:
        words = f"'tool_call_id' of '{call}' not found in 'tool_calls' of previous message."
        raise RefusedError(f"Invalid parameter: {words}", param=where)


def _check_answered(waiting: Mapping[str, int], index: int) -> None:
    if waiting:
        words = _UNANSWERED + ", ".join(waiting)
        raise RefusedError(words, param=f"messages.[{index}].role")


def _check_content(index: int, message: Mapping[str, Any]) -> None:
    keys = ("content", "tool_calls", "function_call", "refusal", "audio")
    if message["role"] == "assistant" and all(message.get(key) is None for key in keys):
        words = "Invalid value for 'content': expected a string, got null."
        raise RefusedError(words, param=f"messages.[{index}].content")
