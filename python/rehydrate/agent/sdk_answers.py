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
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Self

import anyio

from rehydrate import _native, errors
from rehydrate._text import error_text
from rehydrate.errors import ProviderError, ProviderUnavailableError, RequestRefusedError

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
    kind, status, message, delay = _native.read_error(body, status, fallback)
    wait = retry_after_seconds(headers or {})
    error: ProviderError = getattr(errors, kind)(
        provider, status, message, delay if wait is None else wait
    )
    return error


def _error_from_aws(provider: str, reported: Mapping[str, Any], fallback: str) -> ProviderError:
    """Return the error that botocore read from an answer or from an event."""
    fields, about = reported.get("Error") or {}, reported.get("ResponseMetadata") or {}
    code = str(fields.get("Code") or "")
    body = {"message": fields.get("Message"), "code": code}
    status = _native.aws_status(code) or about.get("HTTPStatusCode")
    headers = about.get("HTTPHeaders")
    return error_from_body(provider, body, status=status, headers=headers, fallback=fallback)


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


def _number(value: object) -> float | None:
    """Return a finite number from 0 up, also from its text; None for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]  # any other type raises
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


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
        self._decoder = _native.EventDecoder()
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
