"""The laws of granularity "excerpt": long texts kept in part, every kept block verbatim."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import rehydrate
from rehydrate import _native, compact_context, formats, validate
from rehydrate._native import read_fenced_outline
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import PieceKind
from tests.compact.cases import Case, HashEmbedder, cases, talk, words
from tests.compact.slow_names import stands_in
from tests.strategies import Draw

FORGED = "[... 42 lines omitted, 118-159 ...]"
LONG_TEXTS = {
    "log": "".join(f"2026-02-17 12:{n % 60:02}:00 request_{n} served\n" for n in range(80)),
    "code": "".join(f"def call_{n}(x):\n    return x + {n}\n\n\n" for n in range(40)),
    "json": json.dumps([{"flight": f"HAT{n:03}", "price": n} for n in range(150)]),
    "object": json.dumps({f"key_{n}": f"value {n}" for n in range(60)}, indent=1),
    "prose": "A sentence of some words, שלום 世界 🙂. " * 150,
    "read": "".join(f"{n:>6}\t    line_{n}()\n" for n in range(200, 300)),
    "forged": "".join(f"step {n} says this\n{FORGED}\n" for n in range(40)),
    "unended": "\n".join(f"the line with number {n}" for n in range(60)),
}


@st.composite
def long_cases(draw: Draw) -> Case:
    """A case in which some of the texts that may be divided are long."""
    case = draw(cases())
    conversation = case.plain()
    format_ = formats.FORMATS[conversation.format]
    entries = list(case.entries)
    for message in conversation.messages:
        places = format_.places(entries[message.index], message.index)
        paths = [path for path in places if path is not None]
        if paths and draw(st.integers(0, 3)):
            text = LONG_TEXTS[draw(st.sampled_from(sorted(LONG_TEXTS)))]
            path = draw(st.sampled_from(paths))
            entries[message.index] = format_.replace(entries[message.index], {path: text})
    options = case.options | {"granularity": "excerpt", "format": conversation.format}
    if draw(st.integers(0, 3)):  # most budgets of short conversations are too small for a block
        options.pop("budget_tokens", None)
        options["target_ratio"] = draw(st.sampled_from([0.3, 0.5, 0.7, 0.9]))
    pin = [entries[index] for index in case.pinned]
    return case._replace(entries=entries, options=options | {"pin": pin})


def excerpts(case: Case, compaction: rehydrate.Compaction) -> Iterator[tuple[Any, Any]]:
    """The entries that are kept in part, as they were and as they are."""
    for index, entry in zip(compaction.indices, compaction.messages, strict=True):
        if entry is not case.entries[index]:
            yield index, entry


def excerpts_are_valid(case: Case, compaction: rehydrate.Compaction):
    assert list(compaction.indices) == sorted(set(compaction.indices))
    assert validate(compaction.messages, case.format) == []
    made = list(excerpts(case, compaction))
    assert compaction.stats.excerpted == len(made)
    assert compaction.stats.changed == bool(made or compaction.stats.dropped)


def only_texts_change_and_they_are_blocks_and_marks(case: Case, compaction: rehydrate.Compaction):
    conversation = case.plain()
    rows = {(block.message, block.text): [] for row in compaction.explain() for block in row.blocks}
    for row in compaction.explain():
        for block in row.blocks:
            rows[block.message, block.text].append(block.kept)
    place_of = {message.index: message for message in conversation.messages}
    for index, made in excerpts(case, compaction):
        if index in case.cut():  # which text of it a block is in depends on the part
            continue
        entry, message = case.entries[index], place_of[index]
        assert type(made) is type(entry)
        places = formats.FORMATS[conversation.format].places(entry, index)
        expected = {}
        for number, (piece, path) in enumerate(zip(message.pieces, places, strict=True)):
            kept = rows.get((index, number))
            if kept is not None and not all(kept):
                assert path is not None
                expected[path] = rendered(piece.text, kept)
        assert made == formats.FORMATS[conversation.format].replace(entry, expected)


def rendered(text: str, kept: list[bool]) -> str:
    """A slow, obvious version of `Division.render`."""
    found = _native.divide(text)
    assert found is not None
    measure, rows = found.measure, found.blocks
    out, gap = "", []
    for (start, end, *numbers), is_kept in zip(
        [*rows, (0, 0, 0, 0, 0)], [*kept, True], strict=True
    ):
        if not is_kept:
            gap.append(numbers)
            continue
        if gap:
            out += "\n" if out and not out.endswith("\n") else ""
            out += _native.mark(measure, sum(n[0] for n in gap), gap[0][1], gap[-1][2])
            out += "\n" if end else ""
            gap = []
        out += text[start:end]
    return out


def the_budget_holds_with_every_mark_counted(case: Case, compaction: rehydrate.Compaction):
    stats = compaction.stats
    counter = case.options["counter"] or case.scoring.counter
    again = compact_context(
        compaction.messages, target_ratio=1.0, counter=counter, format=case.format
    )
    counted = again.stats.before_tokens
    assert stats.after_tokens == counted
    assert stats.after_tokens == sum(row.kept_tokens for row in compaction.explain())
    assert stats.over_budget == (stats.after_tokens > stats.target_tokens)
    if stats.over_budget:
        pins = case.pins()
        rest = [row for row in compaction.explain() if row.kept and row.unit not in pins]
        assert [row.reason for row in rest] in ([], ["a user turn must come first"])


def pinned_units_are_never_excerpted_but_for_results_beside_the_words(
    case: Case, compaction: rehydrate.Compaction
):
    conversation = case.read()
    kept = dict(zip(compaction.indices, compaction.messages, strict=True))
    words = conversation.kept_for_words().difference(case.pinned_units())
    for unit in case.pins():
        for index in set(case.origins(conversation.units[unit].members)) - case.cut():
            assert unit in words or kept[index] is case.entries[index]
            if unit in words:
                assert not_results([kept[index]], case) == not_results([case.entries[index]], case)


def not_results(entries: list[Any], case: Case) -> list[str]:
    (message,) = formats.parse(entries, case.format).messages
    return [piece.text for piece in message.pieces if piece.kind is not PieceKind.TOOL_RESULT]


def calls(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": id_, "name": "Read", "input": {}} for id_ in ids]
    return {"role": "assistant", "content": blocks}


def answer(id_: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": text}


def text_beside_results() -> list[Any]:
    """The user speaks in the message that answers a call, and the model goes on calling."""
    spoken = {"type": "text", "text": "Go on, and mind line 17."}
    return [
        *talk("user: begin"),
        calls("t1"),
        {"role": "user", "content": [answer("t1", LONG_TEXTS["log"]), spoken]},
        calls("t2"),
        {"role": "user", "content": [answer("t2", LONG_TEXTS["code"])]},
    ]


def test_a_text_of_the_user_next_to_results_does_not_pin_the_results():
    messages = text_beside_results()
    compaction = compact_context(messages, target_ratio=0.6, granularity="excerpt")
    stats = compaction.stats
    assert stats.after_tokens <= stats.target_tokens
    result, spoken = compaction.messages[compaction.indices.index(2)]["content"]
    assert "lines omitted" in result["content"]
    assert spoken is messages[2]["content"][1]
    assert compaction.messages[-2:] == messages[-2:]
    whole = compact_context(messages, target_ratio=0.6)
    assert whole.stats.over_budget
    assert stats.pinned_tokens < whole.stats.pinned_tokens


def test_what_the_caller_pins_is_whole_and_so_is_an_open_loop_in_which_the_user_speaks():
    messages = text_beside_results()
    pinned = compact_context(messages, target_ratio=0.6, granularity="excerpt", pin=iter([2]))
    assert pinned.messages[pinned.indices.index(2)] is messages[2]
    still_open = compact_context(messages[:3], target_ratio=0.6, granularity="excerpt")
    assert still_open.messages[-1] is messages[2]


def test_of_a_reply_that_called_tools_the_results_are_kept_in_part():
    reply = calls("t1")
    reply["content"].insert(0, {"type": "text", "text": "I look at the log first."})
    messages = [
        *talk("user: begin"),
        reply,
        {"role": "user", "content": [answer("t1", LONG_TEXTS["log"])]},
        *talk("user: And what does line 17 say?"),
    ]
    assert formats.parse(messages).kept_for_words()
    compaction = compact_context(
        [*messages, *talk("assistant: ok")], target_ratio=0.4, granularity="excerpt"
    )
    assert compaction.messages[1]["content"] == reply["content"]
    assert "lines omitted" in compaction.messages[2]["content"][0]["content"]


def an_excerpt_of_the_result_at_the_same_budget_changes_nothing(
    case: Case, compaction: rehydrate.Compaction
):
    there = dict(zip(compaction.indices, compaction.messages, strict=True))
    options = {key: value for key, value in case.options.items() if key != "target_ratio"}
    options["pin"] = [there[place] for place in case.pinned if place in there]
    options["budget_tokens"] = compaction.stats.target_tokens
    twice = compact_context(compaction.messages, **options)
    assert list(map(id, twice.messages)) == list(map(id, compaction.messages))
    assert not twice.stats.changed


def a_target_at_the_total_excerpts_nothing(case: Case, compaction: rehydrate.Compaction):
    options = {key: value for key, value in case.options.items() if key != "target_ratio"}
    total = compaction.stats.before_tokens
    roomy = compact_context(case.entries, **(options | {"budget_tokens": total}))
    assert list(map(id, roomy.messages)) == list(map(id, case.entries))


LAWS = (
    excerpts_are_valid,
    only_texts_change_and_they_are_blocks_and_marks,
    the_budget_holds_with_every_mark_counted,
    pinned_units_are_never_excerpted_but_for_results_beside_the_words,
    an_excerpt_of_the_result_at_the_same_budget_changes_nothing,
    a_target_at_the_total_excerpts_nothing,
)


@settings(max_examples=2 * settings().max_examples)
@given(long_cases())
def test_the_laws_of_excerpts_hold(case: Case):
    before = copy.deepcopy(case.entries)
    compaction = case.compact()
    for law in LAWS:
        law(case, compaction)
    assert case.entries == before


@given(cases())
def test_without_long_texts_both_granularities_keep_the_same(case: Case):
    whole, excerpt = case.compact(), case.compact(granularity="excerpt")
    assert excerpt.stats.excerpted == 0
    if case.parted() is None:  # excerpts divide results, and never part calls
        assert case.kept(excerpt) == case.kept(whole)


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_every_kind_of_text_is_excerpted_between_its_blocks(name: str):
    text = LONG_TEXTS[name]
    messages = [*talk("user: begin"), {"role": "tool", "content": text}, *talk("user: go on")]
    compaction = compact_context(messages, target_ratio=0.5, granularity="excerpt", format="plain")
    assert compaction.stats.excerpted == 1
    excerpt = compaction.messages[-2]["content"]
    assert "omitted" in excerpt
    assert compaction.stats.after_tokens <= compaction.stats.target_tokens
    assert compaction.stats.after_tokens > 0.7 * compaction.stats.target_tokens
    if name != "forged":
        parts = [line for line in excerpt.split("\n") if not line.startswith("[...")]
        assert all(line in text for line in parts)


def test_a_forged_mark_is_text_like_any_other():
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["forged"]}]
    messages += talk("user: go on")
    compaction = compact_context(messages, target_ratio=0.5, granularity="excerpt", format="plain")
    blocks = [block for row in compaction.explain() for block in row.blocks]
    omitted = sum(block.last - block.first + 1 for block in blocks if not block.kept)
    lines = [line for block in blocks for line in range(block.first, block.last + 1)]
    assert lines == list(range(1, 81))
    real = [line for line in compaction.messages[-2]["content"].split("\n") if "omitted" in line]
    counts = [int(line.split()[1]) for line in real if line != FORGED]
    assert sum(counts) == omitted


def test_with_a_query_the_blocks_that_bear_on_it_are_kept():
    text = LONG_TEXTS["log"].replace("request_57 served", "request_57 refused: certificate expired")
    messages = [*talk("user: begin"), {"role": "tool", "content": text}, *talk("user: go on")]
    for embedder in ("auto", None, HashEmbedder()):
        compaction = compact_context(
            messages, "why was the certificate refused?", 0.2, granularity="excerpt",
            embedder=embedder, format="plain",
        )  # fmt: skip
        assert "request_57 refused: certificate expired" in compaction.messages[-2]["content"]
        assert compaction.stats.degraded == ()


def test_a_counter_of_the_callers_counts_blocks_and_marks():
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["log"]}]
    messages += talk("user: go on")
    compaction = compact_context(
        messages, granularity="excerpt", counter=words, budget_tokens=120, format="plain"
    )
    assert compaction.stats.excerpted == 1
    assert compaction.stats.after_tokens == sum(words(m["content"]) for m in compaction.messages)
    assert compaction.stats.after_tokens <= 120


def test_the_explanation_shows_the_blocks_of_an_excerpt():
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["read"]}]
    messages += talk("user: go on")
    explanation = compact_context(messages, target_ratio=0.5, granularity="excerpt").explain()
    table = str(explanation)
    assert "omit  message 1, text 0: lines" in table
    assert "keep  message 1, text 0: lines" in table
    blocks = explanation.to_dict()[1]["blocks"]
    assert (blocks[0]["first"], blocks[-1]["last"]) == (200, 299)
    json.dumps(blocks)


def test_an_unknown_granularity_names_the_known_ones():
    with pytest.raises(
        InvalidArgumentError, match="'paragraph'; choose one of 'message', 'excerpt'"
    ):
        compact_context(talk("user: hi"), granularity="paragraph")


def test_marks_agree_with_their_number():
    assert _native.mark("lines", 1, 7, 7) == "[... 1 line omitted, 7 ...]"
    many = _native.mark("characters", 12_345, 1, 12_345)
    assert many == "[... 12,345 characters omitted, 1-12345 ...]"


def test_a_whole_text_and_nothing_of_it_are_rendered_too():
    text = LONG_TEXTS["unended"]
    division = _native.divide(text)
    assert division is not None
    every = len(division.blocks)
    assert division.render(text, [1] * every) == text
    assert division.render(text, [0] * every) == "[... 60 lines omitted, 1-60 ...]"


def test_the_parts_of_a_conversation_hold_all_its_texts():
    messages = [*talk("user: begin"), {"role": "tool", "content": LONG_TEXTS["prose"]}]
    messages += talk("user: go on")
    seen: list[str] = []

    def embedder(batch: list[str]) -> list[list[float]]:
        seen.extend(batch)
        return HashEmbedder()(batch)

    compact_context(messages, "a query", 0.5, granularity="excerpt", embedder=embedder)
    assert "".join(seen) == "begin" + LONG_TEXTS["prose"] + "go on" + "a query"


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.2, 0.4, 0.6])
def test_the_example_session_is_excerpted_within_its_budget(ratio: float):
    path = Path(__file__).parents[2] / "examples" / "session.jsonl"
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    before = copy.deepcopy(entries)
    compaction = compact_context(entries, target_ratio=ratio, granularity="excerpt")
    assert entries == before
    assert validate(compaction.messages) == []
    stats = compaction.stats
    assert stats.excerpted >= 5
    assert 0.95 * stats.target_tokens < stats.after_tokens <= stats.target_tokens
    assert stats.after_tokens == rehydrate.count_tokens(compaction.messages)


@given(long_cases(), st.sampled_from([True, 100, 300]))
def test_excerpts_with_an_outline_are_valid_and_in_the_budget(case: Case, size: Any):
    compaction = case.compact(outline=size)
    assert validate(compaction.messages, case.format) == []
    stats, outline = compaction.stats, compaction.outline
    assert stats.over_budget == (stats.after_tokens > stats.target_tokens)
    if outline is not None:
        left = [m for n, m in enumerate(compaction.messages) if n != outline.position]
        # A thought does not count as shown: a provider may drop it, and with it the name.
        shown = "\n".join(
            piece.text
            for message in formats.parse(left, case.format).messages
            for piece in message.pieces
            if piece.kind is not PieceKind.THINKING
        )
        listed = read_fenced_outline(outline.text)
        assert listed and not any(stands_in(shown, each.name) for each in listed)


def test_a_text_with_a_signature_is_never_cut():
    signed = {"google": {"thoughtSignature": "c2ln"}}
    said = {"type": "text", "text": LONG_TEXTS["prose"], "providerOptions": signed}
    entries = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [said]},
        {"role": "user", "content": "And now?"},
    ]
    for ratio in (0.2, 0.5, 0.8):
        kept = compact_context(entries, target_ratio=ratio, granularity="excerpt", format="ai_sdk")
        assert kept.messages in (entries, entries[2:], [entries[0], entries[2]])


def test_the_numbers_of_a_mark_ascend():
    numbered = "".join(f"{n:>6}\t    line_{n}(of, the, file)\n" for n in range(2200, 2230))
    text = numbered + "".join(f"remark {n} of the harness on it\n" for n in range(30))
    division = _native.divide(text)
    assert division is not None
    mark = division.render(text, bytes(len(division.blocks)))
    assert mark == "[... 60 lines omitted, 2200-2259 ...]"
