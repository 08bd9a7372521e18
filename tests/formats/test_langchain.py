"""LangChain messages: read in place, the same objects kept, converted without loss."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
    messages_to_dict,
)

from rehydrate import Context, compact_context, count_tokens
from rehydrate._native import unmarked
from rehydrate.errors import InvalidMessageError, MissingPackageError
from rehydrate.formats import (
    FORMATS,
    detect_format,
    langchain_to_openai,
    openai_to_langchain,
    parse,
    validate,
)
from rehydrate.messages import PROVIDERS, PieceKind
from tests.strategies import langchain_messages, openai_chat_conversations

TEXT, TOOL_INPUT, TOOL_RESULT, THINKING = PieceKind
USER = HumanMessage("hi")


def calling(*ids: str | None, content: Any = "") -> AIMessage:
    calls = [{"name": "get", "args": {"id": 7}, "id": call_id} for call_id in ids]
    return AIMessage(content=content, tool_calls=calls)


def members(*messages: Any) -> list[tuple[int, ...]]:
    return [unit.members for unit in parse(list(messages)).units]


def broken(*messages: Any) -> list[tuple[int, str]]:
    return [(found.index, found.rule) for found in validate(list(messages), "langchain")]


def read(message: Any) -> tuple[list[tuple[str, PieceKind]], int]:
    (read,) = parse([message]).messages
    return [tuple(piece) for piece in read.pieces], read.images


def test_message_objects_are_recognised_without_being_named():
    assert detect_format([USER]) == "langchain"
    assert detect_format([HumanMessageChunk("hi")]) == "langchain"
    duck = SimpleNamespace(type="human", content="hi", additional_kwargs={}, response_metadata={})
    assert parse([duck]).messages[0].text == "hi"


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (SystemMessage("x"), "system"),
        (USER, "user"),
        (HumanMessageChunk("x"), "user"),
        (AIMessage("x"), "assistant"),
        (AIMessageChunk("x"), "assistant"),
        (ToolMessage("x", tool_call_id="a"), "tool"),
        (FunctionMessage(name="f", content="x"), "tool"),
        (ChatMessage(role="user", content="x"), "user"),
        (ChatMessage(role="developer", content="x"), "system"),
        (ChatMessage(role="critic", content="x"), "critic"),
    ],
)
def test_every_class_of_message_has_a_role(message, role):
    assert [each.role for each in parse([message]).messages] == [role]


@pytest.mark.parametrize(
    ("message", "pieces", "images"),
    [
        (HumanMessage(["one", {"type": "text", "text": "two"}]), [("one", TEXT), ("two", TEXT)], 0),
        (
            HumanMessage(
                [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
                    {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"},
                ]
            ),
            [],
            2,
        ),
        (calling("a", content="ok"), [("ok", TEXT), ('get {"id":7}', TOOL_INPUT)], 0),
        (
            AIMessage(
                [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, "ok"],
                additional_kwargs={"refusal": "no"},
            ),
            [("hm", THINKING), ("ok", TEXT), ("no", TEXT)],
            0,
        ),
        (AIMessage([{"type": "reasoning", "reasoning": "so"}]), [("so", THINKING)], 0),
        (
            AIMessage("", additional_kwargs={"reasoning_content": "so"}),
            [("so", THINKING)],
            0,
        ),
        (
            ToolMessage("found", tool_call_id="a", artifact={"rows": ["not the model's"]}),
            [("found", TOOL_RESULT)],
            0,
        ),
        (
            AIMessage(
                "",
                invalid_tool_calls=[{"name": "get", "args": "{bad", "id": "a", "error": "no JSON"}],
            ),
            [("get {bad", TOOL_INPUT)],
            0,
        ),
        (
            AIMessageChunk(
                "", tool_call_chunks=[{"name": "get", "args": '{"id": 7}', "id": "a", "index": 0}]
            ),
            [('get {"id":7}', TOOL_INPUT)],
            0,
        ),
        (
            AIMessage([{"type": "server_tool_result", "tool_call_id": "s", "output": "found"}]),
            [("found", TOOL_RESULT)],
            0,
        ),
        (AIMessage([{"type": "redacted_thinking", "data": "b3BhcXVl"}]), [], 0),
    ],
)
def test_contents_calls_and_reasoning_become_pieces_of_their_kind(message, pieces, images):
    assert read(message) == (pieces, images)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "a", "name": "get", "input": {"id": 7}},
        {"type": "tool_call", "id": "a", "name": "get", "args": {"id": 7}},
        {"type": "function_call", "call_id": "a", "name": "get", "arguments": '{"id":7}'},
    ],
)
def test_a_call_that_is_in_several_places_counts_once(block):
    function = {"name": "get", "arguments": '{"id": 7}'}
    extras = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}
    everywhere = calling("a", content=[block])
    everywhere.additional_kwargs = extras
    assert read(everywhere) == read(calling("a"))
    assert count_tokens([everywhere]) == count_tokens([calling("a")])
    only_block = AIMessage([block])
    assert read(only_block) == read(calling("a"))
    assert members(USER, only_block, ToolMessage("x", tool_call_id="a")) == [(0,), (1, 2)]


def test_parallel_calls_and_all_their_results_are_one_unit():
    results = [ToolMessage("x", tool_call_id=call_id) for call_id in ("b", "a")]
    assert members(USER, calling("a", "b"), *results, USER) == [(0,), (1, 2, 3), (4,)]


def test_results_as_blocks_of_the_user_pair_too():
    results = HumanMessage([{"type": "tool_result", "tool_use_id": "a", "content": "found"}])
    messages = [USER, calling("a"), results, AIMessage("ok")]
    assert members(*messages) == [(0,), (1, 2), (3,)]
    assert [message.is_user_turn for message in parse(messages).messages].count(True) == 1
    assert broken(*messages) == []


def test_a_function_message_pairs_by_its_name():
    call = {"function_call": {"name": "f", "arguments": "{}"}}
    messages = [USER, AIMessage("", additional_kwargs=call), FunctionMessage(name="f", content="7")]
    assert members(*messages) == [(0,), (1, 2)]
    assert broken(*messages) == []


def test_an_order_to_remove_a_message_is_no_message():
    conversation = parse([USER, RemoveMessage(id="x"), AIMessage("ok")])
    assert conversation.ignored == (1,)
    assert broken(RemoveMessage(id="x"), USER) == []


@pytest.mark.parametrize(
    ("messages", "violations"),
    [
        ([calling("a"), USER], [(0, "unanswered_tool_call")]),
        ([USER, ToolMessage("x", tool_call_id="a")], [(1, "tool_message_without_call")]),
        ([RemoveMessage(id="x"), calling(None)], [(1, "missing_id")]),
        ([ChatMessage(role="critic", content="meh")], [(0, "unknown_role")]),
        ([calling("a", "a"), ToolMessage("x", tool_call_id="a")], [(0, "duplicate_id")]),
    ],
)
def test_the_rules_are_those_of_openai_chat_with_the_indices_of_the_list(messages, violations):
    assert broken(*messages) == violations


@given(langchain_messages(), st.sampled_from([0.05, 0.3, 0.6]))
def test_kept_messages_are_the_same_objects_and_langchain_converts_them(messages, ratio):
    result = compact_context(messages, target_ratio=ratio)
    ids = [id(message) for message in messages]
    places = [ids.index(id(message)) for message in result.messages]
    assert places == sorted(set(places))
    assert validate(result.messages, "langchain") == []
    spoken = [message for message in result.messages if message.type != "remove"]
    assert len(convert_to_openai_messages(spoken)) == len(spoken)


@given(langchain_messages())
def test_a_place_leads_to_its_text_and_only_that_is_replaced(messages):
    for index, message in enumerate(messages):
        if message.type == "remove":
            continue
        pieces = parse([message], "langchain").messages[0].pieces
        places = FORMATS["langchain"].places(message, index)
        assert len(places) == len(pieces)
        for number, (piece, place) in enumerate(zip(pieces, places, strict=True)):
            if place is None:
                continue
            assert piece.kind in (TEXT, TOOL_RESULT)
            before = message.model_copy(deep=True)
            again = FORMATS["langchain"].replace(message, {place: "short"})
            assert message == before and type(again) is type(message)
            texts = [each.text for each in pieces]
            texts[number] = "short"
            assert [each.text for each in parse([again]).messages[0].pieces] == texts
            assert FORMATS["langchain"].replace(again, {place: piece.text}) == message


def test_tool_inputs_thinking_and_cited_texts_have_no_place():
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "x", "citations": [1]},
    ]
    assert FORMATS["langchain"].places(calling("a", content=blocks), 0) == [None, None, None]


@given(openai_chat_conversations())
def test_openai_dicts_come_back_from_langchain_as_they_were(entries):
    again = langchain_to_openai(openai_to_langchain(entries))
    said = [
        {key: value for key, value in entry.items() if value is not None or key == "content"}
        for entry in entries
    ]
    assert again == said


@given(langchain_messages())
def test_langchain_messages_keep_texts_calls_and_results_on_the_way_through_openai(messages):
    messages = [message for message in messages if message.type != "remove"]
    entries = langchain_to_openai(messages)
    assert json.loads(json.dumps(entries)) == entries
    assert validate(entries, "openai_chat") == []
    there, back = parse(messages, "langchain"), parse(openai_to_langchain(entries), "langchain")
    assert [message[1:] for message in there.messages] == [message[1:] for message in back.messages]


def test_arguments_that_are_no_json_stay_as_they_are_on_both_ways():
    function = {"name": "get", "arguments": '{"id": '}
    entry = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }
    (message,) = openai_to_langchain([entry])
    assert message.invalid_tool_calls[0]["args"] == '{"id": '
    assert langchain_to_openai([message]) == [entry]


def test_a_server_tools_call_stays_a_block():
    block = {"type": "server_tool_call", "id": "s", "name": "search", "args": {}}
    assert langchain_to_openai([AIMessage([block])]) == [{"role": "assistant", "content": [block]}]


@pytest.mark.parametrize(
    ("convert", "messages", "reason"),
    [
        (langchain_to_openai, [USER, RemoveMessage(id="x")], "message 1.*leave it out"),
        (langchain_to_openai, [USER, {"role": "user"}], "message 1 is a dict.*openai_to_langchain"),
        (openai_to_langchain, [{"role": "critic", "content": "x"}], "message 0.*LangChain says"),
        (openai_to_langchain, [USER], "message 0.*langchain_to_openai"),
        (
            openai_to_langchain,
            [{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {}}]}],
            r"message 0: tool_calls\[0\].*a function call",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_its_place(convert, messages, reason):
    with pytest.raises(InvalidMessageError, match=reason):
        convert(messages)


def test_dicts_among_objects_are_refused_with_the_index_of_the_odd_one():
    entry = {"role": "user", "content": "hi"}
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    for mixed, index in (([USER, entry], 1), ([entry, USER], 0), ([calls, USER], 1)):
        with pytest.raises(InvalidMessageError, match=f"message {index}.*convert") as caught:
            parse(mixed)
        assert caught.value.index == index


def test_messages_in_langchains_stored_form_are_refused_with_what_loads_them():
    with pytest.raises(InvalidMessageError, match=r"messages_from_dict"):
        parse(messages_to_dict([USER]))


def test_reading_needs_no_langchain_and_making_its_messages_names_the_package(monkeypatch):
    script = (
        "import sys, rehydrate\n"
        "from types import SimpleNamespace as Message\n"
        "hi = Message(type='human', content='hi', additional_kwargs={}, response_metadata={})\n"
        "assert rehydrate.compact_context([hi]).messages[0] is hi\n"
        "assert not any(name.startswith('langchain') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    monkeypatch.setitem(sys.modules, "langchain_core.messages", None)
    with pytest.raises(MissingPackageError, match="pip install 'langchain-core'") as caught:
        openai_to_langchain([{"role": "user", "content": "hi"}])
    assert isinstance(caught.value, ImportError) and caught.value.name == "langchain-core"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_prompt_between_parallel_results_with_pictures_is_extended_by_the_next(
    provider: Any,
) -> None:
    """Some providers take no picture in a result: it comes after all results of the turn."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    context = Context(provider=provider, format="langchain")
    context.add(USER, calling("a", "b"), ToolMessage([picture], tool_call_id="a"))
    between = blocks_of(context.prompt().messages)
    context.add(ToolMessage("Berth 4.", tool_call_id="b"))
    whole = context.prompt().messages
    assert blocks_of(whole)[: len(between)] == between
    assert "iVBORw0KGgo=" in str(whole) or provider == "bedrock"  # which has it as bytes
    assert validate(whole, provider) == []


def blocks_of(messages: Any) -> list[Any]:
    """Return the blocks of all messages without marks of a cache: results may be in one message."""
    found: list[Any] = []
    for message in messages:
        content = message.get("content", message.get("parts"))
        for block in content if isinstance(content, list) else [message]:
            found += [unmarked(block)] if "cachePoint" not in block else []
    return found
