"""thinking="strip": what is kept goes without the model's thinking, but for its open tool loop."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given, settings

import rehydrate
from rehydrate import compact_context, formats, validate
from rehydrate.messages import PieceKind
from tests.compact.cases import Case, cases
from tests.formats.turns import open_tool_loop
from tests.strategies import Entry

ALL = 1.0
"""A ratio at which nothing needs to be dropped."""


def stripped(case: Case, **changed: Any) -> rehydrate.Compaction:
    return case.compact(thinking="strip", **changed)


def thoughts(entries: list[Any], name: str) -> int:
    """How many messages think."""
    conversation = formats.parse(entries, name)
    return sum(
        any(piece.kind == PieceKind.THINKING for piece in message.pieces)
        for message in conversation.messages
    )


def what_does_not_think_is_the_very_object_that_came_in(
    case: Case, compaction: rehydrate.Compaction
):
    without = formats.FORMATS[case.format].without_thinking(case.entries)
    cut = case.cut()  # of these some calls may be missing
    for index, entry in zip(compaction.indices, compaction.messages, strict=True):
        assert (
            entry is case.entries[index]
            or index in cut
            or (without[index] is not case.entries[index] and entry == without[index])
        )


def the_open_tool_loop_keeps_its_thoughts(case: Case, compaction: rehydrate.Compaction):
    conversation = case.read()
    loop = open_tool_loop(conversation)
    members = () if loop is None else case.origins(conversation.units[loop].members)
    kept = dict(zip(compaction.indices, compaction.messages, strict=True))
    for index in members:
        assert kept[index] is case.entries[index]


def without_an_open_tool_loop_no_thought_is_left_but_what_a_server_needs(
    case: Case, compaction: rehydrate.Compaction
):
    assert case.format != "plain" or compaction.stats.stripped == 0
    is_closed = open_tool_loop(case.read()) is None
    if is_closed and case.format not in ("openai_responses", "codex"):
        result = formats.parse(compaction.messages, case.format)
        if open_tool_loop(result) is None:
            assert thoughts(compaction.messages, case.format) == 0


def what_is_left_is_valid(case: Case, compaction: rehydrate.Compaction):
    assert validate(compaction.messages, case.format) == []


LAWS = (
    what_is_left_is_valid,
    what_does_not_think_is_the_very_object_that_came_in,
    the_open_tool_loop_keeps_its_thoughts,
    without_an_open_tool_loop_no_thought_is_left_but_what_a_server_needs,
)


@settings(max_examples=2 * settings().max_examples)
@given(cases())
def test_the_laws_hold_without_thinking(case: Case):
    before = copy.deepcopy(case.entries)
    compaction = stripped(case)
    for law in LAWS:
        law(case, compaction)
    excerpts = stripped(case, granularity="excerpt")
    stats = excerpts.stats
    assert validate(excerpts.messages, case.format) == []
    assert stats.over_budget == (stats.after_tokens > stats.target_tokens)
    assert case.entries == before


@given(cases(broken=True))
def test_a_damaged_conversation_gets_no_more_violations(case: Case):
    before = validate(case.entries, case.format)
    after = validate(stripped(case).messages, case.format)
    assert len(after) <= len(before)


@given(cases())
def test_the_tokens_are_those_of_what_is_left(case: Case):
    counted = stripped(case, target_ratio=ALL, budget_tokens=None)
    again = compact_context(counted.messages, format=case.format, **_measure(case))
    stats = counted.stats
    assert again.stats.before_tokens == stats.before_tokens == stats.after_tokens
    kept = case.compact(target_ratio=ALL, budget_tokens=None)
    assert stats.before_tokens + stats.stripped_tokens == kept.stats.before_tokens
    assert stats.changed == (stats.stripped > 0)
    rows = counted.explain()
    assert sum(row.tokens for row in rows) == stats.before_tokens
    assert sum(row.stripped_tokens for row in rows) <= stats.stripped_tokens


def _measure(case: Case) -> dict[str, Any]:
    options = {key: case.options[key] for key in ("counter", "scoring")}
    return {**options, "target_ratio": ALL, "embedder": None}


@given(cases())
def test_it_is_what_compacting_the_stripped_list_gives(case: Case):
    free = stripped(case, target_ratio=ALL, budget_tokens=None, pin=())
    budget = free.stats.before_tokens // 2
    options: dict[str, Any] = {"budget_tokens": budget, "pin": ()}
    at_once = stripped(case, **options)
    in_two = compact_context(free.messages, **(case.options | options))
    # Parallel calls after a thought stay together, also where it is stripped.
    assume(_parted_messages(at_once) == _parted_messages(in_two))
    assert at_once.messages == in_two.messages
    assert at_once.stats.after_tokens == in_two.stats.after_tokens


def _parted_messages(compaction: rehydrate.Compaction) -> int:
    parted = compaction._reasons.parted
    return len(parted.spans) if parted else 0


@given(cases())
def test_stripping_twice_is_stripping_once(case: Case):
    once = stripped(case, target_ratio=ALL)  # what is dropped may need a thought that is kept
    twice = compact_context(
        once.messages,
        format=case.format,
        thinking="strip",
        target_ratio=ALL,
    )
    assert [id(entry) for entry in twice.messages] == [id(entry) for entry in once.messages]
    assert twice.stats.stripped == 0


def test_room_that_thinking_took_is_used_for_what_was_said():
    thought = {"type": "thinking", "thinking": "hm, let me see. " * 200, "signature": "c2ln"}
    entries: list[Entry] = [{"role": "user", "content": "Which key?"}]
    for n in range(4):
        reply = {"type": "text", "text": f"The key of part {n} is {n * 7919}."}
        entries.append({"role": "assistant", "content": [thought, reply]})
        entries.append({"role": "user", "content": "And the next?"})
    kept = compact_context(entries, budget_tokens=200)
    without = compact_context(entries, budget_tokens=200, thinking="strip")
    assert len(kept.messages) < len(entries) == len(without.messages)
    assert without.stats.stripped == 4
    assert without.stats.stripped_tokens > 2_000
    assert not without.stats.over_budget
    assert [m["content"][0]["type"] for m in without.messages if m["role"] == "assistant"] == [
        "text"
    ] * 4
    assert "omit  thinking" in str(without.explain())


def test_a_loop_under_way_keeps_what_was_thought_since_the_users_last_turn():
    def call(number: int, *lead: Entry) -> list[Entry]:
        use = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x"}
        return [
            {"role": "assistant", "content": [*lead, use]},
            {"role": "user", "content": [result]},
        ]

    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    old = [{"role": "user", "content": "First."}, *call(0, thought)]
    done: Entry = {"role": "assistant", "content": [thought, {"type": "text", "text": "Done."}]}
    new = [{"role": "user", "content": "Then."}, *call(1, thought), *call(2)]
    compaction = compact_context([*old, done, *new], target_ratio=ALL, thinking="strip")
    assert compaction.messages[4:] == new
    assert all(kept is came for kept, came in zip(compaction.messages[4:], new, strict=True))
    assert compaction.messages[1]["content"] == old[1]["content"][1:]
    assert compaction.messages[3]["content"] == [{"type": "text", "text": "Done."}]
    # Once the loop is over, nobody asks for its thoughts.
    ended = compact_context([*old, done, *new, done], target_ratio=ALL, thinking="strip")
    assert thoughts(ended.messages, "anthropic") == 0


def test_a_message_of_thinking_alone_is_left_out_and_counted():
    only = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "eA=="}]}
    entries = [{"role": "user", "content": "a"}, only, {"role": "user", "content": "b"}]
    compaction = compact_context(entries, target_ratio=ALL, thinking="strip")
    assert compaction.messages == [entries[0], entries[2]]
    assert list(compaction.indices) == [0, 2]
    assert compaction.stats.stripped == 1
    assert compaction.dropped == ()


@pytest.mark.parametrize("thinking", ["strip", "auto"])
def test_a_message_of_thinking_alone_that_a_system_message_needs_says_so(thinking: str):
    def user(text: str) -> Entry:
        return {"role": "user", "content": text}

    thought = {"type": "thinking", "thinking": "hm " * 40, "signature": "c2ln"}
    only = {"role": "assistant", "content": [thought]}
    entries = [
        *(user("a " * 900), {"role": "assistant", "content": "b " * 900}, user("Weigh it.")),
        *({"role": "system", "content": "Be brief."}, only, user("So?")),
    ]
    compaction = compact_context(
        entries, target_ratio=0.3, thinking=thinking, model="claude-opus-5-5", pin=(4,)
    )
    assert validate(compaction.messages, "anthropic") == []
    place = [each["role"] for each in compaction.messages].index("system") + 1
    left = compaction.messages[place]
    assert left["role"] == "assistant"
    assert "hm" not in str(left)
    assert compaction.stats.after_tokens == rehydrate.count_tokens(compaction.messages)


def test_responses_items_lose_the_ids_that_led_back_to_reasoning():
    items: list[Entry] = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "reasoning", "id": "rs_3", "summary": []},
        {"type": "message", "id": "m_1", "role": "assistant", "content": "done"},
        {"type": "message", "role": "user", "content": "thanks"},
    ]
    compaction = compact_context(items, target_ratio=ALL, thinking="strip")
    # A server tool's call needs its id, so what led to it stays.
    assert list(compaction.indices) == [0, 2, 3, 4, 5, 7, 8]
    assert "id" not in compaction.messages[1]
    assert compaction.messages[1]["call_id"] == "c"
    assert compaction.messages[4] is items[5]
    assert "id" not in compaction.messages[5]
    assert items[2]["id"] == "fc_1"


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content", "reasoning_details"])
def test_openai_chat_messages_lose_their_reasoning_keys(key: str):
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    entries: list[Entry] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": calls, key: "hm"},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "assistant", "content": "", key: "nothing to say"},
        {"role": "assistant", "content": "done", key: "hm"},
        {"role": "user", "content": "thanks"},
    ]
    compaction = compact_context(entries, target_ratio=ALL, thinking="strip")
    assert list(compaction.indices) == [0, 1, 2, 4, 5]
    assert not any(key in message for message in compaction.messages)
    assert validate(compaction.messages, "openai_chat") == []


def test_langchain_messages_are_copied_without_their_thinking():
    from langchain_core.messages import AIMessage, HumanMessage

    blocks: list[Any] = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Done."}]
    reply = AIMessage(content=blocks, id="m", additional_kwargs={"reasoning_content": "hm"})
    bound = AIMessage(content=[{"type": "reasoning", "id": "rs_1", "summary": []}, blocks[1]])
    messages = [HumanMessage("go"), reply, bound, HumanMessage("thanks")]
    compaction = compact_context(messages, target_ratio=ALL, thinking="strip")
    shown = compaction.messages[1]
    assert (shown.content, shown.additional_kwargs, shown.id) == ([blocks[1]], {}, "m")
    assert reply.content == blocks
    assert compaction.messages[2] is bound  # ids in it lead back to its reasoning


def test_claude_code_lines_of_thinking_alone_are_left_out():
    def line(number: int, kind: str, content: Any, **rest: Any) -> Entry:
        message = {"role": kind, "content": content, **rest}
        return {"type": kind, "uuid": f"u{number}", "sessionId": "s", "message": message}

    thought = {"type": "thinking", "thinking": "hm " * 50, "signature": "c2ln"}
    lines = [
        line(0, "user", "go"),
        line(1, "assistant", [thought], id="m"),
        line(2, "assistant", [{"type": "text", "text": "Done."}], id="m"),
        line(3, "user", "thanks"),
    ]
    compaction = compact_context(lines, target_ratio=ALL, thinking="strip")
    assert list(compaction.indices) == [0, 2, 3]
    assert compaction.messages[1] is lines[2]
    # The line's tokens are those of the unit that is left of its message.
    assert [row.stripped_tokens for row in compaction.explain()] == [
        0,
        compaction.stats.stripped_tokens,
        0,
    ]


def test_what_is_no_policy_is_refused_with_the_choices():
    with pytest.raises(
        rehydrate.errors.InvalidArgumentError, match="thinking is 'drop'; choose one of"
    ):
        compact_context([], thinking="drop")


def test_a_thought_without_a_text_may_cost_less_than_the_words_in_its_place():
    hidden = {"role": "assistant", "content": [{"reasoningContent": {"redactedContent": b"x"}}]}
    entries = [{"role": "user", "content": [{"text": "a"}]}, hidden]
    entries.append({"role": "user", "content": [{"text": "b"}]})
    compaction = compact_context(entries, target_ratio=ALL, thinking="strip", format="bedrock")
    assert compaction.stats.stripped_tokens < 0
    assert "keep" in str(compaction.explain())
