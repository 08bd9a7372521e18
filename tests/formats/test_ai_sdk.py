"""The AI SDK's messages as they are read: detection, units, media, places of texts, thinking."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate import compact_context, count_tokens
from rehydrate.formats import FORMATS, detect_format, parse
from rehydrate.messages import PieceKind
from tests.formats.ai_sdk_messages import (
    ASKED,
    LISTED,
    PNG,
    SAID,
    SIGNED,
    SPOKEN,
    USER,
    answer,
    assistant,
    call,
    decided,
    old_answer,
    shown,
    tool,
    tools,
)
from tests.provider.ai_sdk import refusal


@pytest.mark.parametrize(
    ("format", "entries"),
    [
        ("ai_sdk", [USER, tools(answer())]),
        ("ai_sdk", [{"role": "user", "content": [{"type": "text", "text": "x"}, PNG]}]),
        ("ai_sdk", [{**USER, "providerOptions": {"anthropic": {"cacheControl": {}}}}]),
        (
            "ai_sdk",
            [{"role": "user", "content": [{"type": "file", "data": "x", "mediaType": "a/b"}]}],
        ),
        ("ai_sdk_ui", [SPOKEN]),
        ("ai_sdk_ui", [shown({"type": "step-start"}, tool())]),
        ("plain", [USER, SAID]),
        (
            "openai_chat",
            [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}],
        ),
        ("openai_chat", [USER, {"role": "tool", "tool_call_id": "a", "content": "4"}]),
        ("anthropic", [{"role": "user", "content": [{"type": "image", "source": {}}]}]),
        ("gemini", [{"role": "user", "parts": [{"text": "hi"}]}]),
    ],
)
def test_the_first_entry_that_one_format_can_hold_decides(format: str, entries: list[Any]) -> None:
    assert detect_format(entries) == format


def test_results_are_results_in_every_shape() -> None:
    outputs = [
        {"type": "text", "value": "4"},
        {"type": "error-text", "value": "No tide."},
        {"type": "json", "value": {"berth": 4}},
        {
            "type": "content",
            "value": [{"type": "text", "text": "See"}, {"type": "image-url", "url": "u"}],
        },
        {"type": "execution-denied", "reason": "Not now."},
    ]
    ids = [f"c{number}" for number in range(len(outputs))]
    results = tools(*(answer(id, output=output) for id, output in zip(ids, outputs, strict=True)))  # noqa: A001
    _, called, read = parse([USER, assistant(*map(call, ids)), results], "ai_sdk").messages
    assert called.calls == read.answers == tuple(ids)
    said = [(piece.text, piece.kind) for piece in read.pieces]
    texts = ["4", "No tide.", '{"berth":4}', "See", "Not now."]
    assert said == [(text, PieceKind.TOOL_RESULT) for text in texts]
    assert read.images == 1


def test_the_parts_of_a_version_4_result_are_read_in_place_of_its_value() -> None:
    result = tools(old_answer(result={"png": "x" * 5000}, experimental_content=LISTED))
    (_, _, read) = parse([USER, assistant(call()), result]).messages
    assert [(piece.text, piece.kind) for piece in read.pieces] == [
        ("Berth 4, at noon.", PieceKind.TOOL_RESULT)
    ]
    assert (read.images, read.answers) == (1, ("a",))
    path = ("content", 0, "experimental_content", 0, "text")
    assert FORMATS["ai_sdk"].places(result, 0) == [path]
    for nothing in ([], None, "See"):
        (read,) = parse([tools(old_answer(result="4", experimental_content=nothing))]).messages
        assert (read.images, read.text) == (0, "4")


def test_a_long_text_of_a_version_4_result_is_shortened_in_its_place() -> None:
    text = "\n".join(f"Berth {number} is free until {number % 24}:00." for number in range(400))
    listed = [{"type": "text", "text": text}, LISTED[1]]
    result = tools(old_answer(experimental_content=listed))
    entries = [USER, assistant(call()), result, SAID, USER]
    small = compact_context(entries, target_ratio=0.6, format="ai_sdk", granularity="excerpt")
    (kept,) = (each["content"][0] for each in small.messages if each["role"] == "tool")
    (shortened, image) = kept["experimental_content"]
    assert len(shortened["text"]) < len(text) and image == LISTED[1]
    assert {**kept, "experimental_content": listed} == result["content"][0]


def test_a_tool_part_of_a_ui_message_is_call_and_result_in_one() -> None:
    entries = [
        SPOKEN,
        shown(tool(input={"at": "noon"}), tool("b", "output-error", errorText="No.")),
    ]
    conversation = parse(entries)
    _, said = conversation.messages
    assert (said.calls, said.answers) == (("a", "b"), ("a", "b"))
    assert [(piece.text, int(piece.kind)) for piece in said.pieces] == [
        ('f {"at":"noon"}', PieceKind.TOOL_INPUT),
        ("4", PieceKind.TOOL_RESULT),
        ("f {}", PieceKind.TOOL_INPUT),
        ("No.", PieceKind.TOOL_RESULT),
    ]
    assert [unit.members for unit in conversation.units] == [(0,), (1,)]
    (answered,) = conversation.units[1].messages
    assert set(answered.calls) == set(answered.answers)
    (waiting,) = parse([shown(tool(state="approval-requested"))]).messages
    assert waiting.calls and not waiting.answers


def test_what_is_not_sent_to_a_model_is_not_counted() -> None:
    more = [
        {"type": "source-url", "sourceId": "s", "url": "https://harbour.example/" + "x" * 500},
        {"type": "data-weather", "data": {"sky": "clear " * 500}},
        tool(state="input-streaming", input={"at": "noon " * 500}),
        {"type": "step-start"},
    ]
    said = {"type": "text", "text": "Berth 4."}
    assert count_tokens([shown(said, *more)]) == count_tokens([shown(said)])


def test_each_medium_counts_once() -> None:
    files = [
        PNG,
        {"type": "file", "data": b"x", "mediaType": "application/pdf"},
        {"type": "file", "data": {"type": "url", "url": "https://a.example"}, "mediaType": "a/b"},
    ]
    (read,) = parse([{"role": "user", "content": files}], "ai_sdk").messages
    assert read.images == 3
    text = {"type": "file", "data": {"type": "text", "text": "Tides"}, "mediaType": "text/plain"}
    (read,) = parse([{"role": "user", "content": [text]}], "ai_sdk").messages
    assert (read.images, read.text) == (0, "Tides")


def test_an_approval_stays_with_its_call() -> None:
    entries = [USER, assistant(call(), ASKED), tools(decided(approved=True)), tools(answer()), SAID]
    assert [unit.members for unit in parse(entries).units] == [(0,), (1, 2, 3), (4,)]


def test_the_paths_of_texts_lead_to_them() -> None:
    said = assistant({"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "So."}, call())
    assert FORMATS["ai_sdk"].places(said, 0) == [None, ("content", 1, "text"), None]
    result = tools(answer(), answer("b", {"berth": 4}))
    assert FORMATS["ai_sdk"].places(result, 0) == [("content", 0, "output", "value"), None]
    paths = FORMATS["ai_sdk_ui"].places(shown(tool(), {"type": "text", "text": "So."}), 0)
    assert paths == [None, ("parts", 0, "output"), ("parts", 1, "text")]


def test_thinking_goes_unless_items_of_responses_need_it() -> None:
    without = FORMATS["ai_sdk"].without_thinking
    thought = {"type": "reasoning", "text": "Hm.", "providerOptions": SIGNED}
    (left,) = without([assistant(thought, {"type": "text", "text": "So."})])
    assert left == assistant({"type": "text", "text": "So."})
    assert without([assistant(thought)]) == [None]
    item = {**thought, "providerOptions": {"openai": {"itemId": "rs_1"}}}
    whole = assistant(item, {"type": "text", "text": "So."})
    assert without([whole])[0] is whole
    (left,) = FORMATS["ai_sdk_ui"].without_thinking([shown(thought, tool())])
    assert left == shown(tool())


def test_a_claudes_signed_reasoning_goes_after_a_change() -> None:
    thought = {"type": "reasoning", "text": "Hm. " * 50, "providerOptions": SIGNED}
    entries: list[Any] = [USER]
    for turn in range(12):
        entries += [assistant(thought, {"type": "text", "text": f"Berth {turn}. " * 20}), USER]
    small = compact_context(entries, target_ratio=0.4)
    assert small.stats.stripped > 0
    assert refusal(small.messages) is None


def test_a_ui_message_that_ends_with_a_result_is_still_to_be_answered() -> None:
    """The user's side ran the tool, and sends the list: `sendAutomaticallyWhen`."""
    entries: list[Any] = []
    for turn in range(10):
        entries += [SPOKEN, shown({"type": "text", "text": f"Berth {turn} is free. " * 20})]
    denied = {"state": "approval-responded", "approval": {"id": "p", "approved": False}}
    for last in (tool(output="4 " * 200), tool(state="output-denied"), tool(**denied)):
        asked = [*entries, SPOKEN, shown({"type": "step-start"}, last)]
        small = compact_context(asked, budget_tokens=10, format="ai_sdk_ui")
        assert small.messages[-1] is asked[-1]
    reported = [*asked[:-1], shown(last, {"type": "text", "text": "It is 4. " * 50})]
    assert compact_context(reported, budget_tokens=10).messages[-1] is not reported[-1]


def test_a_custom_part_always_stays() -> None:
    state = {"role": "assistant", "content": [{"type": "custom", "kind": "openai.compaction"}]}
    entries = [USER, state, *([SAID, USER] * 20)]
    small = compact_context(entries, target_ratio=0.1, format="ai_sdk")
    assert any(each is state for each in small.messages)
