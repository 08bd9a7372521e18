"""The events of a stream as the JSON they came as, its failures as ours.

Both are classes, where generators would do: an async generator that is left before its end is one
more to clean up after, which trio says aloud.

Clients: an SDK's client for each event loop, since its connections belong to one.

SdkModel: what models behind an official SDK have in common.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import anyio

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import in_trio
from rehydrate.agent.models.failures import answered, ended_early, failures_of, reading, unreadable
from rehydrate.agent.models.model import OnText, Reply, check_compiled_for, encodable
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import CompiledPrompt

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


class Clients:
    """The client to use on the loop that runs now: the caller's own, or one made when first used.

    The caller's own is theirs to close, and to use on one loop only; those made here close with
    their loop. The SDK's retries are off in both: when to try again is the loop's to decide.
    """

    def __init__(
        self,
        package: str,
        make: Callable[[], Any],
        given: Any = None,
        *,
        prepare: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Take the SDK's package, how a client is made, and the caller's own, if there is one.

        ``prepare`` has a client import what its first request needs.
        """
        if given is None and find_spec(package) is None:
            raise MissingPackageError(f"rehydrate[{package}]", f"talks to what {package} talks to")
        if given is not None and not hasattr(type(given), "__aenter__"):
            kind = type(given).__name__
            raise InvalidArgumentError(f"client is of type {kind}; pass the async one, Async{kind}")
        self._make = make
        self._prepare = prepare
        self._is_prepared = False
        self._given = None if given is None else given.with_options(max_retries=0)
        self._lives: WeakKeyDictionary[Any, tuple[Any, AsyncGenerator[Any, None]]] = (
            WeakKeyDictionary()
        )
        self._making: WeakKeyDictionary[Any, anyio.Lock] = WeakKeyDictionary()
        self._lock = ForkSafeLock()

    def load(self) -> None:
        """Import the SDK, which takes a second or two, by making a client for nothing."""
        self._prepared(self._make() if self._given is None else self._given)

    def _prepared(self, client: Any) -> Any:
        self._prepare(client)
        self._is_prepared = True
        return client

    async def current(self) -> Any:
        """The client for this loop. It is made in a thread: the loop goes on meanwhile."""
        if self._given is not None:
            if not self._is_prepared:
                await hand_over(partial(self._prepared, self._given), None)
            return self._given
        loop = _running_loop()
        with self._lock:
            client, _ = self._lives.get(loop, (None, None))
            if client is not None:
                return client
            making = self._making.setdefault(loop, anyio.Lock())
        async with making:
            with self._lock:
                client, _ = self._lives.get(loop, (None, None))
            if client is None:
                client = await hand_over(lambda: self._prepared(self._make()), None)
                await self._keep(loop, client)
        return client

    async def _keep(self, loop: Any, client: Any) -> None:
        life = _living(client)
        with self._lock:
            # A client may know its loop, and would keep it here after both have ended.
            for ended in [each for each in self._lives if _is_closed(each)]:
                del self._lives[ended]
                self._making.pop(ended, None)
            self._lives[loop] = (client, life)
        await anext(life)

    async def aclose(self) -> None:
        """Close the client that was made for this loop, if one was."""
        with self._lock:
            _, life = self._lives.pop(_running_loop(), (None, None))
        if life is not None:
            await life.aclose()


async def _living(client: Any) -> AsyncGenerator[Any, None]:
    """Closes the client when the loop ends: asyncio and trio both finish what generators are left.

    Without it connections would outlive their loop, and their end be reported as an error.
    """
    try:
        yield client
    finally:
        await client.close()


def _is_closed(loop: Any) -> bool:
    is_closed = getattr(loop, "is_closed", None)
    return is_closed is not None and bool(is_closed())


def _running_loop() -> Any:
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


_OURS = ("model", "messages", "input", "system", "tools", "stream")
"""Arguments of a request that the model or the prompt gives."""


T = TypeVar("T")
_Send: TypeAlias = Callable[[Any, Mapping[str, Any]], Awaitable[T]]


class Gathered(Protocol):
    """The events of a stream, put together to the body that an answer without stream has."""

    def add(self, event: Mapping[str, Any], /) -> str:
        """Take the next event; the piece of text in it, if there is one."""

    def body(self) -> dict[str, Any] | None:
        """All of it; None where the end is missing."""


