"""The difference of two IRs is exactly the change that was made, as a value and as text."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate._native import Layout
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.prompt import (
    PROVIDERS,
    Budget,
    Change,
    ContextRequest,
    DroppedSection,
    History,
    Meta,
    PromptIR,
    Provenance,
    Section,
    SourceReport,
    Target,
    Trace,
    compile,
)
from rehydrate.prompt.compiler import lay_out
from tests.prompt.example_irs import TOOL, lawful_irs
from tests.prompt.test_verify import FOUND, LAWFUL, NOTES, SYSTEM, TALK, without_entries
from tests.rendered import render_history
from tests.sizes import sized
from tests.strategies import conversations, damaged


@given(lawful_irs())
def test_an_ir_does_not_differ_from_itself_or_its_copy(ir: PromptIR):
    assert not ir.diff(ir)
    assert str(ir.diff(ir)).endswith("nothing changed")
    if ir.history.format != "langchain":
        copy = PromptIR.from_dict(ir.to_dict())
        # Bytes of Converse become base64 in JSON, once.
        original = copy if ir.history.format == "bedrock" else ir
        assert not original.diff(PromptIR.from_dict(copy.to_dict()))


@given(lawful_irs(), lawful_irs())
def test_there_and_back_swap_added_and_removed(one: PromptIR, other: PromptIR):
    there, back = one.diff(other), other.diff(one)
    assert (there.before_tokens, there.after_tokens) == (back.after_tokens, back.before_tokens)
    assert there.breakpoints_added == back.breakpoints_removed
    for changes, reverse in ((there.sections, back.sections), (there.history, back.history)):
        added = {change.id for change in changes if change.kind == "added"}
        assert added == {change.id for change in reverse if change.kind == "removed"}
    assert bool(there) == bool(back)


@pytest.mark.parametrize("index", [-1, 10**16, 2**64])
def test_an_entry_index_that_is_invalid_is_named_with_its_limits(index: int):
    history = replace(LAWFUL.history, entry_indices=(0, 1, 2, 3, index))
    ir = replace(LAWFUL, history=history)
    for ask in (ir.explain, lambda: ir.diff(LAWFUL), lambda: compile(ir)):
        with pytest.raises(InvalidArgumentError) as caught:
            ask()
        assert f"entry_indices[4] is {index}" in str(caught.value)
        assert "a whole number from 0 to 9999999999999999" in str(caught.value)


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        (("a", 1, 2, 3, 4), "entry_indices[0] is 'a'; pass the entry's index"),
        ((0, 1, None, 3, 4), "entry_indices[2] is None; pass the entry's index"),
        ((0, 1, 2, 3), "entry_indices has 4 numbers for 5 entries; give each entry one"),
    ],
)
def test_entries_without_an_index_each_are_refused_by_name(indices: Any, said: str):
    bad = replace(LAWFUL.history, entry_indices=indices)
    ir = replace(LAWFUL, history=bad, request=ContextRequest("Go", budget=Budget(12, 1_000)))

    def damage(ir: PromptIR, _target: Target) -> PromptIR:
        return ir.replace(history=replace(ir.history, entry_indices=indices))

    lawful = replace(ir, history=LAWFUL.history)
    for ask in (
        lambda: compile(ir),
        lambda: compile(lawful, passes=[damage]),
        ir.explain,
        lambda: ir.diff(LAWFUL),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            ask()
        assert f"history: {said}" in str(caught.value)


def test_each_kind_of_change_to_sections_is_reported():
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


# The table: everything once, in the order of the prompt, with what it costs and why.


def test_rows_are_in_the_order_in_which_a_provider_reads_them():
    rows = LAWFUL.explain().rows
    assert [row.id for row in rows] == [
        "tools.grep", "system", "hot", "history[0-3]", "mem_1", "history[4]",
    ]  # fmt: skip
    assert [row.breakpoint for row in rows] == [True, True, True, True, False, False]


def test_a_dynamic_section_is_where_its_anchor_is():
    ir = LAWFUL.with_sections([NOTES, SYSTEM, replace(FOUND, anchor=0)])
    rows = [row.id for row in ir.replace(breakpoints=()).explain().rows]
    assert rows == ["tools.grep", "system", "hot", "mem_1", "history[0-4]"]
    gone = replace(LAWFUL.history, entries=TALK[3:], tokens=(3, 4), entry_indices=(3, 4))
    ir = LAWFUL.with_sections([replace(FOUND, anchor=4)]).replace(history=gone, breakpoints=())
    rows = [row.id for row in ir.explain().rows]
    assert rows == ["tools.grep", "history[3]", "mem_1", "history[4]"]


@given(lawful_irs())
def test_the_rows_add_up_and_name_everything_once(ir: PromptIR):
    table = ir.explain()
    kept = [row for row in table.rows if row.is_kept]
    assert sum(row.tokens for row in kept) == table.tokens == sum(table.by_source.values())
    assert {row.id for row in kept if row.kind == "section"} == {one.id for one in ir.sections}
    entries = [n for row in kept if row.kind == "history" for n in range(row.first, row.last + 1)]
    assert entries == list(range(len(ir.history.entries)))
    assert sum(row.breakpoint for row in kept) == len(ir.breakpoints)
    assert str(table) and table.to_dict()["tokens"] == ir.tokens


def test_the_text_has_the_budget_the_fates_the_sources_and_the_passes():
    ir = LAWFUL.replace(
        meta=Meta(
            (SourceReport("semantic", "ok", 1, 4, 3.21), SourceReport("docs", "late", detail="no")),
            (DroppedSection("mem_9", 30, "no room", "mem_9", "low", "prune"),
             DroppedSection("history[7]", 9, "an echo", None, "", "remove_echoes")),
            (Trace("cap", 90, 49, ("mem_1", "history[4]"), ("from 40",), 1.5),),
            90,
            ("semantic: no embedder",),
        )
    )  # fmt: skip
    text = str(ir.explain())
    for part in (
        f"{ir.tokens} of 100 tokens", "hard limit 200", "by source: tools 9, system 4, hot 2",
        "sources brought 90 tokens", "always whole: critical BREAKPOINT", "passes: cap",
        "1 changed by passes", "dropped  no room", "an echo (remove_echoes)", "late", "3.2",
        "from 40", "done without: semantic: no embedder",
    ):  # fmt: skip
        assert part in text, part


def test_nothing_foreign_moves_a_line_of_the_text():
    hostile = "a\nb\x1b[31m\u202e"
    section = Section(hostile, "x", Provenance(hostile), tokens=1)
    dropped = DroppedSection(hostile, 1, hostile, by=hostile)
    table = PromptIR(sections=(section,), meta=Meta(dropped=(dropped,))).explain()
    assert "\x1b" not in str(table) and "\u202e" not in str(table)
    assert len(str(table).splitlines()) == 6  # two of the budget, a blank, the head, two rows


def test_an_unreadable_history_has_a_table_too():
    ir = PromptIR(sections=(FOUND,), history=History((17, 18), "anthropic", (1, 1)))
    assert [row.id for row in ir.explain().rows] == ["history[0-1]", "mem_1"]


def gone(index: int, reason: str = "no room") -> DroppedSection:
    return DroppedSection(f"history[{index}]", 10, reason, f"mem_{index}", "normal", "prune")


def test_entries_that_went_together_are_one_row():
    history = History(TALK[3:], "anthropic", (3, 4), (5, 9))
    dropped = (gone(0), gone(1), gone(3), gone(6), gone(7, "an echo"), gone(8, "an echo"))
    rows = PromptIR(history=history, meta=Meta(dropped=dropped)).explain().rows
    assert [(row.id, row.tokens, row.entries) for row in rows if not row.is_kept] == [
        ("history[0..3]", 30, 3), ("history[6]", 10, 1), ("history[7-8]", 20, 2),
    ]  # fmt: skip
    assert rows[0].id == "history[5..9]"
    assert [row.handle for row in rows[1:]] == [None, "mem_6", None]


def test_a_section_that_is_there_in_part_was_cut_and_not_dropped():
    cut = DroppedSection("mem_1", 30, "cut to its best blocks", "mem_1", "normal", "prune")
    rows = LAWFUL.replace(meta=Meta(dropped=(cut,))).explain().rows
    assert [row.kind for row in rows if row.id == "mem_1"] == ["section", "cut"]


# A history that goes on is converted from where it is new, as if it were converted whole.


class Converted:
    """Lays out histories that go on from one another, each with what the last one became."""

    def __init__(self, provider: Any) -> None:
        self._target = Target(provider)

    def of(self, history: History) -> list[Any]:
        """The system blocks and the messages, which are those of the whole history."""
        provider, cache, ir = (
            self._target.provider,
            self._target.render_cache,
            PromptIR(history=history),
        )
        whole = render_history(history.entries, history.format, provider)
        made = lay_out(ir, self._target)
        cache.note(Layout, history, made)
        begins = [segment.id == "beginning" for segment in made.segments]
        values = [value for value, is_ours in zip(made.values, begins, strict=True) if not is_ours]
        assert values == [each.message for each in (*whole.system, *whole.messages)]
        lost = {what: {*map(history.entry_index, rows)} for what, rows in whole.lost.items()}
        assert made.lost == lost
        fresh = lay_out(ir, Target(provider))
        assert (made.segments, made.values) == (fresh.segments, fresh.values)
        return values


def grown(history: History, entries: Any) -> History:
    first = history.indices[-1] + 1 if history.entries else 0
    indices = tuple(range(first, first + len(entries)))
    return history.followed_by(
        History(tuple(entries), history.format, (1,) * len(entries), indices)
    )


@settings(max_examples=sized(8, 12))
@given(st.data())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_history_that_grows_is_converted_as_a_whole_one(
    provider: Any, data: st.DataObject
) -> None:
    format_, entries = data.draw(conversations())
    if data.draw(st.booleans()):
        entries = data.draw(damaged(entries))
    converted = Converted(provider)
    ends = data.draw(st.sets(st.integers(1, max(len(entries), 1))))
    history = History((), format_)
    for end in sorted({*ends, len(entries)}):
        history = grown(history, entries[len(history.entries) : end])
        with suppress(InvalidMessageError):
            converted.of(history)


@settings(max_examples=sized(8, 12))
@given(st.data())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_history_that_loses_entries_is_converted_as_a_whole_one(
    provider: Any, data: st.DataObject
) -> None:
    """A compaction takes units out, and the next messages come after what stays."""
    format_, entries = data.draw(conversations())
    converted, left = Converted(provider), list(entries)
    history = History((), format_)
    while left:
        count = data.draw(st.integers(1, 3))
        shown = [row for row in range(len(history.entries)) if data.draw(st.integers(0, 3))]
        history = grown(history.select(shown), left[:count])
        del left[:count]
        with suppress(InvalidMessageError):
            converted.of(history)


def test_entries_that_were_in_one_message_may_part() -> None:
    user = {"role": "user", "content": "a"}
    one = {"role": "assistant", "content": "b"}
    made = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    call = {"role": "assistant", "content": None, "tool_calls": [made]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
    more = {"role": "user", "content": "d"}
    converted = Converted("anthropic")
    history = grown(History((), "openai_chat"), (user, one, call, result))
    converted.of(history)
    converted.of(grown(history.select((0, 1)), (more,)))


def test_results_that_lost_their_function_call_are_converted_as_a_whole() -> None:
    result = {"role": "function", "name": "ls", "content": "a.py"}
    said = {"role": "assistant", "content": "Done."}
    made = {"name": "ls", "arguments": "{}"}
    call = {"role": "assistant", "content": None, "function_call": made}
    converted = Converted("anthropic")
    history = grown(History((), "openai_chat"), (result, said, call))
    converted.of(history)
    converted.of(grown(history.select((0, 1)), (result,)))


def test_what_was_there_stays_the_very_object() -> None:
    history = grown(History((), "openai_chat"), [{"role": "system", "content": "Be brief."}])
    converted = Converted("anthropic")
    messages: list[Any] = []
    for turn in range(40):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        entries: list[Any] = [
            {"role": "user", "content": f"Question {turn}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "a.py"},
        ]
        history = grown(history, entries)
        later = converted.of(history)[1:]
        known = len(messages) - 2  # the last turn is read again
        assert all(one is two for one, two in zip(messages[:known], later, strict=False))
        messages = later
