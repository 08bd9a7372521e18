"""The tool calls of a reply: repaired, so that the provider accepts them back, and run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio

from rehydrate import _native, formats
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import is_cancellation
from rehydrate._native import FreeNames, as_unicode, result_entries, user_message
from rehydrate._text import failure_text, result_text
from rehydrate.agent.model import Reply
from rehydrate.agent.tools import Tool, ToolError
from rehydrate.errors import InvalidArgumentError, Violation
from rehydrate.formats._reading import is_same_list
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider


def repair_reply(reply: Reply, used_ids: Iterable[str]) -> tuple[Reply, list[str]]:
    """Return the repaired reply, and a note for each id that changed.

    A call id that was used before gets a number: some local servers begin with ``call_0`` in every
    reply. Arguments that are not a JSON object become an empty one in the history; the `ToolCall`
    keeps them, so that the error result can quote them. Empty text blocks are dropped, and
    reasoning items that nothing follows. A reply that needs no repair is returned as it is.
    """
    notes: list[str] = []
    names = FreeNames(used_ids, "_")
    new_ids: list[str] = []
    for call in reply.calls:
        new_id = names.take(call.id)
        if new_id != call.id:
            notes.append(f"the model used the call id {call.id!r} twice; it is {new_id!r} now")
        new_ids.append(new_id)
    ids = [(call.id, new_id) for call, new_id in zip(reply.calls, new_ids, strict=True)]
    entries = _native.repaired_entries(reply.entries, ids)
    while entries and isinstance(entries[-1], Mapping) and entries[-1].get("type") == "reasoning":
        entries.pop()  # the Responses API refuses such items at the end
    if is_same_list(entries, reply.entries):
        return reply, notes
    calls = [call._replace(id=new_id) for call, new_id in zip(reply.calls, new_ids, strict=True)]
    return replace(reply, entries=tuple(entries), calls=tuple(calls)), notes


def violations_of_reply(
    entries: Sequence[Any], results: Sequence[Any], provider: Provider
) -> list[Violation]:
    """Return what the provider would refuse in a history of these entries and results."""
    asked = user_message("?", provider)
    # Converse takes no second message of the user after results.
    history = [asked, *entries, *(result_entries(results) or [asked])]
    return formats.validate(history, provider)


T = TypeVar("T")

UNKNOWN_EFFECT = "whether it took effect is unknown"
MAX_HANGING_CALLS = 32
"""Calls of one tool that still run after their turn stopped waiting for them."""
_MAX_LISTED_NAMES = 40
_MAX_QUOTED_CHARS = 500


class ToolResult(NamedTuple):
    """The result of one call: a text for the model."""

    call: ToolCall
    content: str
    is_error: bool = False
    elapsed_ms: float = 0.0

    @property
    def provider_result(self) -> Any:
        """The result in the shape of the call's provider."""
        return self.call.result(self.content, is_error=self.is_error)


