"""OpenAIResponsesModel: OpenAI's Responses API, without storage and with encrypted reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate import formats
from rehydrate.agent.models.model import OnText, Reply, Stop, check_compiled_for
from rehydrate.agent.models.openai_chat import OpenAIModel, is_json
from rehydrate.agent.models.sdk import StreamAccumulator
from rehydrate.agent.models.sdk_errors import (
    error_from_body,
    malformed_as_provider_errors,
    unreadable_answer,
)
from rehydrate.errors import RequestRefusedError
from rehydrate.prompt.counting import entry_tokens
from rehydrate.prompt.ir import CompiledPrompt, ProviderSummary

ENCRYPTED = "reasoning.encrypted_content"
_NOT_ENCRYPTED = "encrypted content is not supported"
"""The error (status 400) of a model that does not reason, when encrypted reasoning is requested."""
_COMPACTED = ("model", "input", "instructions", "timeout")
"""The arguments of a request that ``responses.compact`` takes too."""
_END_EVENTS = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponsesModel(OpenAIModel):
    """A model of OpenAI's Responses API, or of a server that speaks it (``base_url``).

    The provider stores nothing (``store=False``): the history is yours, and reasoning comes
    encrypted, to be sent back. A model that does not reason refuses to encrypt; then the request is
    sent again without that option, and so are all later ones. The arguments are those of
    OpenAIChatModel.

    >>> OpenAIResponsesModel("gpt-5.4", api_key="...", reasoning={"effort": "low"})
    OpenAIResponsesModel('gpt-5.4')
    """

    _provider = "openai_responses"

    def _with_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        include = list(dict.fromkeys([*options.get("include", ()), ENCRYPTED]))
        return {"store": False, **options, "include": include}

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """Return the reply to a prompt, streamed with ``on_text``.

        Raises ProviderError if there is no reply, also if it breaks off before its end.
        """
        include = self._options.get("include", [])
        try:
            return await super().reply(prompt, on_text=on_text)
        except RequestRefusedError as error:
            if ENCRYPTED not in include or _NOT_ENCRYPTED not in error.message.lower():
                raise
        rest = [each for each in include if each != ENCRYPTED]
        others = {key: value for key, value in self._options.items() if key != "include"}
        self._options = {**others, **({"include": rest} if rest else {})}
        return await super().reply(prompt, on_text=on_text)

    async def compact(self, prompt: CompiledPrompt) -> ProviderSummary:
        """Have the API compact the items of a prompt (``responses.compact``).

        What it returns is sent back as it is, in place of these items; it is encrypted. Raises
        ProviderError where there is no summary.
        """
        check_compiled_for(self, prompt)
        arguments = self._arguments(prompt)
        given = {name: arguments[name] for name in _COMPACTED if name in arguments}

        async def compact(resource: Any, arguments: Mapping[str, Any]) -> Any:
            return (await resource.with_raw_response.compact(**arguments)).http_response.json()

        body = await self._send(compact, given)
        with malformed_as_provider_errors(self._provider):
            self._check_body(body)
            items = [
                {key: value for key, value in item.items() if key != "created_by"}
                for item in body["output"]
            ]
            others = [item for item in items if item.get("type") != "compaction"]
            if len(others) == len(items):
                raise unreadable_answer(self._provider, "no compaction item in the output")
            tokens = sum(entry_tokens(formats.parse(others, self._provider), len(others)))
            written = (body.get("usage") or {}).get("output_tokens") or 0
            return ProviderSummary(tuple(items), "", tokens + written)

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        del arguments
        return client.responses

    def _accumulator(self) -> StreamAccumulator:
        return ResponseAccumulator()

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        return isinstance(body.get("output"), list)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        del prompt
        if body.get("status") in ("failed", "cancelled"):
            raise error_from_body(self._provider, {"message": f"the response is {body['status']}"})
        stop = _stop(body)
        texts, refusals = _texts_and_refusals(body["output"])
        if refusals:
            stop = "refusal"
        items = _resendable_items(body["output"], stop)
        return self._make_reply(
            body,
            entries=items,
            text="".join(texts or refusals),
            calls=filter(_is_call, items),
            stop=stop,
        )


class ResponseAccumulator:
    """Finds the response in the events of its stream: the last event has it."""

    def __init__(self) -> None:
        """Start without events."""
        self._items: list[Any] = []
        self._response: dict[str, Any] | None = None

    def add(self, event: Mapping[str, Any]) -> str:
        """Add the next event; return the piece of text in it, or ""."""
        kind = event.get("type")
        if kind == "response.output_text.delta":
            return str(event["delta"])
        if kind == "response.output_item.done":
            self._items.append(event["item"])
        elif kind == "error":
            self._response = {"error": event.get("error") or event}
        elif kind in _END_EVENTS:
            self._response = event["response"]
        return ""

    def body(self) -> dict[str, Any] | None:
        """Return the response; None if the stream ended before it."""
        response = self._response
        if response is not None and not response.get("output"):
            return {**response, "output": self._items}  # some servers send items only as events
        return response


def _stop(body: Mapping[str, Any]) -> Stop:
    if body.get("status") != "incomplete":
        return "answer"
    details = body.get("incomplete_details") or {}
    return "refusal" if details.get("reason") == "content_filter" else "length"


def _texts_and_refusals(items: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    texts, refusals = [], []
    for item in items:
        if item.get("type") == "message":
            for part in item.get("content") or ():
                texts += [part["text"]] if part.get("text") else []
                refusals += [part["refusal"]] if part.get("refusal") else []
    return texts, refusals


def _resendable_items(items: Sequence[Mapping[str, Any]], stop: Stop) -> list[dict[str, Any]]:
    """Return the output items that the API accepts as input.

    Dropped are fields that only answers have, calls that were cut off or refused, messages without
    content, and reasoning at the end, which no item follows.
    """
    kept: list[dict[str, Any]] = []
    for item in items:
        if _is_call(item) and (stop == "refusal" or _is_cut_off(item, stop)):
            continue
        if item.get("type") == "message" and not item.get("content"):
            continue
        resendable = {
            key: value for key, value in item.items() if value is not None and key != "created_by"
        }
        if _is_call(resendable) and not resendable.get("arguments"):
            resendable["arguments"] = "{}"
        kept.append(resendable)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return kept


def _is_cut_off(call: Mapping[str, Any], stop: Stop) -> bool:
    if stop != "length":
        return False
    return call.get("status") == "incomplete" or not is_json(call.get("arguments") or "")


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call"
