"""Blocks that no format knows: foreign pairs are refused at every door, others are never lost."""

from __future__ import annotations

import base64
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import rehydrate
from rehydrate import (
    Budget,
    Context,
    compact_context,
    count_tokens,
    detect_format,
    estimate_tokens,
    validate,
)
from rehydrate.errors import InvalidMessageError, UnknownBlockError
from rehydrate.formats import FORMATS, parse
from rehydrate.messages import FORMAT_NAMES

ASK: dict[str, Any] = {"role": "user", "content": "Which berth is free?"}
ROUND: list[dict[str, Any]] = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "4"}]},
]
CHAT_ROUND: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "4"},
]
BEDROCK = [
    {"role": "user", "content": [{"text": "Which berth is free?"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "4"}]}}]},
]
AI_SDK = {
    "role": "assistant",
    "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "f", "input": {}}],
}
HAYSTACK = [
    ASK,
    {"role": "assistant", "content": [{"tool_call": {"tool_name": "f", "id": "t"}}]},
]
FOREIGN: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a UIMessage of the AI SDK 4": (
        [ASK, {"role": "assistant", "content": "", "parts": [{"type": "tool-invocation"}]}],
        "tool-invocation",
    ),
    "an approval of the AI SDK": (
        [ASK, {"role": "assistant", "content": [{"type": "tool-approval-request"}]}],
        "tool-approval-request",
    ),
    "Gemini's call in a content": (
        [ASK, {"role": "assistant", "content": [{"functionCall": {"name": "f", "args": {}}}]}],
        "functionCall",
    ),
    "Haystack": (HAYSTACK, "tool_call"),
    "Agent Framework": (
        [ASK, {"role": "assistant", "contents": [{"type": "function_call", "call_id": "t"}]}],
        "function_call",
    ),
    "Semantic Kernel": (
        [ASK, {"role": "assistant", "items": [{"$type": "FunctionCallContent", "id": "t"}]}],
        "FunctionCallContent",
    ),
    "LlamaIndex": (
        [ASK, {"role": "assistant", "blocks": [{"block_type": "tool_call", "tool_name": "f"}]}],
        "tool_call",
    ),
    "a foreign pair after Anthropic's": ([ASK, *ROUND, AI_SDK], "tool-call"),
    "a foreign pair after chat's": ([ASK, *CHAT_ROUND, BEDROCK[1]], "toolUse"),
    "a foreign pair among Responses items": (
        [{"type": "reasoning", "id": "r", "summary": []}, {"type": "message", **BEDROCK[1]}],
        "toolUse",
    ),
}


def in_context(provider: str) -> Callable[[list[Any]], object]:
    def add(messages: list[Any]) -> object:
        context = Context(provider=provider)  # type: ignore[arg-type]
        context.add(*messages)
        return context.prompt()

    return add


def lint(messages: list[Any]) -> object:
    return rehydrate.lint(messages)  # the lab's, which may not be installed


def read_session(messages: list[Any]) -> object:
    return rehydrate.retention.read_session(messages)


