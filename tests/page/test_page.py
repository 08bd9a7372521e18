"""The page: valid HTML, every message, the model's view on the right, nothing that runs."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from markupsafe import Markup

import rehydrate
from rehydrate import Scoring, compact_context, formats
from rehydrate._native import DivisibleTexts
from rehydrate.errors import InvalidArgumentError
from rehydrate.page import comparison, html, side_by_side
from rehydrate.page.comparison import rows
from tests.compact.cases import Case, cases, talk
from tests.compact.test_excerpts import LONG_TEXTS, long_cases
from tests.memory.plain import PlainStore
from tests.page.reading import Page

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "examples" / "session.jsonl"
HOSTILE = (
    "</script></style></title><script>alert(1)</script> <img src=x onerror=alert(2)> "
    "&lt; ]]> --> <!-- \x00 \x1b[31m \ud800 \ufffe \U0001ffff \u202e 日本 שלום \r\n end"
)


def shown(case: Case) -> tuple[rehydrate.Compaction, Page]:
    compaction = case.compact()
    page = side_by_side(case.entries, compaction, query=case.options["query"], title="t")
    return compaction, Page(page)


def on_page(text: str) -> str:
    """Return a text as the parser of the page returns it."""
    return unescape(escaped(text))


def escaped(text: str) -> str:
    """Return a text as a template writes it."""
    return html.templates().from_string("{{ text }}").render(text=text)


def check_every_text(entries: list[Any], compaction: rehydrate.Compaction, page: Page) -> None:
    """Check the sides: left is the input, right is what the model sees, without dropped text."""
    form = compaction.stats.format
    parted = compaction._reasons.parted
    conversation = parted.read() if parted else formats.parse(entries, form)
    cut = {parted.origins[place] for place in parted.blocks} if parted else set()
    made = dict(zip(compaction.indices, compaction.messages, strict=True))
    read, _ = (conversation, entries) if parted else formats.read(entries, form)
    split = DivisibleTexts(read, parted.entries if parted else entries).conversation
    divided = {message.index: message for message in split.messages}
    for number, (unit, row) in enumerate(
        zip(conversation.units, compaction.explain(), strict=True)
    ):
        # A call whose input was divided shows its long strings after it, as texts of their own.
        sides = (unit.messages, [divided.get(each.index, each) for each in unit.messages])
        was = {
            on_page("".join(piece.text for message in side for piece in message.pieces))
            for side in sides
        }
        assert "".join(page.of("was", number, "text")) in was
        right = [page.of("now", number, "text", "mark", "who")]
        if not row.kept:
            assert right == [[]]
            assert page.of("now", number, "fate") == ["dropped"]
            continue
        if not cut.isdisjoint(row.messages):
            continue  # the model sees it in a message with other parts
        if any(divided.get(each.index, each) is not each for each in unit.messages):
            continue  # its long strings are shown after their call, without the escapes of JSON
        kept = formats.parse([made[index] for index in row.messages], form).messages
        seen = "".join(on_page(piece.text) for message in kept for piece in message.pieces)
        shown = "".join(page.of("now", number, "text", "mark"))
        assert shown.replace("\n", "") == seen.replace("\n", "")


@given(long_cases())
def test_left_is_what_came_in_and_right_what_the_model_sees(case: Case):
    compaction, page = shown(case)
    check_every_text(case.entries, compaction, page)


@given(cases(broken=True))
def test_damaged_conversations_of_every_format_have_a_page_too(case: Case):
    compaction, page = shown(case)
    assert sum(box.classes == {"fate"} for box in page.boxes) == compaction.stats.units


@given(long_cases())
def test_every_unit_says_its_fate_and_every_message_its_place(case: Case):
    compaction, page = shown(case)
    made = dict(zip(compaction.indices, compaction.messages, strict=True))
    cut = case.cut()
    for row in compaction.explain():
        in_part = any(
            made.get(i, case.entries[i]) is not case.entries[i]
            for i in row.messages
            if i not in cut
        ) or any(not block.kept for block in row.blocks)
        fate = ("kept in part" if in_part else "kept") if row.kept else "dropped"
        assert page.of("now", row.unit, "fate") == [fate]
        if len(row.messages) > 1:
            places = [who.split(" · ")[0] for who in page.of("was", row.unit, "who")]
            assert places == [str(index) for index in row.messages]
    assert "hide what was dropped" in page.text


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_every_kind_of_excerpt_shows_its_marks_where_the_model_sees_them(name: str):
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS[name]}]
    messages += talk("user: go on")
    compaction = compact_context(messages, target_ratio=0.4, granularity="excerpt", format="plain")
    page = Page(side_by_side(messages, compaction))
    marks = page.of("now", 1, "mark")
    assert marks
    assert all(re.fullmatch(r"\[\.\.\. [\d,]+ \w+ omitted, \d+(-\d+)? \.\.\.\]", m) for m in marks)
    assert page.of("was", 1, "mark") == []
    check_every_text(messages, compaction, page)


def test_marks_name_the_memory_that_has_the_whole_text_as_they_do_for_the_model():
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["log"]}]
    messages += talk("user: go on")
    memory = rehydrate.Memory(PlainStore(), namespace="alice")
    compaction = compact_context(
        messages,
        target_ratio=0.4,
        granularity="excerpt",
        format="plain",
        memory=memory,
        archive=True,
    )
    marks = Page(side_by_side(messages, compaction)).of("now", 1, "mark")
    (handle,) = {block.handle for block in compaction.explain().units[1].blocks}
    assert memory.get(handle).text == LONG_TEXTS["log"]
    assert marks
    assert all(f", {handle} " in mark for mark in marks)
    assert all(mark in compaction.messages[1]["content"] for mark in marks)


def test_a_forged_mark_is_text_and_no_mark_of_the_page():
    messages = [*talk("user: [... 42 lines omitted, 118-159 ...]")]
    page = Page(side_by_side(messages, compact_context(messages)))
    assert page.of("now", 0, "mark") == []
    assert page.of("now", 0, "text") == ["[... 42 lines omitted, 118-159 ...]"]


@pytest.mark.parametrize("hostile", [HOSTILE, Markup(HOSTILE)], ids=["text", "Markup"])
@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0])
def test_nothing_in_a_message_becomes_markup(ratio: float, hostile: str):
    messages: list[dict[str, Any]] = [
        {"role": "<b>" + hostile, "content": hostile},
        {"role": "assistant", "content": hostile * 40},
        {"role": "user", "content": hostile},
    ]
    scoring = Scoring(structural={"<b>" + hostile: 1})
    compaction = compact_context(messages, hostile, ratio, granularity="excerpt", scoring=scoring)
    written = side_by_side(messages, compaction, query=hostile, title=hostile)
    assert "<script" not in written and "<img" not in written
    Page(written)  # refuses every element and attribute that the page itself does not use


def test_the_page_loads_nothing_and_runs_nothing():
    written = side_by_side(talk("user: hi"), compact_context(talk("user: hi")))
    assert "default-src 'none'" in written
    style = written.partition("<style>")[2].partition("</style>")[0]
    assert "prefers-color-scheme: dark" in style and "max-width" in style
    assert not re.search(r"url\(|@import|@font-face|https?:", written)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a<b>&\"'", "a&lt;b&gt;&amp;&#34;&#39;"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("\x00\x1b\x7f\x9b", "␀␛␡\ufffd"),
        ("\ud800\ufffe\ufdd0\U0001ffff\U0010fffe", "\ufffd" * 5),
        ("日本 🙂 \U00020000", "日本 🙂 \U00020000"),
    ],
)
def test_text_is_escaped_to_what_a_page_may_hold(text: str, safe: str):
    assert escaped(text) == safe


def test_the_same_session_gives_the_same_page():
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["log"]}]
    messages += talk("user: end")
    first, second = (
        side_by_side(messages, compact_context(messages, granularity="excerpt", format="plain"))
        for _ in range(2)
    )
    assert first == second


def test_long_texts_are_folded_and_very_long_ones_are_cut_and_say_so(monkeypatch):
    monkeypatch.setattr(html, "TEXT_CHARACTERS", 5_000)
    log = "".join(f"request_{n} served\n" for n in range(2_000))
    messages = [*talk("user: begin"), {"role": "assistant", "content": log}, *talk("user: end")]
    page = Page(side_by_side(messages, compact_context(messages, target_ratio=1.0)))
    beginning, rest = page.of("was", 1, "text")
    assert beginning.count("\n") == comparison.FOLD_LINES[True]
    assert beginning + rest == log[:5_000]
    left_out = f"{len(log) - 5_000:,} more characters are not shown on this page"
    assert page.of("was", 1, "cut") == page.of("now", 1, "cut") == [left_out]


def test_a_text_without_line_breaks_is_folded_at_a_blank():
    text = "word " * 2_000
    beginning, rest = comparison._folded(text, True)
    assert beginning + rest == text
    assert 0 < len(beginning) <= comparison.FOLD_CHARACTERS[True]
    assert comparison._folded("x" * 9_000, True)[0] == "x" * comparison.FOLD_CHARACTERS[True]


def test_a_huge_session_has_a_page_that_opens_and_sums_up_its_middle(monkeypatch):
    monkeypatch.setattr(comparison, "PAGE_MESSAGES", 2_000)
    text = "A line about request_7 <of> the log.\n" * 160
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": f"{n} {text}"} for n in range(3_000)
    ]
    compaction = compact_context(messages, target_ratio=0.3, counter="chars", embedder=None)
    written = side_by_side(messages, compaction)
    assert len(written.encode()) < 12_000_000
    assert "1,000 units 1000-1999" in written
    assert 'id="u999"' in written and 'id="u1000"' not in written


def test_room_is_shared_fairly():
    assert html.fair_share([100] * 10, room=1_000) == html.TEXT_CHARACTERS
    share = html.fair_share([10, 9_999, 9_999], room=1_010)
    assert share == 500
    assert html.fair_share([], room=0) == html.TEXT_CHARACTERS
    assert html.with_gap([*range(10)], 4) == [0, 1, html.Gap([*range(2, 8)]), 8, 9]
    assert html.with_gap([7, 8], 12, [100, 1]) == [7, 8]
    assert html.with_gap([], 1) == []


def test_a_page_of_other_messages_is_refused_with_the_remedy():
    compaction = compact_context(talk("user: hi"))
    with pytest.raises(InvalidArgumentError, match="pass the list that compact_context was given"):
        side_by_side(talk("user: hi", "assistant: ho"), compaction)
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["log"]}]
    messages += talk("user: end")
    compaction = compact_context(messages, granularity="excerpt", format="plain")
    other = [*messages[:1], {"role": "tool", "content": LONG_TEXTS["json"]}, *messages[2:]]
    with pytest.raises(InvalidArgumentError, match="pass the list that compact_context was given"):
        side_by_side(other, compaction)


def test_a_session_stripped_of_its_thinking_is_shown_without_it():
    thought = {"type": "thinking", "thinking": "Hmm, the port.", "signature": "c2ln"}
    messages = [
        {"role": "user", "content": "Which port?"},
        {"role": "assistant", "content": [thought]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "8443."}]},
        {"role": "user", "content": "Thanks."},
    ]
    page = side_by_side(messages, compact_context(messages, target_ratio=0.9, thinking="strip"))
    assert "Hmm" not in page
    assert "Thanks." in page


def test_an_empty_conversation_has_a_page_too():
    page = Page(side_by_side([], compact_context([])))
    assert "0 → 0 tokens" in page.text


def test_notices_say_what_was_done_without_and_that_the_budget_is_over():
    messages = talk("system: " + "x " * 500, "user: one", "assistant: two", "user: three")
    compaction = compact_context(
        messages, "one", 0.1, embedder=lambda texts: [][len(texts)], scoring="chitta"
    )
    text = Page(side_by_side(messages, compaction)).text
    assert "Over budget: what is always kept takes" in text
    assert "Done without: embedder" in text


@pytest.mark.parametrize("granularity", ["message", "excerpt"])
def test_the_example_session_is_on_its_page(granularity: str, monkeypatch):
    monkeypatch.setattr(html, "TEXT_CHARACTERS", 100_000)
    lines = (ROOT / "examples" / "session.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    compaction = compact_context(entries, "house rules", 0.1, granularity=granularity)
    written = side_by_side(entries, compaction, query="house rules", title="session.jsonl")
    page = Page(written)
    check_every_text(entries, compaction, page)
    stats = compaction.stats
    assert f"{stats.before_tokens:,} → {stats.after_tokens:,} tokens" in page.text
    assert len(page.links) == stats.units
    assert len(written) < 2_000_000
    fates = [row.fate for row in rows(entries, compaction)]
    assert (fates.count("excerpted") > 0) == (granularity == "excerpt")


def test_the_outline_is_where_the_first_gap_is_also_in_place_of_an_older_one():
    entries = [json.loads(line) for line in SESSION.read_text("utf-8").splitlines()]
    once = compact_context(entries, target_ratio=0.5, outline=True)
    again = compact_context(once.messages, target_ratio=0.5, outline=True)
    assert once.outline is not None and again.outline is not None and again.replaced
    for messages, compaction in ((entries, once), (once.messages, again)):
        page = side_by_side(messages, compaction)
        assert page.count(">outline</b>") == 1
        assert escaped(compaction.outline.text.split("\n")[2]) in page
