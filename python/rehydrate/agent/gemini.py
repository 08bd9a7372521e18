"""GeminiModel: Gemini through google-genai; its reply goes into the history with its signatures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rehydrate._native import unicode_inside
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import (
    EventStream,
    unreadable_answer,
)
from rehydrate.errors import InvalidArgumentError, RequestRefusedError
from rehydrate.prompt.ir import CompiledPrompt

_TIMEOUT_SECONDS = 600.0


class GeminiModel(SdkModel):
    """A model of the Gemini API, or of a server that speaks it (``base_url``).

    ``client`` is a ``google.genai.Client``, for Vertex AI for instance; without one, a client is
    made from ``api_key`` or the environment on first use. ``timeout`` is in seconds. ``options``
    are fields of ``GenerateContentConfig``: ``temperature``, ``max_output_tokens``,
    ``thinking_config``, ``tool_config``, ``safety_settings``. The SDK's retries and its calling of
    functions are off.

    Parts with their thought signatures, code and its results are in `Reply.entries` unchanged. A
    call without an id gets one. Fields of a part that this version of google-genai does not know
    are left out: it would refuse to send them.

    >>> GeminiModel("gemini-3-pro", api_key="...", thinking_config={"thinking_level": "low"})
    GeminiModel('gemini-3-pro')
    """

    _provider = "gemini"
    _package = "google.genai"
    _extra = "gemini"

    def _make_client(self) -> Any:
        """Return a client on httpx, which serves trio too and tries nothing again."""
        import httpx
        from google import genai

        api_key, base_url = self._api_key, self._base_url
        has_key = os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY")
        if api_key is None and base_url is not None and not has_key:
            api_key = "none"
        http = httpx.AsyncClient()
        options: Any = {"httpx_async_client": http, "timeout": round(_TIMEOUT_SECONDS * 1_000)}
        if base_url is not None:
            options["base_url"] = base_url
        return _AsyncClient(genai.Client(api_key=api_key, http_options=options), http)

    def _own_client(self, client: Any) -> Any:
        if not hasattr(client, "aio"):
            kind = type(client).__name__
            raise InvalidArgumentError(f"client is of type {kind}; pass a google.genai.Client")
        return _AsyncClient(client)

    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        del arguments
        return client.models

    def _arguments(self, prompt: CompiledPrompt) -> dict[str, Any]:
        request = dict(prompt.request)
        contents = request.pop("contents")
        http_options = {
            "retry_options": {"attempts": 1},
            **dict(self._options.get("http_options") or {}),
        }
        if self._timeout is not None:
            http_options["timeout"] = round(self._timeout * 1_000)
        config = {
            "automatic_function_calling": {"disable": True},
            **self._options,
            **request,
            "http_options": http_options,
        }
        # The SDK's types refuse half a surrogate pair.
        return {"model": self._name, **unicode_inside({"contents": contents, "config": config})}

    async def _send(self, send: Any, arguments: Mapping[str, Any]) -> Any:
        try:
            return await super()._send(send, arguments)
        except RecursionError as error:  # of the answer: its types refuse such a request
            raise unreadable_answer(self._provider, str(error)) from error
        except ValueError as error:  # its types refuse the answer or, before that, the request
            if getattr(error, "title", "") == "GenerateContentResponse":
                raise unreadable_answer(self._provider, str(error)) from error
            problem = f"nothing was sent: {error}"
            raise RequestRefusedError(self._provider, None, problem) from error

    async def _whole(self, resource: Any, arguments: Mapping[str, Any]) -> Any:
        return _dumped(await resource.generate_content(**arguments))

    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        stream = await resource.generate_content_stream(**arguments)
        first = await anext(stream, None)  # for this the request is sent

        async def advance() -> dict[str, Any]:
            nonlocal first
            chunk, first = first, None
            return _dumped(await anext(stream) if chunk is None else chunk)

        return EventStream(self._provider, advance, stream.aclose)


class _AsyncClient:
    """A client and the HTTP client that was made for it, which the SDK leaves open."""

    def __init__(self, client: Any, http: Any = None) -> None:
        self._client = client
        self._http = http

    @property
    def models(self) -> Any:
        return self._client.aio.models

    async def close(self) -> None:
        """Close both."""
        self._client.close()
        await self._client.aio.aclose()
        if self._http is not None:
            await self._http.aclose()


def _dumped(response: Any) -> dict[str, Any]:
    """Return a response or a chunk as the API's JSON; signatures and media are base64."""
    fields = {"candidates", "prompt_feedback", "usage_metadata", "model_version", "response_id"}
    dumped: dict[str, Any] = response.model_dump(
        mode="json", by_alias=True, exclude_none=True, include=fields
    )
    return dumped