DOORS: dict[str, Callable[[list[Any]], object]] = {
    "compact_context": compact_context,
    "count_tokens": count_tokens,
    "estimate_tokens": estimate_tokens,
    "validate": validate,
    "lint": lint,
    "eval": read_session,
    "Context for Anthropic": in_context("anthropic"),
    "Context for chat": in_context("openai_chat"),
    "Context for Responses": in_context("openai_responses"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_pair_is_refused_at_every_entry_point(name: str, door: str) -> None:
    messages, _ = FOREIGN[name]
    with pytest.raises(InvalidMessageError):
        DOORS[door](messages)


@pytest.mark.parametrize("name", FOREIGN)
def test_the_error_names_the_block_the_formats_and_the_way_out(name: str) -> None:
    messages, block = FOREIGN[name]
    with pytest.raises(UnknownBlockError, match=r"convert the messages") as caught:
        compact_context(messages)
    error = caught.value
    assert (error.block, error.formats) == (block, FORMAT_NAMES)
    assert repr(block) in str(error)
    assert all(name in str(error) for name in FORMATS)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (UnknownBlockError, str(error), vars(error))


def test_a_plain_list_with_a_foreign_pair_has_no_format() -> None:
    with pytest.raises(UnknownBlockError):
        detect_format(HAYSTACK)


def test_a_row_with_a_foreign_pair_fails_alone() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    rows = [json.dumps([ASK]), json.dumps(HAYSTACK)]
    made = rehydrate.batch.compact_batch(pyarrow.table({"id": [1, 2], "messages": rows}))
    errors = pyarrow.table(made).column("error").to_pylist()
    assert errors[0] is None
    assert "tool_call" in errors[1]


def test_the_tool_says_what_is_wrong_with_a_foreign_pair() -> None:
    from rehydrate.rpc import tool

    with pytest.raises(tool.WRONG_ARGUMENTS, match="tool_call"):
        tool.call({"messages": HAYSTACK})


def test_calls_of_chat_among_anthropics_messages_are_refused_and_not_overlooked() -> None:
    with pytest.raises(InvalidMessageError, match=r"message 3: tool_calls.*openai_chat"):
        compact_context([ASK, *ROUND, *CHAT_ROUND])
    with pytest.raises(InvalidMessageError, match="message 3: tool_calls"):
        validate([ASK, *ROUND, *CHAT_ROUND])


def test_anthropics_calls_among_chats_messages_are_paired_too() -> None:
    for name in ("auto", "openai_chat", "plain"):
        messages = [ASK, *(CHAT_ROUND if name == "auto" else []), *ROUND, ASK]
        units = [unit.members for unit in parse(messages, name).units]
        assert (len(messages) - 3, len(messages) - 2) in units
        assert parse(messages, name).pins()[len(units) - 1] == "last user turn"


def test_thinking_in_chat_does_not_hide_its_calls() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}]}
    messages = [ASK, said, ASK, *CHAT_ROUND]
    assert detect_format(messages) == "openai_chat"
    assert [unit.members for unit in parse(messages).units] == [(0,), (1,), (2,), (3, 4)]


def test_texts_of_a_foreign_dialect_are_read_where_nothing_is_paired() -> None:
    (message,) = parse([BEDROCK[0]]).messages
    assert message.text == "Which berth is free?"
    assert parse([BEDROCK[0]]).unknown == {}


# Unknown blocks that aren't pairs


LONG = [
    message
    for turn in range(12)
    for message in (
        {"role": "user", "content": f"Question {turn}? " * 20},
        {"role": "assistant", "content": f"Answer {turn}. " * 20},
    )
]
STATE = {"type": "state_of_the_future", "encrypted_content": "gAAA" * 100}


def anthropic(block: dict[str, Any]) -> list[Any]:
    said = {"role": "assistant", "content": [block, {"type": "text", "text": "ok"}]}
    return [*LONG[:2], ASK, *ROUND, said, *LONG[2:], ASK]


def openai_chat(block: dict[str, Any]) -> list[Any]:
    said = {"role": "assistant", "content": [block, {"type": "text", "text": "ok"}]}
    return [*LONG[:2], ASK, *CHAT_ROUND, said, *LONG[2:], ASK]


def openai_responses(block: dict[str, Any]) -> list[Any]:
    thought = {"type": "reasoning", "id": "rs", "summary": []}
    return [*LONG[:2], ASK, thought, {"role": "assistant", "content": "ok"}, block, *LONG[2:], ASK]


def langchain(block: dict[str, Any]) -> list[Any]:
    turns = [
        kind(each["content"])
        for each, kind in zip(LONG, [HumanMessage, AIMessage] * 12, strict=True)
    ]
    return [*turns[:2], HumanMessage("hi"), AIMessage([block, "ok"]), *turns[2:], HumanMessage("?")]


def plain(block: dict[str, Any]) -> list[Any]:
    return [*LONG[:2], ASK, {"role": "assistant", "content": [block, "ok"]}, *LONG[2:], ASK]


