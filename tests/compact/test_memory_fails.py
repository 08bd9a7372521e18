"""A memory may fail at any call: the compaction goes on without it, and says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rehydrate import compact_context, validate
from rehydrate.compact import Archive
from rehydrate.errors import StoreFullError
from rehydrate.memory import Added, Memory
from tests.compact.cases import talk
from tests.memory.plain import PlainStore

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
