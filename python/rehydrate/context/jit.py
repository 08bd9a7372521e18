"""ContextJIT: the model asks for what is missing and gets it in the middle of the turn."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._text import failed
from rehydrate.context.fetch import fetch_whole
from rehydrate.context.recall import load_memory, request_context
from rehydrate.context.retriever import Desk, Looking, Remainders
from rehydrate.context.tool_calls import FETCH, REQUEST, Answered, shown
from rehydrate.context.wall_clock import zone_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall, tool_definition
from rehydrate.memory.tools import LoadMemory

if TYPE_CHECKING:
    from rehydrate.context.context import Context
    from rehydrate.prompt.sources.arguments import Given


BUDGET_TOKENS = 4_000
"""What one call may bring: 0.94 of the evidence on LoCoMo (`benches/python/needles.py`)."""
LEAST_TOKENS = 256
"""Less could show nothing: the words of an answer take 200."""
MAX_CALLS = 8
"""So many calls in one turn of the user's are answered."""
TIMEOUT = 1.0
"""So long a source may take: more than for a prompt, since the model has asked for it."""
_REMEMBERED = 32


class ContextJIT:
    """The tools by which a model brings back what its prompt does not show, for one `Context`.

    ``request_context`` finds messages that were compacted away, memories and documents by what they
    are about and when they were said; ``fetch_whole`` reads by its handle what is shown in part;
    ``load_memory`` is there where the context has a memory. They are offered in each prompt of the
    context from now on. For a tool call that ``handles(call)``, put what ``await handle(call)``
    returns into the conversation. The answer is the actual messages, as many as fit into
    ``budget_tokens`` and what remains of the turn's budget, then the handle of the rest; what the
    model sees already is not sent again, and nothing before the answer changes, so the provider's
    cache holds. Whatever the model asked for, the answer is text that it can read and correct
    itself by; only what is no call of these tools raises InvalidArgumentError.

    ``timezone`` is that of "last tuesday"; ``max_calls`` are answered in one turn of the user's;
    a source has ``timeout``, and one that is late or fails is named in the answer.

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

        ``sources`` are asked beside the context's own, and only when the model asks. ``clock``
        gives seconds since 1970.
        """
        if not callable(getattr(context, "offer", None)):
            raise InvalidArgumentError(
                f"context is of type {type(context).__name__}; pass the rehydrate.Context whose "
                "model may ask"
            )
        for name, value, least in (
            ("budget_tokens", budget_tokens, LEAST_TOKENS),
            ("max_calls", max_calls, 1),
        ):
            if type(value) is not int or value < least:
                raise InvalidArgumentError(
                    f"{name} is {value!r}; pass a whole number from {least} up"
                )
        self._context = context
        self._max_calls = max_calls
        self._clock = clock
        looking = Looking(context, sources, budget_tokens, timeout)
        self._desk = Desk(context, looking, Remainders(), zone_of(timezone), budget_tokens)
        self._load_memory = LoadMemory(looking.memories[0]) if looking.memories else None
        self._lock = ForkSafeLock()
        self._turn: int | None = None
        self._calls = 0
        self._answered: OrderedDict[tuple[str, str, str], Answered] = OrderedDict()
        self._under_way: dict[tuple[str, str, str], ForkSafeLock] = {}
        context.offer(self.tools())
        context.jit = self

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:  # noqa: A002
        """The tools' definitions for a provider, the context's own unless it is named.

        The context's prompts list them already; this is for requests that are made otherwise.
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
        """Whether `call` is a call of these tools, in any provider's shape."""
        read = ToolCall.read(call)
        return read is not None and self._answerer(read) is not None

    async def ahandle(self, call: Any) -> Any:
        """`handle` for asyncio and trio: it works in a thread, the event loop goes on."""
        return (await self.aanswer(call)).result

    def handle(self, call: Any) -> Any:
        """The result of a call, in the shape of the provider whose call it is."""
        return self.answer(call).result

    async def aanswer(self, call: Any) -> Answered:
        """`answer` for asyncio and trio. A cancelled answer takes no part in the prompt."""
        cancelled = Event()
        try:
            return await hand_over(partial(self._answered_to, call, cancelled))
        except BaseException:
            cancelled.set()
            raise

    def answer(self, call: Any) -> Answered:
        """The answer to a call, with what it brought and what it cost."""
        return self._answered_to(call, Event())

    def _answered_to(self, call: Any, cancelled: Event) -> Answered:
        """The answer; where nobody waits for it any more, it takes no part in the prompt."""
        read = ToolCall.read(call)
        answerer = None if read is None else self._answerer(read)
        if read is None or answerer is None:
            names = ", ".join(tool.name for tool in (REQUEST, FETCH))
            raise InvalidArgumentError(
                f"call is {shown(call)}, which is no call of {names}; ask handles(call) first"
            )
        key = (read.id, read.name, repr(read.raw_arguments))
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
            answered = self._limit_reached(read) if is_over else self._answer(read, answerer)
            is_wanted = not cancelled.is_set()
            if not is_wanted:
                self._context.unsplice(read.id, answered.sections)
            with self._lock:
                self._under_way.pop(key, None)
                if is_wanted:
                    self._answered[key] = answered
                if len(self._answered) > _REMEMBERED:
                    self._answered.popitem(last=False)
        return answered

    def _answer(self, call: ToolCall, answerer: Callable[[ToolCall], Answered]) -> Answered:
        """What answers the call; what goes wrong is an answer too."""
        started = time.perf_counter()
        try:
            answered = answerer(call)
        except InvalidArgumentError as error:
            answered = Answered(call, f"{call.name}: {error}", is_error=True)
        except (KeyboardInterrupt, SystemExit):
            self._context.unsplice(call.id)
            raise
        except BaseException as error:  # a panic of an extension is no Exception
            told = f"{failed(error, call.name)}; go on without it"
            answered = Answered(call, told, is_error=True)
        return answered._replace(elapsed_ms=(time.perf_counter() - started) * 1e3)

    def _limit_reached(self, call: ToolCall) -> Answered:
        most = f"{self._max_calls} calls in one turn are the limit"
        words = f"{call.name}: {most}; answer with what you have, or ask the user"
        return Answered(call, words, is_error=True)

    def _answerer(self, call: ToolCall) -> Callable[[ToolCall], Answered] | None:
        if call.name == REQUEST.name:
            now = datetime.fromtimestamp(self._clock(), UTC)
            return partial(request_context, self._desk, now=now)
        if call.name == FETCH.name:
            return partial(fetch_whole, self._desk)
        loader = self._load_memory
        if loader is not None and loader.handles(call):
            return partial(load_memory, self._desk, loader=loader)
        return None
