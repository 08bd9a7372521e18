"""stream_events: the events of a turn as an async iterator; closing it cancels the turn."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import copy_context
from typing import Any

import anyio

from rehydrate._concurrency.loops import in_trio, is_cancellation
from rehydrate.agent.events import Event, OnEvent


async def stream_events(
    run_turn: Callable[[OnEvent], Awaitable[object]],
) -> AsyncGenerator[Event, None]:
    """Yield each event that `run_turn` passes to its listener; then raise what it raised.

    The turn runs in a task of its own. As a child of the reader's task, its cancel scopes and the
    reader's would overlap without nesting, which anyio forbids.
    """
    sender, receiver = anyio.create_memory_object_stream[Event](math.inf)
    scope, ended = anyio.CancelScope(), anyio.Event()
    errors: list[BaseException] = []

    async def body() -> None:
        try:
            with sender, scope:
                await run_turn(sender.send_nowait)
        except BaseException as error:
            if is_cancellation(error):
                raise
            errors.append(error)
        finally:
            ended.set()

    task = _start_task(body)
    try:
        with receiver:
            async for event in receiver:
                yield event
    finally:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await ended.wait()
        del task  # until here: asyncio holds only a weak reference to its tasks
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # breaks the cycle of error, traceback and this frame


def _start_task(body: Callable[[], Any]) -> object:
    """Start a task on the running loop, in a copy of the caller's context."""
    if in_trio():
        import trio

        return trio.lowlevel.spawn_system_task(body, context=copy_context())
    import asyncio

    return asyncio.get_running_loop().create_task(body())
