"""Clients: an SDK's client for each event loop, because connections belong to one loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import in_trio
from rehydrate.errors import InvalidArgumentError, MissingPackageError


class Clients:
    """Gives the client for the running loop: the caller's own, or one that is made on first use.

    The caller closes the own client, and uses it on one loop only. A client made here is closed
    with its loop. The SDK's retries are off in both, because the agent loop retries.
    """

    def __init__(
        self,
        package: str,
        make: Callable[[], Any],
        own_client: Any = None,
        *,
        prepare: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Take the SDK's package, the function that makes a client, and the caller's own client.

        ``prepare`` makes a client import what its first request needs. Raises MissingPackageError
        without the SDK, InvalidArgumentError for a sync client.
        """
        if own_client is None and find_spec(package) is None:
            raise MissingPackageError(f"rehydrate[{package}]", f"talks to what {package} talks to")
        if own_client is not None and not hasattr(type(own_client), "__aenter__"):
            kind = type(own_client).__name__
            raise InvalidArgumentError(f"client is of type {kind}; pass the async one, Async{kind}")
        self._make = make
        self._prepare = prepare
        self._is_prepared = False
        self._own_client = None if own_client is None else own_client.with_options(max_retries=0)
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


def _is_closed(loop: Any) -> bool:
    is_closed = getattr(loop, "is_closed", None)
    return is_closed is not None and bool(is_closed())


def _running_loop() -> Any:
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()
