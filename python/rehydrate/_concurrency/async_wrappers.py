"""Async wrappers: `af` runs `f` in a worker thread, for asyncio and trio.

`hand_over` is the only way in which this package moves work from an event loop to a thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from rehydrate._concurrency.hybrid_lock import HybridLock
from rehydrate._concurrency.loops import callback_scheduler, use_callers_loop
from rehydrate._concurrency.workers import COMPUTING, STORING, WorkerPool, run_in_thread

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


class _LoopCycle(threading.local):
    """The current cycle of this thread's event loop."""

    has_run_inline = False
    """Whether work has run on the loop in this cycle."""


_cycle = _LoopCycle()


def _begin_cycle() -> None:
    _cycle.has_run_inline = False


async def _yield_to_loop() -> None:
    """Wait for the next cycle if work has run on the loop in this one.

    Many short pieces of work without a pause would block the loop like one long piece.
    """
    import anyio.lowlevel

    if _cycle.has_run_inline:
        await anyio.lowlevel.checkpoint()
        _begin_cycle()  # the scheduled callback is lost if its loop has ended


async def run_locked(lock: HybridLock, work: Callable[[], T], is_short: Callable[[], bool]) -> T:
    """Run `work` with `lock` held, and return or raise what it does.

    It runs on the event loop if `is_short` returns true, else in the pool. `is_short` is called
    with the lock held.
    """
    await _yield_to_loop()
    await lock.acquire()
    try:
        is_inline = is_short()
        if is_inline:
            _cycle.has_run_inline = True
            callback_scheduler()(_begin_cycle)
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
