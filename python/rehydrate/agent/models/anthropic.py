"""AnthropicModel: Claude through the official SDK, what it said kept as it came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rehydrate.agent.models.model import Reply, Stop
from rehydrate.agent.models.sdk import EventStream, Gathered, SdkEvents, SdkModel
from rehydrate.cost.prices import Usage
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.compiled import CompiledPrompt

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex


MAX_TOKENS = 8_192
_LONGEST_UNSTREAMED = 8_192
"""Tokens of output that the SDK waits for without a stream, whatever the model."""

_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_THINKING = ("thinking", "redacted_thinking")
_CONTROLS = "thinking-binding-controls-2026-08-01"
"""The beta in which the API takes ``block_binding`` and reports what it dropped."""

PrefixMismatch = Literal["error", "drop_block"]


class AnthropicModel(SdkModel):
    """A model of Anthropic's Messages API, or of a server that speaks it (``base_url``).

    ``client`` is an AsyncAnthropic, or its like for Bedrock or Vertex; without one it is made from
    ``api_key`` or the environment when first used. ``max_tokens`` is the longest answer.
    ``timeout`` and ``options`` go to ``messages.create`` as they are: ``thinking``,
    ``tool_choice``, ``temperature``, ``betas``. The SDK's retries are off.

    ``prefix_mismatch`` says what becomes of thinking whose prefix has changed, with newer models:
    "error" refuses the request, "drop_block" has the API leave the block out. It is asked for with
    adaptive thinking, unless ``thinking`` says otherwise, and in a beta: then every `Reply` says
    in `input_transformations` what was dropped. None leaves it to the API, and it says nothing. A
    `Context` sends no such thinking; where one of your own might, store the choice with it.

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
        timeout: float | None = None,
        prefix_mismatch: PrefixMismatch | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name; raises MissingPackageError without the SDK."""
        if prefix_mismatch is not None:
            options = _with_binding(prefix_mismatch, options)
        super().__init__(
            name,
            client=client,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
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

    async def _opened(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        return SdkEvents(self._provider, await resource.create(**arguments))

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
            tuple(body.get("input_transformations") or ()),
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
            if event.get("input_transformations") is not None:
                self._message["input_transformations"] = event["input_transformations"]
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


def _with_binding(prefix_mismatch: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and what asks for this behaviour."""
    if prefix_mismatch not in ("error", "drop_block"):
        raise InvalidArgumentError(
            f"prefix_mismatch is {prefix_mismatch!r}; choose 'error' or 'drop_block', or None"
        )
    thinking = options.get("thinking") or {"type": "adaptive"}
    if thinking.get("type") not in ("adaptive", "enabled"):
        raise InvalidArgumentError(
            f"prefix_mismatch goes with adaptive thinking, and thinking is {thinking!r}; leave one "
            "of them out"
        )
    binding = {**(thinking.get("block_binding") or {}), "prefix_mismatch_behavior": prefix_mismatch}
    betas = [*(options.get("betas") or ())]
    return {
        **options,
        "thinking": {**thinking, "block_binding": binding},
        "betas": betas if _CONTROLS in betas else [*betas, _CONTROLS],
    }


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
