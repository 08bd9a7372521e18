"""TurnLoop: one turn. Prompt, model, tool calls, and again, until an answer or a limit.

AgentConfig: what all turns of an `Interpreter` share; TurnLimits: the limits of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import anyio

from rehydrate import formats
from rehydrate._check import check_whole
from rehydrate._concurrency.async_wrappers import RunOnce
from rehydrate._concurrency.loops import is_cancellation
from rehydrate._native import is_short_to_add, result_entries
from rehydrate._text import plural, warn_once
from rehydrate.agent import events, tool_calls
from rehydrate.agent.model import (
    Model,
    Reply,
    Retry,
    Sleep,
    failure_text,
    is_finite_number,
    reply_with_retries,
)
from rehydrate.agent.tools import Tool
from rehydrate.compact.outline import ID as OUTLINE_ID
from rehydrate.context.context import Context
from rehydrate.context.facts import ContextUsage
from rehydrate.context.summaries import is_summary
from rehydrate.context.thread import ToolHandler
from rehydrate.cost.prices import Price
from rehydrate.errors import (
    BudgetExceededError,
    ContextOverflowError,
    InvalidArgumentError,
    InvalidConversationError,
    ProviderError,
)
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt.ir import CompiledPrompt
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import Section, ToolDef


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Limits of one turn; None means no limit.

    Steps and dollars are checked before each request to the model, so the tool calls of the last
    reply still run. The time limit stops a turn anywhere. Tokens are limited by the Context's
    budget. Raises InvalidArgumentError for a value out of range.

    >>> TurnLimits(steps=3, timeout=60, dollars=0.25).steps
    3
    """

    steps: int = 50
    """The maximum number of requests to the model."""
    timeout: float | None = None
    """Seconds for the whole turn."""
    dollars: float | None = None
    """The model is not asked again once its replies cost this much."""
    tool_timeout: float | None = 120.0
    """Seconds for one tool call, unless the tool has a timeout of its own."""
    parallel_calls: int = 8
    """The maximum number of tool calls of one reply that run at the same time."""

    def __post_init__(self) -> None:
        """Refuse a value out of range."""
        for name in ("steps", "parallel_calls"):
            check_whole(f"limits: {name}", getattr(self, name), 1)
        for name in ("timeout", "dollars", "tool_timeout"):
            value = getattr(self, name)
            if value is not None and not (is_finite_number(value) and value > 0):
                raise InvalidArgumentError(
                    f"limits: {name} is {value!r}; pass a number above 0, or None for no limit"
                )


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The parts that all turns of one `Interpreter` share."""

    model: Model
    tools: dict[str, Tool]
    offered: tuple[ToolDef, ...]
    """Definitions of `tools`, and of the tools that the provider runs itself."""
    jit: Callable[[Context], ToolHandler] | None
    """Makes the handler for a context's requests for context, if it has none."""
    limits: TurnLimits
    retry: Retry
    price: Price | None
    random: Random
    sleep: Sleep
    runner: tool_calls.ToolRunner = field(default_factory=tool_calls.ToolRunner)


_MAX_OVERFLOWS = 3
"""The number of times that a prompt that is too long for the model is halved."""
_CUT_OFF_CALL = (
    "the reply was cut off at its limit of tokens in the midst of this call, which was not made; "
    "call again, with less in it"
)
_REFUSED_CALL = "the call was not made, since the reply was refused"


