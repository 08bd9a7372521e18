"""is_cancellation: whether an exception is the event loop's way to cancel.

Blocking calls of tools, which the loop waits for and may stop waiting for.

The tool calls of one reply: run at the same time, each with an answer whatever happens.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._text import as_unicode, failed, result_text
from rehydrate.agent.tools import Tool, ToolError
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall


def is_cancellation(error: BaseException) -> bool:
    """Whether a task is cancelled by it: trio's comes as a group where a nursery had several tasks,
    as when a connection is opened."""
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1] is None
    return isinstance(error, cancelled)


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
            return await hand_over(counted, None)  # no pool's thread: it may hang
        except BaseException:
            with self._lock:
                is_left = not is_back
                self._left[name] += is_left
            raise


UNKNOWN_EFFECT = "whether it took effect is unknown"
_SHOWN_NAMES = 40
_SHOWN_CHARS = 500


class Answer(NamedTuple):
    """What a call is answered with."""

    call: ToolCall
    content: str
    is_error: bool = False
    elapsed_ms: float = 0.0

    @property
    def result(self) -> Any:
        """As the call's provider takes it."""
        return self.call.result(self.content, is_error=self.is_error)


class Calling:
    """The calls of one reply while they run.

    ``answer`` answers one call. After `run`, and also where it raised, `answers` has one for each
    call, in their order: of a call that did not come back it says so.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        answer: Callable[[ToolCall], Awaitable[Answer]],
        *,
        parallel: int,
    ) -> None:
        """Take the calls; nothing runs yet."""
        self._calls = tuple(calls)
        self._answer = answer
        self._parallel = parallel
        self._came: dict[int, Answer] = {}
        self._begun = 0
        self._fatal: BaseException | None = None

    async def run(self) -> None:
        """Run all of them. Raises only cancellation, KeyboardInterrupt and the like."""
        async with anyio.create_task_group() as group:
            for _ in range(min(self._parallel, len(self._calls))):
                group.start_soon(self._work, group.cancel_scope)
        if self._fatal is not None:
            raise self._fatal

    @property
    def answers(self) -> list[Answer]:
        """One for each call, in their order."""
        places = range(len(self._calls))
        return [self._came.get(place) or self._cut_short(place) for place in places]

    @property
    def cut_short(self) -> list[Answer]:
        """Those of calls that did not come back."""
        places = range(len(self._calls))
        return [self._cut_short(place) for place in places if place not in self._came]

    async def _work(self, scope: anyio.CancelScope) -> None:
        """Make the next call as long as there is one: in their order, which trio's tasks lack."""
        while self._begun < len(self._calls) and self._fatal is None:
            place = self._begun
            self._begun += 1
            await self._one(place, scope)

    async def _one(self, place: int, scope: anyio.CancelScope) -> None:
        call = self._calls[place]
        try:
            self._came[place] = await self._answer(call)
        except Exception as error:
            self._came[place] = Answer(call, failed(error, call.name), True)
        except BaseException as error:
            if not is_cancellation(error):
                self._fatal = error  # by hand: a group would wrap it, asyncio's loop end
                scope.cancel()
            elif anyio.get_current_task().has_pending_cancellation():
                raise
            # Else the tool cancelled itself, and that is nobody else's end.

    def _cut_short(self, place: int) -> Answer:
        call = self._calls[place]
        if place < self._begun:
            return Answer(call, f"{call.name} was cancelled; {UNKNOWN_EFFECT}", True)
        return Answer(call, f"{call.name} was cancelled before it began; nothing was done", True)


async def answer_with(
    tools: Mapping[str, Tool],
    call: ToolCall,
    timeout: float | None,
    threads: Threads | None = None,
) -> Answer:
    """The answer of the tool that is called; what goes wrong is an answer too."""
    started = time.perf_counter()
    try:
        content, is_error = await _content(tools, call, timeout, threads or Threads()), False
    except ToolError as error:
        content, is_error = as_unicode(str(error)), True
    except Exception as error:
        content, is_error = failed(error, call.name), True
    return Answer(call, content, is_error, (time.perf_counter() - started) * 1e3)


async def _content(
    tools: Mapping[str, Tool], call: ToolCall, timeout: float | None, threads: Threads
) -> str:
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(f"there is no tool {call.name!r}; {_names(tools)}")
    arguments = _arguments(tool, call)
    limit = timeout if tool.timeout is None else tool.timeout
    with anyio.move_on_after(limit):
        return await _called(tool, arguments, threads)
    raise ToolError(f"{call.name} took longer than {limit:g} s; {UNKNOWN_EFFECT}")


def _arguments(tool: Tool, call: ToolCall) -> dict[str, Any]:
    try:
        given = call.arguments()
    except InvalidArgumentError as error:
        # Quoted, since the history has an empty object in their place.
        sent = str(call.raw_arguments)[:_SHOWN_CHARS]
        raise ToolError(f"{error}. They were: {sent}") from None
    try:
        return tool.checked(given)
    except InvalidArgumentError as error:
        raise ToolError(str(error)) from None


async def _called(tool: Tool, arguments: dict[str, Any], threads: Threads) -> str:
    work = partial(tool.call, **arguments)
    value = work() if tool.is_async else await threads.run(tool.name, work)
    if hasattr(value, "__await__"):
        value = await value
    return result_text(value)


def _names(tools: Mapping[str, Tool]) -> str:
    if not tools:
        return "there are no tools here"
    names = ", ".join(sorted(tools)[:_SHOWN_NAMES])
    return f"the tools are {names}" + (", ..." if len(tools) > _SHOWN_NAMES else "")
