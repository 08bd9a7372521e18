"""Chat dicts as the plain values of each framework's messages: what its adapter will read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rehydrate.integrations.chat_dicts import plain_text

Chats = Sequence[dict[str, Any]]


def _calls(chat: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the id, the tool and the arguments of each call; these as an object, or as text."""
    for call in chat.get("tool_calls") or ():
        function = call["function"]
        try:
            given = json.loads(function["arguments"])
        except ValueError:
            given = None
        if not isinstance(given, dict):
            given = {"input": function["arguments"]}
        yield call["id"], function["name"], given


def _names(chats: Chats) -> dict[str, str]:
    return {call: name for chat in chats for call, name, _ in _calls(chat)}


def _pydantic_ai(chats: Chats) -> list[Any]:
    names = _names(chats)
    found: list[Any] = []
    for chat in chats:
        text = plain_text(chat["content"])
        parts: list[Any] = []
        if chat["role"] == "assistant":
            if text:
                parts.append({"part_kind": "text", "content": text})
            for call, name, given in _calls(chat):
                about = {"tool_name": name, "tool_call_id": call, "args": given}
                parts.append({"part_kind": "tool-call", **about})
            found.append({"kind": "response", "parts": parts})
        elif chat["role"] == "tool":
            call = chat["tool_call_id"]
            about = {"tool_name": names.get(call, "tool"), "tool_call_id": call}
            parts = [{"part_kind": "tool-return", **about, "content": text}]
            found.append({"kind": "request", "parts": parts})
        else:
            parts = [{"part_kind": "user-prompt", "content": text}]
            found.append({"kind": "request", "parts": parts})
    return found


def _google_adk(chats: Chats) -> list[Any]:
    names = _names(chats)
    found: list[Any] = []
    for chat in chats:
        text = plain_text(chat["content"])
        parts: list[Any] = [{"text": text}] if text else []
        if chat["role"] == "tool":
            call = chat["tool_call_id"]
            about = {"id": call, "name": names.get(call, "tool")}
            answer = {"function_response": {**about, "response": {"result": text}}}
            is_next = found and "function_response" in found[-1]["parts"][0]
            if is_next:
                found[-1]["parts"].append(answer)
            else:
                found.append({"role": "user", "parts": [answer]})
            continue
        parts += [
            {"function_call": {"id": call, "name": name, "args": given}}
            for call, name, given in _calls(chat)
        ]
        role = "model" if chat["role"] == "assistant" else "user"
        found.append({"role": role, "parts": parts})
    return found


def _llama_index(chats: Chats) -> list[Any]:
    found: list[Any] = []
    for chat in chats:
        text = plain_text(chat["content"])
        blocks: list[Any] = [{"block_type": "text", "text": text}] if text else []
        blocks += [
            {"block_type": "tool_call", "tool_name": n, "tool_call_id": c, "tool_kwargs": given}
            for c, n, given in _calls(chat)
        ]
        more = {"tool_call_id": chat["tool_call_id"]} if chat["role"] == "tool" else {}
        found.append({"role": chat["role"], "blocks": blocks, "additional_kwargs": more})
    return found


def _agent_framework(chats: Chats) -> list[Any]:
    found: list[Any] = []
    for chat in chats:
        text = plain_text(chat["content"])
        if chat["role"] == "tool":
            result = {"type": "function_result", "call_id": chat["tool_call_id"], "result": text}
            found.append({"role": "tool", "contents": [result]})
            continue
        contents: list[Any] = [{"type": "text", "text": text}] if text else []
        contents += [
            {"type": "function_call", "call_id": call, "name": name, "arguments": given}
            for call, name, given in _calls(chat)
        ]
        found.append({"role": chat["role"], "contents": contents})
    return found


HOST_MESSAGES: dict[str, Callable[[Chats], list[Any]]] = {
    "pydantic_ai": _pydantic_ai,
    "google_adk": _google_adk,
    "llama_index": _llama_index,
    "agent_framework": _agent_framework,
}
