"""What the caller names as sources, brought into the form in use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.sources.function import function
from rehydrate.prompt.sources.knowledge import knowledge
from rehydrate.prompt.sources.memory import hot, semantic, temporal
from rehydrate.prompt.sources.source import HydrationSource

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory
    from rehydrate.prompt.sources.source import Run

    Source = HydrationSource | Memory | str | os.PathLike[str] | Run
    Given = Source | Iterable[Source]


def sources_of(given: Any) -> list[HydrationSource]:
    """A memory is hot, temporal and semantic; a path is knowledge; a function has its own name.

    Of several memories the second is "hot 2", "temporal 2" and "semantic 2", and so on; of several
    paths the second is "knowledge 2". Raises InvalidArgumentError for anything else.
    """
    each = found_documents(given)
    numbers = memory_numbers(each)
    return [source for one in each for source in _sources(one, numbers.get(id(one), 1))]


def memory_numbers(given: Iterable[Any]) -> dict[int, int]:
    """The first memory is 1, another one 2: by what `id` says of them."""
    memories = dict.fromkeys([id(one) for one in given if is_memory(one)])
    return {memory: number for number, memory in enumerate(memories, 1)}


def found_documents(given: Any) -> list[Any]:
    """What was given, one by one, paths as the sources that they name.

    Raises InvalidArgumentError for a path that is not there. A file that goes later does no harm.
    """
    paths = count(1)
    return [
        knowledge(one, name=numbered("knowledge", next(paths)))
        if isinstance(one, (str, os.PathLike))
        else one
        for one in each_of(given)
    ]


def each_of(given: Any) -> list[Any]:
    """What was given, one by one: a path or a single source stands for itself."""
    several = not isinstance(given, (str, bytes, os.PathLike)) and isinstance(given, Iterable)
    return list(given) if several else [given]


def is_memory(given: object) -> bool:
    """Whether it is a memory, as far as sources need one."""
    return callable(getattr(given, "search", None)) and callable(getattr(given, "hot", None))


def numbered(name: str, number: int) -> str:
    """The name of the first of several, and of the others.

    >>> numbered("semantic", 1), numbered("semantic", 2)
    ('semantic', 'semantic 2')
    """
    return name if number == 1 else f"{name} {number}"


def check_names(sources: Sequence[HydrationSource]) -> None:
    """Raise InvalidArgumentError for a second source of one name."""
    names: set[str] = set()
    for source in sources:
        if source.name in names:
            raise InvalidArgumentError(
                f"two sources are named {source.name!r}; give one another name, as in "
                'semantic(memory, name="team")'
            )
        names.add(source.name)


def _sources(given: Any, number: int) -> list[HydrationSource]:
    if isinstance(given, HydrationSource):
        return [given]
    if is_memory(given):
        return [
            hot(given, name=numbered("hot", number)),
            temporal(given, name=numbered("temporal", number)),
            semantic(given, name=numbered("semantic", number)),
        ]
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return [function("function" if name == "<lambda>" else name, given)]
    raise InvalidArgumentError(
        f"a source is of type {type(given).__name__}; pass a Memory, a path, a function, or a "
        "HydrationSource as semantic(memory) makes it"
    )
