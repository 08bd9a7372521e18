"""ContextJIT: the model asks for what is missing and gets it in the middle of the turn.

ThreadReader: the same tools on a stored thread, for a model outside of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any

from rehydrate._check import check_whole, shown
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import fenced, tool_definition, transcript_lines, zone_of
from rehydrate._text import failure_text
from rehydrate.context.answers import fetch_whole, load_memory, request_context
from rehydrate.context.context import Context
from rehydrate.context.continued import unseen_thread
from rehydrate.context.history import Entries, PromptState, StoredEntry
from rehydrate.context.log import EntryOriginals
from rehydrate.context.records import check_clock, checked_seconds
from rehydrate.context.retriever import Retriever
from rehydrate.context.thread import Thread
from rehydrate.context.tool_calls import FETCH, REQUEST, Answered
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.tools import LoadMemory
from rehydrate.messages import Provider
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.request import Budget
from rehydrate.prompt.sources.source import TIMEOUT

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads
    from rehydrate.prompt.sources import Given


BUDGET_TOKENS = 4_000
"""The limit of one answer: 0.94 of the evidence on LoCoMo (`benches/python/needles.py`)."""
MIN_BUDGET_TOKENS = 256
"""Less could show nothing: the words of an answer take 200."""
MAX_CALLS = 8
"""Maximum calls in one user turn."""
_MAX_ANSWERS_KEPT = 32
"""A loop that repeats a call gets the same answer."""


class ContextJIT:
    """A retrieval tool set for one `Context`: its model brings back what its prompt does not show.

    ``request_context`` finds messages that were compacted away, memories and documents, by subject
    and time. ``fetch_whole`` reads by its handle what is shown in part. ``load_memory`` is there
    where the context has a memory. Every prompt of the context offers these tools from now on.

    For a tool call that ``handles(call)``, add what ``handle(call)`` returns to the context (in
    async code ``await ahandle(call)``). The answer is the actual messages, as many as fit into
    ``budget_tokens`` and what remains of the turn's budget, then a handle of the rest. What the
    model sees already is not sent again. Nothing before the answer changes, so the provider's cache
    holds. A mistake of the model is answered with text that says what to send instead; only a call
    of some other tool raises InvalidArgumentError.

    ``timezone`` is that of "last tuesday". One user turn gets ``max_calls`` answers. A source has
    ``timeout`` seconds; the answer names one that is late or fails.

    >>> from rehydrate import Context
    >>> jit = ContextJIT(context := Context())
    >>> context.add({"role": "user", "content": "Staging listens on port 8443."})
    >>> prompt = context.prompt("Deploy it.")
    >>> call = {"type": "tool_use", "id": "t1", "name": "request_context", "input": {"query": " "}}
    >>> jit.handles(call), jit.handle(call)["content"]
    (True, 'request_context: query is empty; say in a few words what is missing')
    """

    def __init__(
        self,
        context: Context,
        *,
        sources: Given = (),
        budget_tokens: int = BUDGET_TOKENS,
        max_calls: int = MAX_CALLS,
        timezone: str = "UTC",
        timeout: float | None = TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Offer the tools to the context's model.

        ``sources`` are asked besides the context's own, and only when the model asks. ``clock``
        gives seconds since 1970.
        """
        if not callable(getattr(context, "offer", None)):
            raise InvalidArgumentError(
                f"context is of type {type(context).__name__}; pass the rehydrate.Context whose "
                "model may ask"
            )
        check_whole("budget_tokens", budget_tokens, MIN_BUDGET_TOKENS)
        check_whole("max_calls", max_calls, 1)
        check_clock(clock)
        self._context = context
        self._max_calls = max_calls
        self._clock = clock
        zone = zone_of(timezone)
        self._retriever = Retriever(context, sources, budget_tokens, timeout, zone)
        memories = self._retriever.memories
        self._load_memory = LoadMemory(memories[0]) if memories else None
        self._lock = ForkSafeLock()
        self._turn: int | None = None
        self._calls = 0
        self._answered: dict[tuple[str, str, str], Answered] = {}
        self._under_way: dict[tuple[str, str, str], ForkSafeLock] = {}
        context.offer(self.tools(), handler=self)

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:  # noqa: A002
        """Return the tools' definitions for a provider, by default the context's own.

        The context's prompts list them already; this is for requests of your own.
        """
        provider = self._context.provider if format is None else format
        definitions = [
            tool_definition(provider, each.name, each.description, each.schema)
            for each in (REQUEST, FETCH)
        ]
        if self._load_memory is not None:
            definitions.append(self._load_memory.definition(provider))
        return definitions

    def handles(self, call: Any) -> bool:
        """Return whether `call` is a call of these tools, in any provider's format."""
        read = ToolCall.read(call)
        return read is not None and self._answerer(read) is not None

    async def ahandle(self, call: Any) -> Any:
        """`handle` for asyncio and trio: it runs in a thread, and the event loop goes on."""
        return (await self.aanswer(call)).result

    def handle(self, call: Any) -> Any:
        """Return the result of a call, in the format of the call's provider."""
        return self.answer(call).result

    async def aanswer(self, call: Any) -> Answered:
        """`answer` for asyncio and trio. A cancelled answer leaves nothing in the prompt."""
        cancelled = Event()
        try:
            return await hand_over(partial(self._answered_to, call, cancelled))
        except BaseException:
            cancelled.set()
            raise

    def answer(self, call: Any) -> Answered:
        """Return the answer to a call, with the sections it brought and their tokens."""
        return self._answered_to(call, Event())

    def _answered_to(self, call: Any, cancelled: Event) -> Answered:
        """Answer the call; if nobody waits for it any more, leave nothing in the prompt."""
        read = ToolCall.read(call)
        answerer = None if read is None else self._answerer(read)
        if read is None or answerer is None:
            names = ", ".join(tool.name for tool in (REQUEST, FETCH))
            raise InvalidArgumentError(
                f"call is {shown(call)}, which isn't a call of {names}; ask handles(call) first"
            )
        key = (read.id, read.name, shown(read.raw_arguments, sys.maxsize))
        with self._lock:
            if self._turn != self._context.turn:
                self._turn, self._calls = self._context.turn, 0
                self._answered.clear()
            alone = self._under_way.setdefault(key, ForkSafeLock())
        with alone:  # a loop that tries again, even meanwhile, gets the same answer
            with self._lock:
                if key in self._answered:
                    return self._answered[key]
                self._calls += 1
                is_over = self._calls > self._max_calls
            if is_over:
                limit = f"{self._max_calls} calls in one turn are the limit"
                text = f"{read.name}: {limit}; answer with what you have, or ask the user"
                answered = Answered(read, text, is_error=True)
            else:
                answered = self._answer(read, answerer)
            is_wanted = not cancelled.is_set()
            if not is_wanted:
                self._retriever.unsplice(read.pair_id, answered.sections)
            with self._lock:
                self._under_way.pop(key, None)
                if is_wanted:
                    self._answered[key] = answered
                if len(self._answered) > _MAX_ANSWERS_KEPT:
                    del self._answered[next(iter(self._answered))]
        return answered

    def _answer(self, call: ToolCall, answerer: Callable[[ToolCall], Answered]) -> Answered:
        """Answer the call; a failure is an answer too."""
        started = time.perf_counter()
        try:
            answered = answerer(call)
        except InvalidArgumentError as error:
            answered = Answered(call, f"{call.name}: {error}", is_error=True)
        except (KeyboardInterrupt, SystemExit):
            self._retriever.unsplice(call.pair_id)
            raise
        except BaseException as error:  # a panic of an extension is not an Exception
            text = f"{failure_text(error, call.name)}; go on without it"
            answered = Answered(call, text, is_error=True)
        return answered._replace(elapsed_ms=(time.perf_counter() - started) * 1e3)

    def _answerer(self, call: ToolCall) -> Callable[[ToolCall], Answered] | None:
        if call.name == REQUEST.name:
            now = datetime.fromtimestamp(checked_seconds("clock", self._clock()), UTC)
            return partial(request_context, self._retriever, now=now)
        if call.name == FETCH.name:
            return partial(fetch_whole, self._retriever)
        loader = self._load_memory
        if loader is not None and loader.handles(call):
            return partial(load_memory, self._retriever, loader=loader)
        return None