class ToolCallBatch:
    """The calls of one reply.

    ``run_call`` runs one call. After `run`, also if it raised, `results` has one for each call, in
    their order; if a call did not return, its result says so.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        run_call: Callable[[ToolCall], Awaitable[ToolResult]],
        *,
        parallel: int,
    ) -> None:
        """Take the calls; ``parallel`` of them run at the same time."""
        self._calls = tuple(calls)
        self._run_call = run_call
        self._parallel = parallel
        self._results: dict[int, ToolResult] = {}
        self._started = 0
        self._fatal: BaseException | None = None

    async def run(self) -> None:
        """Run all calls. Raises only a cancellation, KeyboardInterrupt and the like."""
        async with anyio.create_task_group() as group:
            for _ in range(min(self._parallel, len(self._calls))):
                group.start_soon(self._run_next_calls, group.cancel_scope)
        if self._fatal is not None:
            raise self._fatal

    @property
    def results(self) -> list[ToolResult]:
        """One result for each call, in their order."""
        indexes = range(len(self._calls))
        return [self._results.get(index) or self._cut_short(index) for index in indexes]

    @property
    def cut_short(self) -> list[ToolResult]:
        """The results of the calls that did not return."""
        indexes = range(len(self._calls))
        return [self._cut_short(index) for index in indexes if index not in self._results]

    async def _run_next_calls(self, scope: anyio.CancelScope) -> None:
        """Run calls until none is left.

        A task takes the next call by itself: trio starts tasks in any order, and calls start in
        theirs.
        """
        while self._started < len(self._calls) and self._fatal is None:
            index = self._started
            self._started += 1
            await self._run_one(index, scope)

    async def _run_one(self, index: int, scope: anyio.CancelScope) -> None:
        call = self._calls[index]
        try:
            self._results[index] = await self._run_call(call)
        except Exception as error:
            self._results[index] = ToolResult(call, failure_text(error, call.name), True)
        except BaseException as error:
            if not is_cancellation(error):
                self._fatal = error  # not raised here: the task group would wrap it in a group
                scope.cancel()
            elif anyio.get_current_task().has_pending_cancellation():
                raise
            # Else the tool cancelled itself: the other calls go on.

    def _cut_short(self, index: int) -> ToolResult:
        call = self._calls[index]
        if index < self._started:
            return ToolResult(call, f"{call.name} was cancelled; {UNKNOWN_EFFECT}", True)
        text = f"{call.name} was cancelled before it began; nothing was done"
        return ToolResult(call, text, True)


class ToolRunner:
    """Runs the sync tools of one agent in threads. A tool that hangs too often is not called
    again."""

    def __init__(self) -> None:
        """Start without threads."""
        self._lock = ForkSafeLock()
        self._hanging: Counter[str] = Counter()

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return or raise what it does.

        Raises ToolError if MAX_HANGING_CALLS calls of this tool have not returned.
        """
        if self._hanging[name] >= MAX_HANGING_CALLS:
            raise ToolError(
                f"{MAX_HANGING_CALLS} calls of {name} have not come back; it is called again once "
                "they have"
            )
        has_returned = is_counted = False

        def run_work() -> T:
            nonlocal has_returned
            try:
                return work()
            finally:
                with self._lock:
                    has_returned = True
                    self._hanging[name] -= is_counted

        try:
            return await hand_over(run_work, None)  # not in a pool: it may hang
        except BaseException:
            with self._lock:
                is_counted = not has_returned
                self._hanging[name] += is_counted
            raise


async def run_tool(
    tools: Mapping[str, Tool], call: ToolCall, timeout: float | None, runner: ToolRunner
) -> ToolResult:
    """Run the tool that is called; an error is a result too, with a text for the model."""
    started = time.perf_counter()
    try:
        content, is_error = await _content(tools, call, timeout, runner), False
    except ToolError as error:
        content, is_error = as_unicode(str(error)), True
    except Exception as error:
        content, is_error = failure_text(error, call.name), True
    return ToolResult(call, content, is_error, (time.perf_counter() - started) * 1e3)


async def _content(
    tools: Mapping[str, Tool], call: ToolCall, timeout: float | None, runner: ToolRunner
) -> str:
    tool = tools.get(call.name)
    if tool is None and call.format == "bedrock":
        sent = {t.definition.render("bedrock")["toolSpec"]["name"]: t for t in tools.values()}
        tool = sent.get(call.name)
    if tool is None:
        more = ", ..." if len(tools) > _MAX_LISTED_NAMES else ""
        names = f"the tools are {', '.join(sorted(tools)[:_MAX_LISTED_NAMES])}{more}"
        raise ToolError(
            f"there is no tool {call.name!r}; {names if tools else 'there are no tools here'}"
        )
    try:
        arguments = call.arguments()
    except InvalidArgumentError as error:
        # Quoted here, because the history holds an empty object in their place.
        quoted = str(call.raw_arguments)[:_MAX_QUOTED_CHARS]
        raise ToolError(f"{error}. They were: {quoted}") from None
    try:
        arguments = tool.checked(arguments)
    except InvalidArgumentError as error:
        raise ToolError(str(error)) from None
    seconds = timeout if tool.timeout is None else tool.timeout
    with anyio.move_on_after(seconds):
        work = partial(tool.call, **arguments)
        value = work() if tool.is_async else await runner.run(tool.name, work)
        if hasattr(value, "__await__"):
            value = await value
        return result_text(value)
    raise ToolError(f"{call.name} took longer than {seconds:g} s; {UNKNOWN_EFFECT}")
