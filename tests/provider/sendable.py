"""Makes conversations of tests/strategies sendable: all calls answered, a user message last.

A generated conversation may end in an open tool loop, which providers refuse. Its items get ids in
the form of the Responses API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

Entry = dict[str, Any]

_ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
    "computer_call": "cu",
}
_CALLS = {"function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call"}
_CALLS |= {"apply_patch_call"}


def sendable(format: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with what is missing at the end; invalid entries are not repaired."""
    return _CLOSERS[format]([dict(entry) for entry in entries])


def request_of(format: str, entries: Sequence[Entry]) -> Entry:
    """Return a request with these entries for the provider of this format."""
    if format == "openai_responses":
        return {"model": "test", "input": list(entries)}
    if format == "openai_chat":
        return {"model": "test", "messages": list(entries)}
    leading = list(takewhile(lambda entry: entry["role"] == "system", entries))
    system = [entry["content"] for entry in leading]
    request: Entry = {
        "model": "test",
        "max_tokens": 100,
        "messages": entries[len(leading) :],
        "tools": [{"name": "get", "input_schema": {"type": "object"}}],
    }
    # A damaged conversation may have an empty system prompt, which is not sent.
    return {**request, "system": system[0]} if system and system[0] else request


def _closed_anthropic(entries: list[Entry]) -> list[Entry]:
    # Missing results go into the message of the results that exist.
    is_answering = bool(entries) and _is_of_results(entries[-1])
    results = list(entries[-1]["content"]) if is_answering else []
    before = entries[:-1] if is_answering else entries
    last = list(takewhile(lambda entry: entry["role"] == "assistant", reversed(before)))
    calls = [
        block["id"]
        for entry in reversed(last)
        if isinstance(entry["content"], list)
        for block in entry["content"]
        if block["type"] == "tool_use"
    ]
    answered = {block["tool_use_id"] for block in results}
    results += [
        {"type": "tool_result", "tool_use_id": call, "content": "ok"}
        for call in calls
        if call not in answered
    ]
    if results:
        return [*before, {"role": "user", "content": results}]
    roles = [entry["role"] for entry in entries]
    if "user" in roles and roles[-1] == "system":
        return entries  # nobody but the model may speak after it
    if last and not last[0]["content"]:  # an empty assistant message is allowed only at the end
        entries = entries[:-1]
    return [*entries, {"role": "user", "content": "Go on."}]


def _is_of_results(entry: Entry) -> bool:
    blocks = entry["content"]
    if entry["role"] != "user" or not isinstance(blocks, list) or not blocks:
        return False
    return all(block["type"] == "tool_result" for block in blocks)


def _closed_chat(entries: list[Entry]) -> list[Entry]:
    answers = list(takewhile(lambda entry: entry["role"] == "tool", reversed(entries)))
    answered = {answer.get("tool_call_id") for answer in answers}
    before = entries[: len(entries) - len(answers)]
    calls = (before[-1].get("tool_calls") or []) if before else []
    missing = [
        {"role": "tool", "tool_call_id": call["id"], "content": "ok"}
        for call in calls
        if call["id"] not in answered
    ]
    return [*entries, *missing, {"role": "user", "content": "Go on."}]


def _closed_responses(entries: list[Entry]) -> list[Entry]:
    for entry in entries:
        prefix = _ID_PREFIXES.get(entry.get("type", ""))
        if prefix and isinstance(entry.get("id"), str):
            entry["id"] = f"{prefix}_{entry['id']}"
    answered = {_call_of(entry) for entry in entries if _kind(entry).endswith("_output")}
    missing = [
        {
            "type": f"{_kind(entry)}_output",
            "id" if _kind(entry) == "local_shell_call" else "call_id": entry.get("call_id"),
            "output": "ok",
        }
        for entry in entries
        if _kind(entry) in _CALLS and entry.get("call_id") not in answered
    ]
    return [*entries, *missing, {"role": "user", "content": "Go on."}]


def _kind(entry: Mapping[str, Any]) -> str:
    kind: str = entry.get("type", "message")
    return kind


def _call_of(entry: Mapping[str, Any]) -> object:
    return entry.get("id" if _kind(entry) == "local_shell_call_output" else "call_id")


_CLOSERS: Mapping[str, Callable[[list[Entry]], list[Entry]]] = {
    "anthropic": _closed_anthropic,
    "openai_chat": _closed_chat,
    "openai_responses": _closed_responses,
}
