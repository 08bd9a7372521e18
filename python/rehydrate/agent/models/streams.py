"""Streams of a model's answer: the events as the JSON that the provider sent.

Errors are raised as ProviderErrors. The streams are classes, not async generators: a generator that
is left before its end needs a cleanup by the event loop, of which trio warns.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, Self

import anyio

from rehydrate.agent.models.sdk_errors import error_from_body, sdk_errors_as_provider_errors

_LINE_END = re.compile(rb"\r\n|\n|\r")
_DRAIN_SECONDS = 0.1


class EventStream(Protocol):
    """The events of one answer."""

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Iterate over the events."""

    async def aclose(self) -> None:
        """Release the connection."""


class SdkStream:
    """The events as the SDK decodes them: it knows several framings (Bedrock's is binary)."""

    def __init__(self, provider: str, stream: Any) -> None:
        """Take the SDK's stream."""
        self._provider = provider
        self._stream = stream

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next event with all its fields, also unknown ones."""
        with sdk_errors_as_provider_errors(self._provider):
            event = await anext(self._stream)
        decoded: dict[str, Any] = event.to_dict(mode="json", warnings=False)
        return decoded

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.close()


class ResponseStream:
    """The events as they are in the HTTP response.

    OpenAI's SDK (3.54) leaves its generators unfinished at ``[DONE]``. Use `SdkStream` once it
    finishes them.
    """

    def __init__(self, provider: str, response: Any) -> None:
        """Take the HTTP library's response, whose body is unread."""
        self._provider = provider
        self._response = response
        self._chunks = response.aiter_bytes()
        self._decoder = EventDecoder()
        self._decoded: deque[str] = deque()
        self._has_ended = False

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> dict[str, Any]:
        """Return the next event; raise the error that an event reports."""
        while not self._decoded:
            if self._has_ended:
                raise StopAsyncIteration
            with sdk_errors_as_provider_errors(self._provider):
                chunk = await anext(self._chunks, None)
            self._has_ended = chunk is None
            self._decoded.extend(self._decoder.feed(b"\n\n" if chunk is None else chunk))
        data = self._decoded.popleft()
        if data.startswith("[DONE]"):
            await self._drain()
            raise StopAsyncIteration
        with sdk_errors_as_provider_errors(self._provider):
            event = json.loads(data)
        if isinstance(event, dict) and event.get("error"):
            raise error_from_body(self._provider, event)
        return event if isinstance(event, dict) else {}

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()

    async def _drain(self) -> None:
        """Read the rest of the body, so that the connection can be used again."""
        with (
            anyio.move_on_after(_DRAIN_SECONDS),
            sdk_errors_as_provider_errors(self._provider),
        ):
            while await anext(self._chunks, None) is not None:
                pass


class EventDecoder:
    """Decodes server-sent events from bytes that may be cut anywhere.

    >>> decoder = EventDecoder()
    >>> [*decoder.feed(b"event: a\\r\\ndata: 1\\r"), *decoder.feed(b"\\n\\r\\ndata: 2\\n\\n")]
    ['1', '2']
    """

    def __init__(self) -> None:
        """Start without bytes."""
        self._rest = b""
        self._data_lines: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of each event that these bytes complete."""
        text = self._rest + chunk
        # A carriage return at the end may be the first half of a line end.
        held_back = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held_back)])
        self._rest = rest + held_back
        for line in lines:
            if line.startswith(b"data:"):
                data = line[5:].removeprefix(b" ").decode(errors="replace")
                self._data_lines.append(data)
            elif not line and self._data_lines:
                yield "\n".join(self._data_lines)
                self._data_lines = []
