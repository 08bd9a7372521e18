"""Clients: an SDK's client for each event loop, since its connections belong to one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from rehydrate._concurrency.handover import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import in_trio
from rehydrate.errors import InvalidArgumentError, MissingPackageError


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
