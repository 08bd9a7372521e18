"""OpenAI chat messages: their reading, their units, and every rule that can be broken."""

from __future__ import annotations

from typing import Any

import pytest

import rehydrate
from rehydrate import PromptIR, compile
from rehydrate.formats import FORMATS, detect_format, parse, validate
from rehydrate.messages import PieceKind
from rehydrate.prompt import History

USER = {"role": "user", "content": "hi"}


def calling(*ids: str | None, content: Any = None) -> dict[str, Any]:
    function = {"name": "get", "arguments": '{"id": 7}'}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def tool(call_id: str | None, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def members(*entries: dict[str, Any]) -> list[tuple[int, ...]]:
    return [unit.members for unit in parse(list(entries), "openai_chat").units]


def broken(*entries: dict[str, Any]) -> list[tuple[int, str]]:
    found = validate(list(entries), "openai_chat")
    return [(violation.index, violation.rule) for violation in found]


def test_contents_calls_and_reasoning_become_pieces_of_their_kind():
    part = {"type": "text", "text": "look"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    thinks = calling("a", content="ok") | {"reasoning_content": "hm"}
    user, assistant, result = parse(
        [{"role": "user", "content": [part, image]}, thinks, tool("a", "found")]
    ).messages
    assert (user.pieces, user.images) == ((("look", PieceKind.TEXT),), 1)
    assert assistant.pieces == (
        ("hm", PieceKind.THINKING),
        ("ok", PieceKind.TEXT),
        ('get {"id": 7}', PieceKind.TOOL_INPUT),
    )
    assert (assistant.calls, result.answers) == (("a",), ("a",))
    assert result.pieces == (("found", PieceKind.TOOL_RESULT),)


def test_an_answer_with_citations_of_its_characters_is_never_cut():
    cited = {"type": "url_citation", "url_citation": {"start_index": 900, "end_index": 990}}
    plain = {"role": "assistant", "content": "A sentence. " * 90, "refusal": None}
    places = FORMATS["openai_chat"].places
    assert places({**plain, "annotations": []}, 0) == [("content",)]
    assert places({**plain, "annotations": [cited]}, 0) == [None]


def test_a_refusal_and_a_spoken_answer_are_text():
    refused = {"role": "assistant", "content": None, "refusal": "I cannot."}
    spoken = {"role": "assistant", "content": None, "audio": {"id": "x", "transcript": "Yes."}}
    assert [message.text for message in parse([refused, spoken], "openai_chat").messages] == [
        "I cannot.",
        "Yes.",
    ]
    assert broken(USER, refused, spoken) == []


def test_speech_without_a_content_is_a_message_of_chats_and_costs_as_a_medium():
    spoken = {"role": "assistant", "audio": {"id": "audio_1"}}
    assert detect_format([USER, spoken]) == "openai_chat"
    assert validate([USER, spoken, USER]) == []
    assert parse([USER, spoken]).messages[1].images == 1
    said = {"role": "assistant", "audio": {"id": "audio_1", "data": "QUJD", "transcript": "Yes."}}
    (message,) = parse([said]).messages
    assert (message.text, message.images) == ("Yes.", 0)


def test_a_tool_message_of_swe_agents_answers_the_first_of_its_ids():
    observed = {"role": "tool", "content": "a.py", "tool_call_ids": ["a"]}
    assert members(USER, calling("a"), observed, USER) == [(0,), (1, 2), (3,)]
    assert broken(USER, calling("a"), observed, USER) == []


def test_arguments_that_are_an_object_and_custom_tools_are_read():
    function = {"name": "get", "arguments": {"id": 7}}
    custom = {"id": "b", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    calls = [{"id": "a", "function": function}, custom]
    entry = {"role": "assistant", "content": None, "tool_calls": calls}
    (message,) = parse([entry], "openai_chat").messages
    assert [piece.text for piece in message.pieces] == ['get {"id":7}', "shell ls"]


def test_developer_is_system_and_function_is_tool():
    entries = [
        {"role": "developer", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"role": "function", "name": "f", "content": "7"},
    ]
    conversation = parse(entries, "openai_chat")
    roles = [message.role for message in conversation.messages]
    assert roles == ["system", "user", "assistant", "tool"]
    assert [unit.members for unit in conversation.units] == [(0,), (1,), (2, 3)]
    assert broken(*entries) == []


def test_all_tool_messages_of_parallel_calls_are_one_unit_with_them():
    assert members(USER, calling("a", "b"), tool("b"), tool("a"), USER) == [(0,), (1, 2, 3), (4,)]


def test_ids_that_start_again_in_every_turn_pair_with_the_nearest_call():
    entries = [USER, calling("0"), tool("0"), calling("0"), tool("0")]
    assert members(*entries) == [(0,), (1, 2), (3, 4)]
    assert broken(*entries) == []


def test_tool_messages_without_ids_belong_to_the_calls_they_follow():
    entries = [USER, calling(None, None), tool(None), {"role": "tool", "content": "x"}]
    assert members(*entries) == [(0,), (1, 2, 3)]


PLANTED = {
    "unanswered_tool_call": ([USER, calling("a", "b"), tool("a"), USER], [1]),
    "tool_message_without_call": ([USER, tool("a"), calling("b"), USER, tool("c")], [1, 4]),
    "duplicate_id": ([USER, calling("a", "a"), tool("a")], [1]),
    "duplicate_result": ([USER, calling("a"), tool("a"), tool("a")], [3]),
    "missing_id": ([USER, calling(None)], [1]),
    "null_content_without_calls": (
        [USER, {"role": "assistant", "content": None}, {"role": "user"}],
        [1, 2],
    ),
    "empty_tool_calls": ([USER, calling(content="hi")], [1]),
    "unknown_role": ([{"role": "critic", "content": "meh"}], [0]),
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_violation_is_found_where_it_is(rule):
    entries, indices = PLANTED[rule]
    assert [index for index, found in broken(*entries) if found == rule] == indices


def test_a_message_between_call_and_result_breaks_both():
    assert broken(USER, calling("a"), USER, tool("a")) == [
        (1, "unanswered_tool_call"),
        (3, "tool_message_without_call"),
    ]
    assert members(USER, calling("a"), USER, tool("a")) == [(0,), (1, 3), (2,)]


def test_a_call_unanswered_at_the_very_end_is_an_open_loop():
    assert broken(USER, calling("a", "b")) == []
    assert broken(USER, calling("a", "b"), tool("b")) == []
    assert parse([USER, calling("a", "b"), tool("b")]).pins()[1] == "open tool loop"


def test_no_user_message_is_needed_at_the_start():
    conversation = parse([calling("a"), tool("a")])
    assert broken(calling("a"), tool("a")) == []
    assert not conversation.user_first


# Other servers that speak it


OLLAMA = [
    {"role": "user", "content": "Which berths, and the tide?", "images": ["/9j/4AAQ"]},
    {
        "role": "assistant",
        "content": "",
        "thinking": "I ask both.",
        "tool_calls": [
            {"function": {"name": "berths", "arguments": {"free": True}}},
            {"function": {"index": 1, "name": "tide", "arguments": {}}},
        ],
    },
    {"role": "tool", "tool_name": "tide", "content": "high"},
    {"role": "tool", "tool_name": "berths", "content": "4"},
    {"role": "assistant", "content": "Berth 4, at high tide."},
    USER,
]
MISTRAL = [
    {"role": "user", "content": [{"type": "document_url", "document_url": "https://x/y.pdf"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
            {"type": "text", "text": "It is the tide table."},
            {"type": "reference", "reference_ids": [1]},
        ],
    },
    USER,
    {"role": "assistant", "content": "Berth ", "prefix": True},
]


def test_what_ollama_sends_breaks_no_rule_and_pairs_by_the_tools_name():
    assert detect_format(OLLAMA) == "openai_chat"
    assert broken(*OLLAMA) == [] and rehydrate.lint(OLLAMA) == []
    assert members(*OLLAMA) == [(0,), (1, 2, 3), (4,), (5,)]
    read = parse(OLLAMA)
    assert read.messages[0].images == 1
    assert read.messages[1].pieces[0] == ("I ask both.", PieceKind.THINKING)
    sent = compile(PromptIR(history=History(tuple(OLLAMA), "openai_chat")), "anthropic").messages
    assert sent[0]["content"][1]["source"]["media_type"] == "image/jpeg"
    asked = {block["id"]: block["name"] for block in sent[1]["content"]}
    answered = {block["tool_use_id"]: block["content"] for block in sent[2]["content"]}
    assert {asked[call]: said for call, said in answered.items()} == {"tide": "high", "berths": "4"}


def test_a_call_of_ollamas_without_a_result_and_a_result_too_many_are_still_found():
    assert broken(*OLLAMA[:3], USER) == [(1, "unanswered_tool_call")]
    assert broken(*OLLAMA[:4], OLLAMA[3], USER) == [(4, "tool_message_without_call")]
    assert broken(*OLLAMA[:3]) == []


def test_a_newer_ollamas_calls_have_ids_that_its_results_need_not_name():
    functions = [{"name": name, "arguments": {}} for name in ("berths", "tide")]
    calls = [{"id": f"call_{each['name']}", "function": each} for each in functions]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    tide, berths = [
        {"role": "tool", "tool_name": name, "content": "4"} for name in ("tide", "berths")
    ]
    assert broken(USER, called, tide, berths, USER) == []
    assert broken(USER, called, {**tide, "tool_call_id": "call_tide"}, berths, USER) == []
    assert members(USER, called, tide, berths, USER) == [(0,), (1, 2, 3), (4,)]
    assert broken(USER, called, tide, USER) == [(1, "unanswered_tool_call")]
    assert broken(USER, called, tide, berths, tide) == [(4, "tool_message_without_call")]


def test_a_thought_in_parts_is_mistrals_and_needs_no_signature():
    said = [USER, MISTRAL[1], USER]
    assert detect_format(said) == "openai_chat"
    assert validate(said) == []
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert detect_format([USER, {"role": "assistant", "content": [signed]}]) == "anthropic"


def test_what_mistral_sends_breaks_no_rule_and_is_of_known_types():
    assert detect_format(MISTRAL) == "openai_chat"
    assert broken(*MISTRAL) == [] and not parse(MISTRAL).unknown
    read = parse(MISTRAL)
    assert read.messages[0].images == 1
    assert [piece.kind for piece in read.messages[1].pieces] == [PieceKind.THINKING, PieceKind.TEXT]


# Plain role/content messages: lenient, each a unit of its own.


def test_every_message_is_a_unit_and_unknown_roles_are_kept_as_they_are():
    roles = ["system", "user", "Caroline", "tool_result"]
    conversation = parse([{"role": role, "content": f"I am {role}"} for role in roles])
    assert conversation.format == "plain"
    assert [unit.members for unit in conversation.units] == [(0,), (1,), (2,), (3,)]
    assert [message.role for message in conversation.messages] == [*roles[:3], "tool"]
    assert conversation.messages[3].pieces[0].kind == PieceKind.TOOL_RESULT


def test_text_parts_and_a_missing_content_are_read():
    parts = [{"type": "text", "text": "one"}, "two", {"type": "text", "text": ""}]
    entries = [{"role": "user", "content": parts}, {"role": "assistant"}]
    first, second = parse(entries).messages
    assert [piece.text for piece in first.pieces] == ["one", "two"]
    assert second.pieces == ()
    (violation,) = validate(entries)
    assert (violation.index, violation.rule) == (1, "null_content_without_calls")


@pytest.mark.parametrize(("first", "user_first"), [("user", True), ("assistant", False)])
def test_a_list_that_starts_with_the_user_goes_on_doing_so(first, user_first):
    roles = ["system", first, "assistant"]
    conversation = parse([{"role": role, "content": "x"} for role in roles])
    assert conversation.user_first is user_first
