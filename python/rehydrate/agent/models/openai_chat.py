"""OpenAIModel: what models of both of OpenAI's APIs, and of servers that speak them, share.

ChatStream: the chunks of a chat completion, put together to the completion.

OpenAIChatModel: chat completions, OpenAI's and those of servers that speak its wire format.

Such servers differ where it hurts: arguments as an object or as an empty string, calls without an
id or with the same, a content of null, no usage. What comes out of here is what OpenAI documents.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate.agent.models.failures import answered
from rehydrate.agent.models.model import Reply, Stop
from rehydrate.agent.models.sdk import EventStream, Gathered, ResponseEvents, SdkModel
from rehydrate.cost.prices import Usage
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.compiled import CompiledPrompt
from rehydrate.tokens import count_tokens

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIModel(SdkModel):
    """A model that is asked through an AsyncOpenAI."""

    _package = "openai"

    def _client(self) -> Any:
        """A server of one's own often asks for no key, where the SDK insists on one."""
        from openai import AsyncOpenAI

        api_key, base_url = self._api_key, self._base_url
        if api_key is None and base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            api_key = "none"
        return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0)


_NOT_JOINED = frozenset({"role", "tool_calls"})


class ChatStream:
    """Takes chunk after chunk, OpenAI's or those of servers that speak its wire format."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._at: dict[Any, dict[str, Any]] = {}
        self._reason: str | None = None

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take the next chunk; the piece of text in it. The last one has the usage, no choice."""
        text = ""
        self._head |= {
            key: value for key, value in chunk.items() if value is not None and key != "choices"
        }
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            for key, value in delta.items():
                if value is not None and key not in _NOT_JOINED:
                    self._message[key] = _joined(self._message.get(key), value)
            text += text_of(delta.get("content"))
            self._reason = choice.get("finish_reason") or self._reason
        return text

    def body(self) -> dict[str, Any] | None:
        """The completion; None where it was not said to be over."""
        if self._reason is None:
            return None
        message = {**self._message, "tool_calls": self._calls}
        return {**self._head, "choices": [{"message": message, "finish_reason": self._reason}]}

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        call = self._call_of(delta)
        for key, value in delta.items():
            if value and key not in ("index", "function"):
                call[key] = value
        function = call["function"]
        for key, value in (delta.get("function") or {}).items():
            if key == "arguments" and value is not None and not isinstance(value, str):
                function[key] += json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            elif value is not None and not (key == "name" and value == function["name"]):
                function[key] = _joined(function.get(key), value)

    def _call_of(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """The call that this is a piece of: that of its index, or the last one that had none. But
        what brings another id and a name is another call: some servers number all of theirs 0."""
        index, call_id = delta.get("index"), delta.get("id")
        has_name = bool((delta.get("function") or {}).get("name"))
        call = self._at.get(index)
        is_other = has_name and bool(call_id) and call is not None and call_id != call.get("id")
        if call is None or is_other or (has_name and index is None):
            call = {"function": {"name": "", "arguments": ""}}
            self._calls.append(call)
            self._at[index] = call
        return call


def text_of(content: Any) -> str:
    """The text of a content: a string, or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join([text for text in texts if isinstance(text, str)])
    return content if isinstance(content, str) else ""


def _joined(before: Any, value: Any) -> Any:
    """Texts and lists grow piece by piece, anything else comes whole."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    return value


_STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "refusal"}
# Of an answer, and refused in a request.
_RESPONSE_ONLY = frozenset({"annotations", "provider_specific_fields", "function_call", "index"})


