"""The golden cases, through the public API; rust/rehydrate-core/tests/golden.rs reads the same."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rehydrate

GOLDEN = Path(__file__).parent / "golden"
CHITTA = tomllib.loads((GOLDEN / "chitta.toml").read_text())["case"]

_CHITTA = rehydrate.Scoring.named("chitta")
CHITTA_AND_A_NARRATOR = rehydrate.Scoring(
    structural={**_CHITTA.structural, "narrator": _CHITTA.weight_of("narrator")},
    signals=_CHITTA.signals,
    packing=_CHITTA.packing,
    counter=_CHITTA.counter,
)
"""A role without a weight is refused; with a weight it is taken, here that of unknown ones."""


class Covers:
    """A memory that knows how much of each message it holds."""

    def __init__(self, coverage: list[float]) -> None:
        self.coverage = coverage

    def recall(self, vectors: Any, k: int) -> list[list[float]]:
        assert len(vectors) == len(self.coverage)
        assert k == 3
        return [[0.0, -1.0, covered] for covered in self.coverage]


@pytest.mark.parametrize("case", CHITTA, ids=lambda case: case["name"])
def test_chitta_reproduces_the_scores_worked_out_by_hand(case: dict[str, Any]) -> None:
    rows = case["messages"]
    messages = [{"role": row["role"], "content": " ".join(["word"] * row["words"])} for row in rows]
    vectors = [row["vector"] for row in rows]
    if "query_vector" in case:
        vectors.append(case["query_vector"])
    compaction = rehydrate.compact_context(
        messages,
        "a query" if "query_vector" in case else None,
        case["target_ratio"],
        scoring=CHITTA_AND_A_NARRATOR if case["messages"][0]["role"] == "narrator" else "chitta",
        embedder=lambda texts: np.array(vectors[: len(texts)]),
        memory=Covers([row["coverage"] for row in rows]),
    )
    scores = [unit.score for unit in compaction.explain()]
    assert scores == pytest.approx(case["scores"], abs=1e-6)
    kept = [next(i for i, m in enumerate(messages) if m is k) for k in compaction.messages]
    assert kept == case["kept"]
    assert compaction.stats.embedding
