"""memory=: what it already holds is cheaper to drop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rehydrate import compact_context, validate
from rehydrate.compact import Archive
from rehydrate.errors import MissingNamespaceError, StoreFullError
from rehydrate.memory import Added, Memory
from tests.compact.cases import FixedMemory, HashEmbedder, talk
from tests.memory.plain import PlainStore

# As alike as messages can be, so that nothing but coverage can tell them apart.
FACTS = talk(
    "user: The alpha key is stored in config/alpha.toml now.",
    "user: The gamma key is stored in config/gamma.toml now.",
    "user: The delta key is stored in config/delta.toml now.",
    "user: The kappa key is stored in config/kappa.toml now.",
    "user: Go on.",
)


class Recording:
    """Notes its queries."""

    def __init__(self) -> None:
        self.queries: list[tuple[Any, int]] = []

    def recall(self, vectors: Any, k: int) -> list[list[float]]:
        self.queries.append((vectors, k))
        return [[0.0]] * len(vectors)


@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
@pytest.mark.parametrize("covered", [0, 1, 2, 3])
def test_what_memory_covers_goes_first(covered: int, scoring: str):
    coverage = [0.0] * len(FACTS)
    coverage[covered] = 1.0
    with_memory = compact_context(
        FACTS, memory=FixedMemory(coverage), scoring=scoring, target_ratio=0.85
    )
    assert [record.index for record in with_memory.dropped] == [covered]
    assert with_memory.dropped[0].reason == "memory covers 100% of it"


@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
def test_at_the_same_budget_memory_changes_what_is_kept(scoring: str):
    # The newest is kept without a memory, and let go where the memory has it.
    memory = FixedMemory([0.0, 0.0, 0.0, 1.0, 0.0])
    options = {"scoring": scoring, "target_ratio": 0.85}
    assert FACTS[3] in compact_context(FACTS, **options).messages
    assert FACTS[3] not in compact_context(FACTS, **options, memory=memory).messages


def test_coverage_lowers_the_score_by_the_weight_of_novelty():
    memory = FixedMemory([0.0, 0.25, 0.5, 1.0, 0.0])
    with_memory = compact_context(FACTS, memory=memory).explain()
    without = compact_context(FACTS).explain()
    lost = [before.score - after.score for before, after in zip(without, with_memory, strict=True)]
    assert lost == pytest.approx([0.3 * covered for covered in memory.coverage])


def test_what_memory_covers_is_kept_all_the_same_where_it_is_pinned_or_fits():
    everything = FixedMemory([1.0] * len(FACTS))
    assert compact_context(FACTS, memory=everything, target_ratio=1.0).messages == FACTS
    pinned = compact_context(FACTS, memory=everything, budget_tokens=0, pin=[1]).messages
    assert pinned == [FACTS[1], FACTS[4]]


@pytest.mark.parametrize("embedder", ["auto", HashEmbedder()])
def test_a_memory_is_asked_once_for_three_neighbours_of_unit_vectors(embedder: Any):
    memory = Recording()
    compact_context(FACTS, "a query", memory=memory, embedder=embedder)
    ((vectors, k),) = memory.queries
    assert k == 3
    assert len(vectors) == len(FACTS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(FACTS)), abs=1e-5)


def test_a_message_without_a_vector_is_a_row_of_zeros_to_the_memory():
    rows = [[3.0, 4.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 2.0]]
    memory = Recording()
    compact_context(FACTS, "", memory=memory, embedder=lambda texts: rows)
    ((vectors, _),) = memory.queries
    assert vectors.tolist() == [
        pytest.approx([0.6, 0.8]),
        [0.0, 0.0],
        [0.0, 0.0],
        [0.0, 0.0],
        [0.0, 1.0],
    ]


def test_what_a_memory_does_to_its_vectors_does_not_touch_the_next_call():
    class Vandal:
        def recall(self, vectors: Any, k: int) -> Any:
            if vectors.flags.writeable:
                vectors[:] = 0.0
            return [[0.0]] * len(vectors)

    clean = compact_context(FACTS, "where is the delta key")
    compact_context(FACTS, "where is the delta key", memory=Vandal())
    again = compact_context(FACTS, "where is the delta key")
    assert again.explain().to_dict() == clean.explain().to_dict()


def test_an_empty_conversation_asks_no_memory():
    memory = Recording()
    compact_context([], memory=memory)
    assert memory.queries == []


class RecordingTexts(Recording):
    """Finds the meaning of texts by itself."""

    recalls = "texts"


@pytest.mark.parametrize("embedder", ["auto", None, HashEmbedder()])
@pytest.mark.parametrize("query", [None, "the delta key"])
def test_a_memory_that_embeds_by_itself_is_asked_once_with_the_texts(embedder: Any, query: Any):
    memory = RecordingTexts()
    compaction = compact_context(FACTS, query, memory=memory, embedder=embedder)
    assert memory.queries == [([message["content"] for message in FACTS], 3)]
    assert compaction.stats.degraded == ()


def test_an_own_embedder_is_asked_no_more_texts_for_a_memory_that_needs_none():
    batches: list[int] = []

    def embed(batch: list[str]) -> list[list[float]]:
        batches.append(len(batch))
        return HashEmbedder()(batch)

    many = talk(*(f"user: fact number {n} of the list of facts" for n in range(80)), "user: Go.")
    compact_context(many, "", memory=RecordingTexts(), embedder=embed)
    assert batches == [1]


def test_what_the_model_thought_and_half_a_surrogate_pair_are_no_part_of_the_text():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "the \ud800 answer"},
    ]
    memory = RecordingTexts()
    compact_context([*FACTS[:1], {"role": "assistant", "content": blocks}], memory=memory)
    ((texts, _),) = memory.queries
    assert texts == [FACTS[0]["content"], "the ? answer"]


def test_blocks_of_a_long_text_are_asked_about_one_by_one():
    log = "\n".join(f"line {n}: service {n % 7} answered in {n} ms" for n in range(100))
    memory = RecordingTexts()
    messages = talk("user: Why?", f"user: {log}", "user: Go on.")
    compact_context(messages, memory=memory, granularity="excerpt", target_ratio=0.3)
    ((texts, _),) = memory.queries
    assert len(texts) > 10
    assert "".join(texts[2:-1]) == log


def test_a_real_memory_covers_what_it_holds_and_nothing_else():
    memory = Memory(PlainStore())
    memory.within("alice").add(FACTS[2]["content"])
    rows = compact_context(FACTS, memory=memory.within("alice")).explain()
    assert rows.units[2].coverage == 1.0
    assert max(row.coverage for row in rows if row.unit != 2) < 1.0
    assert {
        row.coverage for row in compact_context(FACTS, memory=memory.within("bob")).explain()
    } == {0.0}


def test_a_memory_must_say_whose_memories_are_meant():
    with pytest.raises(MissingNamespaceError, match=r'memory\.within\("alice"\)'):
        compact_context(FACTS, memory=Memory(PlainStore()))


def test_the_share_that_went_because_memory_has_it_is_of_tokens():
    memory = FixedMemory([1.0, 0.0, 0.5, 0.49, 0.0])
    compaction = compact_context(FACTS, memory=memory, budget_tokens=0)
    dropped = {record.index: record.tokens for record in compaction.dropped}
    assert [*dropped] == [0, 1, 2, 3]
    expected = 100 * (dropped[0] + dropped[2]) / sum(dropped.values())
    assert compaction.stats.covered_pct == round(expected, 1)
    assert compact_context(FACTS, memory=memory, target_ratio=1.0).stats.covered_pct == 0.0


def test_an_episode_says_what_went_and_how_much_of_it_memory_has():
    memory = Memory(PlainStore(), namespace="alice")
    memory.add([message["content"] for message in FACTS[:2]])
    options = {"memory": memory, "archive": Archive(False, episode=True, thread="s-1")}
    stats = compact_context(FACTS, **options, budget_tokens=0).stats
    (item,) = memory.list(kinds=["episode"])
    share = round(stats.covered_pct)
    assert item.text == (
        f"{stats.before_tokens}->{stats.after_tokens} tokens, {share}% dropped as memory-covered"
    )
    assert share > 0
    assert (item.thread, item.source) == ("s-1", "conversation/s-1")


def test_a_compaction_that_changes_nothing_is_no_episode():
    memory = Memory(PlainStore(), namespace="alice")
    compact_context(FACTS, memory=memory, archive=Archive(episode=True), target_ratio=1.0)
    assert memory.list() == []


# A memory may fail at any call: the compaction goes on without it, and says so.


LOG = "\n".join(f"line {n}: service {n % 7} answered in {n * 13 % 101} ms" for n in range(300))
TALK = talk(
    "system: Be brief.",
    "user: My parcel with the number 81-4471 has not arrived at all.",
    "assistant: I am sorry to hear that. Let me look that up for you.",
    f"tool: {LOG}",
    "assistant: There it is.",
    "user: I prefer parcels that arrive, whatever their number may be.",
    "user: What was the number of my parcel?",
)
WRITING = {"archive": Archive(novel=True, episode=True)}
FULL = StoreFullError("/m.db", "no room left on the disk", "make room")


class Failing:
    """A memory of which the n-th call fails, whatever it is; the others are done."""

    recalls = "texts"

    def __init__(self, fails_at: int) -> None:
        self.within = Memory(PlainStore(), namespace="alice")
        self.namespace = "alice"
        self.calls: list[str] = []
        self._fails_at = fails_at

    def _call(self, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        if len(self.calls) == self._fails_at + 1:
            raise FULL
        return getattr(self.within, name)(*arguments)

    def recall(self, texts: Any, k: int) -> Any:
        return self._call("recall", texts, k)

    def add(self, items: Any) -> Any:
        return self._call("add", items)

    @property
    def redactor(self) -> Any:
        return self.within.redactor


def compacted(memory: Any) -> Any:
    return compact_context(TALK, budget_tokens=600, memory=memory, granularity="excerpt", **WRITING)


def calls() -> list[str]:
    memory = Failing(fails_at=-2)
    assert compacted(memory).stats.degraded == ()
    return memory.calls


@pytest.mark.parametrize("number", range(len(calls())))
def test_a_memory_may_fail_at_any_call(number: int):
    memory = Failing(number)
    compaction = compacted(memory)
    assert len(memory.calls) > number
    assert validate(compaction.messages) == []
    assert compaction.stats.after_tokens <= 600
    assert compaction.messages[-1] is TALK[-1]
    (problem,) = compaction.stats.degraded
    assert problem.startswith(f"memory: StoreFullError: {FULL}; ")
    # Nothing half written: all that was to be kept is there, or nothing of it is.
    is_lost = problem.endswith("; nothing of this compaction is kept")
    assert is_lost == (0 < number < len(calls()) - 1)
    assert memory.within.list() == [] if is_lost else memory.within.list() != []
    for record in compaction.dropped:
        assert (record.handle is None) == is_lost
    assert ("mem_" in str(compaction.messages)) == (not is_lost)


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "None": lambda items: None,
    "too few": lambda items: [Added("mem_1", True)] * (len(items) - 1),
    "too many": lambda items: [Added("mem_1", True)] * (len(items) + 1),
    "no handles": lambda items: list(items and range(len(items))),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_a_memory_that_answers_nonsense_is_done_without(how: str):
    class Odd(Failing):
        def add(self, items: Any) -> Any:
            return ANSWERS[how](items)

    compaction = compacted(Odd(fails_at=-2))
    assert len(compaction.stats.degraded) >= 1
    assert all(problem.startswith("memory: ") for problem in compaction.stats.degraded)
    assert "mem_" not in str(compaction.messages)


def test_a_memory_whose_embedder_fails_covers_nothing_and_that_is_said():
    class Blind(Failing):
        degraded = ("embedder: ConnectionError: no route to host; compared with nothing",)

        def recall(self, texts: Any, k: int) -> Any:
            return [[] for _ in texts]

    (problem,) = compact_context(TALK, memory=Blind(fails_at=-2)).stats.degraded
    assert problem == f"memory: {Blind.degraded[0]}; nothing counts as covered"


def test_a_closed_memory_is_done_without():
    memory = Memory(PlainStore(), namespace="alice")
    memory.close()
    compaction = compact_context(TALK, memory=memory, budget_tokens=600, **WRITING)
    closed = "memory: StoreClosedError: plain: it was closed; open it again; "
    assert compaction.stats.degraded == (
        f"{closed}nothing counts as covered",
        f"{closed}nothing of this compaction is kept",
    )
    assert compaction.stats.distilled == 0


def test_the_outline_is_no_part_of_what_memory_covers():
    lists = (" ".join(f"src/part_{n}_{m}.py" for m in range(40)) for n in range(9))
    facts = talk(*(f"user: See {names}" for names in lists), "user: Go on.")
    memory = FixedMemory([1.0] * len(facts))
    stats = compact_context(facts, memory=memory, target_ratio=0.5, outline=150).stats
    assert stats.outline_tokens
    assert stats.covered_pct == 100.0
