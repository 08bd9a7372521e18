"""Wire format of a Messages reply: one message, or the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.provider.billed import Billed
from tests.provider.sse import event, pieces

_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
    "compaction": ("compaction_delta", "content"),
}


def message_of(
    request: Mapping[str, Any],
    message_id: str,
    content: Sequence[Mapping[str, Any]],
    stop_reason: str,
    billed: Billed,
) -> dict[str, Any]:
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {**usage_of(billed), "service_tier": "standard"},
    }
    if stop_reason == "refusal":
        message["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
    return message


def usage_of(billed: Billed) -> dict[str, Any]:
    return {
        "input_tokens": billed.uncached,
        "cache_read_input_tokens": billed.read,
        "cache_creation_input_tokens": billed.written_5m + billed.written_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": billed.written_5m,
            "ephemeral_1h_input_tokens": billed.written_1h,
        },
        "output_tokens": billed.output,
    }


def events_of(message: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of a streamed message."""
    usage = {**message["usage"], "output_tokens": 1}
    started = {**message, "content": [], "stop_reason": None, "usage": usage}
    started.pop("stop_details", None)
    yield _named("message_start", message=started)
    yield _named("ping")
    for index, block in enumerate(message["content"]):
        yield _named("content_block_start", index=index, content_block=_empty(block))
        for delta in _deltas(block):
            yield _named("content_block_delta", index=index, delta=delta)
        yield _named("content_block_stop", index=index)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    if "stop_details" in message:
        ended["stop_details"] = message["stop_details"]
    yield _named("message_delta", delta=ended, usage=message["usage"])
    yield _named("message_stop")


def _named(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, name=kind)


def _empty(block: Mapping[str, Any]) -> dict[str, Any]:
    if block["type"] == "compaction":
        return {"type": "compaction", "content": None}
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    kind = block["type"]
    if kind not in _DELTAS:
        return
    name, key = _DELTAS[kind]
    if kind == "compaction":
        yield {**block, "type": name}  # in one piece
        return
    whole = json.dumps(block["input"]) if kind == "tool_use" else block[kind]
    for piece in pieces(whole):
        yield {"type": name, key: piece}
    if kind == "thinking":
        yield {"type": "signature_delta", "signature": block["signature"]}
