"""Failures of the SDKs as errors of ours: what a loop may do about each.

Both SDKs name their exceptions alike, and so do both generations of the HTTP library below them:
they are told apart by name, so that neither is imported to do it.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import anyio

from rehydrate.errors import (
    ContextOverflowError,
    ProviderError,
    ProviderUnavailableError,
    RateLimitError,
    RequestRefusedError,
)

# What a prompt that is too long is answered with, as each provider and server puts it.
_OVERFLOW = re.compile(
    "|".join(
        (
            r"prompt is too long",  # Anthropic: "prompt is too long: 207791 tokens > 200000"
            r"exceed context limit",  # Anthropic, with max_tokens: "178959 + 64000 > 200000"
            r"request exceeds the maximum size",  # Anthropic, 413
            r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
            r"exceeds? the context window",  # OpenAI Responses
            r"input tokens exceed the configured limit",  # OpenAI
            # OpenAI and Groq: one request that is over the limit of a whole minute never fits it.
            r"request too large for .{0,300}tokens per min",
            r"longer than the maximum model length",  # vLLM, an image in the prompt
            r"context length is only",  # vLLM
            r"exceeds the available context size",  # llama.cpp, newer Ollama
            r"context size has been exceeded",  # llama.cpp
            r"exceeds the context length",  # Ollama
            r"exceeded max context length",  # Ollama
            r"greater than the context length",  # LM Studio
            r"contextwindowexceedederror",  # LiteLLM's proxy, whatever is behind it
            r"exceeds the maximum number of tokens allowed",  # Gemini
            r"maximum prompt length is",  # xAI
            r"reduce the length of the messages",  # Groq
            r"exceeded model token limit",  # Moonshot
            r"input is too long for requested model",  # Bedrock
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
# In the midst of a stream the status is 200, and the kind of error says what it would have been.
_STATUS_OF_KIND = {
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
_TRY_AGAIN = frozenset({408, 409, 425})
_MAX_SAID_CHARS = 2_000
_WITHOUT_BODY = {"APIConnectionError", "APIResponseValidationError"}
_TRANSPORT = (
    *(json.JSONDecodeError, UnicodeDecodeError, ssl.SSLError, OSError),
    *(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError),
)


@contextmanager
def failures_of(provider: str) -> Iterator[None]:
    """Within it what an SDK raises is raised as a ProviderError; mistakes of ours stay theirs."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        failure = provider_error(provider, error)
        if failure is None:
            raise
        raise failure from error


@contextmanager
def reading(provider: str) -> Iterator[None]:
    """Within it an answer is read that may have any shape: what has the wrong one is no answer."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise unreadable(provider, _named(error)) from error


def provider_error(provider: str, error: Exception) -> ProviderError | None:
    """What an SDK's exception means; None for what is no failure of the provider's."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APIStatusError" in names:
        response: Any = getattr(error, "response", None)
        status, body = getattr(error, "status_code", None), getattr(error, "body", None)
        headers = getattr(response, "headers", {})
        return answered(provider, body, status=status, headers=headers, otherwise=str(error))
    if "APIError" in names and not names & _WITHOUT_BODY:  # among the events of a stream
        return answered(provider, getattr(error, "body", None), otherwise=str(error))
    kind: type[ProviderError] = ProviderUnavailableError
    if names & {"APITimeoutError", "TimeoutException"}:
        said = "it did not answer in time"
    elif "APIConnectionError" in names:
        said = _with_cause(error)
    elif "APIResponseValidationError" in names:
        said = f"what it sent cannot be read: {error}"
    elif "RequestError" in names or isinstance(error, _TRANSPORT):
        said = f"the answer broke off: {_named(error)}"
    elif names & {"AnthropicError", "OpenAIError"} or _is_keyless(error):
        kind, said = RequestRefusedError, f"nothing was sent: {error}"
    else:
        return None
    return kind(provider, None, said)


def answered(
    provider: str,
    body: object,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    otherwise: str = "",
) -> ProviderError:
    """The error that a provider's body says; ``otherwise`` is what to say of a body that is mute.

    >>> answered("vllm", {"message": "This model's maximum context length is 4096 tokens."})
    ContextOverflowError('vllm', None, "This model's maximum context length is 4096 tokens.", None)
    """
    said = _Said.read(body, otherwise)
    if status is None or status < 300:
        status = said.status
    after = retry_after_seconds(headers or {})
    kind = _kind(status, said)
    return kind(provider, status, said.message, after)


def ended_early(provider: str) -> ProviderUnavailableError:
    """Of a stream that ended before its answer did: half an answer is none."""
    return ProviderUnavailableError(provider, None, "the stream ended before the answer was whole")


def unreadable(provider: str, what: str) -> ProviderUnavailableError:
    """Of an answer with a status that promised another body: a proxy's page, a half message."""
    return ProviderUnavailableError(provider, None, f"what it sent cannot be read: {what}")


def retry_after_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """When the provider wants to be asked again: ``retry-after-ms``, or ``retry-after`` in seconds
    or as a date; None where it does not say.

    >>> retry_after_seconds({"retry-after": "Thu, 01 Jan 1970 00:00:30 GMT"}, now=10.0)
    20.0
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or not given:
        return seconds
    try:
        then = parsedate_to_datetime(given).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(then - (time.time() if now is None else now), 0.0)


class _Said(NamedTuple):
    """What a body says is wrong."""

    message: str
    codes: frozenset[str]
    """Its type and its code: providers use either for the same."""
    status: int | None

    @classmethod
    def read(cls, body: object, otherwise: str) -> _Said:
        if isinstance(body, (str, bytes)):
            text = body if isinstance(body, str) else body.decode(errors="replace")
            try:
                body = json.loads(text)
            except ValueError:
                body = {"message": text}
        about: Any = body if isinstance(body, Mapping) else {}
        inner = about.get("error")
        if isinstance(inner, Mapping):
            about = inner
        elif isinstance(inner, str):  # Ollama's own
            about = {"message": inner}
        message = about.get("message") or about.get("detail") or otherwise
        if not isinstance(message, str):
            message = json.dumps(message, ensure_ascii=False, default=str)
        code, kind = about.get("code"), about.get("type")
        codes = [each for each in (code, kind) if isinstance(each, str)]
        number = _number(code) if isinstance(code, (str, int)) else None
        is_status = number is not None and 400 <= number < 600
        status = int(number or 0) if is_status else None
        for each in codes:
            status = status or _STATUS_OF_KIND.get(each)
        return cls(message.strip()[:_MAX_SAID_CHARS] or "no reason given", frozenset(codes), status)


def _kind(status: int | None, said: _Said) -> type[ProviderError]:
    if status not in (401, 403) and (
        said.codes & _OVERFLOW_CODES or status == 413 or _OVERFLOW.search(said.message)
    ):
        return ContextOverflowError
    if status == 429:
        return RequestRefusedError if said.codes & _NO_CREDIT else RateLimitError
    if status is None or status >= 500 or status in _TRY_AGAIN:
        return ProviderUnavailableError
    return RequestRefusedError


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]  # what is none raises
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _is_keyless(error: Exception) -> bool:
    """Anthropic's SDK has no exception of its own for this."""
    return isinstance(error, TypeError) and "authentication method" in str(error)


def _with_cause(error: Exception) -> str:
    cause = error.__cause__
    return str(error) if cause is None else f"{error} ({_named(cause)})"


def _named(error: BaseException) -> str:
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
