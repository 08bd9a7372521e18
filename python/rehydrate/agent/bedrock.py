"""BedrockModel: a model of Amazon Bedrock, through boto3's Converse, which is asked in threads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._text import unicode_inside
from rehydrate.agent.model import Reply, Stop
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import (
    EventStream,
    malformed_as_provider_errors,
    unreadable_answer,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.ir import CompiledPrompt

_TIMEOUT_SECONDS = 600.0
_MAX_CONNECTIONS = 64
_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
}
_MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})
_UNSENDABLE = frozenset({"image", "video", "audio", "document", "SDK_UNKNOWN_MEMBER"})
"""Blocks of an answer that Converse does not take from the assistant, or boto3 does not know."""


class ConverseAccumulator:
    """Joins the events of a stream to the answer."""

    def __init__(self) -> None:
        """Start without events."""
        self._head: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._partial_json: dict[int, str] = {}
        """The input of each call so far, by the index of its block."""

    def add(self, event: Mapping[str, Any]) -> str:
        """Add the next event; return the piece of text in it, or ""."""
        if started := event.get("contentBlockStart"):
            block = {key: dict(value) for key, value in started["start"].items()}
            self._blocks[started["contentBlockIndex"]] = block
        elif changed := event.get("contentBlockDelta"):
            index, delta = changed["contentBlockIndex"], changed["delta"]
            if "toolUse" in delta:
                written = delta["toolUse"].get("input") or ""
                self._partial_json[index] = self._partial_json.get(index, "") + written
            else:
                _append_delta(self._blocks.setdefault(index, {}), delta)
            return str(delta.get("text") or "")
        elif stopped := event.get("messageStop"):
            self._head |= stopped
        elif metadata := event.get("metadata"):
            self._head |= metadata
        return ""

    def body(self) -> dict[str, Any] | None:
        """Return the answer; None if no event had a stop reason."""
        if self._head.get("stopReason") is None:
            return None
        blocks = [self._whole(index) for index in sorted(self._blocks)]
        return {**self._head, "output": {"message": {"role": "assistant", "content": blocks}}}

    def _whole(self, index: int) -> dict[str, Any]:
        block = self._blocks[index]
        if citations := block.pop("citations", None):
            content = [{"text": block.pop("text", "")}]
            return {**block, "citationsContent": {"content": content, "citations": citations}}
        if "toolUse" in block:
            text = self._partial_json.get(index) or "{}"
            try:
                written = json.loads(text)
            except ValueError:
                written = {"INVALID_JSON": text}
            return {"toolUse": {**block["toolUse"], "input": written}}
        return block


class BedrockModel(SdkModel):
    """A model of Amazon Bedrock's Converse API, by its id, its profile or its ARN.

    ``client`` is boto3's client of ``bedrock-runtime``; make it with
    ``Config(retries={"total_max_attempts": 1})``, since the agent loop retries. Without one, a
    client is made on first use, from AWS's environment, profiles and roles, for ``region`` and
    ``base_url``; AWS_BEARER_TOKEN_BEDROCK holds an API key. ``timeout`` is the seconds that such a
    client waits while the server is silent. ``options`` are passed to ``converse``:
    ``inferenceConfig``, ``additionalModelRequestFields``, ``guardrailConfig``, ``toolConfig`` with
    a ``toolChoice``.

    boto3 is sync, so each request has a thread. One that is cancelled gives its thread back when
    the server sends something, or after the timeout. Reasoning with its signatures is in
    `Reply.entries` unchanged; redacted reasoning is bytes, as boto3 has it.

    >>> BedrockModel("us.anthropic.claude-opus-4-6-v1", inferenceConfig={"maxTokens": 4_096})
    BedrockModel('us.anthropic.claude-opus-4-6-v1')
    """

    _provider = "bedrock"
    _package = "boto3"
    _extra = "bedrock"
    _accumulator = ConverseAccumulator

    def __init__(
        self,
        name: str,
        *,
        client: Any = None,
        region: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's id; raises MissingPackageError without the SDK."""
        if client is not None and not (region is None and timeout is None):
            raise InvalidArgumentError(
                "a client was passed, which has its own region and timeout (Config(read_timeout=))"
            )
        self._region = region
        super().__init__(name, client=client, base_url=base_url, timeout=timeout, **options)

    def _make_client(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(
            read_timeout=_TIMEOUT_SECONDS if self._timeout is None else self._timeout,
            retries={"total_max_attempts": 1},
            max_pool_connections=_MAX_CONNECTIONS,
        )
        session = boto3.session.Session(region_name=self._region)
        return _AsyncClient(
            session.client("bedrock-runtime", endpoint_url=self._base_url, config=config)
        )

    def _own_client(self, client: Any) -> Any:
        if not hasattr(client, "converse_stream"):
            kind = type(client).__name__
            raise InvalidArgumentError(
                f"client is of type {kind}; pass boto3.client('bedrock-runtime')"
            )
        return _AsyncClient(client)

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        del arguments
        return client

    def _arguments(self, prompt: CompiledPrompt) -> dict[str, Any]:
        arguments = {"modelId": self._name, **self._options, **prompt.request}
        if "toolConfig" in prompt.request:
            chosen = self._options.get("toolConfig") or {}
            arguments["toolConfig"] = {**chosen, **prompt.request["toolConfig"]}
        # boto3 would send half a surrogate pair as an escape, which the service refuses.
        sendable: dict[str, Any] = unicode_inside(arguments)
        return sendable

    async def _whole(self, resource: Any, arguments: Mapping[str, Any]) -> Any:
        with malformed_as_provider_errors(self._provider):  # boto3 reads a body of no object
            return await resource.ask("converse", arguments)

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        answer = await resource.ask("converse_stream", arguments)
        stream = answer["stream"]
        events = iter(stream)
        # Both in a thread: where another one still reads, closing waits for that.
        return EventStream(
            self._provider,
            lambda: hand_over(partial(next, events, None), None),
            lambda: hand_over(stream.close, None),
        )

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        return isinstance((body.get("output") or {}).get("message"), Mapping)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        del prompt
        reason = body.get("stopReason") or ""
        stop = _STOPS.get(reason, "answer")
        received = body["output"]["message"]["content"]
        blocks = resendable_blocks(received, stop)
        calls = list(filter(_is_call, blocks))
        if reason in _MALFORMED and not calls:
            raise unreadable_answer(self._provider, reason)
        if not all(_is_named(block["toolUse"]) for block in calls):
            raise unreadable_answer(self._provider, "a call without an id or a name")
        request_id = (body.get("ResponseMetadata") or {}).get("RequestId")
        return self._make_reply(
            {"id": request_id, "usage": body.get("usage")},
            entries=[{"role": "assistant", "content": blocks}] if blocks else [],
            text="".join(map(_text, received)),
            calls=calls,
            stop=stop,
        )


class _AsyncClient:
    """A client of boto3, whose methods run in threads."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def ask(self, method: str, arguments: Mapping[str, Any]) -> Any:
        return await hand_over(partial(getattr(self._client, method), **arguments), None)

    async def close(self) -> None:
        self._client.close()


def resendable_blocks(blocks: Sequence[Mapping[str, Any]], stop: Stop) -> list[Any]:
    """Return the blocks of an answer that Converse accepts in a request.

    Dropped are blank texts, media, calls that were cut off or refused, and reasoning at the end,
    which no block follows.
    """
    kept = [
        block
        for block in blocks
        if block
        and not block.keys() & _UNSENDABLE
        and ("text" not in block or _text(block).strip())
    ]
    if stop == "refusal":
        kept = [block for block in kept if "text" in block]
    elif stop == "length" and kept and "toolUse" in kept[-1]:
        kept.pop()
    while kept and "reasoningContent" in kept[-1]:
        kept.pop()
    return kept


def _append_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Append a delta to a block: texts grow, citations and results join their list."""
    for key, value in delta.items():
        if key == "text":
            block["text"] = block.get("text", "") + value
        elif key == "citation":
            block.setdefault("citations", []).append(value)
        elif key == "toolResult":
            block["toolResult"].setdefault("content", []).extend(value)
        elif key == "reasoningContent" and "redactedContent" in value:
            before = block.get(key, {}).get("redactedContent", b"")
            block[key] = {"redactedContent": before + value["redactedContent"]}
        elif key == "reasoningContent":
            reasoning = block.setdefault(key, {}).setdefault("reasoningText", {"text": ""})
            for name, piece in value.items():
                reasoning[name] = reasoning.get(name, "") + piece
        else:
            block[key] = value


def _is_call(block: Mapping[str, Any]) -> bool:
    """Whether the block is a call of a tool that the service does not run itself."""
    return "toolUse" in block and "type" not in block["toolUse"]


def _is_named(call: Mapping[str, Any]) -> bool:
    return bool(call.get("toolUseId") and call.get("name"))


def _text(block: Mapping[str, Any]) -> str:
    cited = (block.get("citationsContent") or {}).get("content") or ()
    return "".join([str(each.get("text") or "") for each in (block, *cited)])
