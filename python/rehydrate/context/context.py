"""Context: one conversation of an agent server, whose prompts extend one another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypedDict, Unpack

from rehydrate._check import check_choice, check_type, check_whole, refuse_copy
from rehydrate._concurrency.async_wrappers import Closing, hand_over, run_locked
from rehydrate._concurrency.workers import STORING
from rehydrate._native import is_short_to_add
from rehydrate.compact.outline import OutlineSize
from rehydrate.context.compaction import BackgroundCompaction, BackgroundCompactor
from rehydrate.context.continued import continued_thread
from rehydrate.context.facts import ContextFacts
from rehydrate.context.log import EntryOriginals, Log
from rehydrate.context.prompt_builder import (
    PromptBuilder,
    check_system,
    check_working,
    checked_sources,
    own_passes,
)
from rehydrate.context.records import checked_seconds
from rehydrate.context.stored import Stored, read_stored
from rehydrate.context.thread import PromptCall, Thread, ToolHandler
from rehydrate.cost.prices import minimum_prefix
from rehydrate.embedding.choice import choice_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import FORMATS, provider_shown
from rehydrate.messages import PROVIDERS, Provider, own_provider, problems_of, provider_of
from rehydrate.prompt.counting import upper_bound
from rehydrate.prompt.ir import CompiledPrompt, Pass, PromptIR, RenderCache, Target
from rehydrate.prompt.originals import HeldOriginals, Originals
from rehydrate.prompt.request import (
    MAX_TOKENS,
    NO_POLICY,
    Budget,
    ContextRequest,
    ContextStrategy,
    ProviderPolicy,
    TimeRange,
)
from rehydrate.prompt.section import Section
from rehydrate.prompt.sources.given import read_tools

if TYPE_CHECKING:
    from rehydrate.compact.options import Granularity
    from rehydrate.context.threads import Durability, Threads
    from rehydrate.messages import FormatName
    from rehydrate.prompt.sources import Given


class PromptOptions(TypedDict, total=False):
    """The options of `Context` that say how its prompts are made."""

    provider: Provider | None
    model: str
    thinking: Literal["auto", "keep"]
    granularity: Granularity
    system: str | Section | Sequence[str | Section] | None
    tools: Iterable[Any]
    budget: Budget
    strategy: ContextStrategy
    passes: Sequence[Pass] | None
    originals: Originals | None
    embedder: Any
    timeout: float | Literal["own"] | None
    outline: OutlineSize
    clock: Callable[[], float]
    background: BackgroundCompaction | None
    policy: ProviderPolicy


class OpenOptions(PromptOptions, total=False):
    """The options of `Context.open` besides those of the store."""

    format: FormatName | Literal[""]


class Context(ContextFacts, Closing):
    """One conversation: add what happens, ask for the next prompt.

    It is append-only: each prompt extends the one before, byte for byte, so that the provider's
    cache holds. So does the model's thinking, which newer models accept only after the prefix that
    it was made under. Sections that a turn got from memory stay if they were sent. Only a
    compaction, or a tool offered later, breaks the prefix. `prefix` then says what that cost, and
    thinking that the ``model`` would refuse after the break is dropped (``thinking="keep"`` leaves
    it). A compaction keeps the best blocks of long texts and results; each gap names the handle of
    the whole. With ``granularity="message"`` it drops whole messages only. Nothing that was added
    is lost: `history` has all of it.

    ``provider`` is "anthropic", "openai_chat", "openai_responses", "bedrock", "gemini" or "ai_sdk".
    Unless named it follows from the first entry that only one of them takes, or from the
    ``model``'s name (a "gpt" gets "openai_chat"), or else it is "anthropic"; the first prompt
    settles it. ``format`` is that of the entries that are added, the provider's own unless named.
    ``sources`` are asked once a user turn: a `Memory`, the path of a document or folder, a
    function, or a list of these.
    Crossing the budget's soft limit compacts; a prompt over its hard limit raises
    BudgetExceededError, and so does a job over its limit, if one is set. `budget` may be changed
    at any time.

    With ``outline=True``, or a size in tokens or as a share of the prompt, each compaction lists
    the names in what it dropped, at the first gap: files, identifiers and ids. With a `ContextJIT`
    each has the number of a message, by which the model can read it (docs/outline.md).

    ``embedder`` is as in `compact_context`. A compaction and a `ContextJIT` of this context compare
    messages by it. Your own is asked about the best fifth, besides the built-in one. If it fails
    the work goes on without it, and ``ir.meta.degraded`` says so (for an answer of the JIT, its
    own `degraded`).

    With ``threads``, a `Threads` store, the conversation outlives the process: it begins where
    ``thread`` ended in its ``namespace``, and what is added and sent is on disk. The system text,
    the tools and the sections that were sent stay those of its prompts. `open` opens the store too.

    With ``background``, a `BackgroundCompaction`, summaries are written while the conversation goes
    on, and swapped in between turns (docs/background.md). ``policy``, a `ProviderPolicy`, is what
    the provider hears about its cache, and about shortening by itself (docs/cache.md).

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
        provider: Provider | None = None,
        model: str = "",
        thinking: Literal["auto", "keep"] = "auto",
        granularity: Granularity = "excerpt",
        system: str | Section | Sequence[str | Section] | None = None,
        tools: Iterable[Any] = (),
        budget: Budget = Budget(),  # noqa: B008  it is frozen
        strategy: ContextStrategy = ContextStrategy(),  # noqa: B008
        namespace: str = "",
        thread: str = "",
        format: FormatName | Literal[""] = "",  # noqa: A002  the field's word
        passes: Sequence[Pass] | None = None,
        originals: Originals | None = None,
        embedder: Any = "auto",
        timeout: float | Literal["own"] | None = "own",
        outline: OutlineSize = False,
        clock: Callable[[], float] = time.time,
        threads: Threads | None = None,
        background: BackgroundCompaction | None = None,
        policy: ProviderPolicy = NO_POLICY,
    ) -> None:
        """Check the arguments; no source is asked yet.

        ``timeout`` is in seconds, for each source in place of its own (1 s unless it says
        otherwise); None: no limit. ``clock`` returns seconds since 1970, the time of what is added.
        With ``threads`` it raises InvalidArgumentError for a thread whose entries are in another
        format, and StoreError.
        """
        check_type("model", model, str, "pass the model's name, or leave it out")
        asked, named = format or provider or "", provider
        if named is None:
            named = own_provider(format) or provider_of(model) or "anthropic"
        target = Target(
            named,
            model,
            originals,
            thinking=thinking,
            granularity=granularity,
            outline=outline,
            embedder=choice_of(embedder),
            policy=policy,
        )
        if format:
            check_choice("format", format, FORMATS)
        asked_sources = checked_sources(sources)
        check_system(system)
        check_working(passes, originals, timeout, clock)
        self._clock = clock = partial(_seconds_of, clock)
        stored, records, where = Stored(asked or target.provider), 0, ""
        if threads is not None:
            if not thread:
                raise InvalidArgumentError("thread is empty; name the conversation to be stored")
            where = threads.namespace_for(namespace, "Context", thread)
            stored, records = read_stored(
                threads.native, where, thread, stored.format, is_asked_for=bool(asked)
            )
            if records and not asked:
                target = replace(target, provider=stored.provider or target.provider)
        self._follows = not asked and not records
        render_cache = RenderCache()
        self._thread = continued_thread(stored, render_cache)
        kept: Originals = HeldOriginals() if originals is None else originals
        if threads is not None and originals is None:
            kept = EntryOriginals(self._thread.entries, stored.originals)
        self._builder = PromptBuilder(
            sources=asked_sources,
            target=replace(
                target,
                originals=kept,
                minimum_prefix=minimum_prefix(model),
                render_cache=render_cache,
            ),
            system=system,
            tools=read_tools(tools),
            request=ContextRequest("", strategy, budget, thread, None, namespace),
            passes=own_passes() if passes is None else tuple(passes),
            asking={} if timeout == "own" else {"timeout": timeout},
            runs_own_code_only=passes is None and originals is None,
            has_own_model=bool(model),
        )
        if self._thread.state.ir is not None:
            self._thread.offer(self._builder.go_on_with(self._thread.state.ir.tools), None)
        self._owned: Threads | None = None
        """The store that is closed with it."""
        if threads is not None:
            log = Log(
                threads.native,
                where,
                thread,
                self._thread,
                records,
                originals=kept if isinstance(kept, EntryOriginals) else None,
                saves_entries=threads.durability == "entry",
                clock=clock,
            )
            self._thread.log = log
        self._background: BackgroundCompactor | None = None
        if background is not None:
            check_type(
                "background", background, BackgroundCompaction, "pass BackgroundCompaction()"
            )
            self._background = BackgroundCompactor(
                background, self._thread, self._builder, thread, clock
            )
            self._background.resume(stored.summary)

    def _go_on_with(self, thread: Thread) -> None:
        """Be about this thread; nothing of the context was used yet."""
        self._thread = thread

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        sources: Given = (),
        *,
        thread: str,
        namespace: str,
        durability: Durability = "entry",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Open a stored conversation, or begin it: `Context` with a `Threads` store of its own.

        ``options`` are those of `Context`. `close`, or leaving a ``with`` block, closes the store.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     where = f"{folder}/threads.db"
        ...     with Context.open(where, thread="t-42", namespace="alice") as context:
        ...         sent = context.prompt("Which berth is free?").messages
        ...     with Context.open(where, thread="t-42", namespace="alice") as context:
        ...         context.add({"role": "assistant", "content": "Berth 4."})
        ...         context.prompt("Book it.").messages[:1] == sent
        True
        """
        from rehydrate.context.threads import Threads

        threads = Threads.open(path, namespace=namespace, durability=durability)
        try:
            context = cls(sources, thread=thread, namespace=namespace, threads=threads, **options)
        except BaseException:
            threads.close()
            raise
        context._owned = threads
        return context

    @classmethod
    async def aopen(
        cls,
        path: str | PathLike[str],
        sources: Given = (),
        *,
        thread: str,
        namespace: str,
        durability: Durability = "entry",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """`open` for asyncio and trio, with the same arguments, result and errors."""
        named = partial(cls.open, thread=thread, namespace=namespace, durability=durability)
        return await hand_over(partial(named, path, sources, **options), STORING)

    def close(self) -> None:
        """Write what is not on disk yet, and close the store that `open` opened.

        Every later change raises StoreClosedError; a second call does nothing. A context without a
        store has nothing to close. If the write fails (another context wrote to the thread, the
        disk is full) it raises StoreError and is closed all the same; `history` has all of it.
        """
        try:
            with self._thread.lock:
                log = self._thread.log
                if log is not None and not log.is_closed:
                    try:
                        with self._thread.change(ends_turn=True):
                            if self._background is not None:
                                self._background.apply_proposals()
                    finally:
                        log.close()
        finally:
            if self._owned is not None:
                self._owned.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: two contexts would share a lock, a cache and a store."""
        refuse_copy(
            "a Context",
            "make another with the same options and add(*context.history), or keep it with "
            "Context.open and open its thread there",
        )

    def add(self, *entries: Any, at: datetime | None = None) -> None:
        """Add what happened, in order: messages, or items of OpenAI Responses.

        An SDK's objects are taken as they are. ``at`` is when it happened, if not now; a line of a
        transcript says so itself. It adds all entries or none. Raises InvalidMessageError for
        anything but a message, and for what only another provider's format holds: it would be sent
        as it is.
        """
        with self._thread.lock:
            self._add(entries, at)

    async def aadd(self, *entries: Any, at: datetime | None = None) -> None:
        """`add` for asyncio and trio. It awaits other calls on this context; large entries are read
        and counted in a worker thread."""
        is_short = self._thread.log is None and is_short_to_add(entries)
        await run_locked(self._thread.lock, partial(self._add, entries, at), lambda: is_short)

    def _add(self, entries: Sequence[Any], at: datetime | None) -> None:
        with self._thread.change():
            if at is not None:
                check_type("at", at, datetime, "pass a datetime, or leave it out for now")
            shown = None
            if self._is_open:
                shown = provider_shown(entries, provider_of(self._builder.target.model))
            seconds = self._clock() if at is None else checked_seconds("at", at)
            self._thread.entries.extend(entries, seconds, shown or "")
            if shown is not None:
                self._follows = False
                self._builder.go_to(shown)

    def name_model(self, name: str, *, provider: Provider | None = None) -> None:
        """Say which model the next prompts go to: its rules hold for thinking, if the context
        was made without a ``model``, and so does its provider, while none is settled. An
        `Interpreter` does it by itself. Raises InvalidMessageError, and changes nothing, if what
        was added is in a shape that this provider does not take."""
        check_type("name", name, str, "pass the model's name")
        if provider is not None:
            check_choice("provider", provider, PROVIDERS)
        with self._thread.lock:
            builder = self._builder
            suggested = provider or (None if builder.has_own_model else provider_of(name))
            if suggested is not None and self._is_open:
                self._thread.entries.become(suggested)
                builder.go_to(suggested)
                self._follows = provider is None
            builder.name_model(name)

    def offer(self, tools: Iterable[Any], *, handler: ToolHandler | None = None) -> None:
        """Offer the model these tools too, in any provider's shape.

        A tool that is offered already, word for word, changes nothing; nor does one that a stored
        thread began with in other words: the model gets the stored definition, and `meta.degraded`
        of the prompts says so. Any other breaks the prefix after the first prompt. ``handler``
        answers their calls: an `Interpreter` finds it as `jit`. Raises InvalidArgumentError for a
        second tool of one name.
        """
        offered = read_tools(tools)
        thread = self._thread
        with thread.lock:
            thread.settle()
            thread.offer(self._builder.offer(offered), handler)

    def prompt(
        self, query: str | None = None, *, time_range: TimeRange | None = None
    ) -> CompiledPrompt:
        """Return the next prompt.

        ``query`` is what the user says now, and is added as their message; None, or a blank text,
        goes on from what was added. The sources are asked about it in a new user turn, and not in
        later prompts of that turn (its tool loop). ``time_range`` is the time that is meant.

        Raises BudgetExceededError for a prompt over the hard budget, and for a job over its own;
        InvalidArgumentError for a ``query`` while a tool call waits for its result. Whatever it
        raises, also when interrupted, the context is as it was before: the same query can be asked
        again, and is in the history once.
        """
        with self._thread.lock:
            return self._prompt(query, time_range, PromptCall())

    async def aprompt(
        self, query: str | None = None, *, time_range: TimeRange | None = None
    ) -> CompiledPrompt:
        """`prompt` for asyncio and trio, with the same arguments, result and errors.

        Work of a few milliseconds runs where it is called. A prompt that asks sources, compacts or
        has much to read is made in a worker thread. A call that waits for another one on this
        context holds no thread. After a cancellation the context is as it was before, as soon as
        the thread is done with it, unless something was added meanwhile.
        """
        call = PromptCall()
        work = partial(self._prompt, query, time_range, call)
        is_short = partial(self._is_short, query, time_range)
        try:
            return await run_locked(self._thread.lock, work, is_short)
        except BaseException:
            self._thread.give_up_call(call)
            raise

    def _ask(self, query: str | None) -> None:
        """Add the query as `prompt` does, and make no prompt: an `Interpreter`'s stays whatever
        comes of its turn."""
        with self._thread.lock, self._thread.change():
            self._thread.ask(query, self._clock)

    def _is_short(self, query: str | None, time_range: TimeRange | None) -> bool:
        if self._thread.log is not None or self._background is not None:
            return False  # the disk and a writer may take any time
        return self._builder.is_short(self._thread, query, time_range)

    def _prompt(
        self, query: str | None, time_range: TimeRange | None, call: PromptCall
    ) -> CompiledPrompt:
        thread = self._thread
        with thread.attempt(call):
            query = thread.ask(query, self._clock)
            if not len(thread.entries):
                raise InvalidArgumentError(
                    "there is nothing to answer; add a message, or pass a query"
                )
            background = self._background
            troubles = [] if background is None else background.begin_prompt()
            draft = self._builder.draft(thread, query, time_range)
            troubles += [*self._builder.kept_tools, *problems_of(thread.entries.unknown)]
            for trouble in troubles:
                draft = draft.degraded(trouble)
            compiled, missing = self._builder.compile(draft, thread)
            thread.send(compiled, missing, self.budget.max_job_tokens)
            if background is not None:
                background.note_sent()
            return compiled

    def compact(
        self, budget_tokens: int | None = None, *, keep_last: int | None = None
    ) -> PromptIR:
        """Compact now: the next prompt has at most ``budget_tokens``, and a new prefix.

        They are counted as `compact_context` and `PromptIR.tokens` count, not by the upper bound of
        a provider's count that the soft and hard budget use. None: what a crossed soft budget
        leaves. The last ``keep_last`` messages stay whatever they are worth, as far as they take no
        more than a 32nd of the room; None: the budget's. The IR returned says in `meta` what went.
        Without ``budget_tokens`` it waits for the end of a turn whose open tool loop the model may
        refuse however it is cut, and `meta.degraded` says so.
        """
        with self._thread.lock:
            return self._compact(budget_tokens, keep_last)

    async def acompact(
        self, budget_tokens: int | None = None, *, keep_last: int | None = None
    ) -> PromptIR:
        """`compact` for asyncio and trio, in a worker thread; otherwise as `aprompt`."""
        work = partial(self._compact, budget_tokens, keep_last)
        return await run_locked(self._thread.lock, work, lambda: False)

    def _compact(self, budget_tokens: int | None, keep_last: int | None) -> PromptIR:
        thread = self._thread
        thread.settle()
        if not len(thread.entries):
            raise InvalidArgumentError("there is nothing to compact; add a message first")
        draft = self._builder.draft(thread, "", None)
        request, budget = draft.ir.request, draft.ir.budget
        if budget_tokens is not None:
            check_whole("budget_tokens", budget_tokens, 1, MAX_TOKENS)
            target = min(upper_bound(budget_tokens, self.provider), MAX_TOKENS)
        else:
            target = budget.target_tokens
        last = budget.keep_last if keep_last is None else keep_last
        hard = max(target, budget.hard_tokens)
        tight = Budget(target, hard, compact_to=1.0, keep_last=last)
        ir = draft.ir.replace(request=replace(request, budget=tight))
        with thread.change(ends_turn=True):
            compiled, missing = self._builder.compile(
                draft._replace(ir=ir), thread, waits=budget_tokens is None
            )
            compacted = compiled.ir.replace(request=request)
            thread.go_on_from(compacted, missing)
        return compacted

    def new_job(self) -> None:
        """Start the next job: `Budget.max_job_tokens` counts from here."""
        with self._thread.lock, self._thread.change(ends_turn=True):
            self._thread.begin_job()


def _seconds_of(clock: Callable[[], float]) -> float:
    return checked_seconds("clock", clock())
