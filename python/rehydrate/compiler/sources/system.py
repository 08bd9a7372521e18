"""system: what the caller lays down: instructions, rules, facts; and tools, beside them."""

from __future__ import annotations

from typing import Any

from rehydrate.compiler.sources.source import Found, HydrationSource
from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import CompositionMode, Position, Priority, Provenance, Section, Stability


def system(*sections: str | Section, name: str = "system") -> HydrationSource:
    """Texts as instructions, in order of rank, and sections as they are.

    A text is static, fully trusted and critical: it is never cut. It comes whole, whatever the
    budget.

    >>> source = system("You are a deployment assistant.", "Answer in one sentence.")
    >>> source.name
    'system'
    """
    made = tuple([_section(name, place, given) for place, given in enumerate(sections)])
    ids = [section.id for section in made]
    if repeated := next((one for one in ids if ids.count(one) > 1), None):
        raise InvalidArgumentError(
            f"source {name!r}: two sections have the id {repeated!r}; give each its own"
        )
    return HydrationSource(
        name,
        lambda _: Found(made),
        priority=Priority.CRITICAL,
        deadline_ms=None,
        blocking=False,
        kind="system",
    )


def _section(name: str, place: int, given: Any) -> Section:
    if isinstance(given, Section):
        return given
    if not isinstance(given, str):
        raise InvalidArgumentError(
            f"source {name!r}: entry {place} is of type {type(given).__name__}; pass texts or "
            "Sections"
        )
    return Section(
        f"{name}:{place + 1}" if place else name,
        given,
        Provenance(name),
        priority=Priority.CRITICAL,
        relevance=1.0,
        mode=CompositionMode.HIERARCHICAL,
        stability=Stability.STATIC,
        position=Position.START,
    )
