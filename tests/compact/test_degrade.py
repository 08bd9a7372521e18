"""Missing, broken and odd parts never fail the call: it goes on without them, and says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rehydrate import compact_context
from tests.compact.cases import FixedMemory, HashEmbedder, figures, talk

TALK = talk(
    "system: Be brief.",
    "user: My parcel with the number 81-4471 has not arrived.",
    "assistant: I am sorry. Let me look that up for you.",
    "user: Also the invoice was wrong, by the way.",
    "assistant: Which line of the invoice do you mean?",
    "user: What was the number of my parcel?",
)
ROWS = len(TALK)
NAN = float("nan")

Returns = Callable[[list[str]], Any]


def raises(_texts: list[str]) -> Any:
    raise ConnectionError("no route to host")


BROKEN_EMBEDDERS: dict[str, Returns] = {
    "raises": raises,
    "returns None": lambda texts: None,
    "returns text": lambda texts: "no vectors today",
    "returns one number": lambda texts: 1.0,
    "returns one row too few": lambda texts: np.ones((len(texts) - 1, 4)),
    "returns one row too many": lambda texts: np.ones((len(texts) + 1, 4)),
    "returns a vector": lambda texts: np.ones(len(texts)),
    "returns a cube": lambda texts: np.ones((len(texts), 2, 2)),
    "returns no dimensions": lambda texts: np.ones((len(texts), 0)),
    "returns ragged rows": lambda texts: [[1.0] * (1 + n % 2) for n in range(len(texts) + 1)],
    "returns objects": lambda texts: [[object()]] * len(texts),
}


@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
@pytest.mark.parametrize("query", ["the parcel's number", None, ""])
@pytest.mark.parametrize("how", BROKEN_EMBEDDERS)
def test_a_broken_embedder_is_done_without(how: str, query: str | None, scoring: str):
    # Where something is asked the built-in model does the work; the formula knows vectors of one
    # model only.
    falls_back = query != "" and scoring == "balanced"
    broken = compact_context(TALK, query, scoring=scoring, embedder=BROKEN_EMBEDDERS[how])
    without = compact_context(TALK, query, scoring=scoring, embedder="auto" if falls_back else None)
    assert broken.messages == without.messages
    assert broken.explain().to_dict() == without.explain().to_dict()
    assert not broken.stats.embedding
    (problem,) = broken.stats.degraded
    assert problem.startswith("embedder: ")
    instead = "with the built-in model" if falls_back else "without vectors"
    assert problem.endswith(f"went on {instead}")


def test_what_went_wrong_with_the_embedder_is_said():
    (problem,) = compact_context(TALK, embedder=raises).stats.degraded
    assert "ConnectionError;" in problem
    wrong = compact_context(TALK, "a query", embedder=lambda texts: np.ones((2, 3)))
    (problem,) = wrong.stats.degraded
    assert f"shape (2, 3) for {ROWS + 1} texts" in problem


@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
@pytest.mark.parametrize("value", [0.0, NAN, float("inf"), 1e300])
def test_an_embedder_without_one_real_vector_counts_as_none(value: float, scoring: str):
    rows = np.full((ROWS + 1, 4), value)
    empty = compact_context(TALK, "the number", scoring=scoring, embedder=lambda texts: rows)
    beneath = "auto" if scoring == "balanced" else None
    without = compact_context(TALK, "the number", scoring=scoring, embedder=beneath)
    assert not empty.stats.embedding
    (problem,) = empty.stats.degraded
    assert problem.startswith("embedder: ")
    assert empty.messages == without.messages
    assert scores(empty) == scores(without)


@pytest.mark.parametrize("value", [0.0, NAN, float("inf")])
def test_a_message_without_a_vector_is_neither_near_nor_far_by_the_formula(value: float):
    rows = np.ones((ROWS + 1, 4))
    rows[3] = value
    compaction = compact_context(TALK, "the number", scoring="chitta", embedder=lambda texts: rows)
    assert compaction.stats.embedding
    assert [row.semantic for row in compaction.explain()] == pytest.approx([1, 1, 1, 0.5, 1, 1])


def test_a_query_without_a_vector_leaves_every_similarity_at_a_half_by_the_formula():
    rows = np.ones((ROWS + 1, 4))
    rows[-1] = 0.0
    compaction = compact_context(TALK, "the number", scoring="chitta", embedder=lambda texts: rows)
    assert {row.semantic for row in compaction.explain()} == {0.5}


def test_embedding_is_true_only_where_vectors_were_computed():
    assert compact_context(TALK, "parcel").stats.embedding
    assert compact_context(TALK, "parcel", embedder="builtin").stats.embedding
    assert compact_context(TALK, "parcel", embedder=HashEmbedder()).stats.embedding
    assert not compact_context(TALK, "parcel", embedder=None).stats.embedding
    assert not compact_context([], "parcel").stats.embedding


class Memory:
    """Answers whatever it was given, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def recall(self, vectors: Any, k: int) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        OSError("disk gone"),
        None,
        "nothing",
        0.5,
        [],
        [[0.9]] * (ROWS - 1),
        [[0.9]] * (ROWS + 1),
        [[[0.9]]] * ROWS,
        [["near"]] * ROWS,
        [[None]] * ROWS,
        np.zeros((0, 3)),
    ],
    ids=repr,
)
def test_a_broken_memory_covers_nothing(answer: Any):
    broken = compact_context(TALK, memory=Memory(answer))
    without = compact_context(TALK)
    assert broken.messages == without.messages
    assert {row.coverage for row in broken.explain()} == {0.0}
    (problem,) = broken.stats.degraded
    assert problem.startswith("memory: ")
    assert problem.endswith("nothing counts as covered")


