"""OpenAIChatModel for chat completions, OpenAIResponsesModel for the Responses API.

Servers that speak the same wire format differ from OpenAI: arguments are an object or an empty
string, calls have no id or all the same, the content is null, the usage is missing. A `Reply`
always has OpenAI's documented form.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate import formats
from rehydrate.agent.model import OnText, Reply, Stop, check_compiled_for
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import (
    EventStream,
    ResponseStream,
    error_from_body,
    malformed_as_provider_errors,
    unreadable_answer,
)
from rehydrate.cost.prices import Usage
from rehydrate.errors import RequestRefusedError
from rehydrate.formats._reading import state_blocks
from rehydrate.prompt.counting import entry_tokens
from rehydrate.prompt.ir import CompiledPrompt, ProviderSummary
from rehydrate.tokens import count_tokens


class OpenAIModel(SdkModel):
    """A model that is asked through an AsyncOpenAI client."""

    _package = _extra = "openai"

    def _make_client(self) -> Any:
        """Return a client. A server of your own may need no key, but the SDK insists on one."""
        from openai import AsyncOpenAI

        api_key, base_url = self._api_key, self._base_url
        if api_key is None and base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            api_key = "none"
        return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0)

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        raw = await resource.with_raw_response.create(**arguments, stream=True)
        return ResponseStream(self._provider, raw.http_response)


def is_json(text: str) -> bool:
    """Return whether a text is JSON; the arguments of a call that was cut off are none.

    >>> is_json('{"berth": 4}'), is_json('{"ber')
    (True, False)
    """
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


_STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "refusal"}
# The API returns these fields of a message and refuses them in a request.
_RESPONSE_ONLY = frozenset({"annotations", "provider_specific_fields", "function_call", "index"})


_NOT_APPENDED = frozenset({"role", "tool_calls"})


class ChatAccumulator:
    """Joins the chunks of a chat completion to the completion."""

    def __init__(self) -> None:
        """Start without chunks."""
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._call_by_index: dict[Any, dict[str, Any]] = {}
        self._finish_reason: str | None = None

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Add the next chunk; return the text in it. The last has the usage and no choice."""
        text = ""
        self._head |= {
            key: value for key, value in chunk.items() if value is not None and key != "choices"
        }
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            for key, value in delta.items():
                if value is not None and key not in _NOT_APPENDED:
                    self._message[key] = _appended(self._message.get(key), value)
            text += _text_of(delta.get("content"))
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return text

    def body(self) -> dict[str, Any] | None:
        """Return the completion; None if no chunk had a finish reason."""
        if self._finish_reason is None:
            return None
        message = {**self._message, "tool_calls": self._calls}
        return {
            **self._head,
            "choices": [{"message": message, "finish_reason": self._finish_reason}],
        }

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        call = self._call_for(delta)
        for key, value in delta.items():
            if value and key not in ("index", "function"):
                call[key] = value
        function = call["function"]
        for key, value in (delta.get("function") or {}).items():
            if key == "arguments" and value is not None and not isinstance(value, str):
                function[key] += json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            elif value is not None and not (key == "name" and value == function["name"]):
                function[key] = _appended(function.get(key), value)

    def _call_for(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call that a piece belongs to; begin a new one if none fits.

        That is the call with the same index, or the last call if the piece has none. A piece with a
        name and another id begins a new call: some servers number all of theirs 0.
        """
        index, call_id = delta.get("index"), delta.get("id")
        has_name = bool((delta.get("function") or {}).get("name"))
        call = self._call_by_index.get(index)
        is_new = has_name and bool(call_id) and call is not None and call_id != call.get("id")
        if call is None or is_new or (has_name and index is None):
            call = {"function": {"name": "", "arguments": ""}}
            self._calls.append(call)
            self._call_by_index[index] = call
        return call


class OpenAIChatModel(OpenAIModel):
    """A model of OpenAI's chat completions API, or of a server that speaks it (``base_url``).

    Such servers are vLLM, Ollama, llama.cpp, LiteLLM and OpenRouter. ``client`` is an AsyncOpenAI
    or AsyncAzureOpenAI; without one, a client is made from ``api_key`` or the environment on first
    use. ``timeout`` and ``options`` are passed to ``chat.completions.create``. The SDK's retries
    are off.

    Fields that a server adds to a message, such as ``reasoning_content``, are sent back unchanged.
    If it reports no usage, the tokens are counted.

    >>> OpenAIChatModel("qwen3", base_url="http://localhost:11434/v1", temperature=0)
    OpenAIChatModel('qwen3')
    """

    _provider = "openai_chat"
    _accumulator = ChatAccumulator

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        del arguments
        return client.chat.completions

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        # The caller may pass stream_options=None, for a server that does not know the option.
        with_usage = {"stream_options": {"include_usage": True}, **arguments}
        return await super()._open_stream(resource, with_usage)

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        choices: Any = body.get("choices")
        return bool(choices) and isinstance(choices[0].get("message"), Mapping)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        choice = body["choices"][0]
        if choice.get("error"):  # OpenRouter, if the provider that it asked failed
            raise error_from_body(self._provider, choice)
        message = choice["message"]
        stop = _STOPS.get(choice.get("finish_reason") or "", "answer")
        text = _text_of(message.get("content"))
        refusal = message.get("refusal")
        if refusal:
            stop = "refusal"
        calls = [] if stop == "refusal" else _calls(message.get("tool_calls") or (), stop)
        has_content = bool(text or refusal or calls)
        usage = None
        if not body.get("usage"):
            texts = [text, *[call["function"]["arguments"] for call in calls]]
            usage = Usage(uncached=prompt.tokens, output=sum(map(count_tokens, texts)))
        return self._make_reply(
            body,
            entries=[resendable_message(message, calls)] if has_content else [],
            text=text or refusal or "",
            calls=calls,
            stop="calls" if calls else stop,
            usage=usage,
        )


def _text_of(content: Any) -> str:
    """Return the text of a content: a string, or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join([text for text in texts if isinstance(text, str)])
    return content if isinstance(content, str) else ""


def _appended(before: Any, value: Any) -> Any:
    """Return a text or a list with the next piece at its end; any other value is replaced."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    return value


def resendable_message(received: Mapping[str, Any], calls: Sequence[Any]) -> dict[str, Any]:
    """Return the message in the form that the API accepts in a request.

    Nulls, an empty list of calls, and fields that only answers have are dropped. A server's own
    fields stay, also a summary of the provider's own, which LiteLLM wants back.
    """
    kept = {
        key: value
        for key, value in received.items()
        if value is not None and key not in _RESPONSE_ONLY and key != "tool_calls"
    }
    if blocks := state_blocks(received):
        kept["provider_specific_fields"] = {"compaction_blocks": blocks}
    if audio := kept.get("audio"):
        kept["audio"] = {"id": audio.get("id")}
    message = {**kept, "role": "assistant", "content": received.get("content")}
    if not message["content"] and not (calls or "audio" in kept or "refusal" in kept):
        message["content"] = ""
    return message | ({"tool_calls": list(calls)} if calls else {})


def _calls(received: Sequence[Mapping[str, Any]], stop: Stop) -> list[dict[str, Any]]:
    """Return the calls in OpenAI's form; drop one whose arguments were cut off."""
    calls: list[dict[str, Any]] = []
    ids: set[str] = set()
    for call in received:
        function = call.get("function")
        if not isinstance(function, Mapping) or not function.get("name"):
            continue  # some gateways stream empty calls between the others
        arguments = _arguments_json(function.get("arguments"))
        if stop == "length" and call is received[-1] and not is_json(arguments):
            continue
        received_id = call.get("id")
        is_unique = isinstance(received_id, str) and received_id and received_id not in ids
        call_id = received_id if is_unique else f"call_{uuid.uuid4().hex[:24]}"
        ids.add(str(call_id))
        kept = {key: value for key, value in call.items() if value is not None and key != "index"}
        function = {**function, "arguments": arguments}
        calls.append({**kept, "id": call_id, "type": "function", "function": function})
    return calls


def _arguments_json(arguments: Any) -> str:
    """Return the arguments as JSON; a server may send an object, or an empty text for none."""
    if isinstance(arguments, str):
        return arguments if arguments.strip() else "{}"
    return json.dumps(arguments or {}, ensure_ascii=False, separators=(",", ":"))


ENCRYPTED = "reasoning.encrypted_content"
_NOT_ENCRYPTED = "encrypted content is not supported"
"""The error (status 400) of a model that does not reason, when encrypted reasoning is requested."""
_COMPACTED = ("model", "input", "instructions", "timeout")
"""The arguments of a request that ``responses.compact`` takes too."""
_END_EVENTS = ("response.completed", "response.incomplete", "response.failed")


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
    _accumulator = ResponseAccumulator

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

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        return isinstance(body.get("output"), list)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        del prompt
        if body.get("status") in ("failed", "cancelled"):
            raise error_from_body(self._provider, {"message": f"the response is {body['status']}"})
        messages = [item for item in body["output"] if item.get("type") == "message"]
        parts = [part for item in messages for part in item.get("content") or ()]
        texts = [part["text"] for part in parts if part.get("text")]
        refusals = [part["refusal"] for part in parts if part.get("refusal")]
        stop: Stop = "length" if body.get("status") == "incomplete" else "answer"
        reason = (body.get("incomplete_details") or {}).get("reason")
        if refusals or (stop == "length" and reason == "content_filter"):
            stop = "refusal"
        items = resendable_items(body["output"], stop)
        return self._make_reply(
            body,
            entries=items,
            text="".join(texts or refusals),
            calls=filter(_is_call, items),
            stop=stop,
        )


def resendable_items(items: Sequence[Mapping[str, Any]], stop: Stop) -> list[dict[str, Any]]:
    """Return the output items that the API accepts as input.

    Dropped are fields that only answers have, calls that were cut off or refused, messages without
    content, and reasoning at the end, which no item follows.
    """
    kept: list[dict[str, Any]] = []
    for item in items:
        is_whole = item.get("status") != "incomplete" and is_json(item.get("arguments") or "")
        if _is_call(item) and (stop == "refusal" or (stop == "length" and not is_whole)):
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


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call"
