"""Filling: an answer brings what matches as long as there is room, and says nothing needlessly."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from rehydrate import Budget, Context, ContextJIT, Memory, count_tokens
from rehydrate._native import heading_tokens
from rehydrate.memory import MemoryItem
from rehydrate.prompt.counting import text_tokens
from tests.context.jit.test_jit import NOON, answer_of, call, long_conversation

BEGUN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ROOMY = Budget(soft_tokens=10**6, hard_tokens=10**7)


def left_out(*said: str, apart: timedelta = timedelta()) -> Context:
    """A conversation of which the prompt shows nothing but a few words at its end."""
    context = Context(provider="openai_chat", budget=ROOMY, timeout=None)
    for number, text in enumerate(said):
        role = ("user", "assistant")[number % 2]
        context.add({"role": role, "content": text}, at=BEGUN + number * apart)
    for role in ("user", "assistant", "user"):
        context.add({"role": role, "content": "Go on, then."}, at=BEGUN + len(said) * apart)
    context.compact(20, keep_last=0)
    return context


def talk(turns: int = 200) -> list[str]:
    """So many about boats, and then as many about something else."""
    boats = [
        f"Boat {n} with the number {n * 17} lies in the harbour at berth {n % 40}."
        for n in range(turns)
    ]
    return boats + [f"On day {n} the wind was fair, and so was the weather." for n in range(turns)]


@pytest.mark.parametrize("apart", [timedelta(), timedelta(minutes=1), timedelta(days=1)], ids=str)
@pytest.mark.parametrize("budget", [600, 2_000, 4_000])
def test_an_answer_fills_its_budget_and_is_never_over(budget: int, apart: timedelta):
    jit = ContextJIT(left_out(*talk(), apart=apart), budget_tokens=budget, timeout=None)
    content = jit.handle(call("boats in the harbour"))["content"]
    assert 0.6 * budget < count_tokens(content) <= budget
    assert "had no room" in content


def test_items_of_a_memory_under_long_handles_are_within_the_budget_too(tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="n") as memory:
        memory.add([MemoryItem(text, source=f"log {n}") for n, text in enumerate(talk(60))])
        context = Context(memory, budget=ROOMY, timeout=None)
        jit = ContextJIT(context, budget_tokens=700, timeout=None)
        context.add({"role": "user", "content": "hello"})
        answered = jit.answer(call("boats in the harbour"))
        assert count_tokens(answered.content) <= 700
        assert len(answered.sections) > 5


def test_the_time_is_shown_if_it_differs_from_the_item_before():
    def times(apart: timedelta) -> list[str]:
        jit = ContextJIT(left_out(*talk(6), apart=apart), timeout=None)
        content = jit.handle(call("boats in the harbour"))["content"]
        return re.findall(r"^[0-9a-f]+ message \d+ ?(.*)$", content, re.MULTILINE)

    assert times(timedelta())[:6] == ["Mon 2026-03-02 09:00", *[""] * 5]
    assert times(timedelta(minutes=2))[:3] == ["Mon 2026-03-02 09:00", "09:02", "09:04"]
    assert times(timedelta(days=1))[:2] == ["Mon 2026-03-02 09:00", "Tue 2026-03-03 09:00"]


def test_a_long_handle_costs_what_it_has():
    assert heading_tokens("35") < heading_tokens("mem_01jd8x2v5k3q7w9z4y6t8r0p2m")
    assert heading_tokens("35") == heading_tokens("123")


def test_who_asked_comes_after_who_answered():
    asks = "Which colour will the harbour crane get from the painters?"
    answers = "The harbour crane got a grey-green colour from the painters."
    filler = talk(10)[10:]
    jit = ContextJIT(left_out(asks, *filler, answers, *filler), timeout=None)
    sections = jit.answer(call("colour of the harbour crane")).sections
    best = max(sections, key=lambda section: section.relevance)
    assert answers in str(best.content)


# In budget: an answer is no larger than was said, and a model that asks has room for it.


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
    """The next prompt makes room for an answer that goes over the soft limit."""
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
