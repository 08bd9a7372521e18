"""Reads requests and histories in their wire format, without code of rehydrate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class HistoryPart(NamedTuple):
    """One part of a history. Its kind is user, text, thinking, call or result."""

    kind: str
    text: str
    id: str = ""
    name: str = ""


def history_parts(history: list[Any], wire: str) -> list[HistoryPart]:
    """Return all parts of a history, in order."""
    read = {"anthropic": _anthropic, "openai_chat": _chat, "openai_responses": _item}[wire]
    return [each for entry in history for each in read(entry)]


def request_parts(request: dict[str, Any]) -> list[str]:
    """Return the request in the order of a cache: tools, system, then blocks or items, unmarked."""
    settings = [
        request.get(key) for key in ("thinking", "tool_choice", "instructions", "reasoning")
    ]
    parts = [json.dumps([request.get("model"), *settings])]
    parts += [json.dumps(_bare(tool)) for tool in request.get("tools") or []]
    parts += [json.dumps(_bare(block)) for block in _blocks(request.get("system"))]
    for entry in request.get("messages") or request.get("input") or []:
        if "role" in entry and "type" not in entry and "tool_calls" not in entry:
            others = {key: entry[key] for key in entry if key not in ("role", "content")}
            for block in _blocks(entry.get("content")) or [None]:  # a refusal has no content
                parts.append(json.dumps([entry["role"], others, _bare(block)]))
        else:
            parts.append(json.dumps(_bare(entry)))
    return parts


def texts(value: Any) -> Iterator[str]:
    """Yield all texts in a request that a model reads."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in ("signature", "encrypted_content", "id", "type", "description"):
                yield from texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts(each)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        bare = {key: _bare(each) for key, each in value.items() if key != "cache_control"}
        if bare.get("type") == "tool_result" and isinstance(bare.get("content"), str):
            bare["content"] = _blocks(bare["content"])
        return bare
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def _anthropic(entry: dict[str, Any]) -> Iterator[HistoryPart]:
    is_user = entry["role"] == "user"
    for block in _blocks(entry["content"]):
        kind = block["type"]
        if kind == "text":
            yield HistoryPart("user" if is_user else "text", block["text"])
        elif kind == "thinking":
            yield HistoryPart("thinking", block["thinking"])
        elif kind == "tool_use":
            yield HistoryPart("call", json.dumps(block["input"]), block["id"], block["name"])
        elif kind == "tool_result":
            yield HistoryPart("result", "".join(_words(block["content"])), block["tool_use_id"])
        else:
            raise AssertionError(f"{kind} in the history")


def _chat(entry: dict[str, Any]) -> Iterator[HistoryPart]:
    role = entry["role"]
    if role == "tool":
        yield HistoryPart("result", entry["content"], entry["tool_call_id"])
        return
    text = "".join(_words(entry.get("content"))) or entry.get("refusal") or ""
    if text:
        yield HistoryPart("user" if role == "user" else "text", text)
    for call in entry.get("tool_calls") or []:
        function = call["function"]
        yield HistoryPart("call", function["arguments"], call["id"], function["name"])


def _item(item: dict[str, Any]) -> Iterator[HistoryPart]:
    kind = item.get("type", "message")
    if kind == "message":
        text = "".join(_words(item["content"]))
        yield HistoryPart("user" if item["role"] == "user" else "text", text)
    elif kind == "function_call":
        yield HistoryPart("call", item["arguments"], item["call_id"], item["name"])
    elif kind == "function_call_output":
        yield HistoryPart("result", "".join(_words(item["output"])), item["call_id"])
    elif kind != "reasoning":
        raise AssertionError(f"{kind} in the history")


def _words(content: Any) -> list[str]:
    return [block.get("text") or block.get("refusal") or "" for block in _blocks(content)]
