"""Running sources side by side, each until its timeout and within its budget.

Sources that block run in threads, the others meanwhile in the caller's thread. A source that is
late or fails is reported, not raised. A late call cannot be killed: it is abandoned, and its answer
is thrown away.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence, Set as AbstractSet
from contextvars import copy_context
from typing import NamedTuple

from rehydrate._concurrency import loops
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.workers import run_in_thread, waiting
from rehydrate._text import safe_error_text
from rehydrate.prompt.content import DroppedSection, SourceReport, SourceStatus
from rehydrate.prompt.section import Section
from rehydrate.prompt.sources.given import as_found
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest

MAX_ABANDONED = 32
"""A source is not called while this many of its late calls are still running."""
_GRACE_SECONDS = 0.005
"""Time after its deadline until an async source is cancelled: it must be late first."""


class SourceOutcome(NamedTuple):
    """The answer of one source, and the report of its call."""

    found: Found
    report: SourceReport


def run_sources(
    sources: Sequence[HydrationSource], requests: Sequence[SourceRequest]
) -> list[SourceOutcome]:
    """Return the outcome of each source, in the order of the sources.

    Errors are reported in the outcomes; KeyboardInterrupt, SystemExit and the like are raised.
    """
    started = time.monotonic()
    calls = [
        _Call(source, request, started) for source, request in zip(sources, requests, strict=True)
    ]
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
        self._done = threading.Event()
        self._is_abandoned = False
        self._found: Found | None = None
        self._error: BaseException | None = None
        self._ended = started
        self._await = loops.runner()  # of the calling thread, not of the worker

    def start(self) -> None:
        """Run the call in a thread."""
        if _abandoned[self.source.name] >= MAX_ABANDONED:
            self._error = _BusyError(
                f"{MAX_ABANDONED} calls of it have not come back; it is called again once they have"
            )
            self._done.set()
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
            self._found = self._answer()
        except BaseException as error:
            self._error = error
        self._ended = time.monotonic()
        with _lock:
            self._done.set()
            if self._is_abandoned:
                _abandoned[self.source.name] -= 1

    def outcome(self) -> SourceOutcome:
        """Wait for the answer until the deadline, and return the outcome."""
        deadline = self._deadline
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        with waiting():
            is_done = self._done.wait(timeout)
        if isinstance(self._error, _BusyError):
            return self._empty_outcome("late", str(self._error))
        if deadline is not None and not (is_done and self._ended <= deadline):
            return self._empty_outcome("late", f"no answer within {self.source.timeout:g} s")
        if isinstance(self._error, Exception):
            message = safe_error_text(self._error, f"source {self.source.name!r}")
            return self._empty_outcome("failed", message)
        self.raise_if_interrupted()
        assert self._found is not None
        return self._outcome_of(self._found)

    def raise_if_interrupted(self) -> None:
        """Raise an exception that ends the whole run, such as KeyboardInterrupt."""
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error

    def abandon(self) -> None:
        """Count a call that still runs as abandoned; its answer will be thrown away."""
        with _lock:
            if not self._done.is_set() and not self._is_abandoned:
                self._is_abandoned = True
                _abandoned[self.source.name] += 1

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

    def _outcome_of(self, found: Found) -> SourceOutcome:
        tokens = sum(section.tokens or 0 for section in found.sections)
        tokens += sum(tool.tokens or 0 for tool in found.tools)
        if found.history is not None:
            tokens += found.history.total_tokens
        status: SourceStatus = "off" if found.off else "ok"
        report = SourceReport(
            self.source.name, status, len(found.sections), tokens, self._elapsed_ms(), found.off
        )
        return SourceOutcome(found, report)

    def _empty_outcome(self, status: SourceStatus, detail: str) -> SourceOutcome:
        elapsed_ms = self._elapsed_ms()
        return SourceOutcome(
            Found(), SourceReport(self.source.name, status, elapsed_ms=elapsed_ms, detail=detail)
        )

    def _elapsed_ms(self) -> float:
        ended = self._ended if self._done.is_set() else time.monotonic()
        return max(0.0, ended - self._began) * 1e3


class _BusyError(Exception):
    """The call was not made: too many earlier ones are still running."""


_abandoned: Counter[str] = Counter()
_lock = ForkSafeLock()

if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_abandoned.clear)  # the child has none of these threads


def fit_to_budget(found: Found, request: SourceRequest) -> Found:
    """Return the sections that are new and fit the budget; the others become `dropped`.

    Sections are taken by priority, then relevance, then order; one that does not fit is skipped.
    Those that must stay whole are kept, whatever the budget: the compiler decides if they fit.
    """
    dropped = list(found.dropped)
    new = []
    for section in found.sections:
        items = section.provenance.items
        # A static section is visible because it is in every prompt: it must be there again.
        if items and not section.is_static and request.visible.issuperset(items):
            dropped.append(_dropped(section, request, "the model sees it already"))
        else:
            new.append(section)
    kept = _fitting_ids(new, request.budget_tokens)
    reason = f"source {request.source!r} may take {request.budget_tokens or 0:,} tokens"
    dropped += [_dropped(section, request, reason) for section in new if section.id not in kept]
    degraded = found.degraded
    if new and not kept:
        degraded += (f"{request.source}: left out: nothing of what it found fits, {reason}",)
    return found._replace(
        sections=tuple([section for section in new if section.id in kept]),
        dropped=tuple(dropped),
        degraded=degraded,
    )


def _fitting_ids(sections: list[Section], budget_tokens: int | None) -> AbstractSet[str]:
    if budget_tokens is None:
        return {section.id for section in sections}
    remaining = budget_tokens
    kept = set()
    ranked = sorted(
        sections,
        key=lambda section: (-section.must_stay_whole, -section.priority, -section.relevance),
    )
    for section in ranked:
        tokens = section.tokens or 0
        if section.must_stay_whole or tokens <= remaining:
            kept.add(section.id)
            remaining -= tokens
    return kept


def _dropped(section: Section, request: SourceRequest, reason: str) -> DroppedSection:
    return DroppedSection(
        section.id,
        section.tokens or 0,
        reason,
        handle=section.handle or section.metadata.get("handle"),
        priority=section.priority.name.lower(),
        by=request.source,
    )
