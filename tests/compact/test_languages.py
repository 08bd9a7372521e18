"""Compaction in eleven languages: what memory covers, and what a query keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehydrate import Memory, compact_context
from rehydrate.compact import Archive
from tests.compact.cases import talk
from tests.languages import LANGUAGES, Language

NOVEL = Archive(dropped=False, novel=True)

NOVEL_BELOW = 0.5
"""The contract's line between what is new and what memory holds."""
UNRELATED_BELOW = 0.45
"""The English turns come up to 0.43 themselves."""


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    return LANGUAGES[request.param]


@pytest.fixture
def memory(tmp_path: Path, language: Language) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", namespace="alice") as opened:
        opened.add(list(language.memories))
        yield opened


def user_turns(*texts: str) -> list[dict[str, str]]:
    return [*talk(*(f"user: {text}" for text in texts)), *talk("user: ?")]


def coverage(memory: Memory, *texts: str) -> list[float]:
    units = compact_context(user_turns(*texts), memory=memory).explain()
    return [unit.coverage for unit in units][:-1]


def test_turns_about_other_things_are_not_covered(memory: Memory, language: Language):
    assert max(coverage(memory, *language.unrelated)) < UNRELATED_BELOW


def test_no_language_is_covered_more_than_english(tmp_path: Path):
    means = {}
    for name, language in LANGUAGES.items():
        with Memory.open(tmp_path / "memory.db", namespace=name.replace(" ", "-")) as memory:
            memory.add(list(language.memories))
            found = coverage(memory, *language.unrelated)
            means[name] = sum(found) / len(found)
    # The pieces that German words fall into are English ones.
    assert all(mean <= means["english"] + 0.05 for mean in means.values()), means


def test_what_memory_holds_is_covered_and_so_is_nearly_the_same(memory: Memory, language: Language):
    assert min(coverage(memory, *language.memories)) > 0.95
    assert min(coverage(memory, *language.repeated)) >= 0.7


def test_a_memory_of_one_item_covers_nothing_else(tmp_path: Path, language: Language):
    with Memory.open(tmp_path / "one.db", namespace="alice") as memory:
        memory.add(language.memories[0])
        assert max(coverage(memory, *language.unrelated)) < NOVEL_BELOW
        assert coverage(memory, language.memories[0])[0] > 0.95


def test_what_is_new_is_written_before_it_is_dropped(memory: Memory, language: Language):
    new = [text for text in language.unrelated if len(text.encode()) >= 40]
    compaction = compact_context(user_turns(*new), budget_tokens=5, memory=memory, archive=NOVEL)
    assert compaction.stats.dropped == len(new)
    assert compaction.stats.distilled == len(new)
    assert {item.text for item in memory.list()} >= set(new)


def test_a_question_keeps_the_answer_among_noise(language: Language):
    conversation = user_turns(language.fact, *language.noise_turns())
    kept = compact_context(conversation, language.question, target_ratio=0.05).messages
    assert language.fact in [message["content"] for message in kept]
    assert len(kept) < len(conversation) / 5


def test_a_question_keeps_the_line_that_answers_it(language: Language):
    lines = language.noise_turns()
    page = "\n".join([*lines[:60], language.fact, *lines[60:]])
    compaction = compact_context(
        user_turns(page), language.question, target_ratio=0.1, granularity="excerpt"
    )
    assert compaction.stats.excerpted == 1
    shown = compaction.messages[0]["content"]
    assert language.fact in shown
    assert len(shown) < len(page) / 2