READER_TIMEOUT = 10.0
"""Seconds for a source: the first question reads the whole thread."""


class Reader:
    """Answers about a thread as it is now, for a model outside of it: each is complete by itself,
    and none is remembered as seen. Any number of threads may use it."""

    def __init__(
        self,
        thread: Thread,
        context: Context,
        *,
        budget_tokens: int = BUDGET_TOKENS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the thread; nothing of the context was used yet."""
        self._thread = thread
        context._go_on_with(thread)
        self._jit = ContextJIT(
            context,
            budget_tokens=budget_tokens,
            max_calls=sys.maxsize,
            timeout=READER_TIMEOUT,
            clock=clock,
        )
        self._numbers = count(1)
        self._lock = ForkSafeLock()

    @classmethod
    def of(
        cls,
        entries: Sequence[StoredEntry],
        provider: Provider,
        shown: Sequence[int],
        *,
        budget_tokens: int = BUDGET_TOKENS,
    ) -> Reader:
        """Read messages of which the model sees those at the indices ``shown``. An answer has at
        most ``budget_tokens``."""
        known = Entries(provider)
        known.restore(entries)
        state = PromptState(ir=PromptIR(history=known.at_indices(shown)), seen=len(known))
        # Its prompt isn't from a `Context`, so none of a context's limits applies.
        budget = Budget(soft_tokens=2**31, hard_tokens=2**31)
        context = Context(provider=provider, format=provider, budget=budget)
        return Reader(Thread(known, state=state), context, budget_tokens=budget_tokens)

    def answer(self, name: str, arguments: Mapping[str, Any]) -> Answered:
        """Return the answer to a call of `request_context` or `fetch_whole`; a mistake in the
        arguments is an answer that says what to send instead."""
        with self._lock:
            return self.answer_to(
                ToolCall("anthropic", f"call_{next(self._numbers)}", name, arguments)
            )

    def answer_to(self, call: ToolCall) -> Answered:
        """Return the answer to a call of any provider."""
        try:
            return self._jit.answer(call)
        finally:
            # Nothing says what the model still sees, so each answer is complete by itself.
            self._jit._retriever.unsplice(call.pair_id)


class ThreadReader(Reader):
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

        ``sources`` are asked besides it. An answer has at most ``budget_tokens``. The handles
        in answers of the reader ``before`` still work.
        """
        where = threads.namespace_for(namespace, "ThreadReader")
        stored = threads.stored_thread(thread, namespace, "ThreadReader")
        unseen = unseen_thread(stored)
        self._originals = EntryOriginals(unseen.entries, stored.originals)
        if before is not None:
            unseen.remainders.take(before._thread.remainders)
            for text in before._originals.unsaved(len(before._thread.entries)).values():
                self._originals.put(text)
        context = Context(
            sources,
            format=stored.format,
            namespace=where,
            originals=self._originals,
            clock=clock,
        )
        super().__init__(unseen, context, budget_tokens=budget_tokens, clock=clock)

    def whole(self, handle: str) -> str:
        """Return the text under a handle, byte for byte; raises UnknownHandleError."""
        return self._jit._retriever.whole(handle)[0]

    def transcript(self) -> str:
        """Return the messages as text, each with its number; of a long thread the middle is left
        out."""
        entries = self._thread.entries
        messages = entries.at_indices(range(len(entries))).messages
        return fenced("conversation", transcript_lines(messages, numbered=True))
