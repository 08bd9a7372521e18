"""SdkModel: what models behind an official SDK have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import CompiledPrompt, Provider
from rehydrate.runtime.models.checking import check_compiled_for
from rehydrate.runtime.models.clients import Clients
from rehydrate.runtime.models.encoding import encodable
from rehydrate.runtime.models.events import EventStream
from rehydrate.runtime.models.failures import (
    answered,
    ended_early,
    failures_of,
    reading,
    unreadable,
)
from rehydrate.runtime.models.model import OnText, Reply

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
        timeout_seconds: float | None = None,
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
        self._timeout_seconds = timeout_seconds
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
        if self._timeout_seconds is not None:
            arguments["timeout"] = self._timeout_seconds
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
