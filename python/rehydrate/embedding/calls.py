"""One call of a function of the caller's: in a thread, for a limited time, awaited if need be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Protocol

from rehydrate._concurrency import loops
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.pool import waiting
from rehydrate.failing import OwnWordsError


class UnansweredError(OwnWordsError, TimeoutError):
    """A call that did not come back in the time there was."""


class BusyError(UnansweredError):
    """A call that was not made, because too many before it did not come back."""


class Abandoned(Protocol):
    """Hears of calls that nobody waits for any more."""

    def left_behind(self) -> None:
        """One is under way by itself from now on."""

    def came_back(self, texts: list[str], found: Any, error: BaseException | None) -> None:
        """Such a call is over: what it returned or raised."""


def call_within(
    function: Callable[[list[str]], Any],
    texts: list[str],
    *,
    wait_s: float | None,
    timeout_s: float | None,
    abandoned: Abandoned,
) -> Any:
    """What `function` returns for `texts`, awaited where that is an awaitable.

    Raises UnansweredError after `wait_s` seconds. The call itself cannot be killed: it goes on in a
    daemon thread, which never keeps the interpreter from exiting, and `abandoned` hears of it. An
    awaitable is cancelled after `timeout_s`.
    """
    call = _Call(function, texts, timeout_s, abandoned)
    context = copy_context()
    threading.Thread(
        target=context.run, args=(call.make,), name="rehydrate-embedder", daemon=True
    ).start()
    return call.outcome(wait_s)


class _Call:
    def __init__(
        self,
        function: Callable[[list[str]], Any],
        texts: list[str],
        timeout_s: float | None,
        abandoned: Abandoned,
    ) -> None:
        self._function = function
        self._texts = texts
        self._timeout_s = timeout_s
        self._abandoned = abandoned
        self._run = loops.runner()  # by the thread that calls, not by the one that works
        self._lock = ForkSafeLock()
        self._done = threading.Event()
        self._is_abandoned = False
        self._found: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        try:
            self._found = self._function(self._texts)
            if hasattr(self._found, "__await__"):
                self._found = self._run(self._found, self._timeout_s)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._done.set()
        if self._is_abandoned:
            self._abandoned.came_back(self._texts, self._found, self._error)

    def outcome(self, wait_s: float | None) -> Any:
        try:
            with waiting():
                self._done.wait(wait_s)
        finally:  # also where Ctrl-C ends the waiting
            with self._lock:
                self._is_abandoned = not self._done.is_set()
                if self._is_abandoned:
                    self._abandoned.left_behind()
        if self._is_abandoned:
            raise UnansweredError(
                f"no answer within {wait_s:.3g} s; rehydrate.Embedder(timeout_s=...) waits longer"
            )
        if self._error is not None:
            raise self._error
        return self._found
