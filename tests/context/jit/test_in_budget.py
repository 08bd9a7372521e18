"""In budget: whatever an answer brings, it causes no compaction and is no larger than was said."""

from __future__ import annotations

import pytest

from rehydrate import Budget, Context, ContextJIT, Memory
from rehydrate.memory import MemoryItem
from rehydrate.prompt import text_tokens
from tests.context.jit.test_jit import NOON, answer_of, call, long_conversation

NOTE = "港口主人的名字叫做安妮克她住在斯勒伊斯很久了 " * 600


def test_a_loaded_note_takes_no_more_tokens_than_there_are_whatever_its_language(tmp_path):
    with Memory.open(tmp_path / "m.db") as memory:
        alice = memory.within("alice")
        budget = Budget(soft_tokens=6_000, hard_tokens=10**6)
        context = Context([alice], budget=budget, timeout=None)
        jit = ContextJIT(context, budget_tokens=2_000)
        context.prompt("hello")
        alice.add(MemoryItem(NOTE, source="note.md"))
        asked = {"type": "tool_use", "id": "t", "name": "load_memory", "input": {"name": "note.md"}}
        content = answer_of(context, jit, asked)
        assert text_tokens([content])[0] <= 2_000
        context.prompt()
        assert context.usage.compactions == 0
        (section,) = context.ir.late_bound
        shown, _, mark = str(section.content).partition("[...")
        assert NOTE.startswith(shown.rstrip("\n"))
        assert "characters omitted" in mark
        assert section.handle in content


@pytest.mark.parametrize("budget_tokens", [300, 700, 2_000])
def test_an_answer_with_all_its_words_is_within_its_budget(budget_tokens):
    budget = Budget(soft_tokens=6_000, hard_tokens=10**7, compact_to=0.3)
    context = Context(budget=budget, clock=NOON.timestamp)
    context.add(*long_conversation(120))
    jit = ContextJIT(context, budget_tokens=budget_tokens)
    context.prompt("Tell me about all the berths.")
    content = jit.handle(call("berth metres wide harbour"))["content"]
    assert text_tokens([content])[0] <= budget_tokens
