"""AnthropicModel: Claude through the official SDK, what it said kept as it came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate.cache.cost import Usage
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import CompiledPrompt
from rehydrate.runtime.models.model import Reply, Stop
from rehydrate.runtime.models.sdk import Gathered, SdkModel

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex

MAX_TOKENS = 8_192
_LONGEST_UNSTREAMED = 21_333
"""Tokens of output that take ten minutes at 128,000 an hour: what the SDK lets one wait for."""

_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_THINKING = ("thinking", "redacted_thinking")


class AnthropicModel(SdkModel):
    """A model of Anthropic's Messages API, or of a server that speaks it (``base_url``).

    ``client`` is an AsyncAnthropic, or its like for Bedrock or Vertex; without one it is made from
    ``api_key`` or the environment when first used. ``max_tokens`` is the longest answer.
    ``timeout_seconds`` and ``options`` go to ``messages.create`` as they are: ``thinking``,
    ``tool_choice``, ``temperature``, ``betas``. The SDK's retries are off.

    Thinking blocks and their signatures, server tools and blocks yet unknown come back in
    `Reply.entries` as they came. What is cut off in the midst of a call or a thought is left out,
    since it could not be sent again.

    >>> AnthropicModel("claude-opus-4-6", api_key="...", max_tokens=4_096)
    AnthropicModel('claude-opus-4-6')
    """

    _provider = "anthropic"
    _package = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        client: AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = MAX_TOKENS,
        timeout_seconds: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name; raises MissingPackageError without the SDK."""
        super().__init__(
            name,
            client=client,
            api_key=api_key,
            base_url=base_url,
            timeout_seconds=timeout_seconds,
            options={"max_tokens": max_tokens, **options},
        )

    def _client(self) -> Any:
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, max_retries=0)

    def _resource(self, client: Any) -> Any:
        return client.beta.messages if "betas" in self._options else client.messages

    @property
    def _must_stream(self) -> bool:
        return bool(self._options["max_tokens"] > _LONGEST_UNSTREAMED)

    def _gathered(self) -> Gathered:
        return AnthropicStream()

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        return isinstance(body.get("content"), list)

    def _read(self, body: Any, prompt: CompiledPrompt) -> Reply:
        del prompt
        reason = body.get("stop_reason") or ""
        stop = _STOPS.get(reason, "answer")
        blocks = _to_send_again(body["content"], stop)
        calls = tuple(filter(None, [ToolCall.read(each) for each in blocks if _is_call(each)]))
        return Reply(
            ({"role": "assistant", "content": blocks},) if blocks else (),
            "".join(map(_text, body["content"])),
            calls,
            Usage.billed(body.get("usage") or {}),
            "calls" if calls else stop,
            str(body.get("model") or self._name),
            str(body.get("id") or ""),
        )


class AnthropicStream:
    """The events of a message's stream, put together to the message."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def add(self, event: Mapping[str, Any]) -> str:
        """Take the next event; the piece of text in it, if there is one."""
        kind = event.get("type")
        if kind == "message_start":
            self._message = event["message"]
        elif kind == "content_block_start":
            self._blocks[event["index"]] = event["content_block"]
            return _text(event["content_block"])
        elif kind == "content_block_delta":
            index, delta = event["index"], event["delta"]
            if delta.get("type") == "input_json_delta":
                self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
            else:
                _extend(self._blocks[index], delta)
                return str(delta.get("text") or "")
        elif kind == "message_delta":
            self._message |= event["delta"]
            fresh = {key: value for key, value in (event.get("usage") or {}).items() if value}
            self._message["usage"] = {**(self._message.get("usage") or {}), **fresh}
        return ""

    def body(self) -> dict[str, Any] | None:
        """The message; None where it was not said to be over."""
        if self._message.get("stop_reason") is None:
            return None
        for index, written in self._inputs.items():
            if written:
                self._blocks[index]["input"] = _input(written)
        return {**self._message, "content": [self._blocks[each] for each in sorted(self._blocks)]}


def _to_send_again(blocks: Sequence[Any], stop: Stop) -> list[Any]:
    """What of an answer the API takes back: no empty text, no call that is half written or that
    was refused, and no thought at the end, which led nowhere."""
    kept = [each for each in blocks if each.get("type") != "text" or each.get("text")]
    if stop == "refusal":
        kept = [each for each in kept if each.get("type") == "text"]
    elif stop == "length" and kept and str(kept[-1].get("type")).endswith("tool_use"):
        kept.pop()
    while kept and stop != "pause" and kept[-1].get("type") in _THINKING:
        kept.pop()
    is_blank = all(each.get("type") == "text" and not _text(each).strip() for each in kept)
    return [] if is_blank else kept


def _extend(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """A block with what a delta adds: texts grow, a citation joins the others."""
    for key, value in delta.items():
        if key == "type":
            continue
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif isinstance(value, str) and isinstance(block.get(key), str):
            block[key] += value
        elif value is not None:
            block[key] = value


def _input(written: str) -> Any:
    """A call's input; where it is no JSON the API takes it back under this name only."""
    try:
        return json.loads(written)
    except ValueError:
        return {"INVALID_JSON": written}


def _is_call(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use"


def _text(block: Mapping[str, Any]) -> str:
    return str(block.get("text") or "") if block.get("type") == "text" else ""
