"""hydrate: queries all sources at once, and puts what they find into a PromptIR.

Sources run side by side, each until its timeout and within its budget: those that block in threads,
the others meanwhile in the caller's thread. A source that is late or fails is reported, not raised.
A late call cannot be killed: it is abandoned, and its answer is thrown away.
"""

from __future__ import annotations

import inspect
import os
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from rehydrate._check import check_known, check_timeout, check_whole
from rehydrate._concurrency import loops
from rehydrate._concurrency.async_wrappers import computed
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.workers import run_in_thread, waiting
from rehydrate._text import safe_error_text, warn_once
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError
from rehydrate.prompt.entries import COUNTER, History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.request import ContextRequest
from rehydrate.prompt.section import (
    DroppedSection,
    Meta,
    Section,
    SourceReport,
    SourceStatus,
    ToolDef,
)
from rehydrate.prompt.sources import check_names, sources_of
from rehydrate.prompt.sources.given import as_found, history, system as system_of, tools as tools_of
from rehydrate.prompt.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    fit_to_budget,
)

if TYPE_CHECKING:
    from rehydrate.prompt.sources import Given, Source


class TimeLimit(TypedDict, total=False):
    """The option of `hydrate` that is about time."""

    timeout: float | None
    """Seconds, for every source that may have to wait, instead of its own timeout. None: no
    limit."""


class HydrateOptions(TimeLimit, total=False):
    """The options of `hydrate`, besides the request and the sources."""

    messages: Sequence[Any] | History | None
    """The conversation so far, in any of the formats."""
    format: str
    """The format of the messages; without it, it is detected."""
    system: str | Section | Sequence[str | Section] | None
    """Instructions as texts, and sections as they are."""
    tools: Iterable[Any]
    """Definitions of tools, in any provider's shape."""
    visible: Iterable[str]
    """Items that the model sees already, by `Provenance.items`: sources do not return them."""


class SourceOptions(TimeLimit, total=False):
    """The options of `hydrate_source`, besides the request and the source."""

    visible: Iterable[str]
    """Items that the model sees already, by `Provenance.items`: the source does not return them."""
    budget_tokens: int | None
    """The room there is; the source's own budget may be smaller."""