class TurnLoop:
    """One turn of a conversation; `run` runs it to its end."""

    def __init__(
        self,
        agent: AgentConfig,
        context: Context,
        query: str | None,
        time_range: TimeRange | None,
        listeners: Sequence[events.OnEvent],
    ) -> None:
        """Take the agent, the conversation, the user's query and the listeners for events."""
        self._agent = agent
        self._context = context
        self._query = query
        self._time_range = time_range
        price = None if agent.price is None else agent.price.on()
        self._record = events.TurnRecord(listeners, price)
        self._jit: ToolHandler | None = None
        self._section_ids: set[str] = set()
        """Sections that an event has named."""
        self._used_ids: set[str] = set()
        self._skipped_calls: dict[str, str] = {}
        """Calls that must not run, by id, with the text of their error result."""
        self._context_usage: ContextUsage | None = None
        self._paused_text = ""
        """The text of replies that a pause ended; the answer begins with it."""

    async def run(self) -> events.Turn:
        """Run the turn to its end and return its result.

        Raises a cancellation, and an exception that is a bug in a model or in this package.
        """
        model = self._agent.model
        thread = self._context.request.thread
        self._record.emit(events.TurnStarted(self._query, model.provider, model.name, thread))
        outcome: tuple[events.Stopped, Exception | None] = "time_limit", None
        try:
            with anyio.move_on_after(self._agent.limits.timeout):
                outcome = await self._run_steps()
        except BaseException as error:
            if is_cancellation(error):
                self._record.end("cancelled", None, self._context)
            else:
                self._record.end("failed", error, self._context)
            raise
        stopped, problem = outcome
        if problem is not None:
            warn_once("rehydrate.agent", f"a turn failed: {failure_text(problem, model.name)}")
        return self._record.end(stopped, problem, self._context)

    async def _run_steps(self) -> tuple[events.Stopped, Exception | None]:
        await RunOnce(self._begin).arun()  # the user's message stays, even if the turn is cancelled
        while True:
            limit = self._reached_limit()
            if limit is not None:
                return limit, None
            try:
                stopped = await self._add_reply(await self._next_reply())
            except BudgetExceededError as error:
                return "budget_exceeded", error
            except (ProviderError, InvalidConversationError) as error:
                return "failed", error
            if stopped is not None:
                return stopped, None

    def _begin(self) -> None:
        """Name the model, offer the tools and add the user's message; in a worker thread."""
        model = self._agent.model
        self._context.name_model(model.name, provider=model.provider)
        self._context.offer(self._agent.offered)
        if self._agent.jit is not None:
            # One for all turns: it keeps the sections that were found and had no room.
            self._jit = self._context.jit or self._agent.jit(self._context)
            self._context.offer((), handler=self._jit)
        if (ir := self._context.ir) is not None:
            self._section_ids.update([section.id for section in ir.sections])
        self._context._ask(self._query)

    def _reached_limit(self) -> events.Stopped | None:
        limits, dollars = self._agent.limits, self._record.dollars
        if self._record.steps >= limits.steps:
            return "step_limit"
        if limits.dollars is not None and dollars is not None and dollars >= limits.dollars:
            return "money_limit"
        return None

    # The prompt

    async def _next_reply(self) -> Reply:
        """Return the model's next reply; compact the prompt if it is too long for the model."""
        for overflows in range(_MAX_OVERFLOWS + 1):
            prompt = await self._build_prompt()
            started = time.perf_counter()
            try:
                reply = await reply_with_retries(
                    self._agent.model,
                    prompt,
                    retry=self._agent.retry,
                    random=self._agent.random,
                    sleep=self._agent.sleep,
                    on_retry=self._on_retry,
                    on_text=self._on_text if self._record.listeners else None,
                )
            except ContextOverflowError:
                if overflows == _MAX_OVERFLOWS or not await self._halve(prompt):
                    raise
            else:
                self._count_reply(reply, (time.perf_counter() - started) * 1e3)
                return reply
        raise AssertionError("the last round returns or raises")

    async def _build_prompt(self) -> CompiledPrompt:
        started = time.perf_counter()
        time_range, self._time_range = self._time_range, None
        compiled = await self._context.aprompt(time_range=time_range)
        prefix, usage = self._context.prefix, self._context.usage
        self._context_usage = usage
        for trace in compiled.ir.meta.trace:
            if trace.name == "prune" and trace.changed:
                self._record.emit(
                    events.Compacted(trace.before_tokens, trace.after_tokens, "budget")
                )
        for section in compiled.ir.sections:
            self._emit_section(section, late_bound=False)
        summaries = tuple(
            section.content
            for section in compiled.ir.sections
            if section.id == OUTLINE_ID or is_summary(section)
            if isinstance(section.content, str)
        )
        provider_summaries = _provider_summaries(compiled.messages)
        self._record.emit(
            events.PromptBuilt(
                step=self._record.steps + 1,
                tokens=compiled.tokens,
                upper_bound_tokens=usage.upper_bound_tokens,
                shared_tokens=0 if prefix is None else prefix.shared_tokens,
                is_prefix_kept=prefix is None or prefix.keeps_cached,
                sections=len(compiled.ir.sections),
                elapsed_ms=(time.perf_counter() - started) * 1e3,
                is_compacted=usage.compactions > 0 or bool(provider_summaries),
                summaries=summaries,
                provider_summaries=provider_summaries,
            )
        )
        return compiled

    async def _halve(self, prompt: CompiledPrompt) -> bool:
        """Compact the history to half the prompt's tokens; return whether it is shorter now."""
        ir = await self._context.acompact(max(prompt.tokens // 2, 1))
        self._record.emit(events.Compacted(prompt.tokens, ir.tokens, "overflow"))
        return ir.tokens < prompt.ir.tokens  # both without fences

    def _on_retry(self, error: Exception, attempt: int, delay_seconds: float) -> None:
        self._record.emit(events.Retrying(self._record.steps + 1, error, attempt, delay_seconds))

    def _on_text(self, text: str) -> None:
        if text:
            self._record.emit(events.TextDelta(self._record.steps + 1, text))

    # The reply

    def _count_reply(self, reply: Reply, elapsed_ms: float) -> None:
        """Add the reply to the turn's totals, and emit its events."""
        record, limits = self._record, self._agent.limits
        dollars = record.count_reply(reply.usage)
        record.emit(
            events.ModelReplied(
                step=record.steps,
                stop=reply.stop,
                calls=len(reply.calls),
                usage=reply.usage,
                dollars=dollars,
                elapsed_ms=elapsed_ms,
                model=reply.model,
                response_id=reply.id,
                text=reply.text,
                provider_summaries=_provider_summaries(reply.entries),
            )
        )
        if changed := reply.input_transformations:
            record.emit(events.InputTransformed(record.steps, changed))
            reasons = ", ".join(sorted({str(each.get("reason")) for each in changed}))
            blocks = plural(len(changed), "thinking block")
            record.note(
                f"step {record.steps}: the provider reports {blocks} that it did not take as they "
                f"were ({reasons}), first {changed[0].get('path')}"
            )
        if (usage := self._context_usage) is not None:
            record.emit(
                events.BudgetSpent(
                    steps=record.steps,
                    max_steps=limits.steps,
                    window_tokens=usage.upper_bound_tokens,
                    soft_tokens=usage.soft_tokens,
                    hard_tokens=usage.hard_tokens,
                    job_tokens=usage.job_tokens,
                    max_job_tokens=usage.max_job_tokens,
                    dollars=record.dollars,
                    max_dollars=limits.dollars,
                )
            )

    async def _add_reply(self, reply: Reply) -> events.Stopped | None:
        """Add the reply to the history, with the results of its calls.

        Returns why the turn ends with this reply; None if it goes on.
        """
        if reply.calls and not self._used_ids:
            said = formats.parse(self._context.history, self._context.format).messages
            self._used_ids = {id_ for message in said for id_ in message.calls}
        reply, notes = tool_calls.repair_reply(reply, self._used_ids)
        self._used_ids.update([call.id for call in reply.calls])
        for note in notes:
            self._record.note(note)
        results = [call.result("?") for call in reply.calls]
        violations = tool_calls.violations_of_reply(
            reply.entries, results, self._agent.model.provider
        )
        if violations and (reply.calls or reply.text.strip()):
            raise InvalidConversationError(violations)
        if reply.calls:
            await self._run_calls(reply)
            return "refusal" if reply.stop == "refusal" else None
        if violations or not reply.entries:
            self._record.note(f"step {self._record.steps}: the model said nothing")
        else:
            await self._addition(reply.entries).arun()
        self._record.answer = self._paused_text + reply.text
        if reply.stop == "pause":
            self._paused_text = self._record.answer
            return None
        return reply.stop if reply.stop in ("refusal", "length") else "answer"

    async def _run_calls(self, reply: Reply) -> None:
        """Run the calls, then add them with their results, even if the turn is cancelled."""
        self._record.answer, self._paused_text = self._paused_text + reply.text, ""
        if reply.stop == "refusal":
            self._skipped_calls = {call.id: _REFUSED_CALL for call in reply.calls}
        elif reply.stop == "length":
            self._skipped_calls = {reply.calls[-1].id: _CUT_OFF_CALL}
        parallel = self._agent.limits.parallel_calls
        batch = tool_calls.ToolCallBatch(reply.calls, self._run_call, parallel=parallel)
        try:
            await batch.run()
        except BaseException:
            self._addition_of_calls(reply, batch).run()
            raise
        await self._addition_of_calls(reply, batch).arun()

    def _addition_of_calls(self, reply: Reply, batch: tool_calls.ToolCallBatch) -> RunOnce:
        for result in batch.cut_short:
            self._emit_tool_end(result)
        results = [result.provider_result for result in batch.results]
        return self._addition([*reply.entries, *result_entries(results)])

    def _addition(self, entries: Sequence[Any]) -> RunOnce:
        """Return the work that adds entries to the history."""
        return RunOnce(
            partial(self._context.add, *entries),
            lambda: is_short_to_add(entries) and not self._context.is_busy,
        )

    async def _run_call(self, call: ToolCall) -> tool_calls.ToolResult:
        if call.id in self._skipped_calls:
            result = tool_calls.ToolResult(call, self._skipped_calls[call.id], True)
            self._emit_tool_end(result)
            return result
        if self._jit is not None and self._jit.handles(call):
            return await self._run_jit_call(self._jit, call)
        self._record.emit(
            events.ToolStarted(self._record.steps, call.id, call.name, call.raw_arguments)
        )
        agent = self._agent
        result = await tool_calls.run_tool(
            agent.tools, call, agent.limits.tool_timeout, agent.runner
        )
        self._emit_tool_end(result)
        return result

    async def _run_jit_call(self, jit: ToolHandler, call: ToolCall) -> tool_calls.ToolResult:
        found = await jit.aanswer(call)
        for section in found.sections:
            self._emit_section(section, late_bound=True)
        self._record.emit(
            events.ContextRequested(
                step=self._record.steps,
                call_id=call.id,
                tool=call.name,
                query=found.query,
                scope=found.scope,
                found=len(found.sections),
                tokens=found.tokens,
                remaining=found.remaining,
                is_error=found.is_error,
                elapsed_ms=found.elapsed_ms,
                degraded=found.degraded,
            )
        )
        return tool_calls.ToolResult(call, found.content, found.is_error, found.elapsed_ms)

    # Events

    def _emit_section(self, section: Section, *, late_bound: bool) -> None:
        if section.id not in self._section_ids:
            self._section_ids.add(section.id)
            source, tokens = section.provenance.source, section.tokens or 0
            self._record.emit(events.SectionAdded(section.id, source, tokens, late_bound))

    def _emit_tool_end(self, result: tool_calls.ToolResult) -> None:
        self._record.emit(
            events.ToolEnded(
                step=self._record.steps,
                call_id=result.call.id,
                tool=result.call.name,
                is_error=result.is_error,
                chars=len(result.content),
                elapsed_ms=result.elapsed_ms,
                result=result.content,
            )
        )


def _provider_summaries(messages: Sequence[Any]) -> tuple[str, ...]:
    """Return the texts of a provider's summaries in its messages or items."""
    blocks = [block for each in messages for block in _blocks(each)]
    contents = [block.get("content") for block in blocks if block.get("type") == "compaction"]
    return tuple(content if isinstance(content, str) else "" for content in contents)


def _blocks(message: Any) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = [message, *content] if isinstance(content, (list, tuple)) else [message]
    return [block for block in blocks if isinstance(block, Mapping)]
