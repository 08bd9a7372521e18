"""Rendering: a history of any format in a provider's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rehydrate._native import render_entries
from rehydrate.entry_id import EntryId
from rehydrate.messages import Provider

OF_HISTORY = "history: "
"""The beginning of each note on how a history was rendered."""

Lost = Mapping[str, frozenset[int]]
"""Content that was left out or changed, and the indices of its entries."""


class RenderedMessage(NamedTuple):
    """A message as it is sent, and the entries it is made of."""

    message: Any
    sources: tuple[int, ...]
    """Indices of its entries in the history."""


class Rendered(NamedTuple):
    """A history in a provider's shape."""

    system: list[RenderedMessage]
    """The system entries at the beginning, where the provider takes them in another field."""
    messages: list[RenderedMessage]
    lost: Lost = MappingProxyType({})
    """Content that was left out or changed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on content that was left out or changed."""
        return notes_on(self.lost)


def render_history(
    entries: Sequence[Any],
    format: str,  # noqa: A002  the field's word
    provider: Provider,
    first: int = 0,
) -> Rendered:
    """Render a history in this format for a provider.

    ``first`` is the index of the first entry, where others are before it.
    Entries in the provider's own format stay the same objects, unless they have keys that it
    refuses. Raises InvalidMessageError for an entry that only its own provider can take.
    """
    return Rendered(*render_entries(entries, format, provider, first))


def notes_on(lost: Lost) -> tuple[str, ...]:
    """Return a sentence on each thing that was left out or changed.

    >>> notes_on({"thinking is not sent:": frozenset({4, 9})})
    ('history: thinking is not sent: of 2 entries, first history[4]',)
    """
    return tuple(
        [
            f"{OF_HISTORY}{what} of {len(places)} entr{'y' if len(places) == 1 else 'ies'}, first "
            f"{EntryId.of(min(places))}"
            for what, places in sorted(lost.items())
        ]
    )
