"""The table: everything once, in the order of the prompt, with what it costs and why."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from rehydrate.prompt import (
    DroppedSection,
    History,
    Meta,
    PromptIR,
    Provenance,
    Section,
    SourceReport,
    Trace,
)
from tests.prompt.example_irs import lawful_irs
from tests.prompt.test_verify import FOUND, LAWFUL, NOTES, SYSTEM, TALK


def test_rows_stand_in_the_order_in_which_a_provider_reads_them():
    rows = LAWFUL.explain().rows
    assert [row.id for row in rows] == [
        "tools.grep", "system", "hot", "history[0-3]", "mem_1", "history[4]",
    ]  # fmt: skip
    assert [row.breakpoint for row in rows] == [True, True, True, True, False, False]


def test_a_dynamic_section_stands_where_its_anchor_is():
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
