"""Compaction with a memory in a file: what it knows, what it keeps, and that it lasts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory, acompact_context, compact_context
from rehydrate.compact import Archive
from tests.compact.cases import talk

NOVEL = Archive(dropped=False, novel=True)

TOPICS = [
    "The staging server listens on port 8443 and restarts itself every night at three.",
    "My sister's wedding is on the ninth of June, and I still need a suit for it.",
    "The parser fails on dates before 1970, since the offset is read as unsigned.",
    "For the soup you need leeks, potatoes, cream and a little nutmeg at the end.",
    "The invoice of March was paid twice, so the customer gets 312.40 euros back.",
    "Our cat has learned to open the door of the kitchen, and of the fridge too.",
]
TALK = talk(*(f"{('user', 'assistant')[n % 2]}: {text}" for n, text in enumerate(TOPICS)))
TALK += talk("user: Go on.")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", namespace="alice") as opened:
        yield opened


def coverage(memory: Memory, messages: Any = TALK) -> list[float]:
    return [row.coverage for row in compact_context(messages, memory=memory).explain()]


@pytest.mark.parametrize("held", [1, 2, 3, 5])
def test_what_it_holds_is_covered_and_what_it_does_not_is_not(memory: Memory, held: int):
    memory.add(TOPICS[:held])
    found = coverage(memory)
    assert min(found[:held]) > 0.95
    assert max(found[held:]) < 0.5


def test_the_same_in_other_words_is_covered_more_than_something_else(memory: Memory):
    memory.add(TOPICS)
    messages = talk(
        "user: Which port does the staging server listen on, and when does it restart itself?",
        "user: Trains to the airport leave from platform four at every full hour.",
        "user: Go on.",
    )
    same, other, _ = coverage(memory, messages)
    assert same > other + 0.1


def test_an_empty_memory_covers_nothing(memory: Memory):
    assert coverage(memory) == [0.0] * len(TALK)


def test_what_was_dropped_is_known_the_next_time_and_after_the_file_was_closed(tmp_path: Path):
    path = tmp_path / "memory.db"
    with Memory.open(path, namespace="alice") as memory:
        first = compact_context(TALK, budget_tokens=45, memory=memory, archive=NOVEL)
        assert first.stats.degraded == ()
        assert first.stats.distilled == first.stats.dropped > 3
        assert first.stats.covered_pct == 0.0
    with Memory.open(path, namespace="alice") as memory:
        again = compact_context(TALK, budget_tokens=45, memory=memory, archive=NOVEL)
        assert again.stats.covered_pct == 100.0
        assert again.stats.distilled == 0
        assert again.indices == first.indices


def test_another_namespace_knows_nothing_of_it(memory: Memory):
    compact_context(TALK, budget_tokens=45, memory=memory, archive=Archive(novel=True))
    assert coverage(memory.within("bob")) == [0.0] * len(TALK)


def test_handles_lead_back_through_the_file(memory: Memory):
    log = "\n".join(f"line {n}: service {n % 7} answered in {n * 13 % 101} ms" for n in range(300))
    messages = [*TALK[:2], *talk(f"user: {log}", "user: Go on.")]
    compaction = compact_context(
        messages,
        budget_tokens=700,
        memory=memory,
        granularity="excerpt",
        archive=Archive(episode=True),
    )
    assert compaction.stats.degraded == ()
    assert compaction.stats.after_tokens <= 700
    (shown,) = [m["content"] for m in compaction.messages if "omitted" in m["content"]]
    handles = {word.strip(",") for word in shown.split() if word.startswith("mem_")}
    assert [memory.get(handle).text for handle in handles] == [log]
    for record in compaction.dropped:
        assert json.loads(memory.get(record.handle).text) == messages[record.index]
    (item,) = memory.list(kinds=["episode"])
    assert item.text.endswith("% dropped as memory-covered")


def test_acompact_context_writes_too(memory: Memory):
    work = acompact_context(TALK, budget_tokens=45, memory=memory, archive=NOVEL)
    assert asyncio.run(work).stats.distilled > 3


def test_a_memory_that_may_only_be_read_covers_and_says_what_it_did_not_keep(tmp_path: Path):
    path = tmp_path / "memory.db"
    with Memory.open(path, namespace="alice") as memory:
        memory.add(TOPICS[:2])
    with Memory.open(path, namespace="alice", read_only=True) as memory:
        compaction = compact_context(TALK, budget_tokens=45, memory=memory, archive=True)
    assert compaction.stats.covered_pct > 0
    (problem,) = compaction.stats.degraded
    assert problem.startswith("memory: StoreReadOnlyError: ")
    assert problem.endswith("; nothing of this compaction is kept")


def test_a_conversation_can_be_forgotten_whole(memory: Memory):
    compact_context(
        TALK, budget_tokens=45, memory=memory, archive=Archive(novel=True, thread="s-1")
    )
    assert memory.purge(thread="s-1") > 6
    assert memory.list() == []
