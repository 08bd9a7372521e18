"""A turn's events as an async iterator; closing it cancels the turn."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import copy_context
from typing import Any

import anyio

from rehydrate._concurrency.loops import in_trio
from rehydrate.runtime.cancelling import is_cancellation
from rehydrate.runtime.events import Event, OnEvent


async def stream(work: Callable[[OnEvent], Awaitable[object]]) -> AsyncGenerator[Event, None]:
    """What `work` tells its listener, as it comes; then raises what `work` raised.

    The work runs in a task of its own: were it a child of the one that reads, the reader's own
    cancel scopes and the work's would be entered and left in each other's midst.
    """
    sender, receiver = anyio.create_memory_object_stream[Event](math.inf)
    scope, ended = anyio.CancelScope(), anyio.Event()
    failed: list[BaseException] = []

    async def body() -> None:
        try:
            with sender, scope:
                await work(sender.send_nowait)
        except BaseException as error:
            if is_cancellation(error):
                raise
            failed.append(error)
        finally:
            ended.set()

    task = _start(body)
    try:
        with receiver:
            async for event in receiver:
                yield event
    finally:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await ended.wait()
        del task  # asyncio holds its tasks weakly
    if failed:
        try:
            raise failed[0]
        finally:
            failed.clear()


def _start(body: Callable[[], Any]) -> object:
    """Run it beside everything else on the running loop, in a copy of the caller's context."""
    if in_trio():
        import trio

        return trio.lowlevel.spawn_system_task(body, context=copy_context())
    import asyncio

    return asyncio.get_running_loop().create_task(body())