LISTS = [anthropic, openai_chat, openai_responses, langchain, plain]


def holds(messages: list[Any], block: dict[str, Any]) -> bool:
    return any(
        message is block or any(part is block or part == block for part in _content(message) or ())
        for message in messages
    )


def _content(message: Any) -> Any:
    content = getattr(message, "content", None)
    return message.get("content") if isinstance(message, dict) else content


@pytest.mark.parametrize("make", LISTS)
def test_a_block_that_nobody_can_read_may_be_state_and_stays(make: Any) -> None:
    messages = make(STATE)
    for ratio in (0.05, 0.2, 0.5):
        kept = compact_context(messages, target_ratio=ratio)
        assert kept.stats.changed
        assert holds(kept.messages, STATE)


@pytest.mark.parametrize("make", LISTS)
def test_a_block_of_no_known_type_is_counted_and_said(make: Any) -> None:
    payload = {"type": "hologram", "payload": "QUJD" * 10_000}
    words = {"type": "hologram", "caption": "a ship at berth 4 " * 50}
    without = count_tokens(make({"type": "text", "text": "x"}))
    assert 1_000 < count_tokens(make(payload)) - without < 2_000
    assert 200 < count_tokens(make(words)) - without < 500
    for block in (STATE, payload, words):
        stats = compact_context(make(block), target_ratio=0.3).stats
        assert f"'{block['type']}'" in " ".join(stats.degraded)


def test_a_context_says_that_a_block_is_unknown() -> None:
    context = Context(provider="anthropic", budget=Budget(soft_tokens=2_000))
    context.add(*anthropic(STATE))
    prompt = context.prompt()
    assert "'state_of_the_future'" in " ".join(prompt.ir.meta.degraded)
    assert holds(prompt.request["messages"], STATE)


# Billed blocks are counted once: one reader of blocks for every format


PNG = "iVBO" * 20_000
URL = f"data:image/png;base64,{PNG}"
TEXT = "The ferry leaves at noon. " * 400
MEDIA: dict[str, dict[str, Any]] = {
    "an image": {"type": "image", "source": {"type": "base64", "data": PNG}},
    "an image by its address": {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
    "an image_url": {"type": "image_url", "image_url": {"url": URL}},
    "a PDF": {"type": "document", "source": {"type": "base64", "data": PNG}},
    "a PDF by its address": {"type": "document", "source": {"type": "url", "url": "https://x/y"}},
    "a picture in a document": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "image", "source": {"data": PNG}}]},
    },
    "LangChain's media": {"type": "media", "mime_type": "application/pdf", "data": PNG},
    "a file": {"type": "file", "base64": PNG, "mime_type": "application/pdf"},
    "an unknown block": {"type": "hologram", "media_type": "model/x", "data": PNG},
    "an unknown block with an address": {"type": "hologram", "payload": {"url": URL}},
    "an unknown block of bytes": {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
    "a generated image": {"type": "image_generation_call", "id": "i", "result": PNG},
}
TEXTS: dict[str, dict[str, Any]] = {
    "a text": {"type": "text", "text": TEXT},
    "a text document": {"type": "document", "source": {"type": "text", "data": TEXT}},
    "a document of texts": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": TEXT}]},
    },
    "a document of one text": {"type": "document", "source": {"type": "content", "content": TEXT}},
    "a search result": {"type": "search_result", "content": [{"type": "text", "text": TEXT}]},
}


def in_result(block: dict[str, Any]) -> list[Any]:
    return [
        *ROUND[:1],
        {"role": "user", "content": [{**ROUND[1]["content"][0], "content": [block]}]},
    ]


def in_chat_result(block: dict[str, Any]) -> list[Any]:
    return [CHAT_ROUND[0], {**CHAT_ROUND[1], "content": [block]}]


