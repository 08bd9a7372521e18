"""In budget: an answer is no larger than was said, and a model that asks has room for it."""

from __future__ import annotations

import pytest

from rehydrate import Budget, Context, ContextJIT, Memory
from rehydrate.memory import MemoryItem
from rehydrate.prompt.counting import text_tokens
from tests.context.jit.test_jit import NOON, answer_of, call, long_conversation

FIRST = ("Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Juniper", "Larch")
SECOND = ("north", "south", "east", "west")
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


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("turns", range(20, 32))
def test_a_model_that_asks_four_times_in_a_turn_is_answered_however_full_its_prompt_is(
    provider, turns
):
    """What an answer brings over the soft limit is made room for by the next prompt."""
    budget = Budget(soft_tokens=5_000)
    context = Context(provider=provider, format="anthropic", budget=budget, clock=NOON.timestamp)
    jit = ContextJIT(context, budget_tokens=1_000)
    names = [f"{first}{second}haven" for first in FIRST for second in SECOND][:turns]
    for name in names:
        context.prompt(f"What is written of {name}?")
        text = f"{name} opens with a code. " + "Rope and tide. " * 70
        context.add({"role": "assistant", "content": text})
    shown = str(context.prompt("Tell me the codes.").messages)
    asked = [name for name in names if f"{name} opens" not in shown][:4]
    assert len(asked) == 4
    known = set()
    for name in asked:
        answer_of(context, jit, call(f"code of {name}", f"toolu_{name}"))
        prompt = context.prompt()
        known |= {each for each in asked if f"{each} opens" in str(prompt.messages)}
    assert known == set(asked)
