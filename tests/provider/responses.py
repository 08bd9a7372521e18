"""OpenAI's Responses API: checks a request, replies to it and bills it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from tests.provider.billed import Billed
from tests.provider.chat import arguments_of
from tests.provider.errors import RefusedError
from tests.provider.ids import Ids
from tests.provider.openai_api import OpenAIApi
from tests.provider.openai_cache import Part, PrefixCache
from tests.provider.openai_errors import check_openai
from tests.provider.replies import ScriptedReply
from tests.provider.responses_items import Item, SentItems
from tests.provider.responses_rules import check_rules, kind_of
from tests.provider.responses_shape import compact_shape, items_of, request_shape
from tests.provider.responses_wire import (
    error_event,
    events_of,
    failed_events,
    response_of,
    usage_of,
)
from tests.provider.settings import Settings
from tests.provider.token_counter import TokenCounter


class Responses(OpenAIApi):
    """Checks a request, replies to it and bills it."""

    _shape = request_shape()

    def __init__(
        self, settings: Settings, token_counter: TokenCounter, ids: Ids, cache: PrefixCache
    ) -> None:
        super().__init__(settings, token_counter, ids, cache)
        self._sent_items = SentItems(settings.signer)

    def check(self, request: Mapping[str, Any]) -> int:
        """Return the tokens of the prompt. Raises RefusedError for an invalid request."""
        return self._checked(request, self._shape)

    def _checked(self, request: Mapping[str, Any], shape: type[BaseModel]) -> int:
        check_openai(shape, request)
        items = self._items(request)
        check_rules(request, items)
        self._sent_items.check(items, checks_signatures=self._settings.checks_signatures)
        tokens = sum(tokens for _, tokens in self._parts(request))
        if tokens > self._settings.window_tokens:
            raise self.overflow(tokens)
        return tokens

    def compact(self, request: Mapping[str, Any], summary: str) -> tuple[dict[str, Any], Billed]:
        """Return the compacted window: the user's messages, and one encrypted item."""
        users = [
            {
                "id": self._ids.new("msg_", 48),
                "type": "message",
                "role": "user",
                "status": "completed",
                "content": _parts_of(item["content"]),
            }
            for item in self._items(request)
            if kind_of(item) == "message" and item["role"] == "user"
        ]
        billed = self._cache.bill(request["model"], self._parts(request))
        item = self._sent_items.compaction(self._ids.new("cmp_", 48), summary)
        billed = billed._replace(output=max(1, self._token_counter.text(summary)))
        body = {
            "id": self._ids.new("resp_", 48),
            "object": "response.compaction",
            "created_at": 0,
            "output": [*users, item],
            "usage": usage_of(billed),
        }
        return body, billed

    def check_compact(self, request: Mapping[str, Any]) -> int:
        """Return the tokens of a request to compact; raises RefusedError for an invalid one."""
        return self._checked(request, compact_shape())

    def overflow(self, _tokens: int) -> RefusedError:
        words = "Your input exceeds the context window of this model. Please adjust your input and"
        code = "context_length_exceeded"
        return RefusedError(f"{words} try again.", param="input", code=code, is_overflow=True)

    def reply(
        self, request: Mapping[str, Any], reply: ScriptedReply
    ) -> tuple[dict[str, Any], Billed]:
        billed = self._cache.bill(request["model"], self._parts(request))
        output = self._output(request, reply)
        reasoning = self._token_counter.text(reply.thinking or "")
        written = sum(
            self._token_counter.block(item) for item in output if item["type"] != "reasoning"
        )
        billed = billed._replace(output=max(1, written + reasoning))
        response_id = self._ids.new("resp_", 48)
        self._sent_items.link(output)
        if request.get("store") is not False:
            self._sent_items.remember(response_id, self._items(request), output)
        is_cut = reply.stop == "max_tokens"
        body = response_of(request, response_id, output, billed, reasoning, is_cut=is_cut)
        return body, billed

    def _items(self, request: Mapping[str, Any]) -> list[Item]:
        items: Any = items_of(request.get("input") or [])
        return self._sent_items.resolved([*self._sent_items.history(request), *items])

    def _parts(self, request: Mapping[str, Any]) -> list[Part]:
        counter = self._token_counter
        parts: list[Part] = [(tool, counter.json(tool)) for tool in request.get("tools") or []]
        instructions = request.get("instructions") or ""
        parts.append((instructions, counter.text(instructions)))
        return parts + [(item, counter.block(item)) for item in self._items(request)]

    def _output(self, request: Mapping[str, Any], reply: ScriptedReply) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = []
        status = "incomplete" if reply.stop == "max_tokens" else "completed"
        if reply.thinking is not None:
            output.append(self._reasoning(request, reply.thinking))
        if reply.text:
            part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
            part |= {"logprobs": []}
            if reply.stop == "refusal":
                part = {"type": "refusal", "refusal": reply.text}
            output.append(
                {
                    "id": self._ids.new("msg_", 48),
                    "type": "message",
                    "status": status,
                    "role": "assistant",
                    "content": [part],
                }
            )
        output += [
            {
                "id": self._ids.new("fc_", 48),
                "type": "function_call",
                "status": status,
                "call_id": call.id or self._ids.new("call_"),
                "name": call.name,
                "arguments": arguments_of(call),
            }
            for call in reply.calls
        ]
        return output

    def _reasoning(self, request: Mapping[str, Any], thinking: str) -> dict[str, Any]:
        item_id = self._ids.new("rs_", 48)
        wants_summary = (request.get("reasoning") or {}).get("summary")
        summary = [{"type": "summary_text", "text": thinking}] if wants_summary and thinking else []
        item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": summary}
        if "reasoning.encrypted_content" in (request.get("include") or ()):
            item["encrypted_content"] = self._sent_items.encrypted(item_id)
        return item

    def events(self, body: Mapping[str, Any], _request: Mapping[str, Any]) -> Iterator[bytes]:
        return events_of(body)

    def failure_events(self, error: RefusedError, body: Mapping[str, Any]) -> list[bytes]:
        """Return the events with which a running stream reports an error."""
        if error.code == "context_length_exceeded":
            return [error_event(error)]
        return list(failed_events(body, error))


def _parts_of(content: object) -> object:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content
