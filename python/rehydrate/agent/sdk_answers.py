"""The answer of an SDK: its events as JSON, and errors as `ProviderError`s.

The class of an error says what the agent loop can do: compact, wait, try again, or give up.
Exceptions are recognised by their class names, so no SDK is imported for it. Anthropic and OpenAI
use the same names, and so do both generations of the HTTP library that they use. Streams are
classes, not async generators: one that is left before its end needs a cleanup by the event loop, of
which trio warns.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Self

import anyio

from rehydrate._text import error_text
from rehydrate.errors import (
    ContextOverflowError,
    ProviderError,
    ProviderUnavailableError,
    RateLimitError,
    RequestRefusedError,
)

# What each provider and server answers to a prompt that is too long.
_OVERFLOW = re.compile(
    "|".join(
        (
            r"prompt is too long",  # Anthropic: "prompt is too long: 207791 tokens > 200000"
            r"exceed context limit",  # Anthropic, with max_tokens: "178959 + 64000 > 200000"
            r"request exceeds the maximum size",  # Anthropic, 413
            r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
            r"exceeds? the context window",  # OpenAI Responses
            r"input tokens exceed the configured limit",  # OpenAI
            # OpenAI and Groq: a request above the limit per minute never fits.
            r"request too large for .{0,300}tokens per min",
            r"longer than the maximum model length",  # vLLM, an image in the prompt
            r"context length is only",  # vLLM
            r"exceeds the available context size",  # llama.cpp, newer Ollama
            r"context size has been exceeded",  # llama.cpp
            r"exceeds the context length",  # Ollama
            r"exceeded max context length",  # Ollama
            r"greater than the context length",  # LM Studio
            r"contextwindowexceedederror",  # LiteLLM's proxy, for any provider
            r"exceeds the maximum number of tokens allowed",  # Gemini
            r"maximum prompt length is",  # xAI
            r"reduce the length of the messages",  # Groq
            r"exceeded model token limit",  # Moonshot
            r"input is too long for requested model",  # Bedrock
            r"too many total text bytes",  # Bedrock
        )
    ),
    re.I | re.S,
)
_OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI
        "string_above_max_length",  # OpenAI: one text over 10 MB
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic
        "model_context_window_exceeded",
    }
)
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
# An error inside a stream comes with status 200; its type says which status it means.
_STATUS_BY_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_prompt": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "context_length_exceeded": 400,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# Bedrock's, the same for an answer and for an event of a stream.
_STATUS_BY_AWS_CODE = {
    "accessdenied": 403,
    "internalserver": 500,
    "modelerror": 424,
    "modelnotready": 429,
    "modelstreamerror": 424,
    "modeltimeout": 408,
    "resourcenotfound": 404,
    "serviceunavailable": 503,
    "throttling": 429,
    "validation": 400,
}
_TRANSIENT = frozenset({408, 409, 424, 425})
"""424 is Bedrock's: the model failed."""
_MAX_MESSAGE_CHARS = 2_000
_WITHOUT_BODY = {"APIConnectionError", "APIResponseValidationError"}
_TIMEOUTS = {"APITimeoutError", "TimeoutException", "ReadTimeoutError", "ConnectTimeoutError"}
_TRANSPORT_NAMES = {
    "RequestError",  # httpx
    *("HTTPClientError", "ConnectionError", "ResponseStreamingError"),  # botocore
    "HTTPError",  # urllib3, under botocore
    "ClientError",  # aiohttp, under google-genai
}
_TRANSPORT_ERRORS = (
    *(json.JSONDecodeError, UnicodeDecodeError, ssl.SSLError, OSError),
    *(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError),
)


@contextmanager
def sdk_errors_as_provider_errors(provider: str) -> Iterator[None]:
    """Raise a ProviderError for an SDK's exception in this block; others pass unchanged."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        mapped = provider_error(provider, error)
        if mapped is None:
            raise
        raise mapped from error


@contextmanager
def malformed_as_provider_errors(provider: str) -> Iterator[None]:
    """Raise ProviderUnavailableError if the answer that this block reads has a wrong shape."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise unreadable_answer(provider, error_text(error)) from error


