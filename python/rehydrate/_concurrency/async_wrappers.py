"""From a coroutine to a thread and back: the one way in which this package leaves an event loop.

Async twins: `af` of `f`, the same call in a worker thread, for asyncio and trio.
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
    """What `work` returns or raises, on asyncio and trio, in a thread of the pool; None: in one of
    its own, for what may hang.

    Async embedders and sources that it awaits run on the caller's own loop, and are cancelled with
    the caller. Otherwise work that has begun is left to finish by itself, and work that waits for
    its place never begins. `after` runs once in any case: it lets go of what the work needs.

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
    """The event loop's turn, in the thread that it runs in."""

    is_used = False
    """Whether short work ran in it already."""


_turn = _Turn()


def _begin_turn() -> None:
    _turn.is_used = False


async def _let_others_run() -> None:
    """One short piece of work a turn of the loop: many at once, or one after the other without
    anything to wait for in between, would hold it up as a long one does."""
    import anyio.lowlevel

    if _turn.is_used:
        await anyio.lowlevel.checkpoint()
        _begin_turn()  # by ourselves too: the loop that was to do it may have ended


async def run_locked(lock: HybridLock, work: Callable[[], T], is_short: Callable[[], bool]) -> T:
    """What `work` returns or raises, with `lock` held by the thread that does it.

    What `is_short` runs on the event loop, the rest in the pool. It is asked with the lock held.
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

The async twin of `{name}`, for asyncio and trio: the same arguments, result and errors, in a thread
of the package's own; the event loop goes on. Async embedders and sources run on the caller's own
loop and are cancelled with the caller. Otherwise cancelling leaves what has begun to finish by
itself{unknown}.
"""
_UNKNOWN = ": whether a write was done is then unknown, and adding the same again is harmless"


def stored(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """The twin of what reads or writes a memory."""
    return _twin(method, STORING, _UNKNOWN)


def computed(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """The twin of what computes."""
    return _twin(function, COMPUTING)


def _twin(
    function: Callable[P, R], pool: WorkerPool, unknown: str = ""
) -> Callable[P, Coroutine[Any, Any, R]]:
    @wraps(function)  # its `__wrapped__` is what gives the twin the function's signature
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await hand_over(partial(function, *args, **kwargs), pool)

    name = function.__name__
    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{function.__qualname__.removesuffix(name)}{twin.__name__}"
    first = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    twin.__doc__ = _DOC.format(first=first, name=name, unknown=unknown)
    return twin
