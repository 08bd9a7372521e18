"""HybridLock: a lock that threads block on and coroutines await."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import from_any_thread
from rehydrate._concurrency.workers import waiting

if TYPE_CHECKING:
    import anyio


class HybridLock(ForkSafeLock):
    """A lock for ``with`` in threads and ``await lock.acquire()`` in coroutines.

    A coroutine that waits holds no thread, and never owns the lock while it is suspended: it is
    woken, and then tries. So the owner is always a thread that runs, and a blocking ``with`` on the
    event loop's own thread cannot wait for a coroutine of that loop. Coroutines come in the order
    in which they asked; a thread may come before them. Whoever got the lock releases it before the
    next ``await``, or has a worker thread do so.

    >>> lock = HybridLock()
    >>> with lock:
    ...     lock.is_held
    True
    """

    __slots__ = ("_sleepers",)

    def __init__(self) -> None:
        """A free one."""
        super().__init__()
        self._sleepers: deque[_Sleeper] = deque()

    def __enter__(self) -> None:
        """Take it; a worker's place in its pool is another's meanwhile."""
        if not self._lock.acquire(blocking=False):
            with waiting():
                self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self.release()

    @property
    def is_held(self) -> bool:
        """Whether somebody has it at this moment."""
        return self._lock.locked()

    async def acquire(self) -> None:
        """Take it. Cancelled, the caller has not got it, and nothing of theirs is left in line."""
        import anyio.lowlevel

        await anyio.lowlevel.checkpoint_if_cancelled()  # also where it is free
        if not self._sleepers and self._lock.acquire(blocking=False):
            return
        sleeper = _Sleeper()
        self._sleepers.append(sleeper)
        try:
            # Tried again once in line: whoever released before has woken nobody.
            while not (self._sleepers[0] is sleeper and self._lock.acquire(blocking=False)):
                await sleeper.sleep()
        except BaseException:
            self._remove(sleeper)
            self._wake_next()  # what woke this one was meant for whoever comes next
            raise
        self._sleepers.popleft()

    def release(self) -> None:
        """Let go of it, from whatever thread."""
        self._lock.release()
        self._wake_next()

    def _wake_next(self) -> None:
        """Wake who is first in line; the loop of one that cannot be woken has ended."""
        with suppress(IndexError):
            while not (first := self._sleepers[0]).wake():
                self._remove(first)

    def _remove(self, sleeper: _Sleeper) -> None:
        with suppress(ValueError):  # another thread has
            self._sleepers.remove(sleeper)

    def _renew(self) -> None:
        super()._renew()
        self._sleepers.clear()  # they are the parent's


class _Sleeper:
    """A coroutine in line."""

    __slots__ = ("_call_on_loop", "_event")

    def __init__(self) -> None:
        import anyio

        self._call_on_loop: Callable[[Callable[[], object]], object] = from_any_thread()
        self._event: anyio.Event = anyio.Event()

    async def sleep(self) -> None:
        import anyio

        await self._event.wait()
        self._event = anyio.Event()

    def wake(self) -> bool:
        """Whether its loop is there to wake it."""
        try:
            self._call_on_loop(self._awake)
        except RuntimeError:  # the loop is closed; trio's says so by a RuntimeError too
            return False
        return True

    def _awake(self) -> None:
        self._event.set()
