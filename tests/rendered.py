"""A history in a provider's shape, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate._native import render_entries
from rehydrate.formats.rendering import RenderedMessage, notes_on
from rehydrate.messages import Provider


class Rendered(NamedTuple):
    """Its system entries at the beginning where the provider takes them apart, and the rest."""

    system: list[RenderedMessage]
    messages: list[RenderedMessage]
    lost: Mapping[str, frozenset[int]]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on content that was left out or changed."""
        return notes_on(self.lost)


def render_history(
    entries: Sequence[Any],
    format: str,
    provider: Provider,
) -> Rendered:
    """Render a history in this format for a provider."""
    return Rendered(*render_entries(entries, format, provider, 0))
