"""The pass that caps tool results, in conversations of every format."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import _native, formats, validate
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.messages import PROVIDERS, PieceKind
from rehydrate.prompt import Caps, CapToolResults, HeldOriginals, History, PromptIR
from rehydrate.prompt.caps import cap_tool_results, notice
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.originals import About
from tests.prompt.long_texts import (
    Target,
    answered,
    held,
    ir_of,
    long_conversations,
    result_texts,
)
from tests.rendered import render_history

SMALL = CapToolResults(Caps(default_tokens=400))
LIMIT = 400
"""Tokens."""
HANDLE = re.compile(r"\[kept whole as (orig_[a-z2-7]{26})\]$")
PROSE = "It was a dark and stormy night. " * 2_000


@given(long_conversations())
def test_nothing_becomes_invalid_nothing_moves_and_nothing_that_came_in_changes(named):
    name, entries = named
    before = copy.deepcopy(entries)
    ir = ir_of(entries, name)
    assert ir.history.conversation == formats.parse(entries, name)  # so the new one knows it too
    capped = SMALL(ir, Target(held())).history
    made = list(capped.entries)
    assert capped.conversation == formats.parse(made, name)
    assert entries == before
    assert len(made) == len(entries)
    assert validate(made, name) == validate(entries, name)
    was, now = (formats.parse(each, name).messages for each in (entries, made))
    for one, other in zip(was, now, strict=True):
        assert (one.role, one.calls, one.answers, one.images) == (
            other.role,
            other.calls,
            other.answers,
            other.images,
        )
        for piece, shown in zip(one.pieces, other.pieces, strict=True):
            assert piece.kind == shown.kind
            if piece.kind != PieceKind.TOOL_RESULT:
                assert piece == shown
        if one.pieces == other.pieces:
            assert made[one.index] is entries[one.index]


@given(long_conversations())
def test_every_result_is_whole_or_within_the_cap_with_a_handle_that_gives_its_bytes(named):
    name, entries = named
    originals = held()
    made = SMALL(ir_of(entries, name), Target(originals)).history.entries
    for whole, shown in zip(result_texts(entries, name), result_texts(made, name), strict=True):
        if shown == whole:
            continue
        assert tokens(shown) <= LIMIT < tokens(whole)
        found = HANDLE.search(shown)
        assert found
        assert originals.get(found[1]) == whole


@given(long_conversations())
def test_capping_what_was_capped_changes_nothing(named):
    name, entries = named
    once = SMALL(ir_of(entries, name), Target(held()))
    twice = SMALL(once, Target(held()))
    assert twice.history == once.history
    assert twice.meta.trace[-1].changed == ()


@given(long_conversations(), st.data())
def test_what_becomes_of_an_entry_depends_on_it_and_earlier_ones_only(named, data):
    name, entries = named
    if name == "claude_code":
        entries = [entry for entry in entries if not entry.get("isSidechain")]
    count = data.draw(st.integers(0, len(entries)))
    whole = SMALL(ir_of(entries, name), Target(held())).history.entries
    part = CapToolResults(SMALL.caps)(ir_of(entries[:count], name), Target(held()))
    assert part.history.entries == whole[:count]


def test_a_long_result_ends_in_the_notice_of_the_contract_and_the_handle():
    originals = held()
    made = cap_tool_results(ir_of(answered(PROSE)), Target(originals)).history.entries
    shown = made[2]["content"][0]["content"]
    body, _, notice_text = shown.partition("\n\n[")
    assert PROSE.startswith(body)
    assert 7_000 < tokens(body) < tokens(shown) <= 8_000
    assert notice_text.splitlines()[0] == (
        f"truncated: {tokens(PROSE) - tokens(body)} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    assert originals.get(HANDLE.search(shown)[1]) == PROSE


def test_without_originals_a_result_is_capped_without_a_handle():
    made = cap_tool_results(ir_of(answered(PROSE)), Target()).history.entries
    shown = made[2]["content"][0]["content"]
    body = shown.partition("\n\n[")[0]
    assert shown == body + notice(tokens(PROSE) - tokens(body))


def tokens(text: str) -> int:
    return _native.count(text, COUNTER)


NOWHERE = About()


class Broken:
    def put(self, text: str, /, *, about: About = NOWHERE) -> str:
        raise OSError("no room left on the disk")

    def get(self, handle: str, /) -> str:
        raise UnknownHandleError(handle, "originals")


class Mute(Broken):
    def put(self, text: str, /, *, about: About = NOWHERE) -> str:
        return "x" * 500


@pytest.mark.parametrize("originals", [Broken(), Mute(), HeldOriginals(max_bytes=10)])
def test_what_cannot_be_kept_stays_whole_and_the_ir_says_so(originals):
    entries = answered(PROSE, "!" + PROSE[1:])
    made = cap_tool_results(ir_of(entries), Target(originals))
    assert all(one is other for one, other in zip(made.history.entries, entries, strict=True))
    (problem,) = made.meta.degraded
    assert "the result stays whole" in problem
    assert made.meta.trace[-1].notes == (problem,)


def test_each_tool_may_have_a_cap_of_its_own():
    caps = Caps(default_tokens=1_000, by_tool={"Read": 2_000, "schema": None})
    sizes = {}
    for tool in ("Read", "Bash", "schema"):
        ir = CapToolResults(caps)(ir_of(answered(PROSE, tool=tool)), Target())
        shown = ir.history.entries[2]["content"][0]["content"]
        sizes[tool] = -(-tokens(shown) // 1_000)
    assert sizes == {"Read": 2, "Bash": 1, "schema": -(-tokens(PROSE) // 1_000)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"default_tokens": 10},
        {"default_tokens": 1e9},
        {"default_tokens": 10**400},
        {"by_tool": {"Read": 0}},
        {"by_tool": {"Read": -(10**5000)}},
        {"rows": 0},
        {"log_lines": True},
    ],
)
def test_what_is_no_cap_is_refused(wrong: dict[str, Any]):
    with pytest.raises(InvalidArgumentError, match="caps: "):
        Caps(**wrong)


def test_the_texts_of_one_result_share_its_cap():
    parts = [{"type": "text", "text": f"{letter} " * 9_000} for letter in "abc"]
    image = {"type": "image", "source": {"type": "base64", "data": "aGk=" * 9_000}}
    entries = answered("x")
    entries[2]["content"][0]["content"] = [
        parts[0],
        image,
        {"type": "text", "text": "short"},
        *parts[1:],
    ]
    made = cap_tool_results(ir_of(entries), Target(held())).history.entries[2]
    blocks = made["content"][0]["content"]
    assert blocks[1] is image
    assert blocks[2]["text"] == "short"
    assert sum(tokens(each["text"]) for each in (blocks[0], *blocks[2:])) <= 8_000
    assert all(tokens(blocks[index]["text"]) > 2_200 for index in (0, 3, 4))


def test_results_of_parallel_calls_have_a_cap_each():
    entries = answered(PROSE[:27_000])
    call, answer = entries[1]["content"][0], entries[2]["content"][0]
    entries[1]["content"].append(call | {"id": "toolu_b"})
    entries[2]["content"].append(answer | {"tool_use_id": "toolu_b"})
    made = cap_tool_results(ir_of(entries), Target(held()))
    assert made.history.entries[2] is entries[2]


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_result_of_parallel_calls_has_the_cap_of_its_tool_in_any_format(provider, has_ids):
    entries = answered(PROSE, tool="grep")
    call, answer = entries[1]["content"][0], entries[2]["content"][0]
    for tool in ("Bash", "Read"):
        entries[1]["content"].append({**call, "id": f"toolu_{tool}", "name": tool})
        entries[2]["content"].append({**answer, "tool_use_id": f"toolu_{tool}"})
    made = [each.message for each in render_history(entries, "anthropic", provider).messages]
    if provider == "gemini" and not has_ids:
        for part in (part for content in made for part in content["parts"]):
            (part.get("functionCall") or part.get("functionResponse") or {}).pop("id", None)
    caps = CapToolResults(Caps(default_tokens=1_000, by_tool={"Read": None, "Bash": 2_000}))
    shown = result_texts(caps(ir_of(made, provider), Target(held())).history.entries, provider)
    assert [-(-tokens(each) // 1_000) for each in shown] == [1, 2, -(-tokens(PROSE) // 1_000)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_text_with_a_picture_is_capped_in_any_format(provider):
    source = {"type": "base64", "media_type": "image/png", "data": "aGk=" * 9_000}
    content = [{"type": "text", "text": PROSE}, {"type": "image", "source": source}]
    entries = answered("x")
    entries[2]["content"][0]["content"] = content
    made = [each.message for each in render_history(entries, "anthropic", provider).messages]
    capped = cap_tool_results(ir_of(made, provider), Target(held())).history
    assert capped.conversation.messages[-1].images == 1
    (shown,) = result_texts(capped.entries, provider)
    assert 7_000 < tokens(shown) <= 8_000


def test_a_text_with_a_picture_of_an_mcp_servers_is_capped_in_a_result_of_the_ai_sdk():
    image = {"type": "image", "data": "aGk=" * 9_000, "mimeType": "image/png"}
    found = {"content": [image, {"type": "text", "text": PROSE}, {"type": "odd", "n": 1}]}
    call = {"type": "tool-call", "toolCallId": "a", "toolName": "look", "input": {}}
    result = {**call, "type": "tool-result", "output": {"type": "json", "value": found}}
    part = {"type": "tool-look", "toolCallId": "a", "state": "output-available", "input": {}}
    for name, entries in (
        ("ai_sdk", [("user", "go"), ("assistant", [call]), ("tool", [result])]),
        ("ai_sdk_ui", [("user", [{"type": "text", "text": "go"}]), ("assistant", [part])]),
    ):
        key = "parts" if name == "ai_sdk_ui" else "content"
        part["output"] = found
        made = [{"id": str(n), "role": role, key: said} for n, (role, said) in enumerate(entries)]
        capped = cap_tool_results(ir_of(made, name), Target(held())).history.entries
        text, odd = result_texts(capped, name)
        assert 7_000 < tokens(text) <= 8_000
        assert odd == '{"type":"odd","n":1}'
        assert validate(list(capped), name) == []


@pytest.mark.parametrize(
    "words", ["港口主人的名字叫做安妮克", "ท่าเรือ", "f(x) = {y: [z]};\n", "word "]
)
def test_the_cap_counts_tokens_whatever_is_written(words):
    """Eight thousand, where characters by three and a half gave 10,900 of code and 27,500 of
    Chinese; and a result of fewer stays whole, however long it is."""
    whole = words * (40_000 // len(words))
    made = cap_tool_results(ir_of(answered(whole)), Target(held())).history.entries
    shown = made[2]["content"][0]["content"]
    if tokens(whole) <= 8_000:
        assert shown is whole
    else:
        assert 7_000 < tokens(shown) <= 8_000


def test_an_error_stays_an_error_and_a_cache_mark_stays():
    entries = answered(PROSE)
    mark = {"type": "ephemeral"}
    entries[2]["content"][0] |= {"is_error": True, "cache_control": mark}
    made = cap_tool_results(ir_of(entries), Target(held())).history.entries[2]["content"][0]
    assert (made["is_error"], made["cache_control"], made["tool_use_id"]) == (True, mark, "toolu_0")


def test_what_the_user_and_the_model_said_is_not_capped():
    entries = [{"role": "user", "content": PROSE}, {"role": "assistant", "content": PROSE}]
    ir = cap_tool_results(ir_of(entries, "plain"), Target(held()))
    assert list(ir.history.entries) == entries


def test_the_trace_counts_tokens_and_names_entries():
    entries = answered("short", PROSE)
    messages = formats.parse(entries, "anthropic").messages
    tokens = tuple(_native.message_tokens(messages, "o200k_base"))
    history = History(tuple(entries), "anthropic", tokens, (10, 11, 12, 13, 14))
    made = cap_tool_results(PromptIR(history=history), Target(held()))
    recounted = formats.parse(made.history.entries, "anthropic").messages
    assert list(made.history.tokens) == _native.message_tokens(recounted, "o200k_base")
    (trace,) = made.meta.trace
    assert (trace.name, trace.changed) == ("cap_tool_results", ("history[14]",))
    assert (trace.before_tokens, trace.after_tokens) == (sum(tokens), made.tokens)
    assert re.fullmatch(r"history\[14\] text, [\d,]+ tokens left out, orig_\w+", trace.notes[0])


def test_a_forged_handle_gives_nothing_though_its_notice_is_shown():
    forged = "orig_" + "a" * 26
    originals = held()
    text = f"see [kept whole as {forged}]\n" + PROSE
    made = cap_tool_results(ir_of(answered(text)), Target(originals)).history.entries
    assert forged in made[2]["content"][0]["content"]
    with pytest.raises(UnknownHandleError):
        originals.get(forged)


def test_an_empty_history_leaves_a_trace_all_the_same():
    made = cap_tool_results(PromptIR(), Target(held()))
    assert [trace.name for trace in made.meta.trace] == ["cap_tool_results"]
