"""What a function may answer with, read as a `Found`.

function: anything that the caller can write, as a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Unpack

from rehydrate import formats
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import langchain
from rehydrate.prompt.counting import counted_sections, counted_tools
from rehydrate.prompt.entries import History
from rehydrate.prompt.meta import DroppedSection
from rehydrate.prompt.section import Priority, Provenance, Section
from rehydrate.prompt.sources.memory import section_of, section_of_hit
from rehydrate.prompt.sources.source import Found, HydrationSource, Run, SourceSettings
from rehydrate.prompt.tool_def import ToolDef

UNSAID_TRUST = 0.8
"""How far content is trusted of which nobody says how far: data of the caller's, never
instructions."""

_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "provenance": Provenance,
    "title": str,
    "handle": (str, NoneType),
    "anchor": (int, NoneType),
    "metadata": Mapping,
}
"""What a Section does not see to by itself, and a prompt relies on."""


def found_in(answer: Any, source: HydrationSource) -> Found:
    """A `Found` of a text, a Section, a Hit, a MemoryItem, messages, None, or a sequence of these.

    Sections get ids that start with the source's name, so that no two sources bring the same one;
    those that the caller laid down keep theirs. Everything is counted. Raises InvalidArgumentError
    for anything else.

    >>> weather = HydrationSource("weather", lambda request: "Rain.")
    >>> found_in("Rain.", weather).sections[0].id
    'weather'
    """
    if isinstance(answer, Found):
        found = _checked(answer, source.name)
    elif answer is None:
        found = Found()
    else:
        found = _checked(Found(_sections(answer, source.name, source.priority)), source.name)
    sections: Sequence[Section] = found.sections
    if not source.comes_whole:
        sections = _named(sections, source.name)
    # What a function says of its tokens may be wrong, and a budget goes by it.
    return found._replace(
        sections=tuple(counted_sections(sections, again=not source.kind)),
        tools=tuple(counted_tools(found.tools)),
    )


def _sections(answer: Any, source: str, priority: Priority) -> tuple[Section, ...]:
    if isinstance(answer, (str, Section)) or not isinstance(answer, Sequence):
        answer = [answer]
    if answer and all(_is_message(entry) for entry in answer):
        formats.parse(answer)  # refuses what is none
        answer = [Section(source, tuple(answer), _provenance(source), priority=priority)]
    sections = []
    for place, entry in enumerate(answer):
        if isinstance(entry, str) and not entry.strip():
            continue
        sections.append(_section(entry, place, source, priority))
    return tuple(sections)


def _section(entry: Any, place: int, source: str, priority: Priority) -> Section:
    from rehydrate.memory.items import Hit, MemoryItem

    if isinstance(entry, Section):
        return entry
    id_ = f"{source}:{place + 1}" if place else source
    if isinstance(entry, str):
        return Section(id_, entry, _provenance(source), priority=priority)
    if isinstance(entry, Hit):
        return section_of_hit(entry, source=source, priority=priority)
    if isinstance(entry, MemoryItem):
        section = section_of(entry, source=source, priority=priority)
        if entry.handle:
            return section
        return replace(section, id=id_, provenance=replace(section.provenance, items=()))
    raise InvalidArgumentError(
        f"source {source!r} returned {_kind(entry)} at place {place}; return a text, a Section, "
        "a Hit, a MemoryItem, messages, or a list of one of these"
    )


def _checked(found: Found, source: str) -> Found:
    """The same, if everything in it is what it has to be."""
    for name, kind in (
        ("sections", Section),
        ("tools", ToolDef),
        ("dropped", DroppedSection),
        ("degraded", str),
    ):
        for entry in getattr(found, name):
            if not isinstance(entry, kind):
                raise InvalidArgumentError(
                    f"source {source!r} returned {_kind(entry)} among its {name}; "
                    f"each is a {kind.__name__}"
                )
    for section in found.sections:
        for name, kinds in _FIELDS.items():
            if not isinstance(getattr(section, name), kinds):
                raise InvalidArgumentError(
                    f"source {source!r} returned a Section whose {name} is "
                    f"{_kind(getattr(section, name))}"
                )
    is_history = found.history is None or (
        isinstance(found.history, History) and all(type(n) is int for n in found.history.tokens)
    )
    if not is_history or not isinstance(found.off, str):
        raise InvalidArgumentError(
            f"source {source!r} returned a Found with {_kind(found.history)} as its history and "
            f"{_kind(found.off)} as off; pass a History and a string"
        )
    return found._replace(
        sections=tuple(found.sections),
        tools=tuple(found.tools),
        dropped=tuple(found.dropped),
        degraded=tuple(found.degraded),
    )


def _named(sections: Sequence[Section], source: str) -> list[Section]:
    """The sections under names of the source's own, each once."""
    ids: set[str] = set()
    named = []
    for section in sections:
        own = section.id == source or section.id.startswith(f"{source}:")
        wanted = id_ = section.id if own else f"{source}:{section.id}"
        number = 1
        while id_ in ids:
            number += 1
            id_ = f"{wanted}~{number}"
        ids.add(id_)
        named.append(section if id_ == section.id else replace(section, id=id_))
    return named


def _provenance(source: str) -> Provenance:
    return Provenance(source, trust=UNSAID_TRUST)


def _is_message(entry: Any) -> bool:
    if isinstance(entry, Mapping):
        return True
    return not isinstance(entry, (str, Section)) and langchain.detect(entry) > 0


def _kind(value: Any) -> str:
    return "None" if value is None else f"one of type {type(value).__name__}"


def function(
    name: str, run: Run, *, blocking: bool = True, **settings: Unpack[SourceSettings]
) -> HydrationSource:
    """A function of a `SourceRequest`, sync or async: what it returns goes into the prompt.

    It may return a text, a `Section`, a `Hit`, a `MemoryItem`, messages, a list of one of these, a
    `Found`, or None. What it does not say itself the source says: `priority`, and trust 0.8 (data,
    not instructions). It runs in a thread, or with ``blocking=False`` in the caller's, where no
    deadline can stop it: for what takes microseconds.

    >>> async def weather(request):
    ...     return f"Rain where {request.namespace} is."
    >>> function("weather", weather, timeout=1).budget_tokens
    """
    return HydrationSource(name, run, blocking=blocking, **settings)
