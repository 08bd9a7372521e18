"""Async wrappers: `af` runs `f` in a worker thread, for asyncio and trio; and the locks for that.

`hand_over` is the only way in which this package moves work from an event loop to a thread. On a
HybridLock threads block and coroutines wait; a WaitingLock is for work that itself waits.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import callback_scheduler, use_callers_loop
from rehydrate._concurrency.workers import COMPUTING, STORING, WorkerPool, run_in_thread, waiting

if TYPE_CHECKING:
    import anyio

T = TypeVar("T")


async def hand_over(
    work: Callable[[], T],
    pool: WorkerPool | None = COMPUTING,
    *,
    after: Callable[[], object] = lambda: None,
) -> T:
    """Run `work` in a thread of the pool and return or raise what it does; for asyncio and trio.

    Pass None as the pool for work that may hang: it gets a thread of its own. Async embedders and
    sources that the work awaits run on the caller's loop and are cancelled with the caller. After a
    cancellation other work that has begun finishes in its thread; work in the queue never begins.
    `after` runs exactly once in any case, to release what the work needs.

    anyio's threads are not used. There are 40 for the whole process, so a coroutine would wait for
    the work of other libraries; and on asyncio they keep the process from exiting.
    """
    import anyio

    done = anyio.Event()
    results: list[T] = []
    errors: list[BaseException] = []
    call_on_loop = callback_scheduler()

    def task() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:
            errors.append(error)
        finally:
            after()
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            call_on_loop(done.set)

    with use_callers_loop():
        context = copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:
            # The variable names the running loop. The thread has none, and the work may start one.
            context.run(sniffio.current_async_library_cvar.set, None)
        try:
            (run_in_thread if pool is None else pool.start)(task)
        except RuntimeError:  # no more threads, or the interpreter is about to exit
            after()
            raise
        try:
            await done.wait()
        except BaseException:
            if pool is not None and pool.withdraw(task):
                after()
            raise
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # breaks the cycle of error, traceback and this frame
    return results[0]


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

        self._call_on_loop = callback_scheduler()
        self._event: anyio.Event = anyio.Event()

    async def sleep(self) -> None:
        import anyio

        await self._event.wait()
        self._event = anyio.Event()

    def wake(self) -> bool:
        """Wake it; return False if its loop has ended."""
        try:
            self._call_on_loop(lambda: self._event.set())  # noqa: PLW0108  that of then
        except RuntimeError:  # the loop has ended; trio raises a subclass of RuntimeError
            return False
        return True


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


class _LoopCycle(threading.local):
    """The current cycle of this thread's event loop."""

    has_run_inline = False
    """Whether work has run on the loop in this cycle."""

    def begin(self) -> None:
        self.has_run_inline = False


_cycle = _LoopCycle()


async def run_locked(lock: HybridLock, work: Callable[[], T], is_short: Callable[[], bool]) -> T:
    """Run `work` with `lock` held, and return or raise what it does.

    It runs on the event loop if `is_short` returns true, else in the pool. `is_short` is called
    with the lock held.
    """
    import anyio.lowlevel

    # Many short pieces of work without a pause would block the loop like one long piece.
    if _cycle.has_run_inline:
        await anyio.lowlevel.checkpoint()
        _cycle.begin()  # the scheduled callback is lost if its loop has ended
    await lock.acquire()
    try:
        is_inline = is_short()
        if is_inline:
            _cycle.has_run_inline = True
            callback_scheduler()(_cycle.begin)
            return work()
    except BaseException:
        is_inline = True
        raise
    finally:
        if is_inline:
            lock.release()
    return await hand_over(work, after=lock.release)


P = ParamSpec("P")
R = TypeVar("R")

_DOC = """{first}

The async version of `{name}`, for asyncio and trio: the same arguments, result and errors. It runs
in a thread of the package's own; the event loop goes on. Async embedders and sources run on the
caller's own loop and are cancelled with the caller. Other work that has begun finishes by itself
after a cancellation{unknown}.
"""
_UNKNOWN = ": whether a write was done is then unknown, and adding the same again is harmless"


def stored(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async version of a method that reads or writes a memory."""
    return _async_wrapper(method, STORING, _UNKNOWN)


def computed(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async version of a function that computes."""
    return _async_wrapper(function, COMPUTING)


def _async_wrapper(
    function: Callable[P, R], pool: WorkerPool, unknown: str = ""
) -> Callable[P, Coroutine[Any, Any, R]]:
    @wraps(function)  # its `__wrapped__` gives the wrapper the function's signature
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return await hand_over(partial(function, *args, **kwargs), pool)

    name = function.__name__
    wrapper.__name__ = f"a{name}"
    wrapper.__qualname__ = f"{function.__qualname__.removesuffix(name)}{wrapper.__name__}"
    first = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    wrapper.__doc__ = _DOC.format(first=first, name=name, unknown=unknown)
    return wrapper


class Closing:
    """Base of objects that a ``with`` or ``async with`` block closes at its end."""

    def close(self) -> None:
        """Close it; a second call does nothing."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """`close` for asyncio and trio."""
        await hand_over(self.close, STORING)

    def __enter__(self) -> Self:
        """Return it; leaving the block closes it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return it; leaving the block closes it."""
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close it, even where the task was cancelled."""
        import anyio

        with anyio.CancelScope(shield=True):
            await self.aclose()


class RunOnce:
    """Work for the first caller of `run` or `arun`; each returns when the work is done.

    >>> once = RunOnce(lambda: print("added"))
    >>> once.run()
    added
    >>> once.run()
    """

    def __init__(
        self, work: Callable[[], object], is_short: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the work; ``is_short`` says whether it may run on the event loop."""
        self._work = work
        self._is_short = is_short
        self._lock = threading.Lock()
        self._has_run = False

    def run(self) -> None:
        """Run the work here, unless it has run. If another thread runs it now, wait for that."""
        with self._lock:
            if not self._has_run:
                self._has_run = True
                self._work()

    async def arun(self) -> None:
        """`run` for asyncio and trio, in a worker thread unless the work is short.

        If the caller is cancelled, the work still runs before the cancellation is raised.
        """
        import anyio

        if self._has_run:
            return
        if self._is_short():
            self.run()
            return
        try:
            with anyio.CancelScope(shield=True):
                await hand_over(self.run)
        except BaseException:
            # A shield holds off a cancellation by anyio, not a task.cancel() of asyncio.
            self.run()
            raise
