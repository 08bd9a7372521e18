"""Small pieces that the pages are written with: names, figures, colours of sources."""

from __future__ import annotations

from collections.abc import Iterable

from rehydrate.page.escaping import escaped

COLOURS = 8
"""Of sources in the style; further ones begin anew."""
NAME_CHARACTERS = 200
"""Of a name or a reason that is longer, so many are shown."""


def name(text: str, limit: int = NAME_CHARACTERS) -> str:
    """A foreign name, which no direction mark in it lets move what stands beside it."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"<bdi>{escaped(' '.join(shown.split()) or '–')}</bdi>"


def plural(count: int, one: str, many: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def tokens(count: int) -> str:
    """A number of tokens, as it stands at the end of a line."""
    return f'<span class="tokens">{count:,} tokens</span>'


def colours(sources: Iterable[str]) -> dict[str, str]:
    """A class of colour for each source, in the order in which they come."""
    return {source: f"s{place % COLOURS}" for place, source in enumerate(dict.fromkeys(sources))}


def percent(part: float, whole: float) -> str:
    """A share as CSS has it, never outside of its box."""
    return f"{min(max(100 * part / whole, 0.0), 100.0) if whole > 0 else 0.0:.2f}%"
