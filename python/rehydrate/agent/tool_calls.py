"""The tool calls of a reply: repaired, so that the provider accepts them back, and run."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio

from rehydrate import formats
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import is_cancellation
from rehydrate._text import FreeNames, as_unicode, failure_text, result_text
from rehydrate.agent.model import Reply
from rehydrate.agent.tools import Tool, ToolError
from rehydrate.errors import InvalidArgumentError, Violation
from rehydrate.formats._reading import is_same_list, user_message
from rehydrate.formats.calls import ToolCall, result_entries
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
    queue = list(zip(reply.calls, new_ids, strict=True))
    entries = [repaired for entry in reply.entries for repaired in _repaired_entry(entry, queue)]
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
    # Converse takes no second message of the user's after results.
    history = [asked, *entries, *(result_entries(results) or [asked])]
    return formats.validate(history, provider)


def call_ids(entries: Iterable[Any]) -> Iterator[str]:
    """Yield the ids of all calls in a history, in any provider's shape."""
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        if isinstance(call_id := entry.get("call_id"), str):
            yield call_id
        for key in ("content", "parts", "tool_calls"):
            blocks = entry.get(key)
            for block in blocks if isinstance(blocks, (list, tuple)) else ():
                if not isinstance(block, Mapping):
                    continue
                used = block.get("toolUse")
                made = block.get("functionCall")
                if isinstance(made, Mapping):
                    yield str(made.get("id") or "")
                elif isinstance(call_id := block.get("toolCallId", block.get("id")), str):
                    yield call_id
                elif isinstance(used, Mapping) and isinstance(used.get("toolUseId"), str):
                    yield used["toolUseId"]


def _repaired_entry(entry: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """Yield the entry with its calls repaired. `queue` holds the calls that follow, in order."""
    if not isinstance(entry, Mapping):
        yield entry
        return
    if "call_id" in entry and queue and queue[0][0].id == entry["call_id"]:
        yield _repaired_call(entry, "call_id", queue.pop(0)[1], "arguments")
        return
    changed = dict(entry)
    repairs = {"content": _repaired_block, "parts": _repaired_block}
    for key, repair in (*repairs.items(), ("tool_calls", _repaired_chat_call)):
        blocks = entry.get(key)
        if isinstance(blocks, (list, tuple)):
            repaired = [one for block in blocks for one in repair(block, queue)]
            if not is_same_list(repaired, blocks):
                changed[key] = repaired
    same = all(changed[key] is entry[key] for key in entry)
    yield entry if same else changed


_SIGNATURE = "thoughtSignature"
"""Gemini wants it back, also on a part whose text is empty."""


def _repaired_block(block: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """Yield a block of Anthropic's, Converse's or Gemini's, repaired; nothing for an empty text."""
    if not isinstance(block, Mapping):
        yield block
        return
    made = block.get("functionCall")
    if isinstance(made, Mapping) and made.get("id") and queue and queue[0][0].id == made["id"]:
        repaired = _repaired_call(made, "id", queue.pop(0)[1], "args")
        yield block if repaired is made else {**block, "functionCall": repaired}
        return
    if queue and queue[0][0].id == block.get("toolCallId"):
        yield _repaired_call(block, "toolCallId", queue.pop(0)[1], "input")
        return
    used = block.get("toolUse")
    if isinstance(used, Mapping) and queue and queue[0][0].id == used.get("toolUseId"):
        repaired = _repaired_call(used, "toolUseId", queue.pop(0)[1], "input")
        yield block if repaired is used else {**block, "toolUse": repaired}
    elif block.get("type") == "tool_use" and queue and queue[0][0].id == block.get("id"):
        yield _repaired_call(block, "id", queue.pop(0)[1], "input")
    elif block.get("text") != "" or block.get("type", "text") != "text" or _SIGNATURE in block:
        yield block


def _repaired_chat_call(call: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """Yield a tool call of OpenAI chat's, repaired."""
    if isinstance(call, Mapping) and queue and queue[0][0].id == call.get("id"):
        repaired = _repaired_call(call, "id", queue.pop(0)[1], "")
        function = call.get("function")
        if isinstance(function, Mapping) and not _is_object(function.get("arguments")):
            repaired = {**repaired, "function": {**function, "arguments": "{}"}}
        yield repaired
    else:
        yield call


def _repaired_call(
    call: Mapping[str, Any], id_key: str, new_id: str, arguments_key: str
) -> Mapping[str, Any]:
    changes: dict[str, Any] = {}
    if call[id_key] != new_id:
        changes[id_key] = new_id
    if arguments_key and not _is_object(call.get(arguments_key)):
        changes[arguments_key] = {} if arguments_key in ("input", "args") else "{}"
    return {**call, **changes} if changes else call


def _is_object(arguments: Any) -> bool:
    if isinstance(arguments, str):
        try:
            return isinstance(json.loads(arguments), dict)
        except (ValueError, RecursionError):
            return False
    return isinstance(arguments, Mapping)


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
