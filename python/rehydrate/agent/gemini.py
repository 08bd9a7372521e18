"""GeminiModel: Gemini through google-genai; its reply goes into the history with its signatures."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate._text import unicode_inside
from rehydrate.agent.model import Reply, Stop
from rehydrate.agent.sdk import SdkModel
from rehydrate.agent.sdk_answers import (
    EventStream,
    malformed_as_provider_errors,
    sdk_errors_as_provider_errors,
    unreadable_answer,
)
from rehydrate.errors import InvalidArgumentError, RequestRefusedError
from rehydrate.prompt.ir import CompiledPrompt

if TYPE_CHECKING:
    from google.genai import Client

_TIMEOUT_SECONDS = 600.0
_STOPS: Mapping[str, Stop] = {
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "SPII"), "refusal"),
    **dict.fromkeys(("PROHIBITED_CONTENT", "IMAGE_SAFETY", "IMAGE_RECITATION"), "refusal"),
    **dict.fromkeys(("IMAGE_PROHIBITED_CONTENT", "MODEL_ARMOR"), "refusal"),
}
_MALFORMED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})
"""The model wrote a call that is none; asked again it may write another."""


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
"""Of the JSON path of an argument: a name, an index, or a name in quotes."""
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class ContentAccumulator:
    """Joins the chunks of a stream to the response: its first candidate."""

    def __init__(self) -> None:
        """Start without chunks."""
        self._head: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Add the next chunk; return the piece of text in it, or ""."""
        usage = {**self._head.get("usageMetadata", {}), **chunk.get("usageMetadata", {})}
        self._head |= {**chunk, "usageMetadata": usage}
        text = ""
        for candidate in chunk.get("candidates") or ():
            if candidate.get("index"):
                continue  # several candidates come mixed; 0 may be left out
            self._candidate |= candidate
            for part in (candidate.get("content") or {}).get("parts") or ():
                text += _text(part)
                self._append(part)
        return text

    def body(self) -> dict[str, Any] | None:
        """Return the response; None if no chunk had a finish reason, or a reason for a block."""
        if self._candidate.get("finishReason") is None:  # a block may come after a text
            return {**self._head, "candidates": []} if _block_reason(self._head) else None
        content = {"role": "model", "parts": self._parts}
        return {**self._head, "candidates": [{**self._candidate, "content": content}]}

    def _append(self, part: dict[str, Any]) -> None:
        """Texts grow. A part with a signature stays as it came, as the API demands:
        https://ai.google.dev/gemini-api/docs/thought-signatures"""
        last = self._parts[-1] if self._parts else {}
        begun = last.get("functionCall") or {}
        if begun.get("willContinue") and "functionCall" in part:
            self._parts[-1] = {**last, **part, "functionCall": _grown(begun, part)}
            return
        if "partialArgs" in (part.get("functionCall") or {}):
            part = {**part, "functionCall": _grown({}, part)}
        are_texts = all({"text"} <= each.keys() <= {"text", "thought"} for each in (last, part))
        if are_texts and last.get("thought") == part.get("thought"):
            self._parts[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            self._parts.append(part)


def _grown(call: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with what a later part says of it: `streamFunctionCallArguments` of Vertex AI,
    https://googleapis.github.io/js-genai/release_docs/interfaces/types.PartialArg.html, read on
    2026-11-27."""
    more = part.get("functionCall") or {}
    named = {key: value for key, value in more.items() if key not in ("partialArgs", "args")}
    args = {**(call.get("args") or {}), **(more.get("args") or {})}
    for each in more.get("partialArgs") or ():
        value = next((each[name] for name in _VALUES if name in each), None)
        if "nullValue" in each:
            value = None
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        found = _STEP.findall(each["jsonPath"])
        steps = [int(index) if index else name or one or two for name, index, one, two in found]
        _put(args, steps, value)
    kept = {key: value for key, value in call.items() if key != "willContinue"}
    return {**kept, **named, "args": args}


def _put(args: dict[str, Any], steps: Sequence[str | int], value: Any) -> None:
    """Set a value, and what leads to it; a text grows."""
    at: Any = args
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int) and step == len(at):
            at.append(None)
        known = at[step] if isinstance(step, int) else at.get(step)
        if following is None:
            both_texts = isinstance(known, str) and isinstance(value, str)
            at[step] = known + value if both_texts else value
        elif known is None:
            at[step] = [] if isinstance(following, int) else {}
        at = at[step]


class GeminiModel(SdkModel):
    """A model of the Gemini API, or of a server that speaks it (``base_url``).

    ``client`` is a ``google.genai.Client``, for Vertex AI for instance; without one, a client is
    made from ``api_key`` or the environment on first use. ``timeout`` is in seconds. ``options``
    are fields of ``GenerateContentConfig``: ``temperature``, ``max_output_tokens``,
    ``thinking_config``, ``tool_config``, ``safety_settings``. The SDK's retries and its calling of
    functions are off.

    Parts with their thought signatures, code and its results are in `Reply.entries` unchanged. A
    call without an id gets one. What this version of google-genai does not know of a part is left
    out: it would refuse to send it.

    >>> GeminiModel("gemini-3-pro", api_key="...", thinking_config={"thinking_level": "low"})
    GeminiModel('gemini-3-pro')
    """

    _provider = "gemini"
    _package = "google.genai"
    _extra = "gemini"
    _accumulator = ContentAccumulator

    def __init__(
        self,
        name: str,
        *,
        client: Client | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name; raises MissingPackageError without the SDK."""
        super().__init__(
            name, client=client, api_key=api_key, base_url=base_url, timeout=timeout, **options
        )

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
            if chunk is None:
                with (
                    malformed_as_provider_errors(self._provider),
                    sdk_errors_as_provider_errors(self._provider),
                ):
                    chunk = await anext(stream)
            return _dumped(chunk)

        return EventStream(self._provider, advance, stream.aclose)

    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        (candidate,) = (body.get("candidates") or [{}])[:1]
        return bool(
            candidate.get("content") or candidate.get("finishReason") or _block_reason(body)
        )

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        del prompt
        about = {
            "model": body.get("modelVersion"),
            "id": body.get("responseId"),
            "usage": body.get("usageMetadata"),
        }
        if not body.get("candidates"):
            return self._make_reply(about, entries=[], text="", calls=[], stop="refusal")
        candidate = body["candidates"][0]
        reason = candidate.get("finishReason") or ""
        stop = _STOPS.get(reason, "answer")
        received = (candidate.get("content") or {}).get("parts") or []
        parts = resendable_parts(received, stop)
        calls = [part for part in parts if "functionCall" in part]
        if reason in _MALFORMED and not calls:
            problem = candidate.get("finishMessage") or reason
            raise unreadable_answer(self._provider, problem)
        if not all(call["functionCall"].get("name") for call in calls):
            raise unreadable_answer(self._provider, "a call without a name")
        return self._make_reply(
            about,
            entries=[{"role": "model", "parts": parts}] if parts else [],
            text="".join(map(_text, received)),
            calls=calls,
            stop=stop,
        )


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


def resendable_parts(parts: Sequence[Mapping[str, Any]], stop: Stop) -> list[dict[str, Any]]:
    """Return the parts of an answer that the API accepts in a request; calls get ids.

    Dropped are parts without content, calls of an answer that was refused, and thoughts without a
    signature at the end, which nothing follows. A signature alone gets an empty text: a part must
    have data.
    """
    kept = [_with_data(part) for part in parts if not _is_blank(part)]
    if stop == "refusal":
        kept = [part for part in kept if "text" in part]
    while kept and kept[-1].get("thought") and "thoughtSignature" not in kept[-1]:
        kept.pop()
    for part in kept:
        call = part.get("functionCall")
        if call is not None and not call.get("id"):
            part["functionCall"] = {**call, "id": f"call_{uuid.uuid4().hex[:24]}"}
    says_nothing = all("text" in part and not _text(part).strip() for part in kept)
    return [] if says_nothing else kept


def _is_blank(part: Mapping[str, Any]) -> bool:
    """Whether a part says nothing. One with a signature does: the API wants it back."""
    is_empty = not part.get("text") and part.keys() <= {"text", "thought"}
    return is_empty and "thoughtSignature" not in part


def _with_data(part: Mapping[str, Any]) -> dict[str, Any]:
    has_data = part.keys() - {"thought", "thoughtSignature"}
    return {**part} if has_data else {"text": "", **part}


def _text(part: Mapping[str, Any]) -> str:
    return "" if part.get("thought") else str(part.get("text") or "")


def _block_reason(body: Mapping[str, Any]) -> Any:
    """Return why the prompt was blocked; then there is no candidate."""
    return (body.get("promptFeedback") or {}).get("blockReason")


def _dumped(response: Any) -> dict[str, Any]:
    """Return a response or a chunk as the API's JSON; signatures and media are base64."""
    fields = {"candidates", "prompt_feedback", "usage_metadata", "model_version", "response_id"}
    dumped: dict[str, Any] = response.model_dump(
        mode="json", by_alias=True, exclude_none=True, include=fields
    )
    return dumped
