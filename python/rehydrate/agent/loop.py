"""Agent: what all turns of an Interpreter have in common.

Asking the model until it answers, or until it is no use asking again.

The loop of one turn: prompt, model, tool calls, and again, until there is an answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

import anyio

from rehydrate.agent.events import (
    BudgetSpent,
    Compacted,
    ContextRequested,
    InputTransformed,
    ModelReplied,
    OnEvent,
    PromptBuilt,
    Retrying,
    SectionAdded,
    Stopped,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    TurnStarted,
)
from rehydrate.agent.limits import Retry, TurnLimits
from rehydrate.agent.models.model import Model, OnText, Reply
from rehydrate.agent.record import Once, Record
from rehydrate.agent.replies import call_ids, fit_reply, would_be_refused
from rehydrate.agent.tool_calls import Answer, Calling, Threads, answer_with, is_cancellation
from rehydrate.agent.tools import Tool
from rehydrate.context.context import Context
from rehydrate.context.usage import ContextUsage, is_short_to_add
from rehydrate.cost.prices import Price
from rehydrate.errors import (
    BudgetExceededError,
    ContextOverflowError,
    InvalidConversationError,
    ProviderError,
    ProviderUnavailableError,
    RateLimitError,
)
from rehydrate.formats._grouping import user_message
from rehydrate.formats.calls import ToolCall, result_entries
from rehydrate.prompt.compiled import CompiledPrompt
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import Section
from rehydrate.prompt.tool_def import ToolDef


class JIT(Protocol):
    """What answers the model's own requests for context: `ContextJIT`."""

    def handles(self, call: ToolCall) -> bool:
        """Whether the call is one of its own."""

    async def aanswer(self, call: ToolCall) -> Any:
        """What the call is answered with."""


@dataclass(frozen=True, slots=True)
class Agent:
    """What all turns of an Interpreter have in common."""

    model: Model
    tools: dict[str, Tool]
    offered: tuple[ToolDef, ...]
    """The definitions of these, and of tools that the provider runs."""
    jit: Callable[[Context], JIT] | None
    limits: TurnLimits
    retry: Retry
    price: Price | None
    random: Random
    sleep: Sleep
    threads: Threads = field(default_factory=Threads)


Sleep = Callable[[float], Awaitable[object]]
OnRetry = Callable[[Exception, int, float], None]
"""Told of an error, the number of the attempt that comes and the seconds until then."""


async def ask(
    model: Model,
    prompt: CompiledPrompt,
    *,
    retry: Retry,
    random: Random,
    sleep: Sleep,
    on_retry: OnRetry,
    on_text: OnText | None = None,
) -> Reply:
    """The model's reply. What no waiting helps against is raised at once, the rest in the end."""
    failures, waited = 0, 0.0
    while True:
        try:
            return await model.reply(prompt, on_text=on_text)
        except (RateLimitError, ProviderUnavailableError) as error:
            failures += 1
            delay = retry.delay(failures, error.retry_after_seconds, random)
            if failures >= retry.attempts or waited + delay > retry.total_seconds:
                raise
            on_retry(error, failures + 1, delay)
        waited += delay
        await sleep(delay)


_MOST_OVERFLOWS = 3
"""So many times a prompt that the provider finds too long is halved."""
_CUT_OFF = (
    "the reply was cut off at its limit of tokens in the midst of this call, which was not made; "
    "call again, with less in it"
)
_NOT_MADE = "the call was not made, since the reply was refused"


