"""OpenAIChatModel for chat completions, OpenAIResponsesModel for the Responses API.

Servers that speak the same wire format differ from OpenAI in what they answer. A `Reply` always has
OpenAI's documented form.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rehydrate import formats
from rehydrate.agent.model import OnText, Reply, check_compiled_for
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import (
    EventStream,
    ResponseStream,
    malformed_as_provider_errors,
    reading_an_answer,
    unreadable_answer,
)
from rehydrate.cost.prices import Usage
from rehydrate.errors import RequestRefusedError
from rehydrate.prompt.entries import entry_tokens
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

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        del arguments
        return client.chat.completions

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        # The caller may pass stream_options=None, for a server that does not know the option.
        with_usage = {"stream_options": {"include_usage": True}, **arguments}
        return await super()._open_stream(resource, with_usage)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        reply = super()._read_reply(body, prompt)
        if body.get("usage"):
            return reply
        refusal = body["choices"][0]["message"].get("refusal")
        texts = [str(call.raw_arguments) for call in reply.calls]
        texts += [] if reply.text == refusal else [reply.text]
        output = sum(map(count_tokens, texts))
        return replace(reply, usage=Usage(uncached=prompt.tokens, output=output))


ENCRYPTED = "reasoning.encrypted_content"
_NOT_ENCRYPTED = "encrypted content is not supported"
"""The error (status 400) of a model that does not reason, when encrypted reasoning is requested."""
_COMPACTED = ("model", "input", "instructions", "timeout")
"""The arguments of a request that ``responses.compact`` takes too."""


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
        ProviderError if there is no summary.
        """
        check_compiled_for(self, prompt)
        arguments = self._arguments(prompt)
        given = {name: arguments[name] for name in _COMPACTED if name in arguments}

        async def compact(resource: Any, arguments: Mapping[str, Any]) -> Any:
            raw = await resource.with_raw_response.compact(**arguments)
            with reading_an_answer(self._provider):
                return raw.http_response.json()

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