class OpenAIChatModel(OpenAIModel):
    """A model of OpenAI's chat completions, or of a server that speaks them (``base_url``): vLLM,
    Ollama, llama.cpp, LiteLLM, OpenRouter.

    ``client`` is an AsyncOpenAI or AsyncAzureOpenAI; without one it is made from ``api_key`` or the
    environment when first used. ``timeout`` and ``options`` go to
    ``chat.completions.create`` as they are. The SDK's retries are off.

    What a server adds to a message, ``reasoning_content`` above all, goes back to it as it came.
    Where it says no usage, the tokens are counted.

    >>> OpenAIChatModel("qwen3", base_url="http://localhost:11434/v1", temperature=0)
    OpenAIChatModel('qwen3')
    """

    _provider = "openai_chat"

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
        super().__init__(
            name,
            client=client,
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            options=options,
        )

    def _resource(self, client: Any) -> Any:
        return client.chat.completions

    async def _opened(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        # None of the caller's own is for a server that takes none.
        usage = {"stream_options": {"include_usage": True}}
        raw = await resource.with_raw_response.create(**usage | dict(arguments))
        return ResponseEvents(self._provider, raw.http_response)

    def _gathered(self) -> Gathered:
        return ChatStream()

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        choices: Any = body.get("choices")
        return bool(choices) and isinstance(choices[0].get("message"), Mapping)

    def _read(self, body: Any, prompt: CompiledPrompt) -> Reply:
        choice = body["choices"][0]
        if choice.get("error"):  # OpenRouter, where whatever is behind it failed
            raise answered(self._provider, choice)
        said = choice["message"]
        stop = _STOPS.get(choice.get("finish_reason") or "", "answer")
        text = text_of(said.get("content"))
        refusal = said.get("refusal")
        if refusal:
            stop = "refusal"
        calls = [] if stop == "refusal" else _calls(said.get("tool_calls") or (), stop)
        message = _message(said, calls)
        has_content = bool(text or refusal or calls)
        usage = body.get("usage")
        return Reply(
            (message,) if has_content else (),
            text or refusal or "",
            tuple(filter(None, map(ToolCall.read, calls))),
            Usage.billed(usage) if usage else _counted(prompt, text, calls),
            "calls" if calls else stop,
            str(body.get("model") or self._name),
            str(body.get("id") or ""),
        )


def _message(said: Mapping[str, Any], calls: Sequence[Any]) -> dict[str, Any]:
    """The message as the API takes it back: without nulls, without empty lists of calls, without
    what only answers have; what is a server's own stays."""
    own = {
        key: value
        for key, value in said.items()
        if value is not None and key not in _RESPONSE_ONLY and key != "tool_calls"
    }
    if audio := own.get("audio"):
        own["audio"] = {"id": audio.get("id")}
    message = {**own, "role": "assistant", "content": said.get("content")}
    if not message["content"] and not (calls or "audio" in own or "refusal" in own):
        message["content"] = ""
    return message | ({"tool_calls": list(calls)} if calls else {})


def _calls(given: Sequence[Mapping[str, Any]], stop: Stop) -> list[dict[str, Any]]:
    """The calls as OpenAI has them; what was cut off in the midst of its arguments is none."""
    calls: list[dict[str, Any]] = []
    ids: set[str] = set()
    for each in given:
        function = each.get("function")
        if not isinstance(function, Mapping) or not function.get("name"):
            continue  # some gateways stream empty ones between the others
        arguments = _arguments(function.get("arguments"))
        if stop == "length" and each is given[-1] and not _is_json(arguments):
            continue
        given_id = each.get("id")
        is_new = isinstance(given_id, str) and given_id and given_id not in ids
        call_id = given_id if is_new else f"call_{uuid.uuid4().hex[:24]}"
        ids.add(str(call_id))
        own = {key: value for key, value in each.items() if value is not None and key != "index"}
        function = {**function, "arguments": arguments}
        calls.append({**own, "id": call_id, "type": "function", "function": function})
    return calls


def _arguments(given: Any) -> str:
    """The JSON of an object, whichever way a server gives it."""
    if isinstance(given, str):
        return given if given.strip() else "{}"
    return json.dumps(given or {}, ensure_ascii=False, separators=(",", ":"))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _counted(prompt: CompiledPrompt, text: str, calls: Sequence[Mapping[str, Any]]) -> Usage:
    written = [call["function"]["arguments"] for call in calls]
    return Usage(uncached=prompt.tokens, output=sum(map(count_tokens, [text, *written])))
