"""State of a process: `warm_up` loads modules and tables early; the cache has a limit.

The cache holds the analyses of texts (counts, words, vectors) for all calls of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _native
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.compact.api import compact_context
from rehydrate.errors import InvalidArgumentError, MissingPackageError

if TYPE_CHECKING:
    from rehydrate.agent.model import Model, OnText, Reply
    from rehydrate.memory.memory import Memory
    from rehydrate.messages import Provider
    from rehydrate.prompt.ir import CompiledPrompt


SDKS = ("anthropic", "openai")
"""The SDKs that a model of this package may use."""
_MESSAGES = (
    {"role": "user", "content": "Which berth is free? The ferry leaves at seven. " * 20},
    {"role": "assistant", "content": "Berth 4 is free until noon; port 8443 is open. " * 20},
    {"role": "user", "content": "Book it."},
)
_TOOL = {
    "name": "book",
    "description": "Books a berth.",
    "input_schema": {"type": "object", "properties": {"berth": {"type": "integer"}}},
}


class WarmedPart(NamedTuple):
    """One part of a warm-up: its name and its time."""

    name: str
    elapsed_ms: float
    error: str = ""
    """The type of the exception if the part failed, else ""."""


class WarmUp(NamedTuple):
    """The parts of a warm-up, and the time of all."""

    parts: tuple[WarmedPart, ...]
    elapsed_ms: float

    @property
    def failed(self) -> tuple[WarmedPart, ...]:
        """The parts that failed. The other parts work without them."""
        return tuple([part for part in self.parts if part.error])


def warm_up(
    *,
    models: Iterable[Model] = (),
    memories: Iterable[Memory] = (),
    sdks: Iterable[str] = (),
    embedder: Any = "auto",
) -> WarmUp:
    """Load now what the first requests would load. Call it when the process starts.

    It imports the packages that `import rehydrate` leaves out, makes a prompt and a compaction, and
    runs one turn of a model of its own. It keeps no result. Each of ``models`` imports its SDK;
    ``sdks`` name SDKs ("anthropic", "openai") for a loop of your own. Each of ``memories`` is
    searched once, which reads its index. ``embedder`` is as in `compact_context`; it computes one
    vector. A part that fails is listed in `failed`, and the others still run. Any thread may call
    it at any time: a second call takes a few milliseconds.

    Raises InvalidArgumentError for an unknown SDK, MissingPackageError for one that is not
    installed.

    >>> warmed = warm_up()
    >>> [part.name for part in warmed.parts], warmed.failed
    (['context', 'embedder', 'agent'], ())
    """
    parts: list[tuple[str, Callable[[], object]]] = [
        ("context", _warm_context),
        ("embedder", partial(_warm_embedder, embedder)),
        ("agent", _warm_agent),
    ]
    parts += [(f"sdk {name}", partial(import_module, name)) for name in _checked_sdks(sdks)]
    # A client of an SDK has something to load.
    parts += [(f"model {model.name}", getattr(model, "load", lambda: None)) for model in models]
    for number, memory in enumerate(memories):
        parts.append((f"memory {memory.namespace or number}", partial(_warm_memory, memory)))
    started = time.perf_counter()
    with _lock:  # two at the same time would only slow each other down
        warmed = tuple([_warm_part(name, work) for name, work in parts])
    return WarmUp(warmed, (time.perf_counter() - started) * 1e3)


async def awarm_up(
    *,
    models: Iterable[Model] = (),
    memories: Iterable[Memory] = (),
    sdks: Iterable[str] = (),
    embedder: Any = "auto",
) -> WarmUp:
    """`warm_up` for asyncio and trio, in a thread, with the same arguments, result and errors.

    Each of ``models`` also gets its client for the running event loop.
    """
    models = list(models)
    work = partial(warm_up, models=models, memories=memories, sdks=sdks, embedder=embedder)
    warmed = await hand_over(work, None)
    failed = {part.name for part in warmed.failed}
    for model in models:
        if f"model {model.name}" not in failed and (load := getattr(model, "aload", None)):
            await load()
    return warmed


_lock = ForkSafeLock()


def _warm_part(name: str, work: Callable[[], object]) -> WarmedPart:
    started, error = time.perf_counter(), ""
    try:
        work()
    except InvalidArgumentError:
        raise  # a wrong argument is the caller's mistake
    except Exception as raised:
        error = type(raised).__name__  # the message may hold a key or an address
    return WarmedPart(name, (time.perf_counter() - started) * 1e3, error)


def _checked_sdks(sdks: Iterable[str]) -> Sequence[str]:
    names = [sdks] if isinstance(sdks, str) else list(sdks)
    for name in names:
        if name not in SDKS:
            raise InvalidArgumentError(f"sdks has {name!r}; choose among {', '.join(SDKS)}")
        if find_spec(name) is None:
            raise MissingPackageError(f"rehydrate[{name}]", f"talks to what {name} talks to")
    return names


def _warm_context() -> None:
    from rehydrate.context.context import Context

    context = Context(system="You are the harbour's assistant.", tools=[_TOOL])
    context.add(*_MESSAGES)
    context.prompt()
    context.add(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "book", "input": {"berth": 4}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Booked."}],
        },
    )
    context.prompt()
    context.compact(100)


def _warm_embedder(embedder: Any) -> None:
    compacted = compact_context(
        _MESSAGES, "which port is open?", budget_tokens=60, embedder=embedder
    )
    if compacted.stats.degraded:
        raise RuntimeError(compacted.stats.degraded[0])


def _warm_agent() -> None:
    """Run one turn with one tool call, on an event loop of its own."""
    from rehydrate.agent.interpreter import Interpreter
    from rehydrate.context.context import Context

    interpreter = Interpreter(_ModelOfOneCall())
    # In a thread: the caller's thread may run an event loop.
    with ThreadPoolExecutor(1, "rehydrate-warm-up") as pool:
        pool.submit(interpreter.run, Context(), "Which berth is free?").result()


class _ModelOfOneCall:
    """A model without a provider: it asks for context once, then answers."""

    provider: Provider = "anthropic"
    name = "warm-up"

    _has_asked = False

    async def reply(self, _prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        from rehydrate.agent.model import Reply
        from rehydrate.formats.calls import ToolCall

        if self._has_asked:
            said = {"role": "assistant", "content": "Berth 4."}
            return Reply((said,), "Berth 4.", (), stop="answer")
        self._has_asked = True
        call = ToolCall("anthropic", "toolu_1", "request_context", {"query": "berth"})
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {"query": "berth"}}
        return Reply(({"role": "assistant", "content": [block]},), "", (call,), stop="calls")


def _warm_memory(memory: Memory) -> None:
    if memory.namespace is None:
        memory.namespaces()
    else:
        memory.search("warm up", limit=1)


DEFAULT_LIMIT_BYTES = _native.CACHE_BYTES
"""256 MiB for counts, words and the like; 64 MiB for vectors of models not built in."""
MIN_LIMIT_BYTES = 1 << 20


def cache_limit(limit_bytes: int | None = None) -> int:
    """Return the maximum bytes of the process's cache; with ``limit_bytes`` set it first.

    A smaller limit holds at once: the older half of the excess is dropped first. A fifth of it is
    for vectors of models other than the built-in one. Forked children have the same limit. Dropped
    values are computed again, so a limit costs time and never changes a result.

    Raises InvalidArgumentError below 1 MiB.

    >>> cache_limit() == DEFAULT_LIMIT_BYTES
    True
    >>> cache_limit(64 << 20)
    67108864
    >>> cache_limit(DEFAULT_LIMIT_BYTES) >> 20
    320
    """
    if limit_bytes is not None:
        if type(limit_bytes) is not int or limit_bytes < MIN_LIMIT_BYTES:
            raise InvalidArgumentError(
                f"limit_bytes is {limit_bytes!r}; pass a whole number from {MIN_LIMIT_BYTES} "
                "(1 MiB) up"
            )
        _native.set_cache_limit(limit_bytes)
    return _native.cache_limit()


def cached_bytes() -> int:
    """Return the bytes that the process's cache holds now, as it counts them.

    >>> cached_bytes() <= cache_limit()
    True
    """
    return _native.cached_bytes()


def clear_cache() -> None:
    """Empty the process's cache; what was in it is computed again when needed.

    >>> clear_cache()
    >>> cached_bytes()
    0
    """
    _native.clear_cache()
