"""SdkModel: a model that an official SDK asks. It sends the prompt and reads the answer's body."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import anyio

from rehydrate import _native
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import in_trio
from rehydrate._native import error_from_body, unicode_inside
from rehydrate._text import warn_once
from rehydrate.agent.model import OnText, Reply, check_compiled_for
from rehydrate.agent.sdk_answers import (
    EventStream,
    malformed_as_provider_errors,
    reading_an_answer,
    sdk_errors_as_provider_errors,
    unreadable_answer,
)
from rehydrate.cost.prices import Usage
from rehydrate.errors import InvalidArgumentError, MissingPackageError, ProviderUnavailableError
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider
from rehydrate.prompt.ir import CompiledPrompt


class Clients:
    """Gives the client for the running loop: the caller's own, or one that is made on first use.

    The caller closes the own client, and uses it on one loop only. A client made here is closed
    with its loop. The SDK's retries are off in both, because the agent loop retries.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        own_client: Any = None,
        *,
        prepare: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Take the function that makes a client, and the caller's own client.

        A client has ``async def close()``. ``prepare`` makes it import what its first request
        needs.
        """
        self._make = make
        self._prepare = prepare
        self._is_prepared = False
        self._own_client = own_client
        self._by_loop: WeakKeyDictionary[Any, tuple[Any, AsyncGenerator[Any, None]]] = (
            WeakKeyDictionary()
        )
        """Each loop's client, and the generator that closes it with the loop."""
        self._making: WeakKeyDictionary[Any, anyio.Lock] = WeakKeyDictionary()
        """Each loop's lock: one coroutine makes the client, the others wait."""
        self._lock = ForkSafeLock()

    def load(self) -> None:
        """Import the SDK by making a client, which takes 1 to 2 s; the client is not kept."""
        self._prepared(self._make() if self._own_client is None else self._own_client)

    def _prepared(self, client: Any) -> Any:
        self._prepare(client)
        self._is_prepared = True
        return client

    async def current(self) -> Any:
        """Return the client for this loop. It is made in a thread; the loop goes on."""
        if self._own_client is not None:
            if not self._is_prepared:
                await hand_over(partial(self._prepared, self._own_client), None)
            return self._own_client
        loop = _running_loop()
        with self._lock:
            client, _ = self._by_loop.get(loop, (None, None))
            if client is not None:
                return client
            making = self._making.setdefault(loop, anyio.Lock())
        async with making:
            with self._lock:
                client, _ = self._by_loop.get(loop, (None, None))
            if client is None:
                client = await hand_over(lambda: self._prepared(self._make()), None)
                await self._keep(loop, client)
        return client

    async def _keep(self, loop: Any, client: Any) -> None:
        closer = _close_with_loop(client)
        with self._lock:
            # A client may refer to its loop, which would keep both in this weak dictionary.
            for closed in [each for each in self._by_loop if _is_closed(each)]:
                del self._by_loop[closed]
                self._making.pop(closed, None)
            self._by_loop[loop] = (client, closer)
        await anext(closer)

    async def aclose(self) -> None:
        """Close the client that was made for this loop, if there is one."""
        with self._lock:
            _, closer = self._by_loop.pop(_running_loop(), (None, None))
        if closer is not None:
            await closer.aclose()


async def _close_with_loop(client: Any) -> AsyncGenerator[Any, None]:
    """Close the client when the loop ends: asyncio and trio both finish suspended generators.

    Without it the connections would outlive their loop, and closing them would log an error.
    """
    try:
        yield client
    finally:
        await client.close()


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def _is_closed(loop: Any) -> bool:
    is_closed = getattr(loop, "is_closed", None)
    return is_closed is not None and bool(is_closed())


def _running_loop() -> Any:
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


_RESERVED_OPTIONS = (
    *("model", "messages", "input", "system", "tools", "stream", "cache_control"),
    *("modelId", "contents", "system_instruction", "systemInstruction"),
)
"""Arguments of a request that come from the model or the prompt."""

T = TypeVar("T")
_Send: TypeAlias = Callable[[Any, Mapping[str, Any]], Awaitable[T]]


