"""memory=: what it already holds is cheaper to drop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rehydrate import compact_context
from tests.compact.cases import FixedMemory, HashEmbedder, talk

# As alike as messages can be, so that nothing but coverage can tell them apart.
FACTS = talk(
    "user: The alpha key is stored in config/alpha.toml now.",
    "user: The gamma key is stored in config/gamma.toml now.",
    "user: The delta key is stored in config/delta.toml now.",
    "user: The kappa key is stored in config/kappa.toml now.",
    "user: Go on.",
)


class Recording:
    """Notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, int]] = []

    def recall(self, vectors: Any, k: int) -> list[list[float]]:
        self.asked.append((vectors, k))
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
    ((vectors, k),) = memory.asked
    assert k == 3
    assert len(vectors) == len(FACTS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(FACTS)), abs=1e-5)


def test_a_message_without_a_vector_is_a_row_of_zeros_to_the_memory():
    rows = [[3.0, 4.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 2.0]]
    memory = Recording()
    compact_context(FACTS, memory=memory, embedder=lambda texts: rows)
    ((vectors, _),) = memory.asked
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
    assert memory.asked == []
