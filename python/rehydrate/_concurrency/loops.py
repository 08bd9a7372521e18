"""Event loops for an async embedder's awaitables: the caller's own, or one of this process.

An async client belongs to the loop it was first used on. So inside ``acompact_context`` its calls
run on that loop, and everywhere else on one loop of this process, in a thread of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import getpid
from typing import Any

from rehydrate._concurrency.locks import ForkSafeLock

_GRACE_S = 1.0
"""Seconds in which a loop must notice that a call's time is over."""


class CancelledError(Exception):
    """The caller that waited was cancelled, and so was the call; not a failure of the function."""


Runner = Callable[[Awaitable[Any], "float | None"], Any]
"""Awaits something for a limited number of seconds, called from another thread."""


class CallersLoop:
    """The event loop of ``acompact_context``'s caller, used by the calls of one compaction."""

    def __init__(self) -> None:
        """Take the running loop; call it on that loop."""
        self._scopes: set[Any] = set()
        self._is_cancelled = False
        self._thread = threading.get_ident()
        if in_trio():
            import trio

            self._trio: trio.lowlevel.TrioToken | None = trio.lowlevel.current_trio_token()
        else:
            import asyncio

            self._trio = None
            self._asyncio = asyncio.get_running_loop()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this thread may wait for the loop: its own thread would wait for itself."""
        return self._thread != threading.get_ident()

    def run(self, awaitable: Awaitable[Any], seconds: float | None) -> Any:
        """Await it on the loop and wait for the outcome.

        Raises TimeoutError after that many seconds, CancelledError where the caller was cancelled.
        """
        if self._trio is not None:
            import trio

            return trio.from_thread.run(self._within, awaitable, seconds, trio_token=self._trio)
        import asyncio

        return asyncio.run_coroutine_threadsafe(
            self._within(awaitable, seconds), self._asyncio
        ).result()

    def cancel(self) -> None:
        """Cancel what is still awaited; call it on the loop."""
        self._is_cancelled = True
        for scope in list(self._scopes):
            scope.cancel()

    async def _within(self, awaitable: Awaitable[Any], seconds: float | None) -> Any:
        import anyio

        with anyio.fail_after(seconds) as scope:
            self._scopes.add(scope)
            if self._is_cancelled:
                scope.cancel()
            try:
                return await awaitable
            finally:
                self._scopes.discard(scope)
        raise CancelledError("cancelled with its caller")


_callers_loop: ContextVar[CallersLoop | None] = ContextVar("rehydrate_callers_loop", default=None)


@contextmanager
def lending_the_callers_loop() -> Iterator[None]:
    """Run embedders that any thread awaits within this block on the running loop; they are
    cancelled with the caller."""
    loop = CallersLoop()
    lent = _callers_loop.set(loop)
    try:
        yield
    except BaseException:
        loop.cancel()
        raise
    finally:
        _callers_loop.reset(lent)


def runner() -> Runner:
    """Return the runner for awaitables of a call that starts in this thread."""
    loop = _callers_loop.get()
    if loop is not None and loop.is_elsewhere:
        return loop.run
    return _run_in_trio if in_trio() else _run_in_background


def from_any_thread() -> Callable[[Callable[[], object]], object]:
    """Return a function that makes the running loop call a function, from any thread.

    It raises RuntimeError once the loop has ended.
    """
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
    import asyncio

    return asyncio.get_running_loop().call_soon_threadsafe


def in_trio() -> bool:
    """Return whether trio runs in this thread, without importing it."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def _run_in_trio(awaitable: Awaitable[Any], seconds: float | None) -> Any:
    """Run an awaitable of a trio program in a new trio loop: its own waits for us."""
    import anyio
    import trio

    async def within() -> Any:
        with anyio.fail_after(seconds):
            return await awaitable

    # Not anyio.run, which takes the context of the waiting loop for a loop in this thread.
    return trio.run(within)


def _run_in_background(awaitable: Awaitable[Any], seconds: float | None) -> Any:
    return _Background.current().run(awaitable, seconds)


class _Background:
    """One asyncio loop in a daemon thread, made on first use and again after a fork."""

    _lock = ForkSafeLock()
    _shared: _Background | None = None

    def __init__(self) -> None:
        import asyncio

        self._pid = getpid()
        self._loop = asyncio.new_event_loop()
        self.is_stuck = False
        threading.Thread(
            target=self._loop.run_forever, name="rehydrate-embedders", daemon=True
        ).start()

    @classmethod
    def current(cls) -> _Background:
        """Return the loop of this process; a new one where the last is stuck."""
        shared = cls._shared
        if shared is None or shared._pid != getpid() or shared.is_stuck:
            with cls._lock:
                if cls._shared is shared:
                    cls._shared = cls()
                shared = cls._shared
        assert shared is not None
        return shared

    def run(self, awaitable: Awaitable[Any], seconds: float | None) -> Any:
        import asyncio

        async def within() -> Any:
            async with asyncio.timeout(seconds):
                return await awaitable

        future = asyncio.run_coroutine_threadsafe(within(), self._loop)
        try:
            return future.result(None if seconds is None else seconds + _GRACE_S)
        except TimeoutError:
            # Not done although its time is over: something blocks the loop itself.
            self.is_stuck = not future.done()
            raise
