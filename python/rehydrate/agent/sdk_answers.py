"""The answer of an SDK: its events as JSON, and errors as `ProviderError`s.

The class of an error says what the agent loop can do: compact, wait, try again, or give up. Streams
are classes, not async generators: one that is left before its end needs a cleanup by the event
loop, of which trio warns.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import anyio

from rehydrate import _native
from rehydrate._native import error_from_body
from rehydrate._text import error_text
from rehydrate.errors import ProviderError, ProviderUnavailableError


@contextmanager
def sdk_errors_as_provider_errors(provider: str) -> Iterator[None]:
    """Raise a ProviderError for an SDK's exception in this block; others pass unchanged."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        mapped = _native.provider_error(provider, error)
        if mapped is None:
            raise
        raise mapped from error


@contextmanager
def malformed_as_provider_errors(provider: str) -> Iterator[None]:
    """Raise ProviderUnavailableError if the answer that this block reads has a wrong shape."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise unreadable_answer(provider, error_text(error)) from error


@contextmanager
def reading_an_answer(provider: str) -> Iterator[None]:
    """Raise a ProviderError for whatever an SDK, or its JSON, raises where it reads an answer."""
    with malformed_as_provider_errors(provider), sdk_errors_as_provider_errors(provider):
        yield


def unreadable_answer(provider: str, problem: str) -> ProviderUnavailableError:
    """Return the error for a successful answer with a wrong body, such as a proxy's page."""
    return ProviderUnavailableError(provider, None, f"what it sent cannot be read: {problem}")


_DRAIN_SECONDS = 0.1


class EventStream:
    """The events of one answer, each as JSON with all its fields, also unknown ones."""

    def __init__(
        self,
        provider: str,
        advance: Callable[[], Awaitable[dict[str, Any] | None]],
        close: Callable[[], Awaitable[object]],
    ) -> None:
        """Take functions: for the next event, None at the end, and to close the connection."""
        self._provider = provider
        self._advance = advance
        self._close = close

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next event; raise ProviderError for one that reports an error."""
        with reading_an_answer(self._provider):
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
