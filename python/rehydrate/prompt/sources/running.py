"""Fitting what one source brought into its budget: whole sections, the most relevant first.

Running sources at once, each until its deadline: what is late or fails is reported, not raised.

Sources that wait for something run in threads, the others meanwhile in the caller's. A call that is
late cannot be killed: nobody waits for it any more, and what it brings is thrown away.
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
from rehydrate._text import words_of
from rehydrate.prompt.meta import DroppedSection, SourceReport, SourceStatus
from rehydrate.prompt.section import Section
from rehydrate.prompt.sources.function import found_in
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest


def fit(found: Found, request: SourceRequest) -> Found:
    """What is new and fits, in the order in which it was brought; the rest is in `dropped`.

    The walk goes by priority, then relevance, then order, and passes over what does not fit. What
    must stay whole stays, whatever the budget: whether there is room is for the compiler to say.
    """
    dropped = list(found.dropped)
    new = []
    for section in found.sections:
        items = section.provenance.items
        # What is static stands in every prompt, at its place: the model sees it because of that.
        if items and not section.is_static and request.visible.issuperset(items):
            dropped.append(_dropped(section, request, "the model sees it already"))
        else:
            new.append(section)
    kept = _fitting(new, request.budget_tokens)
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


def _fitting(sections: list[Section], budget_tokens: int | None) -> AbstractSet[str]:
    if budget_tokens is None:
        return {section.id for section in sections}
    left = budget_tokens
    kept = set()
    by_worth = sorted(
        sections,
        key=lambda section: (-section.must_stay_whole, -section.priority, -section.relevance),
    )
    for section in by_worth:
        tokens = section.tokens or 0
        if section.must_stay_whole or tokens <= left:
            kept.add(section.id)
            left -= tokens
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


MOST_LEFT_BEHIND = 32
"""So many late calls of one source may still be under way before it is not called any more."""
_GRACE_S = 0.005
"""How much longer than its deadline an async source is awaited: first it is late, then ended."""


class SourceOutcome(NamedTuple):
    """What came of one source."""

    found: Found
    report: SourceReport


def run_sources(
    sources: Sequence[HydrationSource], requests: Sequence[SourceRequest]
) -> list[SourceOutcome]:
    """What came of each source, in their order, however fast they were.

    Raises only what is no failure: KeyboardInterrupt, SystemExit and the like.
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
                call.make()
                call.raise_what_is_no_failure()
        return [call.outcome() for call in calls]
    finally:  # also where Ctrl-C ended the waiting
        for call in calls:
            call.leave()


class _Call:
    """One call of one source."""

    def __init__(self, source: HydrationSource, request: SourceRequest, started: float) -> None:
        self.source = source
        self._request = request
        is_waited_for = source.timeout is None or not source.blocking
        self._deadline = None if is_waited_for else started + (source.timeout or 0.0)
        self._began = started
        self._done = threading.Event()
        self._is_left = False
        self._found: Found | None = None
        self._error: BaseException | None = None
        self._ended = started
        self._await = loops.runner()  # by the thread that calls, not by the one that works

    def start(self) -> None:
        """Make the call in a thread."""
        if _left_behind[self.source.name] >= MOST_LEFT_BEHIND:
            self._error = _BusyError(
                f"{MOST_LEFT_BEHIND} calls of it have not come back; it is called again once "
                "they have"
            )
            self._done.set()
            return
        context = copy_context()
        try:
            run_in_thread(lambda: context.run(self.make))
        except RuntimeError:  # no more threads, or the interpreter is about to exit
            self.make()

    def make(self) -> None:
        """Call the source and keep what came of it."""
        self._began = time.monotonic()
        try:
            self._found = self._answer()
        except BaseException as error:
            self._error = error
        self._ended = time.monotonic()
        with _lock:
            self._done.set()
            if self._is_left:
                _left_behind[self.source.name] -= 1

    def outcome(self) -> SourceOutcome:
        """What came of it, once that is there or its time is over."""
        deadline = self._deadline
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        with waiting():
            is_done = self._done.wait(left_s)
        if isinstance(self._error, _BusyError):
            return self._without("late", str(self._error))
        if deadline is not None and not (is_done and self._ended <= deadline):
            return self._without("late", f"no answer within {self.source.timeout:g} s")
        if isinstance(self._error, Exception):
            told = words_of(self._error, f"source {self.source.name!r}")
            return self._without("failed", told)
        self.raise_what_is_no_failure()
        assert self._found is not None
        return self._outcome_of(self._found)

    def raise_what_is_no_failure(self) -> None:
        """Ctrl-C and the like end the whole, whichever source they came up in."""
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error

    def leave(self) -> None:
        """Nobody waits any more: what it brings later is thrown away."""
        with _lock:
            if not self._done.is_set() and not self._is_left:
                self._is_left = True
                _left_behind[self.source.name] += 1

    def _answer(self) -> Found:
        source = self.source
        answer = source.run(self._request)
        if hasattr(answer, "__await__"):
            seconds = None
            if self._deadline is not None:
                seconds = max(0.0, self._deadline - time.monotonic()) + _GRACE_S
            answer = self._await(answer, seconds)
        found = found_in(answer, source)
        return found if source.comes_whole else fit(found, self._request)

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

    def _without(self, status: SourceStatus, detail: str) -> SourceOutcome:
        elapsed_ms = self._elapsed_ms()
        return SourceOutcome(
            Found(), SourceReport(self.source.name, status, elapsed_ms=elapsed_ms, detail=detail)
        )

    def _elapsed_ms(self) -> float:
        ended = self._ended if self._done.is_set() else time.monotonic()
        return max(0.0, ended - self._began) * 1e3


class _BusyError(Exception):
    """A call that was not made, since too many before it did not come back."""


_left_behind: Counter[str] = Counter()
_lock = ForkSafeLock()

if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_left_behind.clear)  # a child has none of those threads
