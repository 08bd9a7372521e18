"""Running sources at once, each until its deadline: what is late or fails is reported, not raised.

Sources that wait for something run in threads, the others meanwhile in the caller's. A call that is
late cannot be killed: nobody waits for it any more, and what it brings is thrown away.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextvars import copy_context
from typing import NamedTuple

from rehydrate.compiler.counts import counted_sections, counted_tools
from rehydrate.compiler.fitting import fit
from rehydrate.compiler.sources.answers import found_in
from rehydrate.compiler.sources.source import Found, HydrationSource, SourceRequest
from rehydrate.compiler.threads import run_in_thread
from rehydrate.embedding import loops
from rehydrate.embedding.locks import ForkSafeLock
from rehydrate.ir import SourceReport

MOST_LEFT_BEHIND = 32
"""So many late calls of one source may still be under way before it is not called any more."""
_GRACE_S = 0.05
"""How much longer than its deadline an async source is awaited: first it is late, then ended."""
_DETAIL_CHARS = 500


class Outcome(NamedTuple):
    """What came of one source."""

    found: Found
    report: SourceReport


def run_sources(
    sources: Sequence[HydrationSource], requests: Sequence[SourceRequest]
) -> list[Outcome]:
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
        return [call.outcome() for call in calls]
    finally:  # also where Ctrl-C ended the waiting
        for call in calls:
            call.leave()


class _Call:
    """One call of one source."""

    def __init__(self, source: HydrationSource, request: SourceRequest, started: float) -> None:
        self.source = source
        self._request = request
        self._started = started
        limit_ms = source.deadline_ms
        self._deadline = None if limit_ms is None else started + limit_ms / 1e3
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
        try:
            self._found = self._answer()
        except BaseException as error:
            self._error = error
        self._ended = time.monotonic()
        with _lock:
            self._done.set()
            if self._is_left:
                _left_behind[self.source.name] -= 1
        if not self.source.blocking and not isinstance(self._error, (Exception, type(None))):
            raise self._error

    def outcome(self) -> Outcome:
        """What came of it, once that is there or its time is over."""
        name, deadline = self.source.name, self._deadline
        is_done = self._done.wait(
            None if deadline is None else max(0.0, deadline - time.monotonic())
        )
        is_late = deadline is not None and (not is_done or self._ended > deadline)
        elapsed_ms = ((self._ended if is_done else time.monotonic()) - self._started) * 1e3
        if self.source.blocking and (is_late or isinstance(self._error, _BusyError)):
            detail = str(self._error) if isinstance(self._error, _BusyError) else (
                f"no answer within {self.source.deadline_ms:g} ms"
            )
            return Outcome(Found(), SourceReport(name, "late", elapsed_ms=elapsed_ms, detail=detail))
        if isinstance(self._error, Exception):
            detail = _said(self._error)
            return Outcome(
                Found(), SourceReport(name, "failed", elapsed_ms=elapsed_ms, detail=detail)
            )
        if self._error is not None:
            raise self._error
        found = self._found
        assert found is not None
        tokens = (
            sum(section.tokens or 0 for section in found.sections)
            + sum(tool.tokens or 0 for tool in found.tools)
            + (found.history.total_tokens if found.history else 0)
        )
        report = SourceReport(
            name,
            "off" if found.off else "ok",
            len(found.sections),
            tokens,
            elapsed_ms,
            found.off,
        )
        return Outcome(found, report)

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
        if source.kind in ("system", "tools", "history"):
            checked: Found = answer
            return checked._replace(sections=tuple(counted_sections(checked.sections)))
        found = found_in(answer, source=source.name, priority=source.priority)
        counted = found._replace(
            sections=tuple(counted_sections(found.sections)),
            tools=tuple(counted_tools(found.tools)),
        )
        return fit(counted, self._request)


class _BusyError(Exception):
    """A call that was not made, since too many before it did not come back."""


_left_behind: Counter[str] = Counter()
_lock = ForkSafeLock()


def _said(error: Exception) -> str:
    """An error's type and message, of which nothing may fail in its turn."""
    try:
        message = str(error)
    except Exception:
        message = "its message cannot be read"
    said = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return said if len(said) <= _DETAIL_CHARS else f"{said[:_DETAIL_CHARS]}..."
