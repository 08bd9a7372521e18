"""Layout: a prompt's segments and the values sent for them, before cache marks are set."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, count, repeat
from operator import eq, itemgetter
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import Segment
from rehydrate.prompt.ir import PromptIR

_id = itemgetter(0)


class Layout(NamedTuple):
    """The parts of a prompt in the order in which a provider reads them."""

    ir: PromptIR
    """The prompt that is laid out."""
    provider: Provider
    segments: tuple[Segment, ...]
    values: tuple[Any, ...]
    tools: int
    """How many of the parts are tools."""
    system: int
    """How many of the parts are system blocks or messages; they follow the tools."""
    other_names: Mapping[str, int | None]
    """Names of parts beside the ids of their segments, each with the index of the last such part.
    None: the id of a segment that is no name."""
    notes: tuple[str, ...]
    """Notes on content that was left out or changed."""
    can_go_on: bool
    """Whether new entries leave all parts as they are."""
    start: int = 0
    """How many of the parts were taken from the layout of the last prompt."""

    def index_of(self, name: str) -> int | None:
        """Return the index of the last part of this name."""
        if name in self.other_names:
            return self.other_names[name]
        # Sections are near the beginning, and the entries that are asked for near the end.
        if EntryId.index_of(name) is None:
            return next(compress(count(), map(eq, map(_id, self.segments), repeat(name))), None)
        ids = map(_id, reversed(self.segments))
        from_the_end = next(compress(count(1), map(eq, ids, repeat(name))), None)
        return None if from_the_end is None else len(self.segments) - from_the_end
