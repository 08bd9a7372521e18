"""The Job that one call of a tool is: its steps, and whether anybody still waits."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from threading import Event
from typing import NamedTuple, TypeVar

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.loops import callback_scheduler
from rehydrate._concurrency.workers import STORING

T = TypeVar("T")
Report = Callable[[float, float | None, str | None], Awaitable[None]]


class Step(NamedTuple):
    """How far a job is."""

    done: float
    total: float
    message: str


class Job:
    """What the work of one call knows of its caller.

    >>> steps = []
    >>> Job(steps.append).report(1, 2, "half")
    >>> steps
    [Step(done=1, total=2, message='half')]
    """

    def __init__(self, tell: Callable[[Step], object] = lambda _step: None) -> None:
        """Take what is told of each step."""
        self._tell = tell
        self._cancelled = Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have the work stop where it can."""
        self._cancelled.set()

    def report(self, done: float, total: float, message: str) -> None:
        """Tell the caller; ``done`` must grow from step to step."""
        self._tell(Step(done, total, message))


async def run_job(work: Callable[[Job], T], report: Report) -> T:
    """Run work in a thread, for asyncio and trio; its steps are reported in order.

    The work must raise nothing of its own.
    """
    import anyio

    send, receive = anyio.create_memory_object_stream[Step](math.inf)
    call_on_loop = callback_scheduler()

    def put(step: Step) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            send.send_nowait(step)

    def tell(step: Step) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            call_on_loop(partial(put, step))

    async def forward() -> None:
        async with receive:
            async for done, total, message in receive:
                await report(done, total, message)

    job = Job(tell)
    async with anyio.create_task_group() as group:
        group.start_soon(forward)
        try:
            result = await hand_over(partial(work, job), STORING)
        finally:
            job.cancel()
            send.close()
    return result
