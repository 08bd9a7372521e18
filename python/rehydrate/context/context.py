"""Context: one conversation of an agent server, whose prompts extend one another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from rehydrate._check import check_type
from rehydrate._concurrency.async_wrappers import run_locked
from rehydrate._concurrency.hybrid_lock import HybridLock
from rehydrate.compact.outline import OutlineSize, check_outline
from rehydrate.context.arguments import (
    check_system,
    check_target,
    check_working,
    checked_sources,
    seconds_of,
)
from rehydrate.context.history import Entries, PartlyShownTexts
from rehydrate.context.late_binding import Before, LateBinding, PromptCall, unseen
from rehydrate.context.usage import INLINE_MS, ContextUsage, is_short_to_add, prompt_ms
from rehydrate.cost.prefix import PrefixReport, prefix_report
from rehydrate.cost.prices import minimum_prefix
from rehydrate.embedding.choice import Choice, choice_of
from rehydrate.entry_id import EntryId
from rehydrate.errors import BudgetExceededError, InvalidArgumentError
from rehydrate.formats._grouping import user_message
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import CompiledPrompt
from rehydrate.prompt.compiler import DEFAULT_PASSES, compile as compile_ir
from rehydrate.prompt.counting import counted_tools, prompt_tokens, room, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.hydration import hydrate
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import HeldOriginals, Originals
from rehydrate.prompt.passes.echo import RemoveEchoes, remove_echoes
from rehydrate.prompt.passes.prune import prune, prune_now
from rehydrate.prompt.render_cache import Known
from rehydrate.prompt.request import Budget, ContextRequest, ContextStrategy, TimeRange
from rehydrate.prompt.section import Section, Stability, ToolDef
from rehydrate.prompt.sources.arguments import sources_of
from rehydrate.prompt.sources.given import read_tools
from rehydrate.prompt.sources.source import HydrationSource
from rehydrate.prompt.splicing import Spliced, splice, visible_items
from rehydrate.prompt.stale_thinking import checked_policy
from rehydrate.prompt.target import Pass

if TYPE_CHECKING:
    from rehydrate.prompt.sources.arguments import Given
    from rehydrate.prompt.sources.cut_parts import PartlyShown


_ONCE = ("system", "tools")
"""What is asked for with the first prompt only: if it changed, the whole prefix would."""
_OF_PROMPTS = (
    *("_base", "_sent", "_seen", "_turn", "_prefix", "_left_out"),
    *("_job_tokens", "_prompts", "_compactions", "_missing"),
)
"""What making a prompt changes, beside the entries and what the model asked for."""
_RESERVE_TOKENS = 512
"""What a turn is left for the model's next words when it asks for more."""


