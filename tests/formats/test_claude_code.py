"""Claude Code transcripts: lines that count, lines of one unit, and rules broken after merging."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate import compact_context
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import parse, validate
from tests.strategies import opens_with_user


def line(role: str, content: Any, message_id: str | None = None, **rest: Any) -> dict[str, Any]:
    message = {"role": role, "content": content}
    if message_id:
        message["id"] = message_id
    return {"type": role, "sessionId": "s", "message": message, **rest}


def call(call_id: str, message_id: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": "Read", "input": {}}
    return line("assistant", [block], message_id)


def result(call_id: str, **rest: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "done"}
    return line("user", [block], **rest)


def says(text: str, message_id: str, **rest: Any) -> dict[str, Any]:
    return line("assistant", [{"type": "text", "text": text}], message_id, **rest)


PROGRESS = {"type": "progress", "uuid": "p", "data": {"type": "hook_progress"}}
ASK = line("user", "Fix the parser.")


def test_the_lines_of_one_message_and_its_results_are_one_unit_whatever_is_between():
    entries = [
        ASK,
        says("I look.", "m1"),
        call("a", "m1"),
        PROGRESS,
        result("a"),
        call("b", "m1"),
        PROGRESS | {"uuid": "q"},
        result("b"),
        says("Done.", "m2"),
    ]
    conversation = parse(entries)
    assert [unit.members for unit in conversation.units] == [(0,), (1, 2, 4, 5, 7), (8,)]
    assert conversation.ignored == (3, 6)
    assert validate(entries) == []


def test_lines_that_the_model_never_saw_are_ignored():
    entries = [
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
        ASK | {"uuid": "1"},
        {"type": "system", "subtype": "compact_boundary", "uuid": "2"},
        ASK | {"uuid": "1"},
        says("aside", "m0", isSidechain=True),
        says("API Error: overloaded", "m1", isApiErrorMessage=True),
        says("Done.", "m2"),
        {"type": "summary", "summary": "Parser fixed", "leafUuid": "2"},
    ]
    conversation = parse(entries)
    assert [message.index for message in conversation.messages] == [2, 7]
    assert conversation.ignored == (0, 1, 3, 4, 5, 6, 8)


def test_a_transcript_of_a_subagent_is_read_as_its_own_conversation():
    entries = [entry | {"isSidechain": True} for entry in (ASK, says("Done.", "m"))]
    assert [message.index for message in parse(entries).messages] == [0, 1]


def test_what_claude_code_writes_as_the_user_is_a_message_but_no_user_turn():
    meta = line("user", "Caveat: local commands follow.", isMeta=True)
    summary = line("user", "This session is being continued.", isCompactSummary=True)
    conversation = parse([ASK, says("ok", "m"), summary, meta])
    assert [message.role for message in conversation.messages] == ["user", "assistant"] + [
        "user"
    ] * 2
    assert conversation.pins() == {0: "last user turn"}
    assert opens_with_user(conversation.units[2])


def test_the_text_of_a_skill_stays_with_the_call_that_asked_for_it():
    skill = line("user", [{"type": "text", "text": "# Skill"}], isMeta=True, sourceToolUseID="a")
    conversation = parse([ASK, call("a", "m"), result("a"), skill])
    assert [unit.members for unit in conversation.units] == [(0,), (1, 2, 3)]


def test_the_stream_of_the_sdk_reads_like_a_transcript():
    entries = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        ASK,
        says("aside", "m0", parent_tool_use_id="toolu_1"),
        says("Done.", "m1", parent_tool_use_id=None),
        {"type": "result", "subtype": "success", "session_id": "s"},
    ]
    assert [message.index for message in parse(entries).messages] == [1, 3]


def test_validation_names_the_indices_of_the_lines():
    entries = [
        PROGRESS,
        ASK,
        says("I look.", "m"),
        call("a", "m"),
        call("b", "m"),
        result("b"),
        ASK,
    ]
    (violation,) = validate(entries)
    assert (violation.index, violation.rule) == (3, "unanswered_tool_call")


def test_a_user_line_before_the_result_is_no_violation_since_results_are_sent_first():
    assert validate([ASK, call("a", "m"), line("user", "hurry"), result("a")]) == []


@pytest.mark.parametrize("nothing", ["", " \n", None, [], [{"type": "text", "text": " "}]])
def test_a_line_that_says_nothing_is_not_sent_and_so_leads_no_conversation(nothing):
    entries = [
        {"type": "user", "message": {"role": "user", "content": nothing}},
        {"type": "user", "isMeta": True, "message": {"role": "user", "content": "Caveat: none."}},
        {"type": "assistant", "message": {"role": "assistant", "content": "the"}},
    ]
    assert parse(entries).ignored == (0,)
    for budget in range(8):
        kept = compact_context(entries, format="claude_code", budget_tokens=budget)
        assert validate(kept.messages, "claude_code") == []


def test_blank_lines_of_the_model_are_no_violation_since_they_are_not_sent():
    assert validate([ASK, says("\n\n", "m"), call("a", "m"), result("a"), says("\n\n", "n")]) == []


@pytest.mark.parametrize(
    ("entry", "part"),
    [({"type": "user"}, "message"), ({"role": "user", "content": "x"}, "type"), ("text", "")],
)
def test_a_line_that_is_invalid_is_refused_with_its_index(entry, part):
    with pytest.raises(InvalidMessageError, match="message 1") as caught:
        parse([ASK, entry], "claude_code")
    assert (caught.value.index, caught.value.part) == (1, part)
