"""OpenAI's chat completions API: checks a request, replies to it and bills it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.provider.billed import Billed
from tests.provider.chat_rules import check_rules
from tests.provider.chat_shape import request_shape
from tests.provider.errors import RefusedError
from tests.provider.ids import Ids
from tests.provider.openai_api import OpenAIApi
from tests.provider.openai_cache import Part
from tests.provider.openai_errors import check_openai
from tests.provider.replies import Call, ScriptedReply
from tests.provider.sse import event, pieces

_CREATED = 1_767_225_600  # any time will do


class Chat(OpenAIApi):
    """Checks a request, replies to it and bills it."""

    _shape = request_shape()

    def check(self, request: Mapping[str, Any]) -> int:
        """Return the tokens of the prompt. Raises RefusedError for an invalid request."""
        check_openai(self._shape, request)
        check_rules(request)
        tokens = sum(tokens for _, tokens in self._parts(request))
        if tokens > self._settings.window_tokens:
            raise _too_long(tokens, self._settings.window_tokens)
        return tokens

    def overflow(self, tokens: int) -> RefusedError:
        return _too_long(tokens, tokens - 1)

    def reply(
        self, request: Mapping[str, Any], reply: ScriptedReply
    ) -> tuple[dict[str, Any], Billed]:
        billed = self._cache.bill(request["model"], self._parts(request))
        calls = [_call(call, self._ids) for call in reply.calls]
        written = reply.text + "".join(json.dumps(call["function"]) for call in calls)
        reasoning = self._token_counter.text(reply.thinking or "")
        billed = billed._replace(output=max(1, self._token_counter.text(written) + reasoning))
        is_refusal = reply.stop == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if is_refusal else reply.text or None,
            "refusal": reply.text if is_refusal else None,
            "annotations": [],
        }
        if calls:
            message["tool_calls"] = calls
        elif not is_refusal:
            message["content"] = reply.text
        finish = "tool_calls" if calls else "stop"
        body = {
            "id": self._ids.new("chatcmpl-"),
            "object": "chat.completion",
            "created": _CREATED,
            "model": request["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": "length" if reply.stop == "max_tokens" else finish,
                }
            ],
            "usage": _usage(billed, reasoning),
            "service_tier": "default",
            "system_fingerprint": None,
        }
        return body, billed

    def _parts(self, request: Mapping[str, Any]) -> list[Part]:
        parts: list[Part] = [
            (tool, self._token_counter.json(tool)) for tool in request.get("tools") or []
        ]
        for message in request["messages"]:
            tokens = self._token_counter.content(message.get("content"))
            tokens += self._token_counter.content(message.get("tool_calls"))
            parts.append((message, tokens))
        return parts

    def events(self, body: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the chunks of a streamed completion."""
        head = {**body, "object": "chat.completion.chunk", "usage": None}
        del head["choices"]
        (choice,) = body["choices"]
        wants_usage = (request.get("stream_options") or {}).get("include_usage")
        if not wants_usage:
            del head["usage"]
        for delta in _deltas(choice["message"]):
            yield event({**head, "choices": [_choice(delta, None)]})
        yield event({**head, "choices": [_choice({}, choice["finish_reason"])]})
        if wants_usage:
            yield event({**head, "choices": [], "usage": body["usage"]})
        yield b"data: [DONE]\n\n"

    def failure_events(self, error: RefusedError, _body: Mapping[str, Any]) -> list[bytes]:
        """Return the events with which a running stream reports an error."""
        return [event(error.body("openai_chat", ""))]


def _too_long(tokens: int, window: int) -> RefusedError:
    words = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted "
        f"in {tokens} tokens. Please reduce the length of the messages."
    )
    return RefusedError(words, param="messages", code="context_length_exceeded", is_overflow=True)


def arguments_of(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _call(call: Call, ids: Ids) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_of(call)}
    return {"id": call.id or ids.new("call_"), "type": "function", "function": function}


def _usage(billed: Billed, reasoning: int) -> dict[str, Any]:
    details = {
        "cached_tokens": billed.read,
        "cache_write_tokens": billed.written_5m,
        "audio_tokens": 0,
    }
    return {
        "prompt_tokens": billed.prompt,
        "completion_tokens": billed.output,
        "total_tokens": billed.prompt + billed.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }


def _choice(delta: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    has_text = message["content"] is not None
    yield {"role": "assistant", "content": "" if has_text else None, "refusal": None}
    for key in ("content", "refusal"):
        for piece in pieces(message[key] or ""):
            yield {key: piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [begun]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
