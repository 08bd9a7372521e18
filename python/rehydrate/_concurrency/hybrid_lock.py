"""HybridLock: threads block on it, coroutines await it. WaitingLock: for work that itself waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import callback_scheduler
from rehydrate._concurrency.workers import waiting

if TYPE_CHECKING:
    import anyio


class HybridLock(ForkSafeLock):
    """A lock for ``with`` in threads and ``await lock.acquire()`` in coroutines.

    A waiting coroutine holds no thread. It never owns the lock while it is suspended: it is woken
    first, and then tries to take the lock. So the owner is always a running thread, and a blocking
    ``with`` on the event loop's thread cannot wait for a coroutine of that loop. Coroutines get the
    lock in the order in which they asked; a thread may come before them. The owner releases the
    lock before its next ``await``, or lets a worker thread release it.

    >>> lock = HybridLock()
    >>> with lock:
    ...     lock.is_held
    True
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Start free."""
        super().__init__()
        self._waiters: deque[_Waiter] = deque()

    def __enter__(self) -> None:
        """Take the lock; a worker thread gives its slot to other work while it waits."""
        if not self._lock.acquire(blocking=False):
            with waiting():
                self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()

    @property
    def is_held(self) -> bool:
        """Whether it is held at this moment."""
        return self._lock.locked()

    async def acquire(self) -> None:
        """Take the lock. A cancelled caller leaves the queue without it."""
        import anyio.lowlevel

        await anyio.lowlevel.checkpoint_if_cancelled()  # also if the lock is free
        if not self._waiters and self._lock.acquire(blocking=False):
            return
        waiter = _Waiter()
        self._waiters.append(waiter)
        try:
            # Try once more now: a release before this line has woken no one.
            while not (self._waiters[0] is waiter and self._lock.acquire(blocking=False)):
                await waiter.sleep()
        except BaseException:
            self._remove(waiter)
            self._wake_next()  # this waiter may have used up a wake-up
            raise
        self._waiters.popleft()

    def release(self) -> None:
        """Release the lock, from any thread."""
        self._lock.release()
        self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first in the queue whose loop still runs."""
        with suppress(IndexError):
            while not (first := self._waiters[0]).wake():
                self._remove(first)

    def _remove(self, waiter: _Waiter) -> None:
        with suppress(ValueError):  # another thread has removed it
            self._waiters.remove(waiter)

    def _renew(self) -> None:
        super()._renew()
        self._waiters.clear()  # they belong to the parent process


class _Waiter:
    """A coroutine in the queue."""

    __slots__ = ("_call_on_loop", "_event")

    def __init__(self) -> None:
        import anyio

        self._call_on_loop: Callable[[Callable[[], object]], object] = callback_scheduler()
        self._event: anyio.Event = anyio.Event()

    async def sleep(self) -> None:
        import anyio

        await self._event.wait()
        self._event = anyio.Event()

    def wake(self) -> bool:
        """Wake it; return False if its loop has ended."""
        try:
            self._call_on_loop(self._set_event)
        except RuntimeError:  # the loop has ended; trio raises a subclass of RuntimeError
            return False
        return True

    def _set_event(self) -> None:
        self._event.set()


class WaitingLock:
    """A ``threading.RLock`` for ``with``. A worker thread gives its slot to other work while it
    waits for it.

    Else all slots of a pool could be held by threads that wait for the lock, while its holder
    waits for a slot to come back from `waiting`.

    >>> with WaitingLock():
    ...     pass
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        """Start free."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Take the lock."""
        if not self._lock.acquire(blocking=False):
            with waiting():
                self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._lock.release()
