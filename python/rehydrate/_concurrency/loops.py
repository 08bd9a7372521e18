"""Event loops: a worker thread awaits something on the caller's loop, or on a background loop.

An async client belongs to the event loop on which it was first used. So inside an async function of
this package (``acompact_context``) the awaitables of an embedder or a source run on the caller's
loop. Elsewhere they run on one background loop of the process, in a thread of its own.
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
"""Seconds after a timeout in which the loop must stop the call; else the loop itself is blocked."""


class CancelledError(Exception):
    """The caller was cancelled, and the awaited call with it. The called function did not fail."""


Runner = Callable[[Awaitable[Any], "float | None"], Any]
"""Takes an awaitable and a timeout, runs it on a loop of another thread, and returns its result."""


class CallersLoop:
    """The event loop of an async call's caller; worker threads run awaitables on it."""

    def __init__(self) -> None:
        """Take the running loop; must be called on that loop."""
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
        """Whether this thread may wait for the loop. The loop's own thread would wait forever."""
        return self._thread != threading.get_ident()

    def run(self, awaitable: Awaitable[Any], timeout: float | None) -> Any:
        """Await something on the loop, block this thread meanwhile, and return the result.

        Raises TimeoutError after the timeout, CancelledError if the caller was cancelled.
        """
        if self._trio is not None:
            import trio

            return trio.from_thread.run(self._within, awaitable, timeout, trio_token=self._trio)
        import asyncio

        return asyncio.run_coroutine_threadsafe(
            self._within(awaitable, timeout), self._asyncio
        ).result()

    def cancel(self) -> None:
        """Cancel all calls that still run; must be called on the loop."""
        self._is_cancelled = True
        for scope in list(self._scopes):
            scope.cancel()

    async def _within(self, awaitable: Awaitable[Any], timeout: float | None) -> Any:
        import anyio

        with anyio.fail_after(timeout) as scope:
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
def use_callers_loop() -> Iterator[None]:
    """Make the running loop the one that `runner` returns, in every copy of this context.

    Its calls are cancelled if this block raises, as when the caller is cancelled.
    """
    loop = CallersLoop()
    token = _callers_loop.set(loop)
    try:
        yield
    except BaseException:
        loop.cancel()
        raise
    finally:
        _callers_loop.reset(token)


def runner() -> Runner:
    """Return the runner for a call of this package that starts in this thread."""
    loop = _callers_loop.get()
    if loop is not None and loop.is_elsewhere:
        return loop.run
    return _run_in_trio if in_trio() else _run_in_background


def callback_scheduler() -> Callable[[Callable[[], object]], object]:
    """Return a function for any thread that schedules a callback on the running loop.

    It raises RuntimeError once the loop has ended.
    """
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
    import asyncio

    return asyncio.get_running_loop().call_soon_threadsafe


def in_trio() -> bool:
    """Return whether trio runs in this thread. Does not import trio."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is how the running event loop cancels a task.

    Trio raises a group of cancellations where a nursery had several tasks, as when a connection is
    opened.
    """
    import anyio

    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1] is None
    return isinstance(error, cancelled)


def _run_in_trio(awaitable: Awaitable[Any], timeout: float | None) -> Any:
    """Run an awaitable of a trio program in a new trio loop: the program's own loop is blocked."""
    import anyio
    import trio

    async def within() -> Any:
        with anyio.fail_after(timeout):
            return await awaitable

    # Not anyio.run: it would take the blocked loop, which the context names, for a running one.
    return trio.run(within)


def _run_in_background(awaitable: Awaitable[Any], timeout: float | None) -> Any:
    return _Background.current().run(awaitable, timeout)


class _Background:
    """One asyncio loop in a daemon thread, started on first use and again after a fork."""

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
        """Return the loop of this process; start a new one if the last is stuck."""
        shared = cls._shared
        if shared is None or shared._pid != getpid() or shared.is_stuck:
            with cls._lock:
                if cls._shared is shared:
                    cls._shared = cls()
                shared = cls._shared
        assert shared is not None
        return shared

    def run(self, awaitable: Awaitable[Any], timeout: float | None) -> Any:
        import asyncio

        async def within() -> Any:
            async with asyncio.timeout(timeout):
                return await awaitable

        future = asyncio.run_coroutine_threadsafe(within(), self._loop)
        try:
            return future.result(None if timeout is None else timeout + _GRACE_S)
        except TimeoutError:
            # The timeout passed and the call still runs: something blocks the loop itself.
            self.is_stuck = not future.done()
            raise