class Context:
    """One conversation: add what happens, ask for the next prompt.

    It is append-only by construction: each prompt extends the one before, byte for byte, so that
    the provider's cache holds, and with it the model's thinking, which newer models take back only
    behind the prefix that it was made under. What a turn was given from memory stays where it was
    sent. Only a compaction (or a tool offered later) breaks the prefix: `prefix` says what it cost,
    and of the thinking behind the break goes what the ``model`` would refuse, for good
    (``thinking="auto"``; "keep" leaves it). With ``granularity="excerpt"`` a compaction may keep
    the best blocks of long texts and results; each gap names the handle of the whole. Nothing that
    was added is ever lost: `history` has all of it.

    ``provider`` is "anthropic", "openai_chat" or "openai_responses"; ``format`` that of the entries
    that are added, the provider's own unless named. ``sources`` are asked once a user turn: a
    `Memory`, the path of a document or folder, a function, or a list of these. Crossing the
    budget's soft limit compacts; a prompt over its hard limit raises BudgetExceededError, and so
    does a job over its limit, where one is set. `budget` may be changed at any time.

    ``outline=True`` (or a size, in tokens or as a share of the prompt's) has each compaction list
    the names of what went, where the first gap is: files, identifiers, ids, and with a `ContextJIT`
    the number of the message, by which the model can read it (docs/outline.md).

    ``embedder`` is as in `compact_context`: by it a compaction, and a `ContextJIT` of this context,
    find what is asked for. One of your own is asked about the best fifth, beside the built-in one;
    where it fails the work goes on without it, and ``ir.meta.degraded`` says so (of an answer of
    the JIT, its `degraded`).

    Any number of threads may use it; entries must not be changed after they were added.

    >>> context = Context(system="You are the harbour's assistant.")
    >>> prompt = context.prompt("Which berth is free?")
    >>> prompt.request["messages"]
    [{'role': 'user', 'content': 'Which berth is free?'}]
    >>> context.add({"role": "assistant", "content": "Berth 4."})
    >>> context.prompt("Book it.").messages[:2] == [*prompt.messages, *context.history[1:2]]
    True
    """

    def __init__(
        self,
        sources: Given = (),
        *,
        provider: Provider = "anthropic",
        model: str = "",
        thinking: str = "auto",
        granularity: str = "message",
        system: str | Section | Sequence[str | Section] | None = None,
        tools: Iterable[Any] = (),
        budget: Budget = Budget(),  # noqa: B008  it is frozen
        strategy: ContextStrategy = ContextStrategy(),  # noqa: B008
        namespace: str = "",
        thread: str = "",
        format: str = "",  # noqa: A002  the field's word
        passes: Sequence[Pass] | None = None,
        originals: Originals | None = None,
        embedder: Any = "auto",
        timeout: float | None = 0.2,
        outline: OutlineSize = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take what all its prompts have in common; nothing is asked or counted yet.

        ``clock`` gives seconds since 1970: when what is added was said.
        """
        check_target(provider, model, format)
        self._sources = checked_sources(sources)
        check_system(system)
        check_working(passes, originals, timeout, clock, granularity)
        self._provider: Provider = provider
        self._model = model
        self._asked_model = ""
        self._thinking = checked_policy(thinking)
        self._granularity = granularity
        self._system = system
        self._tools = read_tools(tools)
        self._request = ContextRequest("", strategy, budget, thread, None, namespace)
        self._passes = _own_passes() if passes is None else tuple(passes)
        self._is_all_our_own = passes is None and originals is None
        self._originals = HeldOriginals() if originals is None else originals
        self._embedder = choice_of(embedder)
        self._timeout = timeout
        check_outline(outline)
        self._outline = outline
        self._entries = Entries(format or provider)
        self.jit: Any = None
        """What answers the model's own requests for context: the last `ContextJIT` made for it."""
        self._clock = clock
        self._left_out: tuple[History, list[datetime]] | None = None
        self._late = LateBinding()
        self._partly_shown = PartlyShownTexts()
        self._lock = HybridLock()
        self._known = Known()
        self._base: PromptIR | None = None
        self._sent: CompiledPrompt | None = None
        self._seen = 0
        self._turn: int | None = None
        self._prefix: PrefixReport | None = None
        self._job_tokens = 0
        self._prompts = 0
        self._compactions = 0
        self._missing: frozenset[str] | None = None
        """The hot sources that did not answer when they were asked last; None: nobody asked."""
        self._call: PromptCall | None = None
        """The last call that changed something, if it was of `prompt`."""

    def add(self, *entries: Any, at: datetime | None = None) -> None:
        """Add what happened, in order: messages, or items of OpenAI Responses.

        The objects that an SDK answers with are taken as they are. ``at`` is when, if it was not
        now; a line of a transcript says so itself. All of them or none; raises InvalidMessageError
        for what is no message, and for what only another provider's format holds: it would be sent
        as it is.
        """
        with self._lock:
            self._add(entries, at)

    async def aadd(self, *entries: Any, at: datetime | None = None) -> None:
        """`add` for asyncio and trio: it awaits who else uses this context; large entries are read
        and counted in a worker thread."""
        is_short = is_short_to_add(entries)
        await run_locked(self._lock, partial(self._add, entries, at), lambda: is_short)

    def _add(self, entries: Sequence[Any], at: datetime | None) -> None:
        self._settle()
        self._entries.extend(entries, self._clock() if at is None else seconds_of(at))

    def name_model(self, name: str) -> None:
        """Say which model its prompts go to next: its rules hold for thinking, where the context
        was made without a ``model``. An `Interpreter` says it by itself."""
        check_type("name", name, str, "pass the model's name")
        with self._lock:
            self._asked_model = name

    def offer(self, tools: Iterable[Any]) -> None:
        """Have the model offered these tools too, in any provider's shape.

        Those that it is offered already, word for word, are no change; after the first prompt any
        other is a new prefix. Raises InvalidArgumentError for a second tool of one name.
        """
        offered = read_tools(tools)
        with self._lock:
            self._settle()
            known = {tool.name: tool for tool in self._tools}
            for tool in offered:
                if tool.name in known and not _is_same(tool, known[tool.name]):
                    raise InvalidArgumentError(
                        f"two tools are named {tool.name!r}; give one of them another name"
                    )
                known.setdefault(tool.name, tool)
            new = list(known.values())[len(self._tools) :]
            if new and self._base is not None:
                tools = (*self._base.tools, *counted_tools(new))
                self._base = self._base.replace(tools=tools)
            self._tools = (*self._tools, *new)

    def prompt(
        self, query: str | None = None, *, time_range: TimeRange | None = None
    ) -> CompiledPrompt:
        """The next prompt.

        ``query`` is what the user says now, and is added as their message; None goes on from
        what was added. In a new user turn the sources are asked about it (in later prompts of the
        turn, its tool loop, they are not); ``time_range`` is the time that is meant.

        Raises BudgetExceededError for a prompt over the hard budget, and for a job over its own.
        Whatever it raises, also when interrupted, the context is what it was before: the same
        query can be asked again, and stands in the history once.
        """
        with self._lock:
            return self._prompt(query, time_range, PromptCall())

    async def aprompt(
        self, query: str | None = None, *, time_range: TimeRange | None = None
    ) -> CompiledPrompt:
        """`prompt` for asyncio and trio, with the same arguments, result and errors.

        Work of a few milliseconds runs where it is called; a prompt that asks sources, compacts or
        has much to read is made in a worker thread. Who waits for another call on this context
        holds no thread. Cancelled, the context is what it was before, as soon as the thread is done
        with it, unless something was added meanwhile.
        """
        call = PromptCall()
        work = partial(self._prompt, query, time_range, call)
        is_short = partial(self._is_short_prompt, query, time_range)
        try:
            return await run_locked(self._lock, work, is_short)
        except BaseException:
            call.is_given_up = True
            raise

    def _prompt(
        self, query: str | None, time_range: TimeRange | None, call: PromptCall
    ) -> CompiledPrompt:
        self._settle()
        call.before = self._before()
        self._call = call
        try:
            return self._prompted(query, time_range)
        except BaseException:
            self._call = None
            self._restore(call.before)
            raise

    def _prompted(self, query: str | None, time_range: TimeRange | None) -> CompiledPrompt:
        if query is not None and not isinstance(query, str):
            kind = type(query).__name__
            raise InvalidArgumentError(f"query is of type {kind}; pass a string, or None")
        if query:
            said = user_message(query, self._entries.format)
            self._entries.extend([said], self._clock())
        if not len(self._entries):
            raise InvalidArgumentError("there is nothing to answer; add a message, or pass a query")
        ir = self._next_ir(query or "", time_range)
        compiled = self._compiled(ir)
        if _was_pruned(compiled.ir) and (fresh := self._afresh(ir)) is not ir:
            compiled = self._compiled(fresh)
        self._send(compiled)
        return compiled

    def _before(self) -> Before:
        fields = {name: getattr(self, name) for name in _OF_PROMPTS}
        return Before(self._entries.mark(), {**fields, "_late": self._late.copy()})

    def _restore(self, before: Before) -> None:
        self._entries.back_to(before.entries)
        for name, value in before.fields.items():
            setattr(self, name, value)

    def _given_up(self) -> Before | None:
        """What was before the last prompt, if nobody got it and nothing came after it."""
        call = self._call
        return call.before if call is not None and call.is_given_up else None

    def _undo(self) -> None:
        """Put back what was before a prompt that nobody got."""
        before = self._given_up()
        if before is not None:
            self._call = None
            self._restore(before)

    def _settle(self) -> None:
        """The same, before something new comes: the last prompt stands from now on."""
        self._undo()
        self._call = None

    def _is_short_prompt(self, query: str | None, time_range: TimeRange | None) -> bool:
        """Whether the next prompt takes no longer than the event loop can spare."""
        base = self._base
        is_new_turn = (
            base is None or bool(query) or time_range is not None
        ) or self._entries.turn != self._turn
        if not self._is_all_our_own or (is_new_turn and self._sources):
            return False  # what others wrote may take any time
        said_chars = len(query) if isinstance(query, str) else 0
        new_tokens = self._entries.tokens_since(self._seen) + said_chars // 3
        shown_tokens = 0 if base is None else base.tokens
        budget = self._request.budget
        if upper_bound(shown_tokens + new_tokens, self._provider) > budget.soft_tokens:
            return False  # it is compacted
        visible = 0 if base is None else len(base.history.entries)
        return prompt_ms(visible, len(self._entries) - self._seen + 1, new_tokens) <= INLINE_MS

    def compact(
        self, budget_tokens: int | None = None, *, keep_last: int | None = None
    ) -> PromptIR:
        """Compact now: the next prompt has at most so many tokens, and a new prefix.

        They are counted as `compact_context` and `PromptIR.tokens` count, not by the upper bound of
        a provider's, which the soft and the hard budget hold a prompt to. None: what a crossed soft
        budget leaves. The last ``keep_last`` messages stay whatever they are worth, as far as they
        take no more than a 32nd of the room; None: the budget's. The IR returned says in `meta`
        what went. Without ``budget_tokens`` it waits for the end of a turn whose open tool loop the
        model may refuse however it is cut, and `meta.degraded` says so.
        """
        with self._lock:
            return self._compact(budget_tokens, keep_last)

    async def acompact(
        self, budget_tokens: int | None = None, *, keep_last: int | None = None
    ) -> PromptIR:
        """`compact` for asyncio and trio, in a worker thread; the rest is as in `aprompt`."""
        work = partial(self._compact, budget_tokens, keep_last)
        return await run_locked(self._lock, work, lambda: False)

    def _compact(self, budget_tokens: int | None, keep_last: int | None) -> PromptIR:
        self._settle()
        if not len(self._entries):
            raise InvalidArgumentError("there is nothing to compact; add a message first")
        ir = self._next_ir("", None)
        budget = ir.budget
        if budget_tokens is not None:
            check_type("budget_tokens", budget_tokens, int, "pass a whole number of tokens")
            target = upper_bound(budget_tokens, self._provider)
        else:
            target = budget.target_tokens
        last = budget.keep_last if keep_last is None else keep_last
        hard = max(target, budget.hard_tokens)
        tight = Budget(target, hard, compact_to=1.0, keep_last=last)
        ir_now = ir.replace(request=replace(ir.request, budget=tight))
        compiled = self._compiled(ir_now, waits=budget_tokens is None)
        if _was_pruned(compiled.ir) and (fresh := self._afresh(ir_now)) is not ir_now:
            compiled = self._compiled(fresh, waits=budget_tokens is None)
        self._go_on_from(compiled.ir.replace(request=ir.request))
        self._compactions += _was_pruned(compiled.ir)
        assert self._base is not None
        return self._base

    def splice(self, call: str, found: Sequence[Section], budget_tokens: int) -> Spliced:
        """Take into the turn what was found for a call of the model's; its result shows it.

        What is new goes in, whole sections, within ``budget_tokens`` and what remains of the
        turn's and the job's budget; nothing that is in the prompt is touched. Put the sections'
        texts into the result of the call and add that: the next prompt's IR has them as
        `late_bound`.
        """
        with self._lock:
            self._settle()
            base = PromptIR() if self._base is None else self._base
            spliced = splice(
                found,
                carrier=call,
                budget_tokens=min(budget_tokens, self._room_tokens()),
                visible=self._visible(),
                said="\n".join([message.text for message in base.history.messages]),
                shown=(*base.sections, *base.late_bound, *self._late.sections),
            )
            self._late.wait(call, spliced.sections)
            return spliced

    def visible_text(self) -> str:
        """All that the model sees, as one text."""
        with self._lock:
            self._undo()
            base = PromptIR() if self._base is None else self._base
            sections = (*base.sections, *base.late_bound, *self._late.sections)
            said = [message.text for message in base.history.messages]
            return "\n".join([*said, *[str(each.content) for each in sections]])

    def partly_shown(self) -> tuple[PartlyShown, ...]:
        """The texts of entries of which the last prompt shows a part: results that were capped,
        repetitions that became a reference."""
        with self._lock:
            self._undo()
            if self._base is None:
                return ()
            entries = self._entries
            return self._partly_shown.of(self._base.history, entries.at, entries.said_at)

    def unsplice(self, call: str, sections: Sequence[Section] | None = None) -> None:
        """Take back what `splice` took in for a call whose result nobody waits for any more: these
        sections, or all."""
        with self._lock:
            self._settle()
            self._late.give_up(call, sections)

    def left_out(self) -> tuple[History, list[datetime]]:
        """The entries that the last prompt does not show, and when each was said."""
        with self._lock:
            self._undo()
            if self._left_out is None:
                history = PromptIR().history if self._base is None else self._base.history
                shown = [history.place(position) for position in range(len(history.entries))]
                new = range(self._seen, len(self._entries))
                self._left_out = self._entries.left_out([*shown, *new])
            return self._left_out

    @property
    def visible(self) -> frozenset[str]:
        """What the model sees whole, by `Provenance.items`; entries of the history too."""
        with self._lock:
            self._undo()
            return self._visible()

    @property
    def room_tokens(self) -> int:
        """What the running turn can take without being compacted, and the job within its limit."""
        with self._lock:
            self._undo()
            return self._room_tokens()

    @property
    def request(self) -> ContextRequest:
        """What all its prompts have in common: strategy, budget, thread and namespace."""
        return self._request

    @property
    def budget(self) -> Budget:
        """The limits of its prompts; set another one at any time, for the prompts to come.

        >>> context = Context()
        >>> context.budget = Budget(soft_tokens=100_000, max_job_tokens=2_000_000)
        >>> context.usage.soft_tokens
        100000
        """
        return self._request.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        if not isinstance(budget, Budget):
            raise InvalidArgumentError(
                f"budget is of type {type(budget).__name__}; pass a Budget, as in "
                "Budget(soft_tokens=100_000)"
            )
        with self._lock:
            self._request = replace(self._request, budget=budget)

    @property
    def sources(self) -> Given:
        """What it asks once a user turn."""
        return self._sources

    @property
    def provider(self) -> Provider:
        """For whom its prompts are compiled."""
        return self._provider

    @property
    def format(self) -> str:
        """Of what is added, and of `history`."""
        return self._entries.format

    @property
    def turn(self) -> int | None:
        """The place in `history` where the user spoke last."""
        return self._entries.turn

    @property
    def history(self) -> list[Any]:
        """Everything that was added, in order: the very objects, whatever a prompt left out."""
        # Without the lock: it must be there at once, also while a prompt waits for its sources.
        before = self._given_up()
        return self._entries.all(None if before is None else before.entries.length)

    @property
    def ir(self) -> PromptIR | None:
        """What the last prompt was rendered from; None before the first."""
        return self._base

    @property
    def prefix(self) -> PrefixReport | None:
        """Whether the last prompt extends the one before; None before the second."""
        return self._prefix

    @property
    def originals(self) -> Originals:
        """Where the wholes are of what was shortened: ``originals.get(handle)``."""
        return self._originals

    @property
    def embedder(self) -> Choice:
        """By what its messages are compared with what is asked."""
        return self._embedder

    @property
    def is_busy(self) -> bool:
        """Whether a call on it is under way at this moment, which another would wait for."""
        return self._lock.is_held

    @property
    def usage(self) -> ContextUsage:
        """How full the window is, and what the job has spent; as of the last prompt where one is
        being made."""
        # Without the lock, as `history` is: a server asks for it on its event loop.
        budget, base = self._request.budget, self._base
        tokens = base.tokens if base else 0
        return ContextUsage(
            tokens=tokens,
            upper_bound_tokens=upper_bound(tokens, self._provider),
            soft_tokens=budget.soft_tokens,
            hard_tokens=budget.hard_tokens,
            job_tokens=self._job_tokens,
            max_job_tokens=budget.max_job_tokens,
            prompts=self._prompts,
            compactions=self._compactions,
            entries=len(self._entries),
            visible_entries=len(base.history.entries) if base else 0,
            sections=len(base.sections) if base else 0,
        )

    def new_job(self) -> None:
        """Start the next job: `Budget.max_job_tokens` counts from here."""
        with self._lock:
            self._settle()
            self._job_tokens = 0

    def _next_ir(self, query: str, time_range: TimeRange | None) -> PromptIR:
        """The last prompt's IR, and after it what is new."""
        base, turn = self._base, self._entries.turn
        request = replace(
            self._request,
            query=query or self._entries.said_last(),
            time_range=time_range,
        )
        if base is None or turn != self._turn or time_range is not None:
            found = self._hydrated(request, is_first=base is None)
        else:
            found = base.replace(sections=())
        if base is None:
            base = found.replace(sections=(), history=History(format=self._entries.format))
        came = self._entries.since(self._seen)
        history = base.history.followed_by(came)
        # Where the user never spoke (a summary goes on from a compaction) before what came last.
        anchor = len(self._entries) - 1 if turn is None else turn
        late_bound = (*base.late_bound, *self._late.bound(came.messages))
        shown = base.replace(history=history, late_bound=late_bound)
        fresh = [
            section if section.is_static else replace(section, anchor=anchor)
            for section in unseen(found.sections, shown)
        ]
        sections = (*base.sections, *fresh)
        ir = PromptIR(
            request=request,
            sections=sections,
            tools=base.tools,
            history=history,
            late_bound=late_bound,
            counter=base.counter,
            meta=replace(found.meta, trace=()),
        )
        return ir.replace(meta=replace(ir.meta, before_tokens=ir.tokens))

    def _hydrated(self, request: ContextRequest, *, is_first: bool) -> PromptIR:
        sources = sources_of(self._sources)
        if is_first:
            found = hydrate(
                request,
                sources,
                system=self._system,
                tools=self._tools,
                timeout=self._timeout,
            )
        else:
            shares = dict(request.strategy.shares) | dict.fromkeys(_ONCE, 0.0)
            later = replace(request, strategy=replace(request.strategy, shares=shares))
            missing = self._missing or ()
            asked = [each for each in sources if each.kind != "hot" or each.name in missing]
            found = hydrate(later, asked, timeout=self._timeout).replace(request=request)
        self._note_missing(found, sources)
        if is_first:
            return found
        # Hot memory that is late stands before the turn that it came in: the prefix holds.
        hot = {each.name for each in sources if each.kind == "hot"}
        return found.with_sections(
            [
                replace(section, stability=Stability.DYNAMIC)
                if section.provenance.source in hot
                else section
                for section in found.sections
            ]
        )

    def _afresh(self, ir: PromptIR) -> PromptIR:
        """The IR of a prompt whose prefix breaks anyway: hot memory as it is now, and the texts of
        entries as they came, since what was shortened in them refers to what may go."""
        ir, shown = self._with_hot(ir), ir.history
        places = [shown.place(position) for position in range(len(shown.entries))]
        texts = self._entries.with_texts_of(places, shown)
        return ir if texts is shown else ir.replace(history=texts)

    def _with_hot(self, ir: PromptIR) -> PromptIR:
        """The IR with hot memory as it is now: its prefix breaks anyway. What does not answer stays
        as it was."""
        hot = [each for each in sources_of(self._sources) if each.kind == "hot"]
        if not hot or self._base is None:  # with the first prompt they were asked just now
            return ir
        found = hydrate(ir.request, hot, timeout=self._timeout)
        self._note_missing(found, hot)
        answered = {report.name for report in found.meta.sources if report.status == "ok"}
        fresh = [each for each in found.sections if each.provenance.source in answered]
        shown = [each for each in ir.sections if each.provenance.source in answered]
        degraded = tuple(dict.fromkeys((*ir.meta.degraded, *found.meta.degraded)))
        if shown == fresh and degraded == ir.meta.degraded:
            return ir
        others = [each for each in ir.sections if each.provenance.source not in answered]
        return ir.replace(sections=(*fresh, *others), meta=replace(ir.meta, degraded=degraded))

    def _note_missing(self, found: PromptIR, sources: Sequence[HydrationSource]) -> None:
        hot = {each.name for each in sources if each.kind == "hot"}
        reports = [report for report in found.meta.sources if report.name in hot]
        if reports:
            late = [report.name for report in reports if report.status in ("late", "failed")]
            self._missing = frozenset(late)

    def _compiled(self, ir: PromptIR, *, waits: bool = True) -> CompiledPrompt:
        passes = self._passes
        if not waits:
            passes = tuple([prune_now if step is prune else step for step in passes])
        return compile_ir(
            ir,
            self._provider,
            model=self._model or self._asked_model,
            passes=passes,
            originals=self._originals,
            minimum_prefix=minimum_prefix(self._model),
            known=self._known,
            thinking=self._thinking,
            granularity=self._granularity,
            sent=self._sent,
            outline=self._outline,
            embedder=self._embedder,
        )

    def _send(self, compiled: CompiledPrompt) -> None:
        """Note what is now before the model; a job over its limit stops here instead."""
        report = None if self._sent is None else prefix_report(self._sent, compiled)
        fresh = compiled.tokens - (report.shared_tokens if report else 0)
        most = self._request.budget.max_job_tokens
        if most is not None and self._job_tokens + fresh > most:
            raise BudgetExceededError(
                "the job",
                self._job_tokens + fresh,
                most,
                "end it here, set context.budget to one with more, or call context.new_job() "
                "where a new job begins",
                "Budget.max_job_tokens",
            )
        self._job_tokens += fresh
        self._compactions += _was_pruned(compiled.ir)
        self._prompts += 1
        self._prefix = report
        self._sent = compiled
        self._go_on_from(compiled.ir)
        self._late.give_all_up()  # what has no result now was asked for in vain

    def _room_tokens(self) -> int:
        new = self._entries.tokens_since(self._seen) + self._late.tokens
        shown = 0 if self._base is None else prompt_tokens(self._base)
        budget = self._request.budget
        left = room(budget.soft_tokens, self._provider) - shown
        if budget.max_job_tokens is not None:
            left = min(left, budget.max_job_tokens - self._job_tokens)
        return max(left - new - _RESERVE_TOKENS, 0)

    def _visible(self) -> frozenset[str]:
        base = PromptIR() if self._base is None else self._base
        places = [base.history.place(position) for position in range(len(base.history.entries))]
        places += range(self._seen, len(self._entries))
        return visible_items(base, self._late.sections).union(
            [EntryId.of(place) for place in places]
        )

    def _go_on_from(self, ir: PromptIR) -> None:
        if self._late:
            self._late.settle(self._entries.since(self._seen).messages)
        if _was_pruned(ir):
            self._left_out = None
        ir.history.rest()
        self._base, self._seen, self._turn = ir, len(self._entries), self._entries.turn


def _is_same(one: ToolDef, other: ToolDef) -> bool:
    return (one.description, one.schema) == (other.description, other.schema)


def _own_passes() -> tuple[Pass, ...]:
    """The usual ones, with a memory for echoes that no other conversation has a part in."""
    own = RemoveEchoes()
    return tuple([own if step is remove_echoes else step for step in DEFAULT_PASSES])


def _was_pruned(ir: PromptIR) -> bool:
    return any(trace.name == "prune" and trace.changed for trace in ir.meta.trace)