class SdkModel(ABC):
    """A model that is asked through an SDK's client.

    A subclass says how the client is made, what gathers the events of a stream, and how a body is
    read.
    """

    _provider: ClassVar[Provider]
    _package: ClassVar[str]

    def __init__(
        self,
        name: str,
        *,
        client: Any = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        options: Mapping[str, Any],
    ) -> None:
        """Take the model's name and the way to it; nothing is imported or opened yet."""
        wrong = [key for key in _OURS if key in options]
        if wrong:
            raise InvalidArgumentError(
                f"{type(self).__name__} has {wrong[0]!r} as an option, which the model or the "
                "prompt gives; leave it out (tools go to Context or Interpreter)"
            )
        if client is not None and not (api_key is None and base_url is None):
            raise InvalidArgumentError("a client was passed, which has its own key and base_url")
        self._name = name
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._options = dict(options)
        self._clients = Clients(self._package, self._client, client, prepare=self._resource)

    @property
    def provider(self) -> Provider:
        """For whom its prompts are compiled."""
        return self._provider

    @property
    def name(self) -> str:
        """The model's name, as the provider has it."""
        return self._name

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """The answer to a prompt, streamed with ``on_text``.

        Raises ProviderError where there is none; an answer that breaks off is none.
        """
        check_compiled_for(self, prompt)
        arguments = {"model": self._name, **self._options, **prompt.request}
        if self._timeout is not None:
            arguments["timeout"] = self._timeout
        if on_text is None and not self._must_stream:
            body = await self._whole(arguments)
        else:
            body = await self._streamed(arguments, on_text)
        with reading(self._provider):
            self._check(body)
            return self._read(body, prompt)

    def load(self) -> None:
        """Import the SDK and what a request needs, so that the first one need not."""
        self._clients.load()

    async def aload(self) -> None:
        """`load` for asyncio and trio, in a thread, and this loop's client with it."""
        await self._clients.current()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a client that was passed stays open."""
        await self._clients.aclose()

    async def __aenter__(self) -> Self:
        """The model itself, whose connections close at the end."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    def __repr__(self) -> str:
        """The class and the model's name; no key."""
        return f"{type(self).__name__}({self._name!r})"

    @property
    def _must_stream(self) -> bool:
        return False

    async def _whole(self, arguments: Mapping[str, Any]) -> Any:
        """The body of an answer in one piece: the JSON as it came, before the SDK reads it."""

        async def create(resource: Any, arguments: Mapping[str, Any]) -> Any:
            return (await resource.with_raw_response.create(**arguments)).http_response.json()

        return await self._sent(create, arguments)

    async def _streamed(self, arguments: Mapping[str, Any], on_text: OnText | None) -> Any:
        """The same body from the events of a stream."""
        events = await self._sent(self._opened, {**arguments, "stream": True})
        gathered = self._gathered()
        try:
            async for event in events:
                with reading(self._provider):
                    text = gathered.add(event)
                if text and on_text is not None:
                    on_text(text)
        finally:
            await events.aclose()
        body = gathered.body()
        if body is None:
            raise ended_early(self._provider)
        return body

    async def _sent(self, send: _Send[T], arguments: Mapping[str, Any]) -> T:
        with failures_of(self._provider):
            resource = self._resource(await self._clients.current())
            try:
                return await send(resource, arguments)
            except UnicodeEncodeError:  # raised before anything was sent
                return await send(resource, encodable(dict(arguments)))

    def _check(self, body: Any) -> None:
        """Some gateways answer 200 and an error, or a page of their own."""
        if isinstance(body, Mapping) and body.get("error"):
            raise answered(self._provider, body)
        if not isinstance(body, Mapping) or not self._is_answer(body):
            raise unreadable(self._provider, f"no answer, but {str(body)[:200]!r}")

    @abstractmethod
    def _client(self) -> Any:
        """A client from the environment, the key and the URL."""

    @abstractmethod
    def _resource(self, client: Any) -> Any:
        """What has the `create` to call."""

    @abstractmethod
    async def _opened(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        """Send the request; the events of its answer."""

    @abstractmethod
    def _gathered(self) -> Gathered:
        """What takes the events of one stream."""

    @abstractmethod
    def _is_answer(self, body: Mapping[str, Any]) -> bool:
        """Whether the body has the shape of an answer."""

    @abstractmethod
    def _read(self, body: Any, prompt: CompiledPrompt) -> Reply:
        """What the body says."""
