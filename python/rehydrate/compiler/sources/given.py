"""What the caller names as sources, brought into the form in use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate.compiler.sources.function import function
from rehydrate.compiler.sources.hot import hot
from rehydrate.compiler.sources.knowledge import knowledge
from rehydrate.compiler.sources.semantic import semantic
from rehydrate.compiler.sources.source import HydrationSource
from rehydrate.compiler.sources.temporal import temporal
from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.compiler.sources.source import Run
    from rehydrate.memory.memory import Memory

    Source = HydrationSource | Memory | str | os.PathLike[str] | Run
    Given = Source | Iterable[Source]


def sources_of(given: Any) -> list[HydrationSource]:
    """A memory is hot, temporal and semantic; a path is knowledge; a function has its own name.

    Raises InvalidArgumentError for anything else.
    """
    several = not isinstance(given, (str, os.PathLike)) and isinstance(given, Iterable)
    return [source for one in (given if several else [given]) for source in _sources(one)]


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


def _sources(given: Any) -> list[HydrationSource]:
    if isinstance(given, HydrationSource):
        return [given]
    if isinstance(given, (str, os.PathLike)):
        return [knowledge(given)]
    if callable(getattr(given, "search", None)) and callable(getattr(given, "hot", None)):
        return [hot(given), temporal(given), semantic(given)]
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return [function("function" if name == "<lambda>" else name, given)]
    raise InvalidArgumentError(
        f"a source is of type {type(given).__name__}; pass a Memory, a path, a function, or a "
        "HydrationSource as semantic(memory) makes it"
    )
