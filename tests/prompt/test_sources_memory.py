"""The sources that read a memory: hot, temporal, semantic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Embedder, Memory, count_tokens
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import MemoryItem
from rehydrate.prompt import (
    ContextRequest,
    ContextStrategy,
    Priority,
    TimeRange,
    hydrate,
    hydrate_source,
)
from rehydrate.prompt.sources.memory import hot, semantic, temporal
from tests.prompt.conftest import NOTES, PORTS

DAY = datetime(2026, 2, 19, tzinfo=UTC)


def within(after: datetime | None, before: datetime | None, query: str = "") -> ContextRequest:
    return ContextRequest(query, time_range=TimeRange(after, before))


def test_a_hit_becomes_a_section_that_says_where_it_is_from(memory: Memory):
    (section,) = hydrate_source(
        "staging port", semantic(memory, limit=1, priority=Priority.HIGH), timeout=None
    ).sections
    (item,) = [item for item in memory.list() if item.text == PORTS]
    assert section.id == f"semantic:{item.handle}"
    assert section.provenance.items == (item.handle,)
    assert section.provenance.origin == "notes/servers.md"
    assert section.provenance.time == item.time
    assert section.trust == 0.6
    assert section.priority is Priority.HIGH
    assert section.title == "notes/servers.md, 2026-02-17"
    assert section.handle is None
    assert section.tokens == count_tokens(f"{section.title}\n{PORTS}")
    assert 0 < section.relevance <= 1
    assert not section.is_static


def test_relevance_falls_from_the_best_hit_on(memory: Memory):
    sections = hydrate_source("staging server port", semantic(memory), timeout=None).sections
    relevance = [section.relevance for section in sections]
    assert relevance == sorted(relevance, reverse=True)
    assert sections[0].content == PORTS


def long_item(subject: str) -> str:
    filler = "".join(f"Paragraph {n} is about {subject} and gardens.\n\n" for n in range(80))
    return f"{filler}The {subject} password hint is a blue heron.\n\n{filler}"


def test_a_long_item_comes_as_a_snippet_with_its_handle_and_whole_where_it_fits(memory: Memory):
    added = memory.add(long_item("castle"))
    whole_tokens = count_tokens(long_item("castle"))
    asked = "castle password hint"
    tight = semantic(memory, limit=1, budget_tokens=whole_tokens // 2)
    (snippet,) = hydrate_source(asked, tight, timeout=None).sections
    assert "blue heron" in snippet.content
    assert snippet.content in long_item("castle")
    assert snippet.handle == added[0].handle
    roomy = semantic(memory, limit=1, budget_tokens=whole_tokens * 2)
    (whole,) = hydrate_source(asked, roomy, timeout=None).sections
    assert whole.content == long_item("castle")
    assert whole.handle is None


def test_every_hit_has_its_snippet_before_the_best_is_shown_whole(memory: Memory):
    subjects = ("castle", "harbour", "tower")
    memory.add([long_item(subject) for subject in subjects])
    whole_tokens = count_tokens(long_item("castle"))
    source = semantic(memory, limit=3, budget_tokens=whole_tokens + 600)
    sections = hydrate_source("password hint", source, timeout=None).sections
    assert len(sections) == 3
    assert [section.handle is None for section in sections] == [True, False, False]


def test_filters_narrow_the_search(memory: Memory):
    source = semantic(memory, filters={"sources": ["diary"]})
    sections = hydrate_source("staging port noon", source, timeout=None).sections
    assert {section.provenance.origin for section in sections} <= {"diary"}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda memory: semantic(memory, limit=-1), "limit is -1"),
        (lambda memory: semantic(memory, filters={"colour": "red"}), "semantic has no 'colour'"),  # type: ignore[typeddict-unknown-key]
        (lambda memory: temporal(memory, limit="all"), "limit is 'all'"),
        (lambda memory: hot(memory, timeout=-1), "timeout is -1"),
    ],
)
def test_a_slip_in_a_source_is_an_error_when_it_is_made(memory: Memory, make: Any, error: str):
    with pytest.raises(InvalidArgumentError, match=error):
        make(memory)


def test_with_nothing_to_look_for_semantic_is_off(memory: Memory):
    report = hydrate_source(" ", semantic(memory), timeout=None).report
    assert (report.status, report.detail) == ("off", "the request has no query to look for")


def test_what_did_not_work_in_the_memory_is_said(tmp_path: Path):
    def broken(texts: list[str]) -> list[list[float]]:
        raise OSError("no route")

    embedder = Embedder(broken, space="broken-v1")
    with Memory.open(tmp_path / "m.db", namespace="a", embedder=embedder) as memory:
        memory.add(PORTS)
        ir = hydrate("staging port", memory, timeout=None)
        assert ir.sections[0].content == PORTS
        assert any("OSError" in note and "no route" not in note for note in ir.meta.degraded)


def test_a_memory_that_is_closed_fails_alone(memory: Memory):
    memory.close()
    ir = hydrate("staging port", [memory, lambda _: "here"], timeout=None)
    assert [section.content for section in ir.sections] == ["here"]
    assert [report.status for report in ir.meta.sources] == ["failed", "off", "failed", "ok", "ok"]
    assert ir.meta.sources[0].detail.startswith("StoreClosedError")


def test_without_a_time_range_temporal_is_off(memory: Memory):
    found = hydrate_source("x", temporal(memory), timeout=None)
    assert (found.sections, found.report.status) == ((), "off")


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        (None, None, [0, 1, 2]),
        (DAY, None, [1, 2]),
        (None, DAY, [0]),
        (DAY, DAY + timedelta(hours=12), [1]),
        (DAY + timedelta(days=9), None, []),
    ],
)
def test_temporal_brings_what_was_said_in_the_time_in_order(
    memory: Memory, after: datetime | None, before: datetime | None, expected: list[int]
):
    found = hydrate_source(within(after, before), temporal(memory), timeout=None)
    assert [section.content for section in found.sections] == [NOTES[n].text for n in expected]
    assert found.report.status == "ok"


def test_items_are_by_their_times_whenever_they_were_stored(memory: Memory):
    memory.add(MemoryItem("The day before.", time=datetime(2026, 2, 16, tzinfo=UTC)))
    found = hydrate_source(within(None, DAY), temporal(memory), timeout=None)
    assert [section.content for section in found.sections] == ["The day before.", PORTS]


def test_what_was_said_at_one_time_is_in_the_order_in_which_it_was_stored(memory: Memory):
    texts = [f"Step {n} of the plan." for n in range(12)]
    memory.add(texts, time=DAY + timedelta(days=3))
    request = within(DAY + timedelta(days=3), None, "step 7")
    found = hydrate_source(request, temporal(memory), timeout=None)
    assert [section.content for section in found.sections] == texts


def test_where_not_all_of_a_time_fit_those_that_match_do(memory: Memory):
    source = temporal(memory, budget_tokens=30)
    found = hydrate_source(within(None, None, "staging port"), source, timeout=None)
    assert [section.content for section in found.sections] == [PORTS]
    assert {one.by for one in found.dropped} == {"temporal"}
    assert all(memory.get(one.handle or "") for one in found.dropped)


def test_an_old_item_of_the_time_is_found_among_many(memory: Memory):
    memory.add([f"Note {n} about nothing much." for n in range(30)])
    source = temporal(memory, limit=5)
    found = hydrate_source(within(None, None, "staging port"), source, timeout=None)
    assert PORTS in [section.content for section in found.sections]


def test_hot_memory_is_one_static_section_of_its_least_trust(memory: Memory):
    handles = [
        memory.add("Always answer in French.", tier="hot")[0].handle,
        memory.add("The user is called Ada.", tier="hot", trust=0.4)[0].handle,
    ]
    (section,) = hydrate_source("x", hot(memory), timeout=None).sections
    assert section.content == "Always answer in French.\nThe user is called Ada."
    assert section.provenance.items == tuple(handles)
    assert section.id == "hot"
    assert section.is_static
    assert section.trust == 0.4
    assert not section.is_system


def test_hot_memory_is_in_every_prompt_though_it_was_in_the_last(memory: Memory):
    memory.add("Always answer in French.", tier="hot")
    (section,) = hydrate_source("x", hot(memory), timeout=None).sections
    visible = section.provenance.items
    again = hydrate_source("x", hot(memory), visible=visible, timeout=None)
    assert again.sections == (section,)


def test_nothing_hot_is_no_section(memory: Memory):
    found = hydrate_source("x", hot(memory), timeout=None)
    assert (found.sections, found.report.status) == ((), "ok")


def test_hot_memory_that_is_too_long_is_cut_after_a_line_and_says_so(memory: Memory):
    lines = [f"Rule {n}: never do the thing number {n}." for n in range(120)]
    handle = memory.add("\n".join(lines), tier="hot")[0].handle
    request = ContextRequest("x", ContextStrategy({"hot": 0.01}))
    ir = hydrate(request, hot(memory), timeout=None)
    (section,) = ir.sections
    shown = str(section.content).splitlines()
    assert shown == lines[: len(shown)]
    assert 10 < len(shown) < 100
    assert section.tokens is not None
    assert section.tokens <= 500 < count_tokens("\n".join(lines[: len(shown) + 1]))
    assert section.handle == handle
    assert any("hot memory has 120 lines" in note for note in ir.meta.degraded)
    assert any(f"{len(shown)} of its 100 lines fit in 500 tokens" in n for n in ir.meta.degraded)


def test_with_no_room_at_all_hot_memory_is_left_out(memory: Memory):
    memory.add("Always answer in French.", tier="hot")
    found = hydrate_source("x", hot(memory), budget_tokens=1, timeout=None)
    assert found.sections == ()


def test_two_memories_are_side_by_side_under_two_names(memory: Memory, tmp_path: Path):
    with Memory.open(tmp_path / "team.db", namespace="team") as team:
        team.add("The staging port of the team is 9000.")
        ir = hydrate("staging port", [memory, semantic(team, name="team")], timeout=None)
        sources = {section.provenance.source for section in ir.sections}
        assert sources == {"semantic", "team"}
