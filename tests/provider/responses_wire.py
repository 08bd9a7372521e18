"""Wire format of a response: one object, or the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from tests.provider.billed import Billed
from tests.provider.errors import RefusedError
from tests.provider.sse import event, pieces

_CREATED = 1_767_225_600
_ECHOED = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}


def response_of(
    request: Mapping[str, Any],
    response_id: str,
    output: Sequence[Mapping[str, Any]],
    billed: Billed,
    reasoning_tokens: int,
    *,
    is_cut: bool,
) -> dict[str, Any]:
    echoed = {key: request.get(key, value) for key, value in _ECHOED.items()}
    return {
        "id": response_id,
        "object": "response",
        "created_at": _CREATED,
        "status": "incomplete" if is_cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "model": request["model"],
        "output": list(output),
        "usage": usage_of(billed, reasoning_tokens),
        **echoed,
    }


def usage_of(billed: Billed, reasoning_tokens: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": billed.prompt,
        "input_tokens_details": {
            "cached_tokens": billed.read,
            "cache_write_tokens": billed.written_5m,
        },
        "output_tokens": billed.output,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": billed.prompt + billed.output,
    }


def events_of(response: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of a streamed response."""
    for number, fields in enumerate(_events(response)):
        yield event({**fields, "sequence_number": number}, name=fields["type"])


def failed_events(response: Mapping[str, Any], error: RefusedError) -> Iterator[bytes]:
    """Yield the events at the end of a stream whose response fails."""
    fields = {"code": error.code or "server_error", "message": error.message}
    failed = {**response, "status": "failed", "error": fields, "output": [], "usage": None}
    last = {"type": "response.failed", "response": failed, "sequence_number": 1_000_000}
    yield event(last, name="response.failed")


def error_event(error: RefusedError) -> bytes:
    """Return the event for a request that is refused inside the stream."""
    body = error.body("openai_responses", "")["error"]
    return event({"type": "error", "sequence_number": 2, "error": body}, name="error")


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    started["incomplete_details"] = None
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(response["output"]):
        position = {"output_index": index}
        yield {"type": "response.output_item.added", "item": _started(item), **position}
        yield from _item_events(item, {**position, "item_id": item["id"]})
        yield {"type": "response.output_item.done", "item": item, **position}
    yield {"type": f"response.{response['status']}", "response": response}


def _started(item: Mapping[str, Any]) -> dict[str, Any]:
    empty = {"content": [], "summary": [], "arguments": "", "status": "in_progress"}
    return {key: empty.get(key, value) for key, value in item.items()}


def _item_events(item: Mapping[str, Any], position: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "function_call":
        kind = "response.function_call_arguments"
        for piece in pieces(item["arguments"]):
            yield {"type": f"{kind}.delta", "delta": piece, **position}
        yield {
            "type": f"{kind}.done",
            "arguments": item["arguments"],
            "name": item["name"],
            **position,
        }
        return
    key, index_key = ("summary", "summary_index")
    if item["type"] == "message":
        key, index_key = ("content", "content_index")
    for number, part in zip(count(), item[key], strict=False):
        yield from _part_events(part, {**position, index_key: number})


_PARTS = {
    "output_text": ("content_part", "output_text", "text", {"logprobs": []}),
    "refusal": ("content_part", "refusal", "refusal", {}),
    "summary_text": ("reasoning_summary_part", "reasoning_summary_text", "text", {}),
}


def _part_events(part: Mapping[str, Any], position: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    holder, name, key, more = _PARTS[part["type"]]
    yield {"type": f"response.{holder}.added", "part": {**part, key: ""}, **position}
    for piece in pieces(part[key]):
        yield {"type": f"response.{name}.delta", "delta": piece, **position, **more}
    yield {"type": f"response.{name}.done", key: part[key], **position, **more}
    yield {"type": f"response.{holder}.done", "part": part, **position}
