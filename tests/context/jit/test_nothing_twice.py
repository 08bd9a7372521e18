"""Nothing twice: what the model sees, from wherever it has it, is not sent again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rehydrate import Budget, Context, Memory
from rehydrate.context import ContextJIT
from rehydrate.memory import MemoryItem
from rehydrate.prompt import HydrationSource, Provenance, Section
from tests.context.jit.test_jit import BILLING, NOON, answer_of, call, fetch, long_conversation

RAIN = "It rains."


def says(text: Any) -> HydrationSource:
    """A source with something to say of everything but a greeting."""
    return HydrationSource("weather", lambda request: None if request.query == "hello" else text)


def begun(*sources: Any, **options: Any) -> tuple[Context, ContextJIT]:
    context = Context(sources, timeout=None, clock=NOON.timestamp, **options)
    jit = ContextJIT(context, timeout=None, clock=NOON.timestamp)
    context.prompt("hello")
    return context, jit


def compacted() -> Context:
    """A conversation whose next prompt shows the end only."""
    budget = Budget(soft_tokens=3_000, hard_tokens=10**7, compact_to=0.5)
    context = Context(budget=budget, clock=NOON.timestamp)
    context.add(*long_conversation())
    return context


def test_a_text_that_no_item_names_is_sent_to_one_of_two_calls():
    _, jit = begun(says(RAIN))
    answers = [jit.handle(call("rain", id_))["content"] for id_ in ("t1", "t2")]
    assert str(answers).count(RAIN) == 1


def test_the_sources_of_the_next_turn_do_not_repeat_what_a_call_brought():
    context, jit = begun(says(RAIN))
    answer_of(context, jit, call("rain"))
    context.prompt()
    context.add({"role": "assistant", "content": "It does."})
    assert str(context.prompt("And now?").request).count(RAIN) == 1
    assert context.ir.verify() == []


def test_a_sources_next_section_is_next_to_what_a_call_brought_from_it():
    said = [None, RAIN, "It snows.", RAIN]
    context, jit = begun(HydrationSource("weather", lambda request: said.pop(0)))
    answer_of(context, jit, call("rain"))
    for _ in range(2):
        context.prompt()
        context.add({"role": "assistant", "content": "So it does."})
        context.prompt("And now?")
        assert context.ir.verify() == []
    assert [section.content for section in context.ir.sections] == ["It snows.", RAIN]


def test_a_section_of_several_items_names_those_that_no_call_brought():
    def notes(request):
        if request.query == "hello":
            return None
        items = ("a",) if request.query == "first" else ("a", "b")
        return Section("notes", " and ".join(items), Provenance("notes", items, trust=0.5))

    context, jit = begun(HydrationSource("notes", notes))
    answer_of(context, jit, call("first"))
    context.prompt()
    context.add({"role": "assistant", "content": "ok"})
    context.prompt("both")
    assert [section.provenance.items for section in context.ir.sections] == [("b",)]
    assert context.ir.verify() == []


def test_a_memory_of_a_message_does_not_come_in_addition_to_the_message(tmp_path):
    context = compacted()
    with Memory.open(tmp_path / "m.db") as memory:
        alice = memory.within("alice")
        alice.add(MemoryItem(BILLING, source="billing.md"))
        jit = ContextJIT(context, sources=alice, timeout=None, budget_tokens=2_000)
        context.prompt("Which of the last berths is the widest?")
        assert jit.handle(call("billing webhook retries"))["content"].count(BILLING) == 1


def test_the_whole_of_an_item_comes_after_parts_of_it(tmp_path):
    lines = [f"rule {number}: pay {number * 7} crowns for a berth" for number in range(1_500)]
    lines[300] = "The mast limit at Sluis is 24 metres."
    lines[1_200] = "Cats are not allowed in the customs house."
    with Memory.open(tmp_path / "m.db") as memory:
        alice = memory.within("alice")
        context = Context([alice], timeout=None)
        jit = ContextJIT(context, timeout=None, budget_tokens=50_000)
        context.prompt("hello")
        (rules,) = alice.add(MemoryItem("\n".join(lines), source="rules.md"))
        for id_, query in (("t1", "mast limit at Sluis"), ("t2", "cats in the customs house")):
            assert rules.handle in answer_of(context, jit, call(query, id_))
        assert "\n".join(lines) == answer_of(context, jit, fetch(rules.handle))
        context.prompt()
        assert len(context.ir.late_bound) == 3
        assert context.ir.verify() == []


def test_the_rest_comes_in_the_order_in_which_it_was_said():
    context = compacted()
    jit = ContextJIT(context, budget_tokens=400, max_calls=100)
    context.add(*long_conversation(30))
    context.prompt("Tell me about all the berths.")
    answered = jit.answer(call("berth metres wide harbour"))
    rest = jit._retriever.remainders.get(
        "rest_" + answered.content.rpartition("rest_")[2].split()[0]
    )
    places = [int(section.id.rpartition(":")[2]) for section in rest]
    assert len(places) > 3
    assert places == sorted(places)


def test_an_answer_that_was_compacted_away_is_not_found_next_to_what_it_showed():
    context = compacted()
    jit = ContextJIT(context, budget_tokens=1_000, clock=NOON.timestamp)
    context.prompt("Which of the last berths is the widest?")
    answer_of(context, jit, call("billing webhook retries"))
    context.prompt()
    context.add({"role": "assistant", "content": "The person on call."})
    context.add({"role": "user", "content": "Now about the berths. " * 10})
    context.compact(500)
    context.prompt()
    assert context.ir.late_bound == ()
    again = jit.handle(call("billing webhook retries", "toolu_2"))["content"]
    assert again.count(BILLING) == 1
    assert "calls request_context" not in again


def test_a_part_of_a_text_that_was_read_already_says_where_to_go_on():
    context, jit = begun(budget=Budget(soft_tokens=60_000, hard_tokens=10**7))
    handle = context.originals.put("the same line every time\n" * 4_000)
    first = answer_of(context, jit, fetch(handle, "t1"))
    again = answer_of(context, jit, fetch(handle, "t2"))
    assert "are in front of you already" in again
    assert again.rpartition("offset ")[2] == first.rpartition("offset ")[2]
    context.prompt()
    assert context.ir.verify() == []


def test_a_note_that_was_loaded_is_not_loaded_again(tmp_path):
    with Memory.open(tmp_path / "m.db") as memory:
        alice = memory.within("alice")
        _, jit = begun(alice)
        alice.add(MemoryItem(BILLING, source="decisions.md"))
        asked = {"type": "tool_use", "name": "load_memory", "input": {"name": "decisions.md"}}
        answers = [jit.handle({**asked, "id": id_})["content"] for id_ in ("t1", "t2")]
        assert answers[0] == BILLING
        assert "in front of you already" in answers[1]


def test_a_call_that_is_sent_again_while_it_is_under_way_has_the_same_answer():
    context = compacted()
    jit = ContextJIT(context, budget_tokens=1_000)
    context.prompt("Which of the last berths is the widest?")
    asked = call("billing webhook retries")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(jit.handle, [asked] * 6))
    assert BILLING in answers[0]["content"]
    assert all(answer == answers[0] for answer in answers)
