"""Blocking calls of tools, which the loop waits for and may stop waiting for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

import anyio

from rehydrate.compiler.threads import run_in_thread
from rehydrate.embedding.locks import ForkSafeLock
from rehydrate.embedding.loops import in_trio, lending_the_callers_loop
from rehydrate.runtime.tools import ToolError

T = TypeVar("T")

MOST_LEFT_BEHIND = 32
"""So many calls of one tool may still be under way that nobody waits for any more."""


class Threads:
    """The threads of one agent's tools: one whose calls never come back is called no more."""

    def __init__(self) -> None:
        """None runs yet."""
        self._lock = ForkSafeLock()
        self._left: Counter[str] = Counter()

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises; ToolError where too many calls of this tool hang."""
        if self._left[name] >= MOST_LEFT_BEHIND:
            raise ToolError(
                f"{MOST_LEFT_BEHIND} calls of {name} have not come back; it is called again once "
                "they have"
            )
        is_back = is_left = False

        def counted() -> T:
            nonlocal is_back
            try:
                return work()
            finally:
                with self._lock:
                    is_back = True
                    self._left[name] -= is_left

        try:
            return await in_thread(counted)
        except BaseException:
            with self._lock:
                is_left = not is_back
                self._left[name] += is_left
            raise


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns or raises, on asyncio and trio.

    Cancelling leaves the thread to finish by itself. anyio's own threads are not used: on asyncio
    they keep the process from exiting, on trio they keep their place among few, as long as a tool
    hangs in one.
    """
    done = anyio.Event()
    came: list[T] = []
    failed: list[BaseException] = []
    call_on_loop = _loop()

    def task() -> None:
        try:
            came.append(context.run(work))
        except BaseException as error:
            failed.append(error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            call_on_loop(done.set)

    with lending_the_callers_loop():
        context = copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:
            # It says which loop runs here; in the thread none does, and the work may start one.
            context.run(sniffio.current_async_library_cvar.set, None)
        run_in_thread(task)
        await done.wait()
    if failed:
        try:
            raise failed[0]
        finally:
            failed.clear()  # else the error holds this frame, and the frame the error
    return came[0]


def _loop() -> Callable[[Callable[[], object]], object]:
    """What makes the running loop call a function, from any thread."""
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
    import asyncio

    return asyncio.get_running_loop().call_soon_threadsafe
