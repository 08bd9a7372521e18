"""Looking: which sources a conversation has for what its model asks, and what they bring."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rehydrate.compiler.hydrate import Hydrated, hydrate_sources
from rehydrate.compiler.sources.conversation import conversation
from rehydrate.compiler.sources.given import sources_of
from rehydrate.compiler.sources.semantic import semantic
from rehydrate.compiler.sources.source import HydrationSource
from rehydrate.compiler.sources.temporal import temporal
from rehydrate.memory.tools import NAME as LOAD_MEMORY
from rehydrate.runtime.jit.asking import Asking
from rehydrate.runtime.jit.definitions import FETCH_WHOLE, REQUEST_CONTEXT

if TYPE_CHECKING:
    from rehydrate.compiler.sources.given import Given
    from rehydrate.context import Context
    from rehydrate.memory.memory import Memory

MOST_ITEMS = 20
"""So many items of a memory are looked for, where a prompt takes 5: the model has asked."""
BEYOND = 2
"""So many times the budget is looked for, so that the rest can be asked for."""
LOOKUPS = (REQUEST_CONTEXT, FETCH_WHOLE, LOAD_MEMORY)
"""What was looked up before is found again where it is from."""
_ASKED = ("conversation", "temporal", "semantic", "knowledge", "function")


class Looking:
    """The sources of one conversation: itself, and what its context was given."""

    def __init__(
        self, context: Context, more: Given, budget_tokens: int, deadline_ms: float | None
    ) -> None:
        """Take the context, what it does not ask itself, and what an answer may bring; nothing is
        asked yet."""
        self._context = context
        self._deadline_ms = deadline_ms
        each = [*_each(context.sources), *_each(more)]
        of = context.request.identity
        each = [_bound(one, of) if _is_memory(one) else one for one in each]
        self.memories: list[Memory] = [one for one in each if _has_namespace(one)]
        """Those that are bound to a namespace: what they hold can be read by its handle."""
        said = conversation(context.left_out, lookups=LOOKUPS, most_tokens=BEYOND * budget_tokens)
        self._sources = [("conversation", said)]
        for one in each:
            sources = _of_memory(one) if _is_memory(one) else sources_of(one)
            self._sources += [(source.kind or "function", source) for source in sources]

    def look(self, asking: Asking, visible: frozenset[str]) -> list[Hydrated]:
        """What the sources that are meant bring; [] where there is none of them."""
        meant = [source for kind, source in self._sources if kind in asking.kinds]
        return hydrate_sources(
            asking.request(self._context.request),
            meant,
            visible=visible,
            deadline_ms=self._deadline_ms,
        )

    @property
    def kinds(self) -> list[str]:
        """Of all its sources."""
        return list(dict.fromkeys(kind for kind, _ in self._sources if kind in _ASKED))


def _each(given: Any) -> list[Any]:
    several = not isinstance(given, (str, os.PathLike)) and isinstance(given, Iterable)
    return list(given) if several else [given]


def _of_memory(memory: Memory) -> list[HydrationSource]:
    return [temporal(memory), semantic(memory, limit=MOST_ITEMS, whole=True)]


def _bound(memory: Memory, identity: str) -> Memory:
    return memory.within(identity) if memory.namespace is None and identity else memory


def _has_namespace(given: Any) -> bool:
    return _is_memory(given) and given.namespace is not None


def _is_memory(given: object) -> bool:
    return callable(getattr(given, "search", None)) and callable(getattr(given, "hot", None))