def provider_error(provider: str, error: Exception) -> ProviderError | None:
    """Return the ProviderError for an SDK's exception; None if the provider did not fail."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APIStatusError" in names:
        response: Any = getattr(error, "response", None)
        status, body = getattr(error, "status_code", None), getattr(error, "body", None)
        headers = getattr(response, "headers", {})
        return error_from_body(provider, body, status=status, headers=headers, fallback=str(error))
    if "APIError" in names and hasattr(error, "details"):  # google-genai
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        status, body = getattr(error, "code", None), error.details
        return error_from_body(provider, body, status=status, headers=headers, fallback=str(error))
    if "ClientError" in names and isinstance(reported := getattr(error, "response", None), Mapping):
        return _error_from_aws(provider, reported, str(error))
    if "APIError" in names and not names & _WITHOUT_BODY:  # an event of a stream
        return error_from_body(provider, getattr(error, "body", None), fallback=str(error))
    kind: type[ProviderError] = ProviderUnavailableError
    if names & _TIMEOUTS:
        message = "it did not answer in time"
    elif "APIConnectionError" in names:
        cause = error.__cause__
        message = str(error) if cause is None else f"{error} ({error_text(cause)})"
    elif "APIResponseValidationError" in names:
        message = f"what it sent cannot be read: {error}"
    elif names & _TRANSPORT_NAMES or isinstance(error, _TRANSPORT_ERRORS):
        message = f"the answer broke off: {error_text(error)}"
    elif names & {"ResponseParserError", "ParserError"}:  # botocore
        message = f"what it sent cannot be read: {error}"
    elif names & {"AnthropicError", "OpenAIError", "BotoCoreError"} or (
        "TypeError" in names and "authentication method" in str(error)  # Anthropic's: without a key
    ):
        kind, message = RequestRefusedError, f"nothing was sent: {error}"
    else:
        return None
    return kind(provider, None, message)


def error_from_body(
    provider: str,
    body: object,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    fallback: str = "",
) -> ProviderError:
    """Return the error that a body reports; ``fallback`` is its message if the body has none.

    >>> error_from_body("vllm", {"message": "This model's maximum context length is 4096 tokens."})
    ContextOverflowError('vllm', None, "This model's maximum context length is 4096 tokens.", None)
    """
    message, codes, own_status = _reported(body, fallback)
    if status is None or status < 300:
        status = own_status
    kind = _error_class(status, message, codes)
    wait = retry_after_seconds(headers or {})
    return kind(provider, status, message, _retry_delay(body) if wait is None else wait)


def _error_from_aws(provider: str, reported: Mapping[str, Any], fallback: str) -> ProviderError:
    """Return the error that botocore read from an answer or from an event."""
    fields, about = reported.get("Error") or {}, reported.get("ResponseMetadata") or {}
    code = str(fields.get("Code") or "")
    known = _STATUS_BY_AWS_CODE.get(code.lower().removesuffix("exception"))
    body = {"message": fields.get("Message"), "code": code}
    status = known or about.get("HTTPStatusCode")
    headers = about.get("HTTPHeaders")
    return error_from_body(provider, body, status=status, headers=headers, fallback=fallback)


def _retry_delay(body: object) -> float | None:
    """Return the wait of Gemini's ``RetryInfo``, such as "34s"; None if there is none."""
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for each in details if isinstance(details, list) else ():
        if isinstance(each, Mapping) and "retryDelay" in each:
            return _number(str(each["retryDelay"]).removesuffix("s"))
    return None


def unreadable_answer(provider: str, problem: str) -> ProviderUnavailableError:
    """Return the error for a successful answer with a wrong body, such as a proxy's page."""
    return ProviderUnavailableError(provider, None, f"what it sent cannot be read: {problem}")


def retry_after_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the wait that the headers name; None if they name none.

    ``retry-after-ms`` comes first, then ``retry-after``, in seconds or as a date.

    >>> retry_after_seconds({"retry-after": "Thu, 01 Jan 1970 00:00:30 GMT"}, now=10.0)
    20.0
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        then = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(then - (time.time() if now is None else now), 0.0)


