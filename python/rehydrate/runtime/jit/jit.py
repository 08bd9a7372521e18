"""ContextJIT: the model asks for what is missing and gets it in the middle of the turn."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from rehydrate.compiler.counts import text_tokens
from rehydrate.embedding.locks import ForkSafeLock
from rehydrate.errors import InvalidArgumentError, RehydrateError, UnknownHandleError
from rehydrate.formats.calls import ToolCall, tool_definition
from rehydrate.ir import Provenance, Section
from rehydrate.memory.tools import LoadMemory
from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.asking import Asking, shown
from rehydrate.runtime.jit.definitions import FETCH, REQUEST, Definition
from rehydrate.runtime.jit.looking import Looking
from rehydrate.runtime.jit.paging import Page, page_of
from rehydrate.runtime.jit.remainders import PREFIX, Remainders
from rehydrate.runtime.jit.telling import Telling
from rehydrate.runtime.jit.wallclock import zone_of

if TYPE_CHECKING:
    from rehydrate.compiler.sources.given import Given
    from rehydrate.context import Context

BUDGET_TOKENS = 4_000
"""What one call may bring: 0.94 of the evidence on LoCoMo (`benches/python/needles.py`)."""
MAX_CALLS = 8
"""So many calls in one turn of the user's are answered."""
DEADLINE_MS = 1_000.0
"""So long a source may take: more than for a prompt, since the model has asked for it."""
_NOTICE_TOKENS = 200
"""What is said beside the items costs at most."""
_REMEMBERED = 32
_MEMORY_TRUST = 0.5

