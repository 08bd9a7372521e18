"""Reading requests and histories as the wire has them, without a line of rehydrate's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Spoken(NamedTuple):
    """One thing in a history: what (user, text, thought, call, result), whose, and its words."""

    kind: str
    text: str
    id: str = ""
    name: str = ""


def spoken(history: list[Any], wire: str) -> list[Spoken]:
    """All that was said, in order."""
    read = {"anthropic": _anthropic, "openai_chat": _chat, "openai_responses": _item}[wire]
    return [each for entry in history for each in read(entry)]


def parts(request: dict[str, Any]) -> list[str]:
    """The request as a cache reads it: tools, system, then blocks or items; without marks."""
    found = [request.get(key) for key in ("thinking", "tool_choice", "instructions", "reasoning")]
    heads = [json.dumps([request.get("model"), *found])]
    heads += [json.dumps(_bare(tool)) for tool in request.get("tools") or []]
    heads += [json.dumps(_bare(block)) for block in _blocks(request.get("system"))]
    for entry in request.get("messages") or request.get("input") or []:
        if "role" in entry and "type" not in entry and "tool_calls" not in entry:
            others = {key: entry[key] for key in entry if key not in ("role", "content")}
            for block in _blocks(entry.get("content")):
                heads.append(json.dumps([entry["role"], others, _bare(block)]))
        else:
            heads.append(json.dumps(_bare(entry)))
    return heads


def texts(value: Any) -> Iterator[str]:
    """All strings in a request that a model reads."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in ("signature", "encrypted_content", "id", "type", "description"):
                yield from texts(each)
    elif isinstance(value, list):
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


def _anthropic(entry: dict[str, Any]) -> Iterator[Spoken]:
    is_user = entry["role"] == "user"
    for block in _blocks(entry["content"]):
        kind = block["type"]
        if kind == "text":
            yield Spoken("user" if is_user else "text", block["text"])
        elif kind == "thinking":
            yield Spoken("thought", block["thinking"])
        elif kind == "tool_use":
            yield Spoken("call", json.dumps(block["input"]), block["id"], block["name"])
        elif kind == "tool_result":
            yield Spoken("result", "".join(_words(block["content"])), block["tool_use_id"])
        else:
            raise AssertionError(f"{kind} in the history")


def _chat(entry: dict[str, Any]) -> Iterator[Spoken]:
    role = entry["role"]
    if role == "tool":
        yield Spoken("result", entry["content"], entry["tool_call_id"])
        return
    said = "".join(_words(entry.get("content"))) or entry.get("refusal") or ""
    if said:
        yield Spoken("user" if role == "user" else "text", said)
    for call in entry.get("tool_calls") or []:
        function = call["function"]
        yield Spoken("call", function["arguments"], call["id"], function["name"])


def _item(item: dict[str, Any]) -> Iterator[Spoken]:
    kind = item.get("type", "message")
    if kind == "message":
        said = "".join(_words(item["content"]))
        yield Spoken("user" if item["role"] == "user" else "text", said)
    elif kind == "function_call":
        yield Spoken("call", item["arguments"], item["call_id"], item["name"])
    elif kind == "function_call_output":
        yield Spoken("result", "".join(_words(item["output"])), item["call_id"])
    elif kind != "reasoning":
        raise AssertionError(f"{kind} in the history")


def _words(content: Any) -> list[str]:
    return [block.get("text") or block.get("refusal") or "" for block in _blocks(content)]
