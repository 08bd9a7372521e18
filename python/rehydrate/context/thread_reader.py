"""ThreadReader: request_context and fetch_whole on a stored thread, for a model outside of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.context import Context
from rehydrate.context.history import EntryOriginals
from rehydrate.context.jit import BUDGET_TOKENS, ContextJIT
from rehydrate.context.records import effective, records_of
from rehydrate.context.stored import Stored
from rehydrate.context.tool_calls import Answered
from rehydrate.context.transcript import transcript
from rehydrate.errors import UnknownThreadError
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import PROVIDERS, Provider

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads
    from rehydrate.prompt.sources.arguments import Given


TIMEOUT = 10.0
"""Seconds for a source: the first question reads the whole thread."""


class ThreadReader:
    """A stored thread as it is now, for a model outside of it: no answer is remembered as seen.

    It writes nothing, so the thread's own `Context` goes on undisturbed. Any number of threads may
    use it.

    >>> import tempfile
    >>> from rehydrate.context import Threads
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Threads.open(f"{folder}/threads.db", namespace="alice") as threads:
    ...         Context(threads=threads, thread="t-42").add(
    ...             {"role": "user", "content": "Staging listens on port 8443."},
    ...             {"role": "assistant", "content": "Noted."},
    ...         )
    ...         reader = ThreadReader(threads, "t-42")
    ...     answered = reader.answer("request_context", {"query": "port of staging"})
    >>> "Staging listens on port 8443." in answered.content
    True
    """

    def __init__(
        self,
        threads: Threads,
        thread: str,
        *,
        namespace: str | None = None,
        sources: Given = (),
        budget_tokens: int = BUDGET_TOKENS,
        before: ThreadReader | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the thread; raises UnknownThreadError, and StoreError.

        ``sources`` are asked besides it. An answer has at most ``budget_tokens``. What answers of
        the reader ``before`` had no room for is still there under its handles.
        """
        where = threads.namespace_for(namespace, "ThreadReader")
        records = effective(records_of(threads.native, where, thread))
        if not records:
            raise UnknownThreadError(thread, where)
        stored = Stored.of(records)
        provider: Provider = stored.format if stored.format in PROVIDERS else "anthropic"
        self._thread = stored.unseen_thread()
        if before is not None:
            self._thread.remainders.take(before._thread.remainders)
        self._context = Context(
            sources,
            provider=provider,
            format=stored.format,
            namespace=where,
            originals=EntryOriginals(self._thread.entries, stored.originals),
            clock=clock,
        )
        self._context._go_on_with(self._thread)
        self._jit = ContextJIT(
            self._context,
            budget_tokens=budget_tokens,
            max_calls=sys.maxsize,
            timeout=TIMEOUT,
            clock=clock,
        )
        self._numbers = count(1)
        self._lock = ForkSafeLock()

    def answer(self, name: str, arguments: Mapping[str, Any]) -> Answered:
        """Return the answer to a call of `request_context` or `fetch_whole`; a mistake in the
        arguments is an answer that says what to send instead."""
        with self._lock:
            return self._answer(
                ToolCall("anthropic", f"call_{next(self._numbers)}", name, arguments)
            )

    def _answer(self, call: ToolCall) -> Answered:
        try:
            return self._jit.answer(call)
        finally:
            # Nothing tells what the model still sees, so each answer stands by itself.
            self._context._model_view.unsplice(call.id)

    def whole(self, handle: str) -> str:
        """Return the text under a handle, byte for byte; raises UnknownHandleError."""
        text, _ = self._jit._tool_context.retriever.whole(handle)
        return text

    def transcript(self) -> str:
        """Return the messages as text, each with its number; of a long thread the middle is left
        out."""
        entries = self._thread.entries
        return transcript(entries.at_indices(range(len(entries))).messages, is_numbered=True)
