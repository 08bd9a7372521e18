"""Once: what must be done, exactly once, whatever is cancelled meanwhile.

Record: what is known of a turn while it runs, and whom it is told.

A turn's events as an async iterator; closing it cancels the turn.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any

import anyio

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.loops import in_trio
from rehydrate._text import words_of
from rehydrate.agent.events import Event, Noted, OnEvent, Stopped, TextDelta, Turn, TurnEnded
from rehydrate.agent.tool_calls import is_cancellation
from rehydrate.context.context import Context
from rehydrate.cost.prices import Price, Usage, cost


class Once:
    """Work that is done exactly once, by whoever comes first: what was said is added to a history
    so."""

    def __init__(
        self, work: Callable[[], object], is_short: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the work, and whether it may be done on the event loop; nothing is done yet."""
        self._work = work
        self._is_short = is_short
        self._lock = threading.Lock()
        self._is_done = False

    def now(self) -> None:
        """Do it here, unless it is done; waits for a thread that is about to."""
        with self._lock:
            if not self._is_done:
                self._is_done = True
                self._work()

    async def anow(self) -> None:
        """Do it, in a worker thread where it may take a while: a large result has to be counted."""
        if self._is_done:
            return
        if self._is_short():
            self.now()
            return
        try:
            with anyio.CancelScope(shield=True):
                await hand_over(self.now)
        except BaseException:
            # A shield holds off anyio's cancellation, and not a task.cancel() of asyncio's.
            self.now()
            raise


class Record:
    """Steps, usage, events and notes, and in the end the Turn that is made of them."""

    def __init__(self, listeners: Sequence[OnEvent], price: Price | None) -> None:
        """Take whom it is told, and what the model costs."""
        self.listeners = listeners
        self.steps = 0
        self.answer = ""
        self._price = price
        self._usage = Usage()
        self._events: list[Event] = []
        self._notes: list[str] = []
        self._failed: list[OnEvent] = []

    @property
    def dollars(self) -> float | None:
        """What the turn has cost; None without a price."""
        return self._cost(self._usage)

    def step(self, usage: Usage) -> float | None:
        """The model has replied for so many tokens: what that cost."""
        self.steps += 1
        self._usage = Usage.total([self._usage, usage])
        return self._cost(usage)

    def tell(self, event: Event) -> None:
        """Tell everybody; whoever fails at it is named once, and told what comes nevertheless."""
        if not isinstance(event, (TextDelta, TurnEnded)):
            self._events.append(event)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception as error:
                if listener not in self._failed:
                    self._failed.append(listener)
                    self._notes.append(
                        f"on_event failed at {event.name}: {words_of(error, 'on_event')}"
                    )

    def note(self, note: str) -> None:
        """Keep it for whoever reads the turn, and tell it."""
        self._notes.append(note)
        self.tell(Noted(note))

    def end(self, stopped: Stopped, error: BaseException | None, context: Context) -> Turn:
        """The turn, told as the last event."""
        turn = self._turn(stopped, error, context)
        self.tell(TurnEnded(turn))
        return self._turn(stopped, error, context)  # with what failed at the last event

    def _turn(self, stopped: Stopped, error: BaseException | None, context: Context) -> Turn:
        return Turn(
            answer=self.answer,
            stopped=stopped,
            events=tuple(self._events),
            steps=self.steps,
            usage=self._usage,
            dollars=self.dollars,
            history=tuple(context.history),
            ir=context.ir,
            error=error,
            notes=tuple(self._notes),
        )

    def _cost(self, usage: Usage) -> float | None:
        return None if self._price is None else cost(usage, self._price)


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
