"""OpenAIResponsesModel: the Responses API; nothing is stored, reasoning travels encrypted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate.agent.models.failures import answered
from rehydrate.agent.models.model import OnText, Reply, Stop
from rehydrate.agent.models.openai_chat import OpenAIModel
from rehydrate.agent.models.sdk import EventStream, Gathered, ResponseEvents
from rehydrate.cost.prices import Usage
from rehydrate.errors import RequestRefusedError
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.compiled import CompiledPrompt

if TYPE_CHECKING:
    from openai import AsyncOpenAI


ENCRYPTED = "reasoning.encrypted_content"
_NOT_ENCRYPTED = "encrypted content is not supported"
"""What a model that does not reason answers to a request for encrypted reasoning, with a 400."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponsesModel(OpenAIModel):
    """A model of OpenAI's Responses API, or of a server that speaks it (``base_url``).

    The history is the client's: nothing is stored (``store=False``), and reasoning comes encrypted,
    to be sent back. Models that do not reason refuse to be asked for that; they are asked again
    without, once. Otherwise as OpenAIChatModel.

    >>> OpenAIResponsesModel("gpt-5.4", api_key="...", reasoning={"effort": "low"})
    OpenAIResponsesModel('gpt-5.4')
    """

    _provider = "openai_responses"

    def __init__(
        self,
        name: str,
        *,
        client: AsyncOpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name; raises MissingPackageError without the SDK."""
        include = list(dict.fromkeys([*options.get("include", ()), ENCRYPTED]))
        super().__init__(
            name,
            client=client,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            options={"store": False, **options, "include": include},
        )

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """The answer to a prompt, streamed with ``on_text``.

        Raises ProviderError where there is none; an answer that breaks off is none.
        """
        asked_for = self._options.get("include", [])
        try:
            return await super().reply(prompt, on_text=on_text)
        except RequestRefusedError as error:
            if ENCRYPTED not in asked_for or _NOT_ENCRYPTED not in error.message.lower():
                raise
        rest = [each for each in asked_for if each != ENCRYPTED]
        others = {key: value for key, value in self._options.items() if key != "include"}
        self._options = {**others, **({"include": rest} if rest else {})}
        return await super().reply(prompt, on_text=on_text)

    def _resource(self, client: Any) -> Any:
        return client.responses

    async def _opened(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        raw = await resource.with_raw_response.create(**arguments)
        return ResponseEvents(self._provider, raw.http_response)

    def _gathered(self) -> Gathered:
        return ResponsesStream()

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        return isinstance(body.get("output"), list)

    def _read(self, body: Any, prompt: CompiledPrompt) -> Reply:
        del prompt
        if body.get("status") in ("failed", "cancelled"):
            raise answered(self._provider, {"message": f"the response is {body['status']}"})
        stop = _stop(body)
        texts, refusals = _said(body["output"])
        if refusals:
            stop = "refusal"
        items = _to_send_again(body["output"], stop)
        calls = tuple(filter(None, [ToolCall.read(each) for each in items if _is_call(each)]))
        return Reply(
            tuple(items),
            "".join(texts or refusals),
            calls,
            Usage.billed(body.get("usage") or {}),
            "calls" if calls else stop,
            str(body.get("model") or self._name),
            str(body.get("id") or ""),
        )


class ResponsesStream:
    """The events of a response's stream; its last one has the response."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._items: list[Any] = []
        self._response: dict[str, Any] | None = None

    def add(self, event: Mapping[str, Any]) -> str:
        """Take the next event; the piece of text in it, if there is one."""
        kind = event.get("type")
        if kind == "response.output_text.delta":
            return str(event["delta"])
        if kind == "response.output_item.done":
            self._items.append(event["item"])
        elif kind == "error":
            self._response = {"error": event.get("error") or event}
        elif kind in _ENDS:
            self._response = event["response"]
        return ""

    def body(self) -> dict[str, Any] | None:
        """The response; None where it did not come to its end."""
        response = self._response
        if response is not None and not response.get("output"):
            return {**response, "output": self._items}  # some servers list it in the stream alone
        return response


def _stop(body: Mapping[str, Any]) -> Stop:
    if body.get("status") != "incomplete":
        return "answer"
    details = body.get("incomplete_details") or {}
    return "refusal" if details.get("reason") == "content_filter" else "length"


def _said(items: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Texts and refusals."""
    texts, refusals = [], []
    for item in items:
        if item.get("type") == "message":
            for part in item.get("content") or ():
                texts += [part["text"]] if part.get("text") else []
                refusals += [part["refusal"]] if part.get("refusal") else []
    return texts, refusals


def _to_send_again(items: Sequence[Mapping[str, Any]], stop: Stop) -> list[dict[str, Any]]:
    """The output as input items: no fields that only answers have, no call that is half written or
    that was refused, no message that says nothing, and no reasoning at the end, which led nowhere.
    """
    kept: list[dict[str, Any]] = []
    for item in items:
        if _is_call(item) and (stop == "refusal" or not _is_whole(item, stop)):
            continue
        if item.get("type") == "message" and not item.get("content"):
            continue
        sent = {
            key: value for key, value in item.items() if value is not None and key != "created_by"
        }
        if _is_call(sent) and not sent.get("arguments"):
            sent["arguments"] = "{}"
        kept.append(sent)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return kept


def _is_whole(call: Mapping[str, Any], stop: Stop) -> bool:
    if stop != "length":
        return True
    try:
        json.loads(call.get("arguments") or "")
    except ValueError:
        return False
    return call.get("status") != "incomplete"


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call"