class TurnLoop:
    """One turn while it runs."""

    def __init__(
        self,
        agent: Agent,
        context: Context,
        query: str | None,
        time_range: TimeRange | None,
        listeners: Sequence[OnEvent],
    ) -> None:
        """Take who answers, what the conversation is and what the user says."""
        self._agent = agent
        self._context = context
        self._query = query
        self._time_range = time_range
        self._record = Record(listeners, agent.price)
        self._jit: JIT | None = None
        self._seen: set[str] = set()
        self._used_ids: set[str] = set()
        self._not_made: dict[str, str] = {}
        self._window: ContextUsage | None = None
        self._paused = ""

    async def run(self) -> Turn:
        """The turn, to its end; raises what is neither the model's nor a tool's failure."""
        model = self._agent.model
        thread = self._context.request.thread
        self._record.tell(TurnStarted(self._query, model.provider, model.name, thread))
        ended: tuple[Stopped, Exception | None] = "time_limit", None
        try:
            with anyio.move_on_after(self._agent.limits.timeout):
                ended = await self._steps()
        except BaseException as error:
            if is_cancellation(error):
                self._record.end("cancelled", None, self._context)
            else:
                self._record.end("failed", error, self._context)
            raise
        return self._record.end(*ended, self._context)

    async def _steps(self) -> tuple[Stopped, Exception | None]:
        await Once(self._begin).anow()  # what the user said stays, whatever comes of it
        while True:
            limit = self._limit()
            if limit is not None:
                return limit, None
            try:
                stopped = await self._taken_in(await self._reply())
            except BudgetExceededError as error:
                return "budget_exceeded", error
            except (ProviderError, InvalidConversationError) as error:
                return "failed", error
            if stopped is not None:
                return stopped, None

    def _begin(self) -> None:
        """Name the model, offer the tools and add the user's words; in a worker thread."""
        self._context.name_model(self._agent.model.name)
        self._context.offer(self._agent.offered)
        if self._agent.jit is not None:
            # One for all turns: it holds what was found and had no room.
            self._jit = self._context.jit or self._agent.jit(self._context)
        if (ir := self._context.ir) is not None:
            self._seen.update([section.id for section in ir.sections])
        if self._query:
            self._context.add(user_message(self._query, self._context.format))

    def _limit(self) -> Stopped | None:
        limits, dollars = self._agent.limits, self._record.dollars
        if self._record.steps >= limits.steps:
            return "step_limit"
        if limits.dollars is not None and dollars is not None and dollars >= limits.dollars:
            return "money_limit"
        return None

    # The prompt

    async def _reply(self) -> Reply:
        """What the model replies; a prompt that is too long for it is made shorter."""
        for overflows in range(_MOST_OVERFLOWS + 1):
            prompt = await self._prompt()
            started = time.perf_counter()
            try:
                reply = await ask(
                    self._agent.model,
                    prompt,
                    retry=self._agent.retry,
                    random=self._agent.random,
                    sleep=self._agent.sleep,
                    on_retry=self._on_retry,
                    on_text=self._on_text if self._record.listeners else None,
                )
            except ContextOverflowError:
                if overflows == _MOST_OVERFLOWS or not await self._halve(prompt):
                    raise
            else:
                self._note_reply(reply, (time.perf_counter() - started) * 1e3)
                return reply
        raise AssertionError("the last round returns or raises")

    async def _prompt(self) -> CompiledPrompt:
        started = time.perf_counter()
        time_range, self._time_range = self._time_range, None
        compiled = await self._context.aprompt(time_range=time_range)
        prefix, self._window = self._context.prefix, self._context.usage
        for trace in compiled.ir.meta.trace:
            if trace.name == "prune" and trace.changed:
                self._record.tell(Compacted(trace.before_tokens, trace.after_tokens, "budget"))
        for section in compiled.ir.sections:
            self._tell_added(section, late_bound=False)
        self._record.tell(
            PromptBuilt(
                step=self._record.steps + 1,
                tokens=compiled.tokens,
                upper_bound_tokens=self._window.upper_bound_tokens,
                shared_tokens=0 if prefix is None else prefix.shared_tokens,
                is_prefix_kept=prefix is None or prefix.keeps_cached,
                sections=len(compiled.ir.sections),
                elapsed_ms=(time.perf_counter() - started) * 1e3,
            )
        )
        return compiled

    async def _halve(self, prompt: CompiledPrompt) -> bool:
        """Compact to half of what was too much; whether that made it shorter."""
        ir = await self._context.acompact(max(prompt.tokens // 2, 1))
        self._record.tell(Compacted(prompt.tokens, ir.tokens, "overflow"))
        return ir.tokens < prompt.tokens

    def _on_retry(self, error: Exception, attempt: int, delay_seconds: float) -> None:
        self._record.tell(Retrying(self._record.steps + 1, error, attempt, delay_seconds))

    def _on_text(self, text: str) -> None:
        if text:
            self._record.tell(TextDelta(self._record.steps + 1, text))

    # The reply

    def _note_reply(self, reply: Reply, elapsed_ms: float) -> None:
        record, limits = self._record, self._agent.limits
        dollars = record.step(reply.usage)
        record.tell(
            ModelReplied(
                step=record.steps,
                stop=reply.stop,
                calls=len(reply.calls),
                usage=reply.usage,
                dollars=dollars,
                elapsed_ms=elapsed_ms,
                model=reply.model,
                response_id=reply.id,
                text=reply.text,
            )
        )
        if reply.input_transformations:
            record.tell(InputTransformed(record.steps, reply.input_transformations))
            record.note(_transformed(record.steps, reply.input_transformations))
        if (window := self._window) is not None:
            record.tell(
                BudgetSpent(
                    steps=record.steps,
                    max_steps=limits.steps,
                    window_tokens=window.upper_bound_tokens,
                    soft_tokens=window.soft_tokens,
                    hard_tokens=window.hard_tokens,
                    job_tokens=window.job_tokens,
                    max_job_tokens=window.max_job_tokens,
                    dollars=record.dollars,
                    max_dollars=limits.dollars,
                )
            )

    async def _taken_in(self, reply: Reply) -> Stopped | None:
        """Why the turn ends with this reply, once it is in the history; None: it goes on."""
        if reply.calls and not self._used_ids:
            self._used_ids = set(call_ids(self._context.history))
        reply, notes = fit_reply(reply, self._used_ids)
        self._used_ids.update([call.id for call in reply.calls])
        for note in notes:
            self._record.note(note)
        expected = [call.result("?") for call in reply.calls]
        violations = would_be_refused(reply.entries, expected, self._agent.model.provider)
        if violations and (reply.calls or reply.text.strip()):
            raise InvalidConversationError(violations)
        if reply.calls:
            await self._call(reply)
            return "refusal" if reply.stop == "refusal" else None
        if violations or not reply.entries:
            self._record.note(f"step {self._record.steps}: the model said nothing")
        else:
            await self._adding(reply.entries).anow()
        self._record.answer = self._paused + reply.text
        if reply.stop == "pause":
            self._paused = self._record.answer
            return None
        return reply.stop if reply.stop in ("refusal", "length") else "answer"

    async def _call(self, reply: Reply) -> None:
        """Run the calls, and add them with their results, whatever happens meanwhile."""
        self._record.answer, self._paused = self._paused + reply.text, ""
        if reply.stop == "refusal":
            self._not_made = {call.id: _NOT_MADE for call in reply.calls}
        elif reply.stop == "length":
            self._not_made = {reply.calls[-1].id: _CUT_OFF}
        parallel = self._agent.limits.parallel_calls
        calling = Calling(reply.calls, self._answer, parallel=parallel)
        try:
            await calling.run()
        except BaseException:
            self._answered(reply, calling).now()
            raise
        await self._answered(reply, calling).anow()

    def _answered(self, reply: Reply, calling: Calling) -> Once:
        for answer in calling.cut_short:
            self._tell_ended(answer)
        results = [answer.result for answer in calling.answers]
        return self._adding([*reply.entries, *result_entries(results)])

    def _adding(self, entries: Sequence[Any]) -> Once:
        return Once(
            partial(self._context.add, *entries),
            lambda: is_short_to_add(entries) and not self._context.is_busy,
        )

    async def _answer(self, call: ToolCall) -> Answer:
        if call.id in self._not_made:
            answer = Answer(call, self._not_made[call.id], True)
            self._tell_ended(answer)
            return answer
        if self._jit is not None and self._jit.handles(call):
            return await self._from_context(self._jit, call)
        self._record.tell(ToolStarted(self._record.steps, call.id, call.name, call.raw_arguments))
        agent = self._agent
        answer = await answer_with(agent.tools, call, agent.limits.tool_timeout, agent.threads)
        self._tell_ended(answer)
        return answer

    async def _from_context(self, jit: JIT, call: ToolCall) -> Answer:
        found = await jit.aanswer(call)
        for section in found.sections:
            self._tell_added(section, late_bound=True)
        self._record.tell(
            ContextRequested(
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
        return Answer(call, found.content, found.is_error, found.elapsed_ms)

    # What is told

    def _tell_added(self, section: Section, *, late_bound: bool) -> None:
        if section.id not in self._seen:
            self._seen.add(section.id)
            source, tokens = section.provenance.source, section.tokens or 0
            self._record.tell(SectionAdded(section.id, source, tokens, late_bound))

    def _tell_ended(self, answer: Answer) -> None:
        call, content = answer.call, answer.content
        ended = ToolEnded(
            step=self._record.steps,
            call_id=call.id,
            tool=call.name,
            is_error=answer.is_error,
            chars=len(content),
            elapsed_ms=answer.elapsed_ms,
            result=content,
        )
        self._record.tell(ended)


def _transformed(step: int, transformations: Sequence[Mapping[str, Any]]) -> str:
    """What a note says of what the provider did to a prompt."""
    reasons = ", ".join(sorted({str(each.get("reason")) for each in transformations}))
    count = len(transformations)
    what = "thinking block" if count == 1 else "thinking blocks"
    return (
        f"step {step}: the provider reports {count} {what} that it did not take as they were "
        f"({reasons}), first {transformations[0].get('path')}"
    )
