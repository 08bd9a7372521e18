"""Looking: a conversation may have several memories, and sources that nobody named apart."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate import Context, Memory
from rehydrate.context import ContextJIT
from rehydrate.errors import MissingNamespaceError
from rehydrate.memory import MemoryItem
from rehydrate.prompt import HydrationSource
from rehydrate.prompt.sources.memory import semantic

SLUIS = "The harbour master of Sluis is called Anneke van Dam."
VEERE = "The harbour master of Veere is called Pieter de Wit."


def asked(query: str, **arguments: Any) -> dict[str, Any]:
    given = {"query": query, **arguments}
    return {"type": "tool_use", "id": "t1", "name": "request_context", "input": given}


@pytest.fixture
def memories(tmp_path):
    """Two of them, each with one item."""
    with Memory.open(tmp_path / "one.db") as one, Memory.open(tmp_path / "other.db") as other:
        bound = [one.within("anneke"), other.within("pieter")]
        for memory, text in zip(bound, (SLUIS, VEERE), strict=True):
            memory.add(MemoryItem(text, source="masters.md"))
        yield bound


def test_the_jits_memory_is_asked_in_addition_to_the_contexts(memories):
    one, other = memories
    context = Context(one, timeout=None)
    jit = ContextJIT(context, sources=other, timeout=None)
    context.add({"role": "user", "content": "hello"})
    found = jit.answer(asked("harbour master"))
    assert {section.provenance.source for section in found.sections} == {"semantic", "semantic 2"}
    assert SLUIS in found.content
    assert VEERE in found.content


def test_a_context_takes_several_memories(memories):
    context = Context(memories, timeout=None)
    jit = ContextJIT(context, timeout=None)
    prompt = context.prompt("Who is the harbour master?")
    assert SLUIS in str(prompt.request)
    assert VEERE in str(prompt.request)
    assert context.ir.verify() == []
    assert "Nothing was found" in jit.handle(asked("harbour master"))["content"]


def test_a_memory_that_both_have_is_asked_once(memories):
    one, _ = memories
    context = Context([one], timeout=None)
    jit = ContextJIT(context, sources=[one], timeout=None)
    context.add({"role": "user", "content": "hello"})
    assert jit.handle(asked("harbour master"))["content"].count(SLUIS) == 1


def test_sources_of_one_name_are_both_asked():
    sources = [HydrationSource("notes", lambda request: SLUIS)]
    context = Context(sources, timeout=None)
    jit = ContextJIT(context, sources=HydrationSource("notes", lambda request: VEERE))
    context.add({"role": "user", "content": "hello"})
    content = jit.handle(asked("harbour master"))["content"]
    assert SLUIS in content
    assert VEERE in content


def test_a_memory_that_nobody_can_ask_is_refused_at_once(tmp_path):
    with Memory.open(tmp_path / "m.db") as memory:
        with pytest.raises(MissingNamespaceError, match="within"):
            ContextJIT(Context(), sources=memory)
        assert ContextJIT(Context(namespace="alice"), sources=memory)


def test_sources_that_come_from_an_iterator_are_asked_in_every_turn():
    context = Context((source for source in [lambda request: SLUIS]), timeout=None)
    ContextJIT(context)
    assert SLUIS in str(context.prompt("hello").request)


def test_what_a_source_of_a_memory_brings_in_part_is_read_by_its_handle(memories):
    one, _ = memories
    rules = "\n".join(f"rule {number}: pay {number * 7} crowns" for number in range(1_500))
    (item,) = one.add(MemoryItem(f"{rules}\nThe mast limit at Sluis is 24 metres."))
    context = Context(semantic(one), timeout=None)
    jit = ContextJIT(context, timeout=None)
    context.add({"role": "user", "content": "hello"})
    sections = jit.answer(asked("mast limit at Sluis")).sections
    (part,) = [section for section in sections if section.handle]
    assert part.handle == item.handle
    fetch = {"type": "tool_use", "id": "t2", "name": "fetch_whole"}
    page = jit.handle({**fetch, "input": {"handle": part.handle}})["content"]
    assert page.startswith("rule 0: pay 0 crowns\nrule 1:")


def line(uuid: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    """A line of a transcript."""
    said = {"role": role, "content": text}
    return {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": said}


def test_a_branch_that_was_taken_back_since_the_last_call_is_not_found():
    context = Context(format="claude_code")
    jit = ContextJIT(context)
    context.add(line("u1", None, "user", "Plan it."), line("a1", "u1", "assistant", "Yes."))
    context.add(line("u2", "a1", "user", "The mooring code is zebra. " * 40))
    context.add(line("a2", "u2", "assistant", "Piers and cranes. " * 400))
    context.add(line("u3", "a2", "user", "Go on."))
    context.compact(300)
    assert "zebra" in jit.handle(asked("mooring code"))["content"]
    context.add(line("u9", "a1", "user", "Plan a garden instead."))
    context.prompt()
    assert "zebra" not in jit.handle(asked("the code of the mooring"))["content"]