def _reported(body: object, fallback: str) -> tuple[str, frozenset[str], int | None]:
    """Return the message of the error that a body reports, its type and code (providers use either
    for the same thing), and its status."""
    if isinstance(body, (str, bytes)):
        text = body if isinstance(body, str) else body.decode(errors="replace")
        try:
            body = json.loads(text)
        except ValueError:
            body = {"message": text}
    fields: Any = body if isinstance(body, Mapping) else {}
    inner = fields.get("error")
    if isinstance(inner, Mapping):
        fields = inner
    elif isinstance(inner, str):  # Ollama's own format
        fields = {"message": inner}
    message = fields.get("message") or fields.get("detail") or fallback
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False, default=str)
    code = fields.get("code")
    codes = [each for each in (code, fields.get("type")) if isinstance(each, str)]
    number = _number(code) if isinstance(code, (str, int)) else None
    is_status = number is not None and 400 <= number < 600
    status = int(number or 0) if is_status else None
    for each in codes:
        status = status or _STATUS_BY_TYPE.get(each)
    message = message.strip()[:_MAX_MESSAGE_CHARS] or "no reason given"
    return message, frozenset(codes), status


def _error_class(status: int | None, message: str, codes: frozenset[str]) -> type[ProviderError]:
    if status not in (401, 403) and (
        codes & _OVERFLOW_CODES or status == 413 or _OVERFLOW.search(message)
    ):
        return ContextOverflowError
    if status == 429:
        return RequestRefusedError if codes & _NO_CREDIT else RateLimitError
    if status is None or status >= 500 or status in _TRANSIENT:
        return ProviderUnavailableError
    return RequestRefusedError


def _number(value: object) -> float | None:
    """Return a finite number from 0 up, also from its text; None for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]  # any other type raises
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


_LINE_END = re.compile(rb"\r\n|\n|\r")
_DRAIN_SECONDS = 0.1


class EventStream:
    """The events of one answer, each as JSON with all its fields, also unknown ones."""

    def __init__(
        self,
        provider: str,
        advance: Callable[[], Awaitable[dict[str, Any] | None]],
        close: Callable[[], Awaitable[object]],
    ) -> None:
        """Take what returns the next event, None at the end, and what closes the connection."""
        self._provider = provider
        self._advance = advance
        self._close = close

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next event; raise ProviderError for one that reports an error."""
        with sdk_errors_as_provider_errors(self._provider):
            event = await self._advance()
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Close the connection, or give it back."""
        await self._close()


class ResponseStream(EventStream):
    """The events as they are in the HTTP response.

    OpenAI's SDK (3.54) leaves its generators unfinished at ``[DONE]``.
    """

    def __init__(self, provider: str, response: Any) -> None:
        """Take the HTTP library's response, whose body is unread."""
        super().__init__(provider, self._event, response.aclose)
        self._chunks = response.aiter_bytes()
        self._decoder = EventDecoder()
        self._decoded: deque[str] = deque()
        self._has_ended = False

    async def _event(self) -> dict[str, Any] | None:
        while not self._decoded:
            if self._has_ended:
                return None
            chunk = await anext(self._chunks, None)
            self._has_ended = chunk is None
            self._decoded.extend(self._decoder.feed(b"\n\n" if chunk is None else chunk))
        data = self._decoded.popleft()
        if data.startswith("[DONE]"):
            # The rest of the body is read, so that the connection can be used again.
            with anyio.move_on_after(_DRAIN_SECONDS):
                while await anext(self._chunks, None) is not None:
                    pass
            return None
        event = json.loads(data)
        if isinstance(event, dict) and event.get("error"):
            raise error_from_body(self._provider, event)
        return event if isinstance(event, dict) else {}


class EventDecoder:
    """Decodes server-sent events from bytes that may be cut anywhere.

    >>> decoder = EventDecoder()
    >>> [*decoder.feed(b"event: a\\r\\ndata: 1\\r"), *decoder.feed(b"\\n\\r\\ndata: 2\\n\\n")]
    ['1', '2']
    """

    def __init__(self) -> None:
        """Start without bytes."""
        self._rest = bytearray()
        """Of a line that has no end yet."""
        self._data_lines: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of each event that these bytes complete."""
        # A carriage return at the end may be the first half of a line end: it waits.
        has_end = self._rest.endswith(b"\r") or _LINE_END.search(chunk) is not None
        self._rest += chunk
        if not has_end:
            return
        held_back = b"\r" if self._rest.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(self._rest.removesuffix(held_back))
        self._rest = bytearray(rest + held_back)
        for line in lines:
            if line.startswith(b"data:"):
                data = line[5:].removeprefix(b" ").decode(errors="replace")
                self._data_lines.append(data)
            elif not line and self._data_lines:
                yield "\n".join(self._data_lines)
                self._data_lines = []
