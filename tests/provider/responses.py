"""OpenAI's Responses: what a request is answered with, and its bill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.provider.billed import Billed
from tests.provider.chat import arguments_of, check_key
from tests.provider.ids import Ids
from tests.provider.openai_cache import Part, PrefixCache
from tests.provider.openai_words import check_openai
from tests.provider.refused import Refused
from tests.provider.responses_items import GivenItems, Item
from tests.provider.responses_rules import check_rules
from tests.provider.responses_shape import items_of, request_shape
from tests.provider.responses_wire import error_event, events_of, failed_events, response_of
from tests.provider.says import Says
from tests.provider.settings import Settings
from tests.provider.weights import Weights


class Responses:
    """Checks a request, replies to it and bills it."""

    def __init__(self, settings: Settings, weights: Weights, ids: Ids, cache: PrefixCache) -> None:
        self._settings = settings
        self._weights = weights
        self._ids = ids
        self._cache = cache
        self._shape = request_shape()
        self._given = GivenItems(settings.seal)

    def check_headers(self, headers: Mapping[str, str]) -> None:
        check_key(headers)

    def check(self, request: Mapping[str, Any]) -> int:
        """The tokens of the prompt. Raises Refused where there is anything wrong with it."""
        check_openai(self._shape, request)
        items = self._items(request)
        check_rules(request, items)
        self._given.check(items, checks_seals=self._settings.checks_seals)
        tokens = sum(tokens for _, tokens in self._parts(request))
        if tokens > self._settings.window_tokens:
            raise self.overflow(tokens)
        return tokens

    def overflow(self, _tokens: int) -> Refused:
        words = "Your input exceeds the context window of this model. Please adjust your input and"
        code = "context_length_exceeded"
        return Refused(f"{words} try again.", param="input", code=code, is_overflow=True)

    def reply(self, request: Mapping[str, Any], says: Says) -> tuple[dict[str, Any], Billed]:
        billed = self._cache.bill(request["model"], self._parts(request))
        output = self._output(request, says)
        reasoning = self._weights.text(says.thinking or "")
        spoken = sum(self._weights.block(item) for item in output if item["type"] != "reasoning")
        billed = billed._replace(output=max(1, spoken + reasoning))
        response_id = self._ids.new("resp_", 48)
        self._given.link(output)
        if request.get("store") is not False:
            self._given.remember(response_id, self._items(request), output)
        is_cut = says.stop == "max_tokens"
        body = response_of(request, response_id, output, billed, reasoning, is_cut=is_cut)
        return body, billed

    def _items(self, request: Mapping[str, Any]) -> list[Item]:
        items: Any = items_of(request.get("input") or [])
        return self._given.resolved([*self._given.history(request), *items])

    def _parts(self, request: Mapping[str, Any]) -> list[Part]:
        weights = self._weights
        parts: list[Part] = [(tool, weights.json(tool)) for tool in request.get("tools") or []]
        instructions = request.get("instructions") or ""
        parts.append((instructions, weights.text(instructions)))
        return parts + [(item, weights.block(item)) for item in self._items(request)]

    def _output(self, request: Mapping[str, Any], says: Says) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = []
        status = "incomplete" if says.stop == "max_tokens" else "completed"
        if says.thinking is not None:
            output.append(self._reasoning(request, says.thinking))
        if says.text:
            part: dict[str, Any] = {"type": "output_text", "text": says.text, "annotations": []}
            part |= {"logprobs": []}
            if says.stop == "refusal":
                part = {"type": "refusal", "refusal": says.text}
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
            for call in says.calls
        ]
        return output

    def _reasoning(self, request: Mapping[str, Any], thought: str) -> dict[str, Any]:
        item_id = self._ids.new("rs_", 48)
        wants_summary = (request.get("reasoning") or {}).get("summary")
        summary = [{"type": "summary_text", "text": thought}] if wants_summary and thought else []
        item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": summary}
        if "reasoning.encrypted_content" in (request.get("include") or ()):
            item["encrypted_content"] = self._given.seal(item_id)
        return item

    def events(self, body: Mapping[str, Any], _request: Mapping[str, Any]) -> Iterator[bytes]:
        return events_of(body)

    def failure_events(self, refused: Refused, body: Mapping[str, Any]) -> list[bytes]:
        """How a stream that has begun says that it fails."""
        if refused.code == "context_length_exceeded":
            return [error_event(refused)]
        return list(failed_events(body, refused))
