"""Async wrappers: `af` of `f` makes the same call in a worker thread, for asyncio and trio.

`hand_over` is the one way in which this package moves work from an event loop to a thread.
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
from rehydrate._concurrency.loops import from_any_thread, lending_the_callers_loop
from rehydrate._concurrency.workers import COMPUTING, STORING, WorkerPool, run_in_thread

T = TypeVar("T")


async def hand_over(
    work: Callable[[], T],
    pool: WorkerPool | None = COMPUTING,
    *,
    after: Callable[[], object] = lambda: None,
) -> T:
    """Return or raise what `work` does, run in a thread of the pool; None: a thread of its own.

    For asyncio and trio; work that may hang takes a thread of its own. Async embedders and sources
    that it awaits run on the caller's own loop, and are cancelled with the caller. Other work that
    has begun finishes by itself after a cancellation; work in the queue never begins. `after` runs
    once in any case, to release what the work needs.

    anyio's own threads are not used: there are 40 for the whole process, a coroutine that waits for
    one waits for everybody's work, and on asyncio they keep the process from exiting.
    """
    import anyio

    done = anyio.Event()
    came: list[T] = []
    failed: list[BaseException] = []
    call_on_loop = from_any_thread()

    def task() -> None:
        try:
            came.append(context.run(work))
        except BaseException as error:
            failed.append(error)
        finally:
            after()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            call_on_loop(done.set)

    with lending_the_callers_loop():
        context = copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:
            # It says which loop runs here; in the thread none does, and the work may start one.
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
    if failed:
        try:
            raise failed[0]
        finally:
            failed.clear()  # else the error holds this frame, and the frame the error
    return came[0]


class _Turn(threading.local):
    """One turn of the event loop, in its thread."""

    is_used = False
    """Whether short work ran in it already."""


_turn = _Turn()


def _begin_turn() -> None:
    _turn.is_used = False


async def _let_others_run() -> None:
    """Run at most one short piece of work in a turn of the loop: many of them without a pause would
    block it as one long piece does."""
    import anyio.lowlevel

    if _turn.is_used:
        await anyio.lowlevel.checkpoint()
        _begin_turn()  # this thread too: the loop that was to do it may have ended


async def run_locked(lock: HybridLock, work: Callable[[], T], is_short: Callable[[], bool]) -> T:
    """Return or raise what `work` does, with `lock` held by the thread that runs it.

    If `is_short` returns true, the event loop runs it, else the pool. It is called with the lock
    held.
    """
    await _let_others_run()
    await lock.acquire()
    try:
        is_inline = is_short()
        if is_inline:
            _turn.is_used = True
            from_any_thread()(_begin_turn)
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
