"""The events of a stream as the JSON they came as, its failures as ours.

Both are classes, where generators would do: an async generator that is left before its end is one
more to clean up after, which trio says aloud.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, Self

import anyio

from rehydrate.runtime.models.failures import answered, failures_of

_LINE = re.compile(rb"\r\n|\n|\r")
_DRAIN_SECONDS = 0.1


class EventStream(Protocol):
    """The events of one answer."""

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """One after the other."""

    async def aclose(self) -> None:
        """Give the connection back."""


class SdkEvents:
    """As the SDK reads them: it knows more framings than one (Bedrock's is binary)."""

    def __init__(self, provider: str, stream: Any) -> None:
        """Take the SDK's stream."""
        self._provider = provider
        self._stream = stream

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> dict[str, Any]:
        """The next event, unknown fields and all."""
        with failures_of(self._provider):
            event = await anext(self._stream)
        found: dict[str, Any] = event.to_dict(mode="json", warnings=False)
        return found

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.close()


class ResponseEvents:
    """As they stand in the response.

    OpenAI's SDK (3.54) leaves its generators unfinished at each ``[DONE]``; that can go when it
    finishes them.
    """

    def __init__(self, provider: str, response: Any) -> None:
        """Take the HTTP library's response, of which the body was not read yet."""
        self._provider = provider
        self._response = response
        self._chunks = response.aiter_bytes()
        self._decoder = EventDecoder()
        self._ready: deque[str] = deque()
        self._is_over = False

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> dict[str, Any]:
        """The next event; raises the error that an event says."""
        while not self._ready:
            if self._is_over:
                raise StopAsyncIteration
            with failures_of(self._provider):
                chunk = await anext(self._chunks, None)
            self._is_over = chunk is None
            self._ready.extend(self._decoder.feed(b"\n\n" if chunk is None else chunk))
        data = self._ready.popleft()
        if data.startswith("[DONE]"):
            await self._drain()
            raise StopAsyncIteration
        with failures_of(self._provider):
            event = json.loads(data)
        if isinstance(event, dict) and event.get("error"):
            raise answered(self._provider, event)
        return event if isinstance(event, dict) else {}

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()

    async def _drain(self) -> None:
        """What still follows is read, so that the connection can be used again."""
        with anyio.move_on_after(_DRAIN_SECONDS), failures_of(self._provider):
            while await anext(self._chunks, None) is not None:
                pass


class EventDecoder:
    """The data of server-sent events, from bytes that may be cut anywhere.

    >>> decoder = EventDecoder()
    >>> [*decoder.feed(b"event: a\\r\\ndata: 1\\r"), *decoder.feed(b"\\n\\r\\ndata: 2\\n\\n")]
    ['1', '2']
    """

    def __init__(self) -> None:
        """Nothing came yet."""
        self._rest = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of each event that these bytes complete."""
        text = self._rest + chunk
        # A carriage return at the end may be the first half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE.split(text[: len(text) - len(held)])
        self._rest = rest + held
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" ").decode(errors="replace"))
            elif not line and self._data:
                yield "\n".join(self._data)
                self._data = []