@pytest.mark.parametrize(
    ("answer", "coverage"),
    [
        ([[], [0.5], [0.1, 0.7], [NAN, 0.2], [-3.0], [9.0]], [0, 0.5, 0.7, 0.2, 0, 1]),
        ([0.1, 0.2, NAN, float("inf"), -1, 2], [0.1, 0.2, 0, 0, 0, 1]),
        (np.full((ROWS, 3), 0.25), [0.25] * ROWS),
        (np.full((ROWS, 0), 0.25), [0] * ROWS),
        (np.full((ROWS, 2), NAN), [0] * ROWS),
        (np.full(ROWS, 0.5, dtype=np.float32), [0.5] * ROWS),
        (([0.5] for _ in range(ROWS)), [0.5] * ROWS),
    ],
)
def test_whatever_numbers_a_memory_returns_the_largest_real_one_counts(
    answer: Any, coverage: list[float]
):
    compaction = compact_context(TALK, memory=Memory(answer))
    assert compaction.stats.degraded == ()
    assert [row.coverage for row in compaction.explain()] == pytest.approx(coverage)


def test_a_memory_without_any_vectors_to_ask_with_is_not_asked():
    compaction = compact_context(TALK, embedder=None, memory=Memory(AssertionError("asked")))
    assert compaction.stats.degraded == (
        "memory: no vectors to recall with; nothing counts as covered",
    )


def test_a_broken_embedder_and_so_no_memory_are_both_said():
    compaction = compact_context(TALK, embedder=raises, memory=FixedMemory([1.0] * ROWS))
    parts = [problem.partition(":")[0] for problem in compaction.stats.degraded]
    assert parts == ["embedder", "memory"]


@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
@pytest.mark.parametrize("odd", ["", " ", "\n", "\x00", "\ud800", "a\udfffb", "\ufeff", "🙂" * 500])
def test_odd_texts_are_kept_and_dropped_like_any_other(odd: str, scoring: str):
    calls = [{"id": "1", "type": "function", "function": {"name": odd, "arguments": odd}}]
    messages = [
        *talk("system: " + odd, "user: " + odd),
        {"role": "assistant", "content": odd, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": odd},
        *talk("assistant: " + odd, "user: " + odd, "assistant: fine", "user: " + odd),
    ]
    for budget in (0, 5, 10**6):
        compaction = compact_context(messages, odd, budget_tokens=budget, scoring=scoring)
        assert all(any(kept is message for message in messages) for kept in compaction.messages)
        assert str(compaction.explain())
        assert repr(compaction)
        assert compact_context(messages, odd, embedder=HashEmbedder(), counter=len).stats.embedding


def test_a_lone_surrogate_counts_as_a_replaced_character():
    lone = compact_context([{"role": "user", "content": "caf\ud800 au lait"}], "")
    replaced = compact_context([{"role": "user", "content": "caf? au lait"}], "")
    assert figures(lone) == figures(replaced)


@pytest.mark.parametrize("content", ["", None, []])
@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
def test_messages_without_a_text_cost_nothing_and_fit_any_budget(content: Any, scoring: str):
    messages = [{"role": role, "content": content} for role in ("user", "assistant") * 3]
    compaction = compact_context(messages, "anything", budget_tokens=0, scoring=scoring)
    assert compaction.messages == messages
    assert compaction.stats.before_tokens == 0
    assert compaction.stats.dropped_pct == 0.0


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool", "tool_result"])
@pytest.mark.parametrize("query", [None, "hello"])
def test_one_message_alone_has_full_recency(role: str, query: str | None):
    compaction = compact_context([{"role": role, "content": "hello"}], query, target_ratio=1.0)
    (row,) = compaction.explain()
    assert row.recency == 1.0
    assert row.kept


def test_of_one_message_that_nothing_pins_nothing_may_be_left():
    compaction = compact_context(talk("assistant: hello there"), budget_tokens=0)
    assert compaction.messages == []
    assert compaction.stats.dropped_pct == 100.0


def test_system_messages_alone_are_all_kept():
    messages = talk("system: one two three", "system: four five six")
    compaction = compact_context(messages, "four", budget_tokens=0)
    assert compaction.messages == messages
    assert compaction.stats.over_budget
    assert not compaction.stats.changed


def test_a_conversation_without_a_user_is_compacted_like_any_other():
    messages = talk(*(f"assistant: number {n}" for n in range(20)))
    compaction = compact_context(messages, target_ratio=0.3)
    assert 0 < compaction.stats.after_tokens <= compaction.stats.target_tokens


def test_an_own_counters_figures_may_be_huge():
    messages = talk("user: a", "assistant: b", "user: c")
    compaction = compact_context(messages, counter=lambda text: 2**32 - 1)
    assert compaction.stats.before_tokens == 3 * (2**32 - 1)
    json.dumps(compaction.to_dict())


def scores(compaction: Any) -> list[float]:
    return [row.score for row in compaction.explain()]
