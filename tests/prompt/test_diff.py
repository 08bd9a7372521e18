"""What changed between two IRs: exactly what was changed, as a value and as text."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, strategies as st

from rehydrate.prompt import Change, ContextRequest, History, PromptIR, Provenance, Section
from tests.prompt.example_irs import TOOL, lawful_irs
from tests.prompt.test_verify import FOUND, LAWFUL, NOTES, SYSTEM, TALK, without_entries


@given(lawful_irs())
def test_an_ir_does_not_differ_from_itself_or_its_copy(ir: PromptIR):
    assert not ir.diff(ir)
    assert str(ir.diff(ir)).endswith("nothing changed")
    if ir.history.format != "langchain":
        assert not ir.diff(PromptIR.from_dict(ir.to_dict()))


@given(lawful_irs(), lawful_irs())
def test_there_and_back_swap_added_and_removed(one: PromptIR, other: PromptIR):
    there, back = one.diff(other), other.diff(one)
    assert (there.before_tokens, there.after_tokens) == (back.after_tokens, back.before_tokens)
    assert there.breakpoints_added == back.breakpoints_removed
    for changes, reverse in ((there.sections, back.sections), (there.history, back.history)):
        added = {change.id for change in changes if change.kind == "added"}
        assert added == {change.id for change in reverse if change.kind == "removed"}
    assert bool(there) == bool(back)


def test_each_kind_of_change_to_sections_is_told():
    other = Section("new", "x", Provenance("mine"), tokens=7)
    cut = replace(FOUND, content="Port.", tokens=2)
    there = LAWFUL.diff(LAWFUL.with_sections([SYSTEM, cut, other]))
    assert there.sections == (
        Change("hot", "removed", 2),
        Change("mem_1", "changed", 4, 2, ("content", "tokens")),
        Change("new", "added", 0, 7),
    )
    assert str(there).splitlines() == [
        f"{LAWFUL.tokens} -> {LAWFUL.tokens + 3} tokens",
        "  - hot removed: -2 tokens",
        "  ~ mem_1 changed: content, tokens; 4 -> 2 tokens",
        "  + new added: +7 tokens",
    ]


def test_a_section_that_changed_its_position_is_the_only_one_that_moved():
    there = LAWFUL.diff(LAWFUL.with_sections([FOUND, SYSTEM, NOTES]))
    assert [(change.id, change.kind) for change in there.sections] == [("mem_1", "moved")]


@given(st.permutations(range(8)))
def test_what_did_not_move_stands_in_its_old_order_and_no_fewer_could_have_moved(order):
    sections = [Section(f"s{n}", "x", Provenance("mine")) for n in range(8)]
    there = (
        PromptIR()
        .with_sections(sections)
        .diff(PromptIR().with_sections([sections[n] for n in order]))
    )
    moved = {change.id for change in there.sections}
    stayed = [n for n in order if f"s{n}" not in moved]
    assert stayed == sorted(stayed)
    longest = [1] * 8  # the slow, obvious longest ascending run
    for n in range(8):
        longest[n] += max((longest[m] for m in range(n) if order[m] < order[n]), default=0)
    assert len(stayed) == max(longest)


def test_entries_are_compared_by_their_entry_index():
    there = LAWFUL.diff(without_entries(1, 2))
    assert there.history == (Change("history[1]", "removed", 9), Change("history[2]", "removed", 6))
    capped = {**TALK[3], "content": "84"}
    history = replace(LAWFUL.history, entries=(*TALK[:3], capped, TALK[4]))
    assert LAWFUL.diff(LAWFUL.replace(history=history)).history == (
        Change("history[3]", "changed", 3, 3),
    )


def test_tools_breakpoints_and_the_request_are_compared():
    read = replace(TOOL, name="read")
    other = LAWFUL.replace(
        tools=(read, replace(TOOL, tokens=5)),
        breakpoints=("tools", "mem_2"),
        request=ContextRequest("Other?", budget=LAWFUL.budget),
    )
    there = LAWFUL.diff(other)
    assert [(change.id, change.kind) for change in there.tools] == [
        ("tools.read", "added"),
        ("tools.grep", "changed"),
    ]
    assert there.breakpoints_added == ("mem_2",)
    assert there.breakpoints_removed == ("system", "hot", "history[3]")
    assert there.request == ("query",)
    assert "request.query changed" in str(there)
    swapped = other.diff(other.replace(tools=other.tools[::-1]))
    assert [(change.id, change.kind) for change in swapped.tools] == [("tools.grep", "moved")]
    assert [change.kind for change in other.diff(LAWFUL).tools] == ["removed", "changed"]


def test_the_text_of_many_changes_stays_short():
    history = History(tuple({"role": "user", "content": str(n)} for n in range(500)))
    text = str(PromptIR().diff(PromptIR(history=history)))
    assert "and 480 more" in text
    assert len(text.splitlines()) < 30
