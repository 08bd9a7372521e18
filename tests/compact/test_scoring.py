"""Scores of messages: with a query, without one, and by every weight of a Scoring."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence

import pytest

import rehydrate
from rehydrate import Scoring, compact_context
from tests.compact.cases import FixedMemory, talk, words
from tests.strategies import Entry

SUPPORT = talk(
    "user: Hi, I moved last month and need to sort out a few things with my account.",
    "assistant: Happy to help. What would you like to start with?",
    "user: My new address is 12 Harbour Lane, Portsmouth.",
    "assistant: Thank you, I have written that down for the account.",
    "user: My phone broke as well, so please use my sister's number, 555-0142, from now on.",
    "assistant: Understood, calls will go there.",
    "user: The dog is called Biscuit, by the way, he needs the vet on Friday.",
    "assistant: How lovely. I hope that Biscuit is well soon.",
    "user: I am allergic to penicillin, please note that for the vet's pharmacy too.",
    "assistant: Noted with the pharmacy.",
    "user: The train to London leaves at 7:45 from platform 3.",
    "assistant: Then you should be at the station by half past seven.",
    "user: What do you think of the weather these days?",
    "assistant: It has been rather wet for the season, has it not?",
    "user: Indeed, and the garden is a swamp.",
    "assistant: Gardens recover quickly once the sun is back.",
    "user: I hope so. Anyway, let us go on.",
    "assistant: Of course, whenever you are ready.",
    "user: One more question.",
)


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("What is the new address?", "12 Harbour Lane"),
        ("which phone number should be called", "555-0142"),
        ("name of the dog", "Biscuit"),
        ("When does the train leave?", "7:45"),
        ("platform", "platform 3"),
    ],
)
@pytest.mark.parametrize("embedder", ["auto", None])
def test_what_answers_the_query_survives_a_small_budget(
    query: str, answer: str, embedder: str | None
):
    compaction = compact_context(SUPPORT, query, target_ratio=0.25, embedder=embedder)
    assert answer in text_of(compaction.messages)
    assert compaction.stats.after_tokens <= compaction.stats.target_tokens


def test_what_answers_the_query_in_other_words_survives_by_the_embedder():
    query = "Which medicine must not be given because of an allergy?"
    kept = compact_context(SUPPORT, query, target_ratio=0.2)
    assert "penicillin" in text_of(kept.messages)
    by_words = compact_context(SUPPORT, query, target_ratio=0.2, embedder=None)
    best = [max(each.explain(), key=lambda row: row.semantic) for each in (kept, by_words)]
    assert ["penicillin" in row.preview for row in best] == [True, False]


@pytest.mark.parametrize("weak", ["ok thanks", "and then?", "yes, do it", "?!", "the"])
def test_a_query_that_says_nothing_leaves_the_choice_as_it_is_without_one(weak: str):
    compaction = compact_context(SUPPORT, weak, target_ratio=0.4)
    assert {row.odds for row in compaction.explain()} == {1.0}
    assert compaction.messages == compact_context(SUPPORT, "", target_ratio=0.4).messages
    assert SUPPORT[-2] in compaction.messages


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_a_blank_query_asks_for_nothing_and_reads_no_turn(blank: str):
    compaction = compact_context(SUPPORT, blank, target_ratio=0.3)
    assert {row.semantic for row in compaction.explain()} == {0.5}
    assert {row.odds for row in compaction.explain()} == {1.0}
    assert compaction.stats.query_share == 0.0


def coding_session() -> list[Entry]:
    """An agent edits a file at the start, and then there is a lot of talk."""
    path = "src/billing/invoice_totals.py"
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"path": path, "new": "x = 1"}}
    done = {"type": "tool_result", "tool_use_id": "t1", "content": "edited"}
    chatter = [
        line
        for n in range(14)
        for line in (
            f"user: And what do you think of it, all in all, as we go along, part {n}?",
            "assistant: It looks good so far, and there is not much to add to what was said.",
        )
    ]
    return [
        *talk("user: Please get the totals right."),
        {"role": "assistant", "content": [edit]},
        {"role": "user", "content": [done]},
        *talk("assistant: That is done.", *chatter, "user: Go on with the work, please."),
    ]


def test_without_a_query_the_file_that_was_edited_outlives_the_chatter():
    session = coding_session()
    compaction = compact_context(session, target_ratio=0.15)
    assert "src/billing/invoice_totals.py" in text_of(compaction.messages)
    assert compaction.stats.after_tokens <= compaction.stats.target_tokens
    # The formula alone goes by recency, and forgets it: that is what coverage is for.
    by_score = compact_context(session, target_ratio=0.15, scoring="chitta")
    assert "src/billing/invoice_totals.py" not in text_of(by_score.messages)


def test_one_mention_of_everything_is_worth_more_than_many_of_one_thing():
    same = [f"user: src/a.py again, time {n} and time" for n in range(8)]
    messages = talk("user: look into src/rare_module.py", *same, "user: go on")
    compaction = compact_context(messages, target_ratio=0.4, counter=words)
    assert "src/rare_module.py" in text_of(compaction.messages)


def even(roles: Sequence[str]) -> list[Entry]:
    """Messages that differ in nothing but role and index."""
    return [{"role": role, "content": "same words here"} for role in roles]


def kept_indices(messages: list[Entry], scoring: Scoring, budget: int, **options: object) -> set:
    compaction = compact_context(messages, scoring=scoring, budget_tokens=budget, **options)
    return {
        index
        for index, message in enumerate(messages)
        if any(kept is message for kept in compaction.messages)
    }


def recency_only(**changed: object) -> Scoring:
    parts = {"recency": 1.0, "semantic": 0.0, "novelty": 0.0, "packing": "greedy"}
    return Scoring(**(parts | {"signals": "raw", "counter": "words"} | changed))


def test_by_recency_alone_the_newest_are_kept():
    assert kept_indices(even(["user"] * 10), recency_only(), 16) == {6, 7, 8, 9}


def test_by_structure_alone_roles_decide_and_the_newer_wins_a_tie():
    messages = even(["tool", "user", "assistant", "tool", "user", "assistant", "user"])
    flat = recency_only(recency=0.0, novelty=1.0)
    assert kept_indices(messages, flat, 8) == {4, 6}
    assert kept_indices(messages, flat, 12) == {1, 4, 6}
    assert kept_indices(messages, flat, 16) == {1, 4, 5, 6}


def test_a_structural_table_of_ones_own_replaces_the_usual_one():
    messages = even(["critic", "user", "assistant", "tool", "user"])
    scoring = recency_only(recency=0.0, novelty=1.0, structural={"tool": 9, "critic": 5})
    rows = compact_context(messages, scoring=scoring).explain()
    assert [row.structural for row in rows] == [5, 0.6, 0.6, 9, 0.6]
    assert kept_indices(messages, scoring, 8) == {3, 4}
    assert kept_indices([*messages, even(["user"])[0]], scoring, 12) == {0, 3, 5}


def test_by_similarity_alone_the_near_are_kept():
    messages = even(["user"] * 5)
    near = [0.1, 0.9, 0.2, 0.8, 0.3]
    scoring = recency_only(recency=0.0, semantic=1.0)

    def embed(texts: list[str]) -> list[list[float]]:
        return [[x, (1 - x * x) ** 0.5] for x in near] + [[1.0, 0.0]]

    assert kept_indices(messages, scoring, 12, query="same", embedder=embed) == {1, 3, 4}


def test_by_novelty_alone_what_memory_holds_goes_first():
    scoring = recency_only(recency=0.0, novelty=1.0)
    memory = FixedMemory([0.2, 0.9, 0.1, 0.8, 0.0])
    assert kept_indices(even(["user"] * 5), scoring, 8, memory=memory) == {2, 4}


def test_weights_are_relative_under_greedy_packing():
    messages = even(["user", "tool", "assistant", "user", "tool", "user"])
    for factor in (0.01, 1, 1_000):
        scoring = recency_only(recency=0.3 * factor, semantic=0.4 * factor, novelty=0.3 * factor)
        assert kept_indices(messages, scoring, 12) == kept_indices(
            messages, recency_only(**USUAL), 12
        )


USUAL = {"recency": 0.3, "semantic": 0.4, "novelty": 0.3}


@pytest.mark.parametrize("packing", ["greedy", "coverage"])
@pytest.mark.parametrize("signals", ["raw", "calibrated"])
def test_with_all_weights_at_nothing_or_at_the_limit_it_still_packs(signals: str, packing: str):
    for weight in (0.0, 1e6, 5e-324):
        roles = dict.fromkeys(("user", "assistant"), weight)
        scoring = Scoring(
            recency=weight,
            semantic=weight,
            novelty=weight,
            structural=roles,
            signals=signals,
            packing=packing,
        )
        stats = compact_context(SUPPORT, "address", target_ratio=0.3, scoring=scoring).stats
        assert 0 < stats.after_tokens <= stats.target_tokens


def test_the_profiles_are_scorings_with_names():
    for name in ("balanced", "chitta"):
        by_name = compact_context(SUPPORT, "address", scoring=name)
        by_value = compact_context(SUPPORT, "address", scoring=Scoring.named(name))
        assert by_name.messages == by_value.messages
    assert Scoring.named("balanced") == Scoring()
    assert Scoring.named("chitta") == Scoring(signals="raw", packing="greedy", counter="words")


def test_each_profile_has_a_counter_that_the_caller_may_replace():
    assert compact_context(SUPPORT).stats.counter == "o200k_base"
    assert compact_context(SUPPORT, scoring="chitta").stats.counter == "words"
    assert compact_context(SUPPORT, scoring="chitta", counter="chars").stats.counter == "chars"
    assert compact_context(SUPPORT, counter=words).stats.counter == "words"


def test_a_scoring_is_an_immutable_value():
    scoring = Scoring(recency=0.5, structural={"user": 3.0})
    with pytest.raises(AttributeError, match="immutable"):
        scoring.recency = 0.9
    with pytest.raises(TypeError, match="item assignment"):
        scoring.structural["user"] = 0.9  # type: ignore[index]
    assert dict(scoring.structural) == {"user": 3.0}
    assert scoring == Scoring(recency=0.5, structural={"user": 3.0})
    assert scoring != Scoring(recency=0.5)
    assert hash(scoring) == hash(Scoring(recency=0.5, structural={"user": 3.0}))
    assert pickle.loads(pickle.dumps(scoring)) == scoring
    assert repr(Scoring()) == "Scoring()"
    assert eval(repr(scoring)) == scoring


def test_a_table_changed_afterwards_changes_no_scoring():
    table = {"user": 3.0}
    scoring = Scoring(structural=table)
    table["user"] = 0.0
    assert scoring.weight_of("user") == 3.0


def test_an_own_embedder_is_asked_once_with_all_texts_and_the_query():
    batches: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        batches.append(texts)
        return [[1.0, 0.0]] * len(texts)

    messages = talk("user: one", "assistant: two", "user: three")
    assert compact_context(messages, "a query", embedder=embed).stats.embedding
    assert batches == [["one", "two", "three", "a query"]]


def text_of(messages: Sequence[Entry]) -> str:
    return json.dumps(messages)


def test_the_default_profile_is_balanced():
    default = rehydrate.compact_context(SUPPORT, "address")
    assert default.messages == compact_context(SUPPORT, "address", scoring="balanced").messages
