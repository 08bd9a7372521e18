"""A history as a provider is sent it: its messages, and notes on omitted or changed content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId

OF_HISTORY = "history: "
"""The beginning of each note on how a history was rendered."""

Lost = Mapping[str, frozenset[int]]
"""Content that was left out or changed, and the indices of its entries."""


class RenderedMessage(NamedTuple):
    """A message as it is sent, and the entries it is made of."""

    message: Any
    sources: tuple[int, ...]
    """Indices of its entries in the history."""


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