_ANSWERERS: dict[str, Definition] = {REQUEST.name: REQUEST, FETCH.name: FETCH}


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
    a source has ``deadline_ms``, and one that is late or fails is named in the answer.

    >>> from rehydrate import Context
    >>> jit = ContextJIT(context := Context())
    >>> context.add({"role": "user", "content": "Staging listens on port 8443."})
    >>> prompt = context.prompt("Deploy it.")
    >>> call = {"type": "tool_use", "id": "t1", "name": "request_context", "input": {"query": " "}}
    >>> jit.handles(call), jit.handle_sync(call)["content"]
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
        deadline_ms: float | None = DEADLINE_MS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Offer the tools to the context's model.

        ``sources`` are asked beside the context's own, and only when the model asks. ``clock``
        gives seconds since 1970.
        """
        for name, value in (("budget_tokens", budget_tokens), ("max_calls", max_calls)):
            if type(value) is not int or value < 1:
                raise InvalidArgumentError(f"{name} is {value!r}; pass a whole number from 1 up")
        self._context = context
        self._budget_tokens = budget_tokens
        self._max_calls = max_calls
        self._zone = zone_of(timezone)
        self._timezone = timezone
        self._clock = clock
        self._looking = Looking(context, sources, deadline_ms)
        self._load_memory = self._loader()
        self._remainders = Remainders()
        self._lock = ForkSafeLock()
        self._turn: int | None = None
        self._calls = 0
        self._answered: OrderedDict[tuple[str, str, str], Answered] = OrderedDict()
        context.offer(self.tools())
        context.jit = self

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:  # noqa: A002
        """The tools' definitions for a provider, the context's own unless it is named.

        The context's prompts list them already; this is for requests that are made otherwise.
        """
        provider = self._context.provider if format is None else format
        definitions = [
            tool_definition(provider, each.name, each.description, each.schema)
            for each in _ANSWERERS.values()
        ]
        if self._load_memory is not None:
            definitions.append(self._load_memory.definition(provider))
        return definitions

    def handles(self, call: Any) -> bool:
        """Whether `call` is a call of these tools, in any provider's shape."""
        read = ToolCall.read(call)
        return read is not None and self._answerer(read) is not None

    async def handle(self, call: Any) -> Any:
        """The result of a call, in the shape of the provider whose call it is."""
        return (await self.answer(call)).result

    def handle_sync(self, call: Any) -> Any:
        """`handle` without an event loop."""
        return self.answer_sync(call).result

    async def answer(self, call: Any) -> Answered:
        """The answer to a call with what it brought and what it cost, for asyncio and trio."""
        import anyio.to_thread

        from rehydrate.embedding.loops import lending_the_callers_loop

        with lending_the_callers_loop():
            return await anyio.to_thread.run_sync(
                partial(self.answer_sync, call), abandon_on_cancel=True
            )

    def answer_sync(self, call: Any) -> Answered:
        """`answer` without an event loop."""
        read = ToolCall.read(call)
        answerer = None if read is None else self._answerer(read)
        if read is None or answerer is None:
            names = ", ".join(tool.name for tool in _ANSWERERS.values())
            raise InvalidArgumentError(
                f"call is {shown(call)}, which is no call of {names}; ask handles(call) first"
            )
        started = time.perf_counter()
        key = (read.id, read.name, repr(read.raw_arguments))
        with self._lock:
            if self._turn != self._context.turn:
                self._turn, self._calls = self._context.turn, 0
                self._answered.clear()
            if key in self._answered:  # the loop tries again: the same answer
                return self._answered[key]
            self._calls += 1
            is_over = self._calls > self._max_calls
        try:
            if is_over:
                raise InvalidArgumentError(
                    f"{self._max_calls} calls in one turn are the limit; answer with what you "
                    "have, or ask the user"
                )
            answered = answerer(read)
        except RehydrateError as error:
            answered = Answered(read, f"{read.name}: {error}", is_error=True)
        except Exception as error:
            said = f"{read.name} failed ({type(error).__name__}: {error}); go on without it"
            answered = Answered(read, said, is_error=True)
        answered = answered._replace(elapsed_ms=(time.perf_counter() - started) * 1e3)
        with self._lock:
            self._answered[key] = answered
            if len(self._answered) > _REMEMBERED:
                self._answered.popitem(last=False)
        return answered

    def _answerer(self, call: ToolCall) -> Callable[[ToolCall], Answered] | None:
        if call.name == REQUEST.name:
            return self._request
        if call.name == FETCH.name:
            return self._fetch
        return self._load if self._load_memory and self._load_memory.handles(call) else None

    def _request(self, call: ToolCall) -> Answered:
        """What the scope's sources find, as much of it as fits."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        asking = Asking.read(call.arguments(), now, self._timezone)
        context = self._context
        hydrated = self._looking.look(asking, self._budget_tokens, context.visible)
        if not hydrated:
            kinds = ", ".join(self._looking.kinds)
            raise InvalidArgumentError(
                f"scope is {asking.scope!r}, and there is nothing of that kind to look in; this "
                f"conversation has {kinds}: send another scope, or none"
            )
        found = [section for each in hydrated for section in each.sections]
        spliced = context.splice(call.id, found, self._budget_tokens - _NOTICE_TOKENS)
        telling = Telling(self._zone, self._budget_tokens, self._remainders, context.originals)
        failed = [each.report for each in hydrated if each.report.status in ("late", "failed")]
        content = telling.found(asking, spliced, failed, [each.report.name for each in hydrated])
        return Answered(
            call,
            content,
            is_error=len(failed) == len(hydrated),
            sections=spliced.sections,
            remaining=len(spliced.rest),
            query=asking.query,
            scope=asking.scope,
            time_range=asking.time_range,
        )

    def _fetch(self, call: ToolCall) -> Answered:
        """The whole of something, or the rest of what was found."""
        arguments = call.arguments()
        handle, offset = arguments.get("handle"), arguments.get("offset") or 0
        if not isinstance(handle, str) or not handle.strip():
            raise InvalidArgumentError(
                f"handle is {shown(handle)}; send one that stands in the conversation, such as "
                "orig_..., mem_... or rest_..."
            )
        if type(offset) is not int or offset < 0:
            raise InvalidArgumentError(f"offset is {shown(offset)}; send a whole number from 0 up")
        handle = handle.strip()
        if handle.startswith(PREFIX):
            return self._rest(call, handle)
        return self._page(call, handle, offset)

    def _rest(self, call: ToolCall, handle: str) -> Answered:
        try:
            sections = self._remainders.get(handle)
        except UnknownHandleError:
            raise InvalidArgumentError(
                f"nothing is kept under {shown(handle)} any more; ask again with request_context"
            ) from None
        in_order = sorted(sections, key=lambda section: section.id)
        spliced = self._context.splice(call.id, in_order, self._budget_tokens - _NOTICE_TOKENS)
        telling = Telling(
            self._zone, self._budget_tokens, self._remainders, self._context.originals
        )
        content = telling.rest(handle, spliced)
        return Answered(
            call, content, sections=spliced.sections, remaining=len(spliced.rest), query=handle
        )

    def _page(self, call: ToolCall, handle: str, offset: int) -> Answered:
        text, source = self._whole(handle)
        if offset and offset >= len(text):
            raise InvalidArgumentError(
                f"offset is {offset:,}, and {handle} has {len(text):,} characters; send "
                "a smaller one"
            )
        room = min(self._budget_tokens, self._context.room_tokens) - _NOTICE_TOKENS
        page = page_of(text, offset, room)
        if text and not page.text:
            raise InvalidArgumentError(
                f"{handle} has {len(text):,} characters, and no room is left in this turn; answer "
                "with what you have"
            )
        section = _page_section(handle, source, page)
        spliced = self._context.splice(call.id, [section], self._budget_tokens)
        if spliced.visible:
            return Answered(call, f"{handle} is in front of you already, whole.", query=handle)
        content = page.text
        if page.end < page.total:
            content += (
                f"\n\n[characters {page.start:,} to {page.end:,} of {page.total:,}; go on with "
                f"offset {page.end}]"
            )
        return Answered(call, content, sections=spliced.sections, query=handle)

    def _whole(self, handle: str) -> tuple[str, str]:
        """The text under a handle, and what keeps it."""
        try:
            return self._context.originals.get(handle), "original"
        except UnknownHandleError as error:
            gone = error
        for memory in self._looking.memories:
            namespace = memory.namespace or self._context.request.identity
            try:
                return memory.get(handle, namespace=namespace or None).text, "memory"
            except UnknownHandleError:
                continue
        raise InvalidArgumentError(
            f"nothing is kept under {shown(handle)} ({gone}); send a handle as it stands in the "
            "conversation, or look with request_context"
        )

    def _load(self, call: ToolCall) -> Answered:
        assert self._load_memory is not None
        room = min(self._budget_tokens, self._context.room_tokens)
        text, is_error = self._load_memory.answer(call, room)
        if is_error:
            return Answered(call, text, is_error=True)
        (tokens,) = text_tokens([text])
        name = f"load_memory:{call.id}"
        section = Section(name, text, Provenance("memory", trust=_MEMORY_TRUST), tokens=tokens)
        spliced = self._context.splice(call.id, [section], self._budget_tokens)
        return Answered(call, text, sections=spliced.sections)

    def _loader(self) -> LoadMemory | None:
        for memory in self._looking.memories:
            namespace = memory.namespace or self._context.request.identity
            if namespace:
                return LoadMemory(memory, namespace=namespace)
        return None


def _page_section(handle: str, source: str, page: Page) -> Section:
    item = handle if page.is_whole else f"{handle}[{page.start}:{page.end}]"
    (tokens,) = text_tokens([page.text])
    return Section(
        f"{source}:{item}",
        page.text,
        Provenance(source, items=(item,), trust=_MEMORY_TRUST),
        tokens=tokens,
        handle=None if page.is_whole else handle,
    )
