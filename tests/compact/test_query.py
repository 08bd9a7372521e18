"""The query: what the last turn asks for stays, and a vague turn takes little from the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory, compact_context
from rehydrate._native import weighted_query
from rehydrate.compact import Archive
from rehydrate.formats import read
from tests.compact.cases import talk
from tests.languages import LANGUAGES, Language

QUESTION = "What did Amira say about the lighthouse keeper's wedding?"
ANSWER = "Amira: the lighthouse keeper's wedding is on the ninth of May, in the chapel."


def chat(last: str | None = None) -> list[dict[str, Any]]:
    """Forty rounds of small talk about files, one of which holds the answer."""
    messages = []
    for n in range(40):
        messages.append(
            {"role": "user", "content": f"Now look at src/part_{n}.py, please, and test it."}
        )
        messages.append(
            {"role": "assistant", "content": f"src/part_{n}.py has {n} tests, all green."}
        )
    messages[12] = {"role": "user", "content": ANSWER}
    return messages if last is None else [*messages, {"role": "user", "content": last}]


def kept(messages: list[Any], query: str | None = None, **options: Any) -> list[str]:
    compaction = compact_context(messages, query, 0.15, **options)
    return [message["content"] for message in compaction.messages]


def test_what_the_last_turn_asks_for_stays_without_a_query():
    assert ANSWER in kept(chat(QUESTION))
    assert ANSWER in kept(chat(), QUESTION)
    assert ANSWER not in kept(chat("Go on."))


def logs(last: str) -> list[dict[str, Any]]:
    """Three long logs in which no word stands out, and a question."""
    messages = []
    for name in ("north", "south", "east"):
        lines = [f"12:{n % 60:02} {name}_{n} served berth {n * 7 % 97}" for n in range(300)]
        messages.append({"role": "user", "content": f"Read the log of {name}."})
        messages.append({"role": "assistant", "content": "\n".join(lines)})
    messages += [
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Gladly."},
    ]
    return [*messages, {"role": "user", "content": last}]


def test_what_mentions_a_name_that_is_asked_for_stays_though_its_words_are_everywhere():
    question = "Which berths did south_117, east_250 and north_9 serve?"
    lines = ["south_117 served berth 43", "east_250 served berth 4", "north_9 served berth 63"]

    def found(last: str, query: str | None) -> int:
        compaction = compact_context(logs(last), query, 0.2, granularity="excerpt")
        text = "\n".join(message["content"] for message in compaction.messages)
        return sum(f" {line}\n" in f"{text}\n" for line in lines)

    assert found(question, None) == 3
    assert found("Go on.", question) == 3
    assert found("Go on.", None) < 3


@pytest.mark.parametrize("vague", ["continue", "fix the failing test and go on"])
def test_a_vague_query_takes_little_from_what_the_work_needs(vague: str):
    stats = compact_context(chat(), vague, 0.15).stats
    asked = compact_context(chat(), QUESTION, 0.15).stats
    assert stats.query_share < 0.1
    assert asked.query_share > 0.5
    without = set(kept(chat()))
    assert len(without & set(kept(chat(), vague))) >= 0.8 * len(without)


def test_greedy_packing_infers_no_query():
    assert compact_context(chat(QUESTION), scoring="chitta").stats.query_share == 0.0
    assert ANSWER not in kept(chat(QUESTION), scoring="chitta")


def test_a_turn_counts_less_the_more_has_followed_it():
    weights = []
    for after in range(6):
        work = [{"role": "assistant", "content": f"step {n}"} for n in range(after)]
        query = weighted_query(read([*chat(QUESTION), *work], "plain")[0], None)
        weights.append(0.0 if query is None else query.weight)
    assert weights[0] == 1.0
    assert weights[1] == 0.25
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] == 0.0


def test_a_query_that_is_given_counts_whole_whatever_the_turn():
    conversation, _ = read(chat("Go on."), "plain")
    assert weighted_query(conversation, QUESTION) == (QUESTION, 1.0, True)


@pytest.mark.parametrize(
    ("turn", "asks"),
    [
        ("Which port was it?", True),
        ("Can you remind me which port it was?", True),
        ("Wie hieß der Hafen?", True),
        ("Könntest du mir sagen, wie der Hafen hieß?", True),
        ("那个端口是多少？", True),
        ("remind me of the port", True),
        ("Fix the port.", False),
        ("When the port is fixed, go on.", False),
        ("Could you fix the port?", False),
        ("Pourriez-vous corriger le port ?", False),
        ("能不能修一下端口？", False),
        ("ポートを直してくれますか？", False),
    ],
)
def test_a_turn_that_wants_something_done_is_no_query(turn: str, asks: bool):
    query = weighted_query(read(chat(turn), "plain")[0], None)
    assert query == ((turn, 1.0, True) if asks else None)
    given = weighted_query(read(chat("Go on."), "plain")[0], turn)
    assert given == (turn, 1.0, asks)


def test_a_question_next_to_other_sentences_counts_by_its_share():
    turn = "I moved the port to the other side of the bay. Which was it?"
    query = weighted_query(read(chat(turn), "plain")[0], None)
    assert query is not None
    assert 0.25 < query.weight < 0.75
    assert query.asks


def test_of_a_long_turn_the_beginning_and_the_end_are_read():
    asked = "Where is the mast? " * 40
    long = asked + "log line\n" * 2_000 + " Which berth is free?"
    query = weighted_query(read(chat(long), "plain")[0], None)
    assert query is not None
    assert len(query.text) == 2_001
    assert query.text.startswith("Where is the mast?")
    assert query.text.endswith("Which berth is free?")


def test_there_is_no_query_where_nobody_spoke():
    conversation, _ = read([{"role": "assistant", "content": "Hello."}], "plain")
    assert (conversation.last_user_text(), weighted_query(conversation, None)) == ("", None)
    blank, _ = read([{"role": "user", "content": "  \n"}], "plain")
    assert weighted_query(blank, None) is None


# Compaction in eleven languages: what memory covers, and what a query keeps.


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
