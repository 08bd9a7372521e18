"""function: whatever the caller's own function returns."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate import Memory, count_tokens
from rehydrate.memory import MemoryItem
from rehydrate.prompt import (
    ContextRequest,
    Priority,
    Provenance,
    Section,
    SourceRequest,
    TimeRange,
    hydrate,
)
from rehydrate.prompt.sources import function
from tests.prompt.test_hydrate import TALK, source_of


def sections_of(answer: Any, **settings: Any) -> tuple[Section, ...]:
    return hydrate("x", source_of("docs", answer, **settings)).sections


@pytest.mark.parametrize("nothing", [None, "", " \n", [], ["", " "]])
def test_nothing_is_no_section(nothing: Any):
    assert sections_of(nothing) == ()


def test_a_text_is_a_section_of_the_sources_name():
    (section,) = sections_of("Rain.", priority=Priority.LOW)
    assert (section.id, section.content, section.priority) == ("docs", "Rain.", Priority.LOW)
    assert section.provenance.source == "docs"


def test_a_section_keeps_what_it_says_of_itself():
    own = Section("docs:a", "Rain.", Provenance("weather", trust=1.0), priority=Priority.HIGH)
    (section,) = sections_of(own)
    assert (section.id, section.provenance, section.priority) == (
        "docs:a",
        own.provenance,
        Priority.HIGH,
    )


def test_hits_and_items_become_sections_with_their_provenance(memory: Memory):
    hits = memory.search("staging port", 1)
    (section,) = sections_of(hits)
    assert section.id == f"docs:{hits[0].handle}"
    assert section.trust == 0.6
    stored, new = sections_of([hits[0].item, MemoryItem("Never stored.", trust=0.3)])
    assert stored.provenance.items == (hits[0].handle,)
    assert (new.id, new.provenance.items, new.trust) == ("docs:2", (), 0.3)


def test_messages_are_one_section():
    (section,) = sections_of(TALK)
    assert section.content == tuple(TALK)
    assert section.tokens == count_tokens(TALK)


def test_it_hears_what_the_turn_is_about():
    heard: list[SourceRequest] = []
    request = ContextRequest("x", thread="t", time_range=TimeRange(), namespace="alice")
    hydrate(request, function("docs", heard.append, budget_tokens=7, timeout=None))
    (asked,) = heard
    assert asked.request == request
    assert (asked.query, asked.thread, asked.namespace) == ("x", "t", "alice")
    assert (asked.source, asked.budget_tokens, asked.after) == ("docs", 7, None)


def test_a_function_by_itself_has_its_own_name():
    def weather(_: SourceRequest) -> str:
        return "Rain."

    class Clock:
        def __call__(self, _: SourceRequest) -> str:
            return "Noon."

    ir = hydrate("x", [weather, Clock(), lambda _: "third"], timeout=None)
    assert [section.id for section in ir.sections] == ["weather", "Clock", "function"]