PLACES: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "Anthropic": lambda block: [*ROUND, {"role": "user", "content": [block]}],
    "a result of Anthropic's": in_result,
    "a transcript": lambda block: [
        {"type": "user", "message": {"role": "user", "content": [block]}, "uuid": "1"}
    ],
    "chat": lambda block: [*CHAT_ROUND, {"role": "user", "content": [block]}],
    "a result of chat's": in_chat_result,
    "Responses": lambda block: [{"type": "message", "role": "user", "content": [block]}],
    "an output of Responses": lambda block: [
        {"type": "function_call_output", "call_id": "a", "output": [block]}
    ],
    "LangChain": lambda block: [HumanMessage([block])],
    "a reply of LangChain's": lambda block: [AIMessage([block])],
    "a result of LangChain's": lambda block: [ToolMessage([block], tool_call_id="a")],
    "a result among LangChain's blocks": lambda block: [
        HumanMessage([{"type": "tool_result", "tool_use_id": "a", "content": [block]}])
    ],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", MEDIA)
def test_every_medium_counts_as_one_in_every_place(name: str, place: str) -> None:
    tokens = count_tokens(PLACES[place](MEDIA[name]), format=_format(place))
    assert 1_600 <= tokens < 1_650


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", TEXTS)
def test_every_text_counts_once_in_every_place(name: str, place: str) -> None:
    tokens = count_tokens(PLACES[place](TEXTS[name]), format=_format(place))
    assert count_tokens(TEXT) <= tokens < count_tokens(TEXT) + 50


def _format(place: str) -> str:
    """Return "auto", or the format of a list that none of its entries tells."""
    return "openai_responses" if place == "Responses" else "auto"


def test_pictures_of_ollama_next_to_the_content_count() -> None:
    shown = {"role": "user", "content": "What is it?", "images": [PNG, PNG]}
    for name in ("auto", "plain", "openai_chat"):
        assert 3_200 < count_tokens([shown], format=name) < 3_250


def test_a_text_block_is_billed_as_text_whatever_it_holds() -> None:
    block = {"type": "text", "text": URL}
    counts = {
        count_tokens([{"role": "user", "content": [block]}], format=name)
        for name in FORMATS
        if name not in ("claude_code", "langchain")
    }
    assert counts == {count_tokens(URL)}


@pytest.mark.parametrize("depth", [5, 30, 300])
def test_text_at_any_depth_of_a_block_counts(depth: int) -> None:
    deep: Any = "The ferry leaves at noon."
    for _ in range(depth):
        deep = {"inside": [deep]}
    said = {"role": "assistant", "content": [{"type": "server_tool_result", "content": deep}]}
    assert count_tokens([said]) >= count_tokens("The ferry leaves at noon.")


def test_an_error_about_a_role_does_not_repeat_a_long_one() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    for role in (secret, secret[:14]):
        with pytest.raises(InvalidMessageError) as failed:
            compact_context([{"role": role, "content": "x"}])
        assert role not in str(failed.value)


BLOB = base64.b64encode(random.Random(7).randbytes(600)).decode()


def resource(**body: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///report.pdf", **body}}


def read_by_anthropic(part: dict[str, Any]) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [part]}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def read_by_chat(part: dict[str, Any]) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": "{}"}
    call = {"id": "a", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [part]},
    ]


BOTH = pytest.mark.parametrize("conversation", [read_by_anthropic, read_by_chat])


@BOTH
def test_the_bytes_of_a_resource_are_never_read_as_text(conversation):
    result = parse(conversation(resource(mimeType="application/pdf", blob=BLOB))).messages[-1]
    assert BLOB not in result.text


@BOTH
def test_a_resource_with_bytes_counts_as_one_medium(conversation):
    result = parse(conversation(resource(mimeType="application/pdf", blob=BLOB))).messages[-1]
    assert result.images == 1


@BOTH
def test_the_text_and_the_address_of_a_resource_are_read(conversation):
    result = parse(conversation(resource(text="Revenue grew."))).messages[-1]
    assert (result.images, "Revenue grew." in result.text) == (0, True)
    assert "file:///report.pdf" in result.text
