"""The AI SDK's messages: detection, units, rules, places, conversions, and what the SDK takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import compact_context, count_tokens
from rehydrate._native import entry_inputs, result_entries, tool_definition, user_message
from rehydrate.context import Context
from rehydrate.formats import FORMATS, detect_format, parse, validate
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import PROVIDERS, PieceKind
from rehydrate.prompt import (
    ContextRequest,
    History,
    PromptIR,
    Provenance,
    Section,
    ToolDef,
    compile,
)
from tests.prompt.example_irs import lawful_irs
from tests.provider.ai_sdk import refusal, ui_refusal
from tests.provider.sendable import sendable
from tests.rendered import render_history
from tests.strategies import BY_FORMAT, ai_sdk_conversations, ai_sdk_ui_conversations, damaged

USER = {"role": "user", "content": "Which berth is free?"}
SAID = {"role": "assistant", "content": [{"type": "text", "text": "Berth 4."}]}
PNG = {"type": "image", "image": "iVBORw0KGgo=", "mediaType": "image/png"}
ASKED = {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "a"}
SPEC = {"name": "f", "inputSchema": {"type": "object"}}
SIGNED = {"anthropic": {"signature": "c2ln"}}
SPOKEN = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Which berth?"}]}


def call(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": id, "toolName": "f", "input": {}, **more}


def answer(id: str = "a", value: Any = "4", **more: Any) -> dict[str, Any]:
    kind = "text" if isinstance(value, str) else "json"
    about = {"toolCallId": id, "toolName": "f"}
    return {"type": "tool-result", **about, "output": {"type": kind, "value": value}, **more}


def decided(*, approved: bool, **more: Any) -> dict[str, Any]:
    return {"type": "tool-approval-response", "approvalId": "p", "approved": approved, **more}


def assistant(*parts: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def tools(*parts: Any) -> dict[str, Any]:
    return {"role": "tool", "content": list(parts)}


def shown(*parts: Any, role: str = "assistant") -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": list(parts)}


def tool(id: str = "a", state: str = "output-available", **more: Any) -> dict[str, Any]:
    result = {"output": "4"} if state == "output-available" else {}
    return {"type": "tool-f", "toolCallId": id, "state": state, "input": {}, **result, **more}


def broken(*entries: Any, format: str = "ai_sdk") -> list[tuple[int, str]]:
    return [(each.index, each.rule) for each in validate(entries, format)]


# Rules


PLANTED: dict[str, tuple[list[Any], list[int]]] = {
    "unknown_role": ([USER, {"role": "data", "content": "x"}], [1]),
    "null_content_without_calls": ([USER, {"role": "assistant", "content": None}], [1]),
    "unanswered_tool_call": ([USER, assistant(call()), USER], [1]),
    "tool_result_without_call": (
        [USER, SAID, tools(answer()), SAID, tools(decided(approved=True))],
        [2, 4],
    ),
    "server_result_without_call": ([USER, assistant(answer())], [1]),
    "duplicate_id": ([USER, assistant(call(), call()), tools(answer())], [1]),
    "duplicate_result": ([USER, assistant(call()), tools(answer(), answer())], [2]),
    "missing_id": (
        [USER, assistant(call(toolCallId=None)), tools(answer(toolCallId=None))],
        [1, 2],
    ),
    "missing_name": ([USER, assistant(call(toolName="")), tools(answer(toolName=""))], [1, 2]),
    "misplaced_block": (
        [{"role": "user", "content": [call()]}, assistant(PNG), {"role": "system", "content": []}],
        [0, 1, 2],
    ),
    "text_content": (
        [{"role": "user", "content": ["hi"]}, {"role": "tool", "content": "4"}],
        [0, 1],
    ),
    "unknown_block": (
        [USER, assistant({"type": "hologram"}), assistant(call()), tools(answer(output="4"))],
        [1, 3],
    ),
}
PLANTED_IN_UI: dict[str, tuple[list[Any], list[int]]] = {
    "unknown_role": ([SPOKEN, shown({"type": "text", "text": "4"}, role="tool")], [1]),
    "empty_content": ([SPOKEN, shown(), {"id": "m", "role": "assistant"}], [1, 2]),
    "text_content": ([{"id": "m", "role": "user", "content": "hi"}], [0]),
    "unanswered_tool_call": ([SPOKEN, shown(tool(state="input-available")), SPOKEN], [1]),
    "duplicate_id": ([SPOKEN, shown(tool(), tool())], [1]),
    "missing_id": ([SPOKEN, shown(tool(toolCallId=None))], [1]),
    "missing_name": ([SPOKEN, shown(tool(type="dynamic-tool"))], [1]),
    "unknown_block": ([SPOKEN, shown({"type": "hologram"}), shown(tool(state="done"))], [1, 2]),
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_violation_is_found_where_it_is(rule: str) -> None:
    entries, indices = PLANTED[rule]
    assert [index for index, found in broken(*entries) if found == rule] == indices


@pytest.mark.parametrize("rule", sorted(PLANTED_IN_UI))
def test_a_planted_violation_is_found_in_ui_messages_too(rule: str) -> None:
    entries, indices = PLANTED_IN_UI[rule]
    found = broken(*entries, format="ai_sdk_ui")
    assert [index for index, each in found if each == rule] == indices


@pytest.mark.parametrize(
    "entries",
    [
        [USER, assistant(call("a"), call("b")), tools(answer("b")), tools(answer("a")), SAID],
        [USER, assistant(call(), ASKED), tools(decided(approved=True)), tools(answer()), SAID],
        [USER, assistant(call(), ASKED), tools(decided(approved=False)), USER],
        [USER, assistant(call(providerExecuted=True), answer()), USER],
        [USER, assistant(call(providerExecuted=True)), assistant(answer()), USER],
        [USER, assistant(call()), tools(answer()), USER, assistant(call()), tools(answer())],
        [USER, assistant(call())],
    ],
)
def test_what_the_sdk_takes_breaks_no_rule(entries: list[Any]) -> None:
    assert broken(*entries) == []
    assert detect_format(entries) == "ai_sdk"


def closed(entries: list[Any]) -> list[Any]:
    """Return the entries without the open calls at the end."""
    kept = copy.deepcopy(entries)
    while kept and (validate([*kept, USER], "ai_sdk") or kept[-1]["role"] == "tool"):
        kept.pop()
    return kept


@given(ai_sdk_conversations())
def test_what_is_valid_is_taken(entries: list[Any]) -> None:
    assert validate(entries, "ai_sdk") == []
    assert refusal(closed(entries)) is None


@given(ai_sdk_ui_conversations())
def test_valid_ui_messages_are_taken(entries: list[Any]) -> None:
    assert validate(entries, "ai_sdk_ui") == []
    assert ui_refusal(entries) is None
    assert detect_format(entries) == "ai_sdk_ui"


@given(ai_sdk_conversations().flatmap(damaged))
def test_what_is_valid_after_damage_is_taken_too(entries: list[Any]) -> None:
    if validate(entries, "ai_sdk") == []:
        kept = closed(entries)
        has_lost = any(
            part.get("text", "") is None or part.get("value", "") is None
            for entry in kept
            for part in (entry["content"] if isinstance(entry["content"], list) else ())
        )
        assert has_lost or refusal(kept) is None


@given(ai_sdk_conversations(), st.sampled_from([0.1, 0.3, 0.6, 0.9]), st.booleans())
def test_what_is_compacted_is_taken(entries: list[Any], ratio: float, by_excerpts: bool) -> None:
    granularity = "excerpt" if by_excerpts else "message"
    kept = compact_context(
        entries, target_ratio=ratio, format="ai_sdk", thinking="keep", granularity=granularity
    ).messages
    assert validate(kept, "ai_sdk") == []
    assert by_excerpts or all(any(each is entry for entry in entries) for each in kept)
    assert refusal(closed(kept)) is None


@given(ai_sdk_ui_conversations(), st.sampled_from([0.1, 0.3, 0.6, 0.9]), st.booleans())
def test_compacted_ui_messages_are_taken(
    entries: list[Any], ratio: float, by_excerpts: bool
) -> None:
    granularity = "excerpt" if by_excerpts else "message"
    kept = compact_context(
        entries, target_ratio=ratio, format="ai_sdk_ui", granularity=granularity
    ).messages
    assert ui_refusal(kept) is None
    whole = [each for each in kept if any(each is entry for entry in entries)]
    assert by_excerpts or len(whole) == len(kept)
    ids = {part["toolCallId"] for each in entries for part in each["parts"] if "toolCallId" in part}
    calls = [part for each in kept for part in each["parts"] if "toolCallId" in part]
    assert {part["toolCallId"] for part in calls} <= ids
    before = {
        part["toolCallId"]: set(part)
        for each in entries
        for part in each["parts"][:]
        if "toolCallId" in part
    }
    assert all(set(part) == before[part["toolCallId"]] for part in calls)  # none is torn


@pytest.mark.parametrize(
    "provider", ["anthropic", "bedrock", "gemini", "openai_chat", "openai_responses"]
)
@pytest.mark.parametrize("format", ["ai_sdk", "ai_sdk_ui"])
@settings(max_examples=8)
@given(data=st.data())
def test_they_become_every_providers_messages(
    format: str, provider: Any, data: st.DataObject
) -> None:
    drawn = ai_sdk_conversations() if format == "ai_sdk" else ai_sdk_ui_conversations()
    entries = data.draw(drawn)
    if format == "ai_sdk":
        entries = closed(entries)
    elif any(part.get("state") == "input-available" for part in entries[-1]["parts"]):
        entries.pop()
    compiled = compile(PromptIR(history=History(tuple(entries), format)), provider)
    assert validate(compiled.messages, provider) == []


@pytest.mark.parametrize("format", sorted(BY_FORMAT))
@settings(max_examples=8)
@given(data=st.data())
def test_every_format_becomes_a_request_that_the_sdk_takes(
    format: str, data: st.DataObject
) -> None:
    entries = data.draw(BY_FORMAT[format]())
    if format == "ai_sdk":
        entries = closed(entries)
    elif format in ("anthropic", "openai_chat", "openai_responses"):
        entries = sendable(format, entries)
    sections = data.draw(lawful_irs()).sections if format in PROVIDERS else ()
    history = History(tuple(entries), format)
    ir = PromptIR(ContextRequest("Go on."), sections, (ToolDef.read(SPEC),), history)
    request = compile(ir, "ai_sdk").request
    assert validate(request["messages"], "ai_sdk") == []
    assert request["tools"] == {"f": {"inputSchema": {"type": "object"}}}
    assert all(each["role"] == "system" for each in request.get("system", ()))
    said = str(request["messages"])
    if said.count("'tool-call'") == said.count("'tool-result'"):  # no provider takes others
        assert refusal(request["messages"]) is None


# Reading


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


def test_a_claudes_signed_reasoning_goes_behind_a_change() -> None:
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
    told = [*asked[:-1], shown(last, {"type": "text", "text": "It is 4. " * 50})]
    assert compact_context(told, budget_tokens=10).messages[-1] is not told[-1]


def test_a_custom_part_always_stays() -> None:
    state = {"role": "assistant", "content": [{"type": "custom", "kind": "openai.compaction"}]}
    entries = [USER, state, *([SAID, USER] * 20)]
    small = compact_context(entries, target_ratio=0.1, format="ai_sdk")
    assert any(each is state for each in small.messages)


# Conversion


def anthropics(*entries: Any, format: str = "ai_sdk") -> Any:
    return compile(PromptIR(history=History(entries, format)), "anthropic")


def test_calls_results_and_media_are_converted() -> None:
    output = {
        "type": "content",
        "value": [
            {"type": "text", "text": "See"},
            {**PNG, "type": "image-data", "data": PNG["image"]},
        ],
    }
    compiled = anthropics(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, PNG]},
        assistant({"type": "reasoning", "text": "Hm."}, call("a", input={"at": 1}), call("b")),
        tools(answer("a", output=output), answer("b", output={"type": "error-json", "value": [1]})),
    )
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
    }
    said, called, results = compiled.messages
    shown_image = {key: said["content"][1][key] for key in image}  # it has a cache mark too
    assert [said["content"][0]["text"], shown_image] == ["Look.", image]
    assert [block["input"] for block in called["content"]] == [{"at": 1}, {}]
    first, second = results["content"]
    assert first["content"] == [{"type": "text", "text": "See"}, image]
    assert (second["content"], second["is_error"]) == ("[1]", True)


def test_each_step_of_a_ui_message_is_a_turn() -> None:
    steps = shown(
        {"type": "step-start"},
        tool("a"),
        {"type": "step-start"},
        tool("b", "output-denied", approval={"id": "p", "approved": False}),
        {"type": "step-start"},
        {"type": "text", "text": "Berth 4."},
    )
    messages = anthropics(SPOKEN, steps, format="ai_sdk_ui").messages
    assert [each["role"] for each in messages] == ["user", *["assistant", "user"] * 2, "assistant"]
    (denied,) = messages[4]["content"]
    assert (denied["content"], denied["is_error"]) == ("Tool execution denied.", True)


def test_a_denied_call_gets_the_result_that_the_sdk_writes() -> None:
    denied = tools(decided(approved=False, reason="Not now."))
    compiled = anthropics(USER, assistant(call(), ASKED), denied, USER)
    (result,) = compiled.messages[2]["content"][:1]
    assert (result["tool_use_id"], result["content"]) == ("a", "Not now.")
    rendered = render_history([USER, assistant(call(), ASKED)], "ai_sdk", "anthropic")
    assert rendered.notes == (
        "history: tool-approval-request is not sent: of 1 entry, first history[1]",
    )


def test_a_context_takes_them_for_any_provider() -> None:
    context = Context(provider="openai_chat", format="ai_sdk")
    context.add(USER, assistant(call()), tools(answer()))
    said = context.prompt().request["messages"]
    assert [each["role"] for each in said] == ["user", "assistant", "tool"]
    assert said[2]["content"] == "4"


def test_a_context_over_them_makes_arguments_of_the_sdk() -> None:
    context = Context(system="You are the harbour's assistant.")
    context.add(
        USER, assistant(call()), tools(answer()), {"role": "system", "content": "Be brief."}
    )
    context.add(SAID, USER)
    request = context.prompt().request
    assert request["system"] == [{"role": "system", "content": "You are the harbour's assistant."}]
    assert [each["role"] for each in request["messages"]] == [
        *("user", "assistant", "tool", "user", "assistant", "user"),
    ]
    assert request["messages"][3]["content"] == "[system]\nBe brief."
    assert refusal(request["messages"]) is None


def test_ui_messages_become_model_messages() -> None:
    steps = shown({"type": "step-start"}, tool("a", output=[4]), {"type": "text", "text": "So."})
    history = History((SPOKEN, steps, SPOKEN), "ai_sdk_ui")
    messages = compile(PromptIR(history=history), "ai_sdk").messages
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "user"]
    (result,) = messages[2]["content"]
    assert (result["toolName"], result["output"]) == ("f", {"type": "text", "value": "[4]"})


def test_media_are_files_in_messages_and_items_in_results() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    block = {"type": "image", "source": image}
    used = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    entries = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, block]},
        {"role": "assistant", "content": [used]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block]}],
        },
    ]
    said, _, results = compile(
        PromptIR(history=History(tuple(entries), "anthropic")), "ai_sdk"
    ).messages
    url = "data:image/png;base64,iVBORw0KGgo="
    assert said["content"][1] == {"type": "file", "data": url, "mediaType": "image/png"}
    assert results["content"][0]["output"]["value"] == [
        {"type": "image-data", "data": "iVBORw0KGgo=", "mediaType": "image/png"}
    ]


def test_a_call_is_read_and_answered_in_the_sdks_shape() -> None:
    made = ToolCall.read(call(input={"at": 1}))
    assert made is not None
    assert (made.format, made.id, made.name, made.arguments()) == ("ai_sdk", "a", "f", {"at": 1})
    entries = result_entries(
        [made.result("4"), ToolCall("ai_sdk", "b", "f", {}).result("no", is_error=True)]
    )
    assert refusal([USER, assistant(call(), call("b")), *entries]) is None
    assert ToolDef.read(SPEC).render("anthropic") == {
        "name": "f",
        "input_schema": {"type": "object"},
    }
    assert tool_definition("ai_sdk", "f", "", {"type": "object"}) == SPEC


@pytest.mark.parametrize("index", [2, 3])
def test_nothing_comes_between_a_call_and_what_was_decided_of_it(index: int) -> None:
    messages = [USER, assistant(call(), ASKED), tools(decided(approved=True))]
    note = Section("note", "Port 8443.", Provenance("wiki"), anchor=index)
    ir = PromptIR(sections=(note,), history=History(tuple(messages), "ai_sdk"))
    segments = compile(ir, "ai_sdk", passes=()).segments
    assert [each.id for each in segments].index("note") == 1


def test_a_message_that_is_added_is_one_of_its_format() -> None:
    assert ui_refusal([user_message("hello", "ai_sdk_ui")]) is None
    assert user_message("\ud800", "ai_sdk_ui")["parts"][0]["text"] == "\ud800"


def test_a_context_of_ui_messages_is_converted_for_its_provider() -> None:
    context = Context(format="ai_sdk_ui", provider="anthropic")
    context.add(SPOKEN, shown({"type": "step-start"}, tool(), {"type": "step-start"}))
    context.add(shown({"type": "text", "text": "Berth 4."}))
    messages = context.prompt("And tomorrow?").messages
    assert validate(messages, "anthropic") == []
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant", "user"]


def test_a_tool_named_call_keeps_its_name() -> None:
    said = anthropics(SPOKEN, shown(tool(type="tool-call")), format="ai_sdk_ui").messages[1]
    assert said["content"][0]["name"] == "call"


def test_a_call_that_the_user_has_just_denied_gets_the_sdks_result() -> None:
    denied = tool(state="approval-responded", approval={"id": "p", "approved": False})
    compiled = anthropics(SPOKEN, shown(denied), SPOKEN, format="ai_sdk_ui")
    assert validate(compiled.messages, "anthropic") == []
    assert "Tool execution denied." in str(compiled.messages)


# What has no result


PROVIDERS_BEHIND: tuple[Any, ...] = (
    *("anthropic", "bedrock", "gemini", "openai_chat", "openai_responses"),
)
NO_RESULT = "(Its result is not in these messages.)"
RAN = call(providerExecuted=True)
SO: dict[str, Any] = {"type": "text", "text": "So."}


@pytest.mark.parametrize("provider", PROVIDERS_BEHIND)
@pytest.mark.parametrize(
    ("format", "entries"),
    [
        ("ai_sdk", [USER, assistant(RAN, SO), USER, SAID, USER]),
        ("ai_sdk", [USER, assistant(RAN, SO)]),
        ("ai_sdk", [USER, assistant(RAN, call("b")), tools(answer("b")), USER]),
        ("ai_sdk", [USER, assistant(call(), ASKED), tools(decided(approved=True)), USER]),
        ("ai_sdk", [USER, assistant(RAN, ASKED), tools(decided(approved=False)), USER]),
        ("ai_sdk", [USER, assistant(call(), ASKED), tools(decided(approved=True)), SAID]),
        ("ai_sdk_ui", [SPOKEN, shown(tool(state="input-available", providerExecuted=True), SO)]),
        ("ai_sdk_ui", [SPOKEN, shown(tool(state="approval-responded")), SPOKEN]),
    ],
)
def test_a_call_that_needs_no_result_gets_one_for_other_providers(
    format: str, entries: list[Any], provider: Any
) -> None:
    assert validate(entries, format) == []
    compiled = compile(PromptIR(history=History(tuple(entries), format)), provider)
    sent = str(compiled.messages)
    # One more message shows calls that are open at the end.
    closed = History((*entries, SPOKEN if format == "ai_sdk_ui" else USER), format)
    assert validate(compile(PromptIR(history=closed), provider).messages, provider) == []
    assert sent.count(NO_RESULT) == 1


def test_a_call_that_the_user_has_just_allowed_waits_for_its_result() -> None:
    allowed = (USER, assistant(call(), ASKED), tools(decided(approved=True)))
    assert NO_RESULT not in str(anthropics(*allowed).messages)
    ran = anthropics(*allowed, tools(answer()), USER).messages
    assert [each["role"] for each in ran] == ["user", "assistant", "user", "user"]
    assert NO_RESULT not in str(ran)


def test_prompts_extend_one_another_around_calls_without_results() -> None:
    context = Context(format="ai_sdk", provider="anthropic")
    for entry in (USER, assistant(RAN, SO), USER, assistant(call(), ASKED)):
        context.add(entry)
        context.prompt()
        assert context.prefix is None or context.prefix.extends
    context.add(tools(decided(approved=True)))
    context.prompt()
    context.add(USER)
    context.prompt()
    assert context.prefix is not None and context.prefix.extends


def test_what_the_model_says_after_its_providers_result_follows_it() -> None:
    messages = anthropics(USER, assistant(RAN, answer(), SO), USER).messages
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant", "user"]
    own = anthropics(USER, assistant(call("b"), RAN, answer(), SO), tools(answer("b"))).messages
    assert [each["role"] for each in own] == ["user", "assistant", "user"]


def test_version_4_is_read_and_converted() -> None:
    made = {"type": "tool-call", "toolCallId": "a", "toolName": "f", "args": {"berth": 4}}
    result = {"type": "tool-result", "toolCallId": "a", "toolName": "f", "result": {"ok": False}}
    entries = [USER, assistant(made), tools({**result, "isError": True}), USER]
    called, read = parse(entries).messages[1:3]
    assert [piece.text for piece in (*called.pieces, *read.pieces)] == [
        'f {"berth":4}',
        '{"ok":false}',
    ]
    _, said, results, *_ = anthropics(*entries).messages
    assert said["content"][0]["input"] == {"berth": 4}
    assert (results["content"][0]["content"], results["content"][0]["is_error"]) == (
        '{"ok":false}',
        True,
    )
    call_read = ToolCall.read(made)
    assert call_read is not None and call_read.arguments() == {"berth": 4}
    (inputs,) = entry_inputs("ai_sdk", assistant(made))
    assert inputs is not None and inputs[3] == (("content", 0, "args"),)
    both = assistant({**made, "input": {"berth": 7}})
    assert parse([USER, both], "ai_sdk").messages[1].pieces[0].text == 'f {"berth":7}'


@pytest.mark.parametrize("format", ["ai_sdk", "ai_sdk_ui"])
def test_an_image_of_an_mcp_server_is_a_medium(format: str) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=" * 500, "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "berth://4"}
    returned = {"content": [{"type": "text", "text": "See"}, image, link], "isError": False}
    entries: list[Any] = [SPOKEN, shown(tool(output=returned)), SPOKEN]
    if format == "ai_sdk":
        output = {"type": "json", "value": returned}
        entries = [USER, assistant(call()), tools(answer(output=output)), USER]
    read = next(each for each in parse(entries, format).messages if each.answers)
    assert read.images == 1
    assert read.text.endswith('See\n{"type":"resource_link","uri":"berth://4"}')
    result = anthropics(*entries, format=format).messages[2]["content"][0]
    assert [block["type"] for block in result["content"]] == ["text", "image", "text"]
    source = {"type": "base64", "media_type": "image/png", "data": image["data"]}
    assert result["content"][1]["source"] == source
    without = {"content": [{"type": "text", "text": "4"}]}
    (_, plain, _) = parse([SPOKEN, shown(tool(output=without)), SPOKEN]).messages
    assert plain.text.endswith('{"content":[{"type":"text","text":"4"}]}')
