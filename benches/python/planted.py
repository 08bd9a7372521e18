"""Planted rules, facts and goals after five rounds of compaction: rows of `context_stores`.

The sessions, the probes and the reference compactors are those of `compaction-conformance-kit`. Its
references know the kit's own labels; the context store knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from statistics import fmean
from typing import Any

from benches.report.rows import Row
from rehydrate import formats
from rehydrate.context import ContextStore

ROUNDS, SESSIONS = 5, 20
SHARES = (0.2, 0.3, 0.5)


class StoreCompactor:
    """The context store as a compactor of the kit's: it lives with its thread over all rounds."""

    name = "context store"

    def __init__(self) -> None:
        """Start with no thread."""
        self._store = ContextStore()
        self._conversation: Any = None

    def compact(self, turns: list[Any], round_num: int = 1, budget_chars: int | None = None) -> Any:
        """Return the store; the first round brings the session, later ones what we returned."""
        from compaction_kit.compacted import CompactedContext

        if round_num == 1:
            said = [
                {"role": turn.role, "content": turn.text} for turn in turns if turn.role != "system"
            ]
            self._conversation = formats.parse(said, "plain")
            self._store.update(self._conversation.messages)
        whole = sum(len(turn.text) + 1 for turn in turns)
        limit = whole if budget_chars is None else budget_chars
        tokens = limit // 4
        text = self._render(tokens)
        while len(text) > limit:
            tokens = int(tokens * 0.95)
            text = self._render(tokens)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def _render(self, tokens: int) -> str:
        return self._store.render(tokens, conversation=self._conversation)


def rows() -> list[Row]:
    """Return a row for each budget; none if the kit is not installed."""
    if find_spec("compaction_kit") is None:
        return [Row("planted rules and facts", None, "", beside="not installed: the kit")]
    from compaction_kit.adapters import ProgressiveSummaryCompactor
    from compaction_kit.compactors import (
        ChecklistCompactor,
        LossyTruncationCompactor,
        NaiveSummaryCompactor,
    )

    peers: list[Callable[[], Any]] = [
        ChecklistCompactor,
        ProgressiveSummaryCompactor,
        NaiveSummaryCompactor,
        LossyTruncationCompactor,
    ]
    made = []
    for share in SHARES:
        ours = _survival(StoreCompactor, share)
        others = [f"{peer().name} {_mean(_survival(peer, share)):.2f}" for peer in peers]
        by_type = ", ".join(f"{kind} {value:.2f}" for kind, value in ours.items())
        made.append(
            Row(
                f"planted items left after {ROUNDS} rounds, at {share:.0%} of the session",
                _mean(ours),
                "",
                more_is_better=True,
                beside=f"{'; '.join(others)}; ours by type: {by_type}",
                limit="The checklist reads the kit's own labels; below 30% there is no room for "
                "all items word for word",
            )
        )
    return made


def _survival(make: Callable[[], Any], share: float) -> dict[str, float]:
    """Return the share of each type that survives, over the kit's random sessions."""
    from compaction_kit.corpus import build_random_session
    from compaction_kit.runner import run_conformance

    found: dict[str, list[float]] = {}
    for seed in range(SESSIONS):
        session, canaries = build_random_session(seed)
        run = run_conformance(
            session, make(), rounds=ROUNDS, canaries=canaries, budget_fraction=share
        )
        for kind, value in run.rounds[-1].survival_by_type.items():
            found.setdefault(kind.lower().replace("_", " "), []).append(value)
    return {kind: fmean(values) for kind, values in found.items()}


def _mean(survival: dict[str, float]) -> float:
    return fmean(survival.values())
