"""Sources: where the content of a prompt comes from, and the `sources` argument."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.sources.conversation import conversation
from rehydrate.prompt.sources.given import function, history, system, tools
from rehydrate.prompt.sources.knowledge import knowledge
from rehydrate.prompt.sources.memory import hot, semantic, temporal
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory
    from rehydrate.prompt.sources.source import Run

    Source = HydrationSource | Memory | str | os.PathLike[str] | Run
    Given = Source | Iterable[Source]

__all__ = [
    "Found",
    "HydrationSource",
    "SourceRequest",
    "conversation",
    "function",
    "history",
    "hot",
    "knowledge",
    "semantic",
    "system",
    "temporal",
    "tools",
]


def sources_of(given: Any) -> list[HydrationSource]:
    """Return the sources of what the caller passed.

    A memory gives three: hot, temporal and semantic. A path gives one: knowledge. A function gives
    one with the function's name. The sources of a second memory are named "hot 2", "temporal 2" and
    "semantic 2", and so on; that of a second path is "knowledge 2". Raises InvalidArgumentError for
    a value of another type.
    """
    values = with_documents(given)
    numbers = memory_numbers(values)
    return [source for value in values for source in _sources(value, numbers.get(id(value), 1))]


def memory_numbers(values: Iterable[Any]) -> dict[int, int]:
    """Return the number of each memory, from 1, by its `id()`."""
    memories = dict.fromkeys([id(value) for value in values if is_memory(value)])
    return {memory: number for number, memory in enumerate(memories, 1)}


def with_documents(given: Any) -> list[Any]:
    """Return the values in a list, each path replaced with its knowledge source.

    Raises InvalidArgumentError for a path that does not exist. A file that is deleted later is no
    error.
    """
    path_numbers = count(1)
    return [
        knowledge(value, name=numbered("knowledge", next(path_numbers)))
        if isinstance(value, (str, os.PathLike))
        else value
        for value in as_list(given)
    ]


def as_list(given: Any) -> list[Any]:
    """Return the values in a list; a path or a single source becomes a list of one."""
    several = not isinstance(given, (str, bytes, os.PathLike)) and isinstance(given, Iterable)
    return list(given) if several else [given]


def is_memory(value: object) -> bool:
    """Whether the value has the methods of a memory that sources call."""
    return callable(getattr(value, "search", None)) and callable(getattr(value, "hot", None))


def numbered(name: str, number: int) -> str:
    """Return the name with its number; the first has none.

    >>> numbered("semantic", 1), numbered("semantic", 2)
    ('semantic', 'semantic 2')
    """
    return name if number == 1 else f"{name} {number}"


def check_names(sources: Sequence[HydrationSource]) -> None:
    """Raise InvalidArgumentError if two sources have the same name."""
    names: set[str] = set()
    for source in sources:
        if source.name in names:
            raise InvalidArgumentError(
                f"two sources are named {source.name!r}; give one another name, as in "
                'semantic(memory, name="team")'
            )
        names.add(source.name)


def _sources(value: Any, number: int) -> list[HydrationSource]:
    if isinstance(value, HydrationSource):
        return [value]
    if is_memory(value):
        return [
            hot(value, name=numbered("hot", number)),
            temporal(value, name=numbered("temporal", number)),
            semantic(value, name=numbered("semantic", number)),
        ]
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return [function("function" if name == "<lambda>" else name, value)]
    raise InvalidArgumentError(
        f"a source is of type {type(value).__name__}; pass a Memory, a path, a function, or a "
        "HydrationSource as semantic(memory) makes it"
    )
