"""The page of a prompt: all content once, in order, readable, and nothing that runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from markupsafe import Markup

from rehydrate import Scoring, compact_context
from rehydrate.page import inspector, inspector_page
from rehydrate.prompt import (
    Budget,
    CompiledPrompt,
    ContextRequest,
    DroppedSection,
    History,
    Meta,
    PromptIR,
    Provenance,
    Section,
    SourceReport,
    ToolDef,
    Trace,
)
from tests.compact.cases import talk
from tests.page.reading import Page
from tests.page.test_page import HOSTILE, on_page
from tests.prompt.example_irs import lawful_irs
from tests.prompt.test_verify import FOUND, LAWFUL

RICH = LAWFUL.replace(
    meta=Meta(
        (SourceReport("semantic", "ok", 1, 4, 3.2), SourceReport("docs", "late", detail="slow")),
        (
            DroppedSection("mem_9", 30, "no room", "mem_9", "low", "prune"),
            DroppedSection("mem_1", 12, "cut to its best blocks", "mem_1", "normal", "prune"),
            *(DroppedSection(f"history[{n}]", 5, "an echo", by="echoes") for n in (7, 8)),
        ),
        (Trace("prune", 90, 40, ("mem_1",), ("from 90",), 1.5), Trace("order", 40, 40)),
        90,
        ("semantic: no embedder",),
    )
)


def texts_of(page: Page) -> list[str]:
    return [box.text for box in page.boxes if "text" in box.classes]


@given(lawful_irs())
def test_every_section_and_every_message_of_any_format_stands_on_its_page(ir: PromptIR):
    written = inspector_page(ir)
    page = Page(written)
    for section in ir.sections:
        assert section.id in page.text
        if isinstance(section.content, str):
            assert on_page(section.content) in texts_of(page)
    places = re.findall(r'class="place">history\[(\d+)\]', written)
    history = ir.history
    assert places == [str(history.entry_index(n)) for n in range(len(history.entries))]
    assert f"{ir.tokens:,} tokens" in page.text and "keeps every law" in page.text


def test_facts_of_the_prompt_are_shown():
    page = Page(inspector_page(RICH, title="session.jsonl"))
    for part in (
        "session.jsonl", f"{RICH.tokens} tokens", "of 100", "And staging?", "soft 100", "hard 200",
        "critical", "hierarchical", "trust 0.5", "always whole", "whole under", "4 left",
        "cache breakpoint: a prefix of 9 tokens", "90 tokens came in", "o200k_base",
        "Done without: semantic: no embedder", "4 pieces of 52 tokens", "2 entries; an echo",
        "history[7-8]", "slow", "3.2 ms", "from 90", "−50", "±0", "no change", "core.md",
    ):  # fmt: skip
        assert part in page.text, part
    assert set(page.links) == {"#prompt", "#left", "#sources", "#passes"}


def test_a_summary_is_readable_and_its_entries_are_named():
    content = "## Decisions\n- Use <b>SQLite</b>. (#5)\n- src/a.py: edited #12, #3\n- C#4, &#7;"
    summary = Section("summary", content, Provenance("summary"), tokens=9)
    written = inspector_page(LAWFUL.replace(sections=(summary,)))
    page = Page(written)
    assert content in texts_of(page)
    assert "names the entries #3 #5 #12" in page.text
    assert '<b class="heading">## Decisions</b>' in written and "&lt;b&gt;SQLite" in written
    many = Section("summary", " ".join(f"#{n}" for n in range(30)), Provenance("summary"), tokens=9)
    text = Page(inspector_page(LAWFUL.replace(sections=(many,)))).text
    assert "#22 #23 6 more" in text
    other = Section("notes", content, Provenance("notes"), tokens=9)
    assert "names the entries" not in inspector_page(LAWFUL.replace(sections=(other,)))


def test_rows_are_in_the_order_of_the_prompt_with_their_breakpoints():
    written = inspector_page(RICH)
    at = [
        written.index(f'<span class="what"><bdi>{row.id}</bdi>')
        for row in RICH.explain().rows
        if row.is_kept
    ]
    assert at == sorted(at)
    assert written.count('class="breakpoint"') == len(RICH.breakpoints)


def test_a_compiled_prompt_names_its_provider():
    compiled = CompiledPrompt("openai_chat", {"messages": []}, LAWFUL, (), "gpt-5")
    assert "openai_chat gpt-5" in Page(inspector_page(compiled)).text


@pytest.mark.parametrize(
    ("tokens", "soft", "shown"),
    [(40, "soft 100", "not on this bar"), (150, "soft 100", "hard 200"), (999, "soft 100", "hard")],
)
def test_the_bar_has_the_marks_that_are_in_reach(tokens: int, soft: str, shown: str):
    ir = PromptIR(
        ContextRequest(budget=Budget(100, 200)),
        (Section("a", "x", Provenance("mine"), tokens=tokens),),
    )
    written = inspector_page(ir)
    text = Page(written).text
    assert soft in text and shown in text
    assert all(float(share) <= 100 for share in re.findall(r"(?:width|left):([\d.]+)%", written))


def test_broken_laws_are_named():
    ir = LAWFUL.with_sections([FOUND] * 14).replace(breakpoints=(), meta=Meta())
    text = Page(inspector_page(ir)).text
    assert "breaks 13 laws" in text
    assert "two sections have the id 'mem_1'" in text and "and 1 more" in text


@pytest.mark.parametrize(
    "everywhere", [HOSTILE, Markup(HOSTILE), "\u202e\u2066 abc \u200f", "x" * 100_000]
)
def test_nothing_in_a_prompt_becomes_markup(everywhere: str):
    origin = Provenance(everywhere, (everywhere,), everywhere, everywhere, everywhere, everywhere)
    origin = replace(origin, trust=0.5, parents=(everywhere,))
    section = Section(everywhere, everywhere, origin, tokens=1, title=everywhere, handle=everywhere)
    ir = PromptIR(
        ContextRequest(everywhere),
        (section, replace(section, id="two", content=({"role": everywhere, "content": HOSTILE},))),
        (ToolDef(everywhere, everywhere, {everywhere: everywhere}, provenance=origin),),
        History(
            ({"role": everywhere, "content": everywhere}, {"role": "user", "content": HOSTILE})
        ),
        counter=everywhere,
        breakpoints=(everywhere,),
        meta=Meta(
            (SourceReport(everywhere, detail=everywhere),),
            (DroppedSection(everywhere, 1, everywhere, everywhere, everywhere, everywhere),),
            (Trace(everywhere, 1, 1, (everywhere,), (everywhere,)),),
            degraded=(everywhere,),
        ),
    )
    spoken = [{"role": everywhere, "content": HOSTILE}, *talk("user: hi")]
    units = compact_context(spoken, scoring=Scoring(structural={everywhere: 1})).explain()
    written = inspector_page(ir, units=units, title=everywhere)
    assert "<script" not in written and "<img" not in written
    Page(written)  # refuses every element and attribute that the page itself does not use


def test_a_direction_mark_never_is_outside_of_a_box_that_holds_its_effect():
    ir = PromptIR(sections=(Section("a\u202e", "b\u202e", Provenance("c\u202e"), tokens=1),))
    written = inspector_page(ir, title="d\u202e")
    head = written.partition("</head>")[2]
    for found in re.finditer("[^<>]*\u202e[^<>]*", head):
        opened = head[: found.start()].rpartition("<")[2]
        assert opened.startswith("bdi") or 'dir="auto"' in opened


def test_entries_that_are_no_messages_are_shown_as_they_are():
    ir = PromptIR(history=History((17, {"role": "user"}, object()), "anthropic"))
    page = Page(inspector_page(ir))
    assert "17" in texts_of(page) and "unreadable" in page.text


def test_entries_that_no_model_sees_say_so():
    lines = (
        {"type": "progress", "uuid": "p", "sessionId": "s"},
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hi"}},
    )
    page = Page(inspector_page(PromptIR(history=History(lines, "claude_code", (0, 3)))))
    assert "no model sees this entry" in page.text and "hi" in texts_of(page)


def test_media_are_counted_and_not_shown():
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    entry = {"role": "user", "content": [{"type": "image", "source": image}]}
    page = inspector_page(PromptIR(history=History((entry,), "anthropic", (1600,))))
    assert "1 medium, not shown" in page and "iVBOR" not in page


def test_the_scores_of_a_compaction_are_below():
    messages = talk("user: one", "assistant: two", "user: three")
    units = compact_context(messages, "one", budget_tokens=4).explain()
    text = Page(inspector_page(LAWFUL, units=units)).text
    for unit in units:
        assert f"{unit.score:.3f}" in text and unit.reason in text


def test_a_huge_prompt_has_a_page_that_opens_and_sums_up_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr(inspector, "ROWS", 40)
    monkeypatch.setattr(inspector, "LINES", 30)
    monkeypatch.setattr(inspector, "PAGE_MESSAGES", 2_000)
    text = "A line about request_7 <of> the log.\n" * 160
    entries = tuple(
        {"role": ("user", "assistant")[n % 2], "content": f"{n} {text}"} for n in range(3_000)
    )
    sections = [
        Section(f"s{n}", text, Provenance("knowledge", (f"i{n}",)), tokens=9) for n in range(100)
    ]
    gone = tuple(DroppedSection(f"g{n}", 3, f"reason {n % 9}") for n in range(10_000))
    ir = PromptIR(
        sections=tuple(sections),
        history=History(entries, "plain", (400,) * len(entries)),
        meta=Meta(dropped=gone),
    )
    units = compact_context(talk(*["user: x"] * 50)).explain()
    written = inspector_page(ir, units=units)
    Page(written)
    assert len(written.encode()) < 12_000_000
    assert "1,000 entries of 400,000 tokens: too many to show on this page" in written
    assert "9,970 more lines not shown on this page" in written
    assert "62 more pieces of" in written
    assert "20 more units not shown on this page" in written
    assert "more characters are not shown on this page" in written
    assert "1,111</b> for other reasons" in written


def test_the_same_ir_gives_the_same_page_that_loads_nothing():
    written = inspector_page(RICH)
    assert written == inspector_page(PromptIR.from_json(RICH.to_json()))
    assert "default-src 'none'" in written
    style = written.partition("<style>")[2].partition("</style>")[0]
    assert style.count("prefers-color-scheme: dark") == 2 and style.count("max-width: 760px") == 2
    assert not re.search(r"url\(|@import|@font-face|https?:", written)


def test_an_empty_ir_has_a_page_too():
    page = Page(inspector_page(PromptIR()))
    assert "0 tokens" in page.text and page.links == ["#prompt"]


def test_numbers_that_no_prompt_has_still_give_a_page():
    document: dict[str, Any] = json.loads(RICH.to_json())
    document["history"]["tokens"] = [-5, 10**18, 0, 0, 0]
    document["meta"]["sources"][0]["elapsed_ms"] = 1e300
    document["meta"]["dropped"][2]["section"] = "history[99999999999999999999]"
    Page(inspector_page(PromptIR.from_dict(document)))