class Hydrated(NamedTuple):
    """The result of one source."""

    sections: tuple[Section, ...]
    report: SourceReport
    dropped: tuple[DroppedSection, ...] = ()
    """The sections that it found and had no room for."""
    degraded: tuple[str, ...] = ()
    """The problems: each says what failed, and what was used instead."""
    tools: tuple[ToolDef, ...] = ()
    history: History | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of the source itself and of its parts, as in `degraded`."""
        name, status, _, _, _, detail = self.report
        missing = (f"{name}: {status}: {detail}",) if status in ("late", "failed") else ()
        return (*missing, *self.degraded)

    @property
    def tokens(self) -> int:
        """The tokens of all that it found."""
        tokens = sum(section.tokens or 0 for section in self.sections)
        tokens += sum(tool.tokens or 0 for tool in self.tools)
        return tokens + (self.history.total_tokens if self.history else 0)


def hydrate(
    request: ContextRequest | str = "", sources: Given = (), **options: Unpack[HydrateOptions]
) -> PromptIR:
    """Collect everything that may go into the next prompt, with where it came from.

    ``request`` is the turn's query, as a text or a `ContextRequest`; "": the last user turn of
    ``messages``. ``sources`` is a `Memory` (its hot items, those of the request's time range and
    those that match), the path of a document or folder, a function, a source such as
    ``semantic(memory)``, or a list of these. They run at once. A source that fails, or that takes
    longer than its timeout (1 s), is left out: ``ir.meta.sources`` says why, and so does a warning
    of the logger ``rehydrate.prompt``, once for each cause. What does not fit into a source's
    budget is in ``ir.meta.dropped``. Without messages the request itself is the conversation.

    Raises InvalidArgumentError for an argument outside its limits and for two sources of one name,
    InvalidMessageError for what is not a message, and MissingNamespaceError for a memory without a
    namespace where the request has no namespace.

    >>> ir = hydrate("Which port?", lambda request: "Staging listens on 8443.", timeout=None)
    >>> ir.sections[0].content
    'Staging listens on 8443.'
    """
    check_known("hydrate has no", options, HydrateOptions.__annotations__)
    all_sources = [*_sources_in(options), *sources_of(sources)]
    check_names(all_sources)
    request = _complete_request(request, all_sources)
    if request.query.strip() and not any(source.kind == "history" for source in all_sources):
        all_sources.append(history([{"role": "user", "content": request.query}]))
    by_name = {
        each.report.name: each for each in _ask(all_sources, request, options, is_asked_for=False)
    }
    off = "the strategy leaves it out"
    return _prompt(
        request,
        [
            by_name.get(source.name, Hydrated((), SourceReport(source.name, "off", detail=off)))
            for source in all_sources
        ],
    )


ahydrate = computed(hydrate)


def hydrate_source(
    request: ContextRequest | str, source: Source, **options: Unpack[SourceOptions]
) -> Hydrated:
    """Query one source in the middle of a turn.

    ``visible`` are the items that the model sees already, ``budget_tokens`` is the room there is.
    A source that fails or is late returns no sections, and the report says why.

    >>> hydrate_source("ports", lambda request: "8443", timeout=None).sections[0].content
    '8443'
    """
    sources = sources_of(source)
    if len(sources) != 1:
        names = ", ".join(one.name for one in sources)
        raise InvalidArgumentError(
            f"hydrate_source asks one source, and this is {len(sources)} ({names}); pass one, as "
            "in semantic(memory)"
        )
    (hydrated,) = hydrate_sources(request, sources, **options)
    return hydrated


def hydrate_sources(
    request: ContextRequest | str, sources: Given, **options: Unpack[SourceOptions]
) -> list[Hydrated]:
    """Query several sources at once; the results are in the order of the sources.

    The strategy says which of them run, and each may take ``budget_tokens``.

    >>> [hydrated.report.name for hydrated in hydrate_sources("ports", [], timeout=None)]
    []
    """
    check_known("hydrate_source has no", options, SourceOptions.__annotations__)
    all_sources = sources_of(sources)
    check_names(all_sources)
    request = _complete_request(request, all_sources)
    return _ask(all_sources, request, options, is_asked_for=True)


ahydrate_source = computed(hydrate_source)


def _sources_in(options: HydrateOptions) -> list[HydrationSource]:
    """Return sources for the system prompt, tools and messages in the options."""
    sources = []
    if (system := options.get("system")) is not None:
        sources.append(system_of(*(system if isinstance(system, (list, tuple)) else (system,))))
    if (definitions := options.get("tools")) is not None:
        sources.append(tools_of(definitions))
    if (messages := options.get("messages")) is not None:
        sources.append(history(messages, options.get("format", "auto")))
    return sources


def _complete_request(request: Any, sources: Sequence[HydrationSource]) -> ContextRequest:
    """Return the request with a query, if a source knows one.

    Raises MissingNamespaceError for a source that needs a namespace where the request has none.
    """
    if isinstance(request, str):
        request = ContextRequest(request)
    if not isinstance(request, ContextRequest):
        raise InvalidArgumentError(
            f"request is of type {type(request).__name__}; pass a text or a ContextRequest"
        )
    for source in sources:
        is_unbound = source.needs_namespace and not request.namespace
        if is_unbound and source.is_wanted(request.strategy):
            raise MissingNamespaceError(source.name)
    if not request.query.strip():
        query = next(filter(None, map(_query_from, sources)), request.query)
        return replace(request, query=query)
    return request


def _query_from(source: HydrationSource) -> str:
    """Return the query that the source knows, as the history does; "" for none, or if it fails."""
    try:
        query = source.query() if source.query else ""
    except Exception:
        return ""
    return query if isinstance(query, str) else ""


def _ask(
    sources: Sequence[HydrationSource],
    request: ContextRequest,
    options: Any,
    *,
    is_asked_for: bool,
) -> list[Hydrated]:
    """Run the sources that the strategy wants, each with the tokens that it may take."""
    room, visible = options.get("budget_tokens"), options.get("visible", ())
    check_whole("budget_tokens", room, or_none=True)
    if isinstance(visible, str) or not isinstance(visible, Iterable):
        raise InvalidArgumentError(
            f"visible is of type {type(visible).__name__}; pass the items of provenances"
        )
    visible = frozenset(visible)
    sources = [source for source in sources if source.is_wanted(request.strategy)]
    if "timeout" in options:
        timeout = check_timeout("timeout", options["timeout"])
        sources = [replace(source, timeout=timeout) for source in sources]
    started, calls = time.monotonic(), []
    for source in sources:
        own = source.tokens_for(request.strategy, request.budget)
        limit = min([tokens for tokens in (own, room) if tokens is not None], default=None)
        asked = SourceRequest(request, source.name, limit, visible, is_asked_for)
        calls.append(_Call(source, asked, started))
    return _run(calls)


def _prompt(request: ContextRequest, outcomes: Sequence[Hydrated]) -> PromptIR:
    """Return a PromptIR with the results of all sources, in their order."""
    dropped = [one for found in outcomes for one in found.dropped]
    sections: dict[str, Section] = {}
    tools: dict[str, ToolDef] = {}

    def take(taken: dict[str, Any], id_: str, value: Any, of: str, source: str) -> None:
        if taken.setdefault(id_, value) is not value:
            dropped.append(DroppedSection(id_, value.tokens or 0, of, by=source))

    for each in outcomes:
        name = each.report.name
        for section in each.sections:
            take(sections, section.id, section, "another section has this id", name)
        for tool in each.tools:
            take(tools, tool.name, tool, "another tool has this name", name)
    prompt = PromptIR(
        request=request,
        sections=tuple(sections.values()),
        tools=tuple(tools.values()),
        history=next((each.history for each in outcomes if each.history), History()),
        counter=COUNTER,
    )
    return prompt.replace(
        meta=Meta(
            sources=tuple([each.report for each in outcomes]),
            dropped=tuple(dropped),
            before_tokens=prompt.tokens + sum(one.tokens for one in dropped),
            degraded=tuple(dict.fromkeys(note for each in outcomes for note in each.problems)),
        )
    )


MAX_ABANDONED = 32
"""A source is not called for a namespace while this many of its late calls there still run."""
_MAX_ABANDONED_OF_CODE = 256
"""Nor while this many calls of the same code run: it may be made anew for each request."""
_GRACE_SECONDS = 0.005
"""Time after its deadline until an async source is cancelled: it must be late first."""


def _run(calls: Sequence[_Call]) -> list[Hydrated]:
    """Return the outcome of each call, in order.

    Errors are reported in the outcomes; KeyboardInterrupt, SystemExit and the like are raised.
    """
    try:
        for call in calls:
            if call.source.blocking:
                call.start()
        for call in calls:
            if not call.source.blocking:
                call.run()
                call.raise_if_interrupted()
        return [call.outcome() for call in calls]
    finally:  # also if Ctrl-C ended the wait
        for call in calls:
            call.abandon()


class _Call:
    """One call of one source."""

    def __init__(self, source: HydrationSource, request: SourceRequest, started: float) -> None:
        self.source = source
        self._request = request
        has_timeout = source.timeout is not None and source.blocking
        self._deadline = started + (source.timeout or 0.0) if has_timeout else None
        self._began = started
        self._answered: Future[Found] = Future()
        self._ended = started
        self._await = loops.runner()  # of the calling thread, not of the worker

    def start(self) -> None:
        """Run the call in a thread."""
        limits = (MAX_ABANDONED, _MAX_ABANDONED_OF_CODE)
        for each, limit in zip(_counted_as(self.source, self._request), limits, strict=True):
            if _abandoned[each] >= limit:
                busy = f"{limit} calls of it have not come back; it is called again once they have"
                self._answered.set_exception(_BusyError(busy))
                return
        context = copy_context()
        try:
            run_in_thread(lambda: context.run(self.run))
        except RuntimeError:  # no more threads, or the interpreter is about to exit
            self.run()

    def run(self) -> None:
        """Call the source, and keep its answer or its error."""
        self._began = time.monotonic()
        try:
            found = self._answer()
        except BaseException as error:
            self._ended = time.monotonic()
            self._answered.set_exception(error)
        else:
            self._ended = time.monotonic()
            self._answered.set_result(found)

    def outcome(self) -> Hydrated:
        """Wait for the answer until the deadline, and return the outcome."""
        deadline, late = self._deadline, f"no answer within {self.source.timeout or 0:g} s"
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            with waiting():
                error = self._answered.exception(timeout)
        except TimeoutError:
            return self._nothing("late", late)
        if isinstance(error, _BusyError):
            return self._nothing("late", str(error))
        if deadline is not None and self._ended > deadline:
            return self._nothing("late", late)
        if isinstance(error, Exception):
            message = safe_error_text(error, f"source {self.source.name!r}")
            return self._nothing("failed", message)
        return self._outcome_of(self._answered.result())

    def raise_if_interrupted(self) -> None:
        """Raise an exception that ends the whole run, such as KeyboardInterrupt."""
        error = self._answered.exception()
        if error is not None and not isinstance(error, Exception):
            raise error

    def abandon(self) -> None:
        """Count a call that still runs as abandoned; its answer will be thrown away."""
        if not self._answered.done():
            self._count(1)
            self._answered.add_done_callback(lambda _: self._count(-1))

    def _count(self, change: int) -> None:
        with _lock:
            for each in _counted_as(self.source, self._request):
                _abandoned[each] += change
                if not _abandoned[each]:
                    del _abandoned[each]  # its id may be another object's later

    def _answer(self) -> Found:
        source = self.source
        answer = source.run(self._request)
        if hasattr(answer, "__await__"):
            timeout = None
            if self._deadline is not None:
                timeout = max(0.0, self._deadline - time.monotonic()) + _GRACE_SECONDS
            answer = self._await(answer, timeout)
        found = as_found(answer, source)
        return found if source.ignores_budget else fit_to_budget(found, self._request)

    def _outcome_of(self, found: Found) -> Hydrated:
        status: SourceStatus = "off" if found.off else "ok"
        report = self._report(status, found.off)._replace(sections=len(found.sections))
        sections, tools, history, dropped, degraded, _ = found
        hydrated = Hydrated(sections, report, dropped, degraded, tools, history)
        return hydrated._replace(report=report._replace(tokens=hydrated.tokens))

    def _nothing(self, status: SourceStatus, detail: str) -> Hydrated:
        cause = f"source {self.source.name!r} was left out: {status}: {detail}"
        warn_once("rehydrate.prompt", cause)
        return Hydrated((), self._report(status, detail))

    def _report(self, status: SourceStatus, detail: str) -> SourceReport:
        ended = self._ended if self._answered.done() else time.monotonic()
        elapsed_ms = max(0.0, ended - self._began) * 1e3
        return SourceReport(self.source.name, status, elapsed_ms=elapsed_ms, detail=detail)


class _BusyError(Exception):
    """The call was not made: too many earlier ones are still running."""


def _counted_as(source: HydrationSource, request: SourceRequest) -> tuple[Hashable, Hashable]:
    """Return what a late call counts for: its source in this namespace, and the source's code.

    A source is known by its memory, its method's object, or else its function; other conversations
    have sources of the same name.
    """
    run: Any = source.run
    owner = run.__self__ if isinstance(run, MethodType) else run
    while isinstance(run, (partial, MethodType)):
        run = run.func if isinstance(run, partial) else run.__func__
    plain = inspect.unwrap(run) if isinstance(run, FunctionType) else run
    code: Any = plain.__code__ if isinstance(plain, FunctionType) else type(plain)
    return (id(source.memory or owner), code, request.namespace), code


_abandoned: Counter[Hashable] = Counter()
_lock = ForkSafeLock()

if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_abandoned.clear)  # the child has none of these threads