class SdkModel(ABC):
    """A model that is asked through an SDK's client.

    A subclass makes the client and sends the request. The engine joins the events of a stream to
    the body that a whole answer has, so that both give the same reply.
    """

    _provider: ClassVar[Provider]
    _package: ClassVar[str]
    _extra: ClassVar[str]
    """The extra of `rehydrate` that brings the package."""
    _must_stream = False

    def __init__(
        self,
        name: str,
        *,
        client: Any = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Take the model's name and how to reach it; opens nothing yet.

        Raises MissingPackageError without the SDK.
        """
        reserved = [key for key in _RESERVED_OPTIONS if key in options]
        if reserved:
            raise InvalidArgumentError(
                f"{type(self).__name__} has {reserved[0]!r} as an option, which the model or the "
                "prompt gives; leave it out (tools go to Context or Interpreter)"
            )
        if client is not None and not (api_key is None and base_url is None):
            raise InvalidArgumentError("a client was passed, which has its own key and base_url")
        self._name = name
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._options = self._with_defaults(options)
        if client is None and not _is_installed(self._package):
            brings = f"talks to what {self._package} talks to"
            raise MissingPackageError(f"rehydrate[{self._extra}]", brings)
        self._clients = Clients(
            self._make_client,
            None if client is None else self._own_client(client),
            prepare=lambda made: self._resource(made, self._options),
        )

    @property
    def provider(self) -> Provider:
        """The provider for which its prompts are compiled."""
        return self._provider

    @property
    def name(self) -> str:
        """The model's name, as the provider has it."""
        return self._name

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """Return the reply to a prompt, streamed with ``on_text``.

        Raises ProviderError if there is no reply, also if it breaks off before its end.
        """
        check_compiled_for(self, prompt)
        body = await self._body(self._arguments(prompt), on_text)
        with malformed_as_provider_errors(self._provider):
            self._check_body(body)
            return self._read_reply(body, prompt)

    def _read_reply(self, body: Any, prompt: CompiledPrompt) -> Reply:
        """Return the reply that the body holds."""
        del prompt
        entries, text, calls, stop, usage, model, id_ = _native.read_answer(self._provider, body)
        read_calls = tuple(filter(None, map(ToolCall.read, calls)))
        return Reply(
            tuple(entries),
            text,
            read_calls,
            self._billed(usage or {}),
            "calls" if read_calls else stop,
            str(model or self._name),
            str(id_ or ""),
        )

    def _with_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        return options

    def _arguments(self, prompt: CompiledPrompt) -> dict[str, Any]:
        arguments = {"model": self._name, **self._options, **prompt.request}
        if self._timeout is not None:
            arguments["timeout"] = self._timeout
        return arguments

    def load(self) -> None:
        """Import the SDK and the modules that a request needs, so that the first one is fast."""
        self._clients.load()

    async def aload(self) -> None:
        """`load` for asyncio and trio, in a thread; also makes the client for this loop."""
        await self._clients.current()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a client that was passed stays open."""
        await self._clients.aclose()

    async def __aenter__(self) -> Self:
        """Return the model; its connections close at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.aclose()

    def __repr__(self) -> str:
        """Return the class and the model's name, without the key."""
        return f"{type(self).__name__}({self._name!r})"

    async def _body(self, arguments: Mapping[str, Any], on_text: OnText | None = None) -> Any:
        """Request an answer, streamed with ``on_text`` or if it may be long; return its body as
        JSON, the same for both, as the provider sent it."""
        if on_text is None and not self._must_stream:
            return await self._send(self._whole, arguments)
        events = await self._send(self._open_stream, arguments)
        joiner = _native.AnswerJoiner(self._provider)
        try:
            async for event in events:
                with malformed_as_provider_errors(self._provider):
                    text = joiner.add(event)
                if text and on_text is not None:
                    on_text(text)
        finally:
            await events.aclose()
        with malformed_as_provider_errors(self._provider):
            body = joiner.body()
        if body is None:
            problem = "the stream ended before the answer was whole"
            raise ProviderUnavailableError(self._provider, None, problem)
        return body

    async def _send(self, send: _Send[T], arguments: Mapping[str, Any]) -> T:
        with sdk_errors_as_provider_errors(self._provider):
            resource = self._resource(await self._clients.current(), arguments)
            try:
                return await send(resource, arguments)
            except UnicodeEncodeError:  # raised before anything was sent
                return await send(resource, unicode_inside(arguments))

    def _check_body(self, body: Any) -> None:
        """Raise for a body that is not an answer: some gateways send status 200 and an error."""
        if isinstance(body, Mapping):
            if (reported := _native.reported_in(self._provider, body)) is not None:
                raise error_from_body(self._provider, reported)
            if _native.is_answer(self._provider, body):
                return
        raise unreadable_answer(self._provider, f"no answer, but {str(body)[:200]!r}")

    def _billed(self, usage: Mapping[str, Any]) -> Usage:
        """Return the tokens billed; none if the endpoint's figures contradict each other, since
        an answer that is there must not be lost for them."""
        try:
            return Usage.billed(usage)
        except InvalidArgumentError as error:
            warn_once("rehydrate.agent", f"{self._provider}: the usage isn't counted: {error}")
            return Usage()

    def _own_client(self, client: Any) -> Any:
        """Return the caller's client as it is used here, without retries; raises
        InvalidArgumentError for a sync one."""
        if not hasattr(type(client), "__aenter__"):
            kind = type(client).__name__
            raise InvalidArgumentError(f"client is of type {kind}; pass the async one, Async{kind}")
        return client.with_options(max_retries=0)

    async def _whole(self, resource: Any, arguments: Mapping[str, Any]) -> Any:
        """Send a request and return the body of its answer."""
        raw = await resource.with_raw_response.create(**arguments)
        with reading_an_answer(self._provider):
            return raw.http_response.json()

    @abstractmethod
    def _make_client(self) -> Any:
        """Return a client made from the environment, the key and the URL."""

    @abstractmethod
    def _resource(self, client: Any, arguments: Mapping[str, Any]) -> Any:
        """Return the client's resource that sends a request with these arguments."""

    @abstractmethod
    async def _open_stream(self, resource: Any, arguments: Mapping[str, Any]) -> EventStream:
        """Send a request and return the events of its answer."""
