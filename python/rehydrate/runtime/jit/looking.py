"""Looking: which sources a conversation has for what its model asks, and what they bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rehydrate.compiler.hydrate import Hydrated, hydrate_sources
from rehydrate.compiler.sources.conversation import conversation
from rehydrate.compiler.sources.given import (
    each_of,
    is_memory,
    memory_numbers,
    numbered,
    sources_of,
)
from rehydrate.compiler.sources.semantic import semantic
from rehydrate.compiler.sources.source import HydrationSource
from rehydrate.compiler.sources.temporal import temporal
from rehydrate.errors import MissingNamespaceError
from rehydrate.memory.tools import LoadMemory
from rehydrate.runtime.jit.asking import Asking
from rehydrate.runtime.jit.definitions import FETCH, REQUEST

if TYPE_CHECKING:
    from rehydrate.compiler.sources.given import Given
    from rehydrate.context import Context
    from rehydrate.memory.memory import Memory

MOST_ITEMS = 20
"""So many items of a memory are looked for, where a prompt takes 5: the model has asked."""
BEYOND = 2
"""So many times the budget is looked for, so that the rest can be asked for."""
LOOKUPS = (REQUEST.name, FETCH.name, LoadMemory.name)
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
        own, of = each_of(context.sources), context.request.identity
        own += [one for one in each_of(more) if one not in own]
        each = [_bound(one, of) for one in own]
        read = [_bound(_memory_of(one), of) for one in each]
        self.memories: list[Memory] = [one for one in read if _has_namespace(one)]
        """Those that are bound to a namespace: what they hold can be read by its handle."""
        most = BEYOND * budget_tokens
        asked = [conversation(context.left_out, lookups=LOOKUPS, most_tokens=most)]
        numbers = memory_numbers(each)
        for one in each:
            asked += _of_memory(one, numbers[id(one)]) if is_memory(one) else sources_of(one)
        self._sources = _under_names_of_their_own(asked)
        for source in self._sources:
            if source.needs_identity and not of:
                raise MissingNamespaceError(source.name)

    def look(self, asking: Asking, visible: frozenset[str]) -> list[Hydrated]:
        """What the sources that are meant bring; [] where there is none of them."""
        meant = [source for source in self._sources if _kind(source) in asking.kinds]
        return hydrate_sources(
            asking.request(self._context.request),
            meant,
            visible=visible,
            deadline_ms=self._deadline_ms,
        )

    @property
    def kinds(self) -> list[str]:
        """Of all its sources."""
        kinds = map(_kind, self._sources)
        return list(dict.fromkeys(kind for kind in kinds if kind in _ASKED))


def _kind(source: HydrationSource) -> str:
    return source.kind or "function"


def _of_memory(memory: Memory, number: int) -> list[HydrationSource]:
    name = numbered("semantic", number)
    return [
        temporal(memory, name=numbered("temporal", number)),
        semantic(memory, name=name, limit=MOST_ITEMS, whole=True),
    ]


def _under_names_of_their_own(sources: Iterable[HydrationSource]) -> list[HydrationSource]:
    """The same; a second one of a name has a number."""
    times: Counter[str] = Counter()
    named = []
    for source in sources:
        times[source.name] += 1
        name = numbered(source.name, times[source.name])
        named.append(source if name == source.name else replace(source, name=name))
    return named


def _memory_of(given: Any) -> Any:
    """The memory that a source reads."""
    return given.memory if isinstance(given, HydrationSource) else given


def _bound(given: Any, identity: str) -> Any:
    is_open = identity and is_memory(given) and given.namespace is None
    return given.within(identity) if is_open else given


def _has_namespace(given: Any) -> bool:
    return is_memory(given) and given.namespace is not None
