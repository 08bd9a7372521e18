"""The AI SDK's messages for other providers, and from them: calls, results, media, lone calls."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate import compact_context
from rehydrate._native import (
    entry_inputs,
    result_entries,
    tool_definition,
    unmarked,
    user_message,
)
from rehydrate.context import Context
from rehydrate.formats import parse, validate
from rehydrate.formats.calls import ToolCall
from rehydrate.prompt import History, PromptIR, Provenance, Section, ToolDef, compile
from tests.formats.ai_sdk_messages import (
    ASKED,
    LISTED,
    PNG,
    SAID,
    SPEC,
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
from tests.provider.ai_sdk import refusal, ui_refusal
from tests.rendered import render_history


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
    source = {"type": "url", "url": "https://harbour.example/a"}
    linked = {"type": "document", "source": source}
    used = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    entries = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, block]},
        {"role": "assistant", "content": [used]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block, linked]}],
        },
    ]
    said, _, results = compile(
        PromptIR(history=History(tuple(entries), "anthropic")), "ai_sdk"
    ).messages
    url = "data:image/png;base64,iVBORw0KGgo="
    assert unmarked(said["content"][1]) == {"type": "file", "data": url, "mediaType": "image/png"}
    assert results["content"][0]["output"]["value"] == [
        {"type": "image-data", "data": "iVBORw0KGgo=", "mediaType": "image/png"},
        {"type": "file-url", "url": source["url"], "mediaType": "application/pdf"},
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


# Calls without a result


OTHER_PROVIDERS: tuple[Any, ...] = (
    *("anthropic", "bedrock", "gemini", "openai_chat", "openai_responses"),
)
NO_RESULT = "(Its result is not here.)"
RAN = call(providerExecuted=True)
SO: dict[str, Any] = {"type": "text", "text": "So."}


@pytest.mark.parametrize("provider", OTHER_PROVIDERS)
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


@pytest.mark.parametrize("provider", OTHER_PROVIDERS)
def test_a_providers_late_result_leaves_what_was_sent(provider: Any) -> None:
    """It waits for a tool of the client's, as code execution that calls tools does."""
    context = Context(format="ai_sdk", provider=provider)
    late = answer(output={"type": "content", "value": [{"type": "text", "text": "Noon."}]})
    for entries in (
        [USER, assistant(RAN, call("b")), tools(answer("b"))],
        [assistant(late, SO), USER],
        [assistant(RAN, answer(), SO), USER],  # the id once more, with its result
    ):
        context.add(*entries)
        assert validate(context.prompt().messages, provider) == []
        assert context.prefix is None or context.prefix.extends
    sent = str(context.prompt().request)
    assert sent.count(NO_RESULT) == sent.count("[result of f]") == sent.count("Noon.") == 1
    assert sent.index(NO_RESULT) < sent.index("[result of f]") < sent.index("Noon.")


def test_a_late_result_comes_before_what_the_model_says_of_it() -> None:
    failed = answer(output={"type": "error-text", "value": "No tide."})
    messages = anthropics(USER, assistant(RAN), assistant(failed, SO), USER).messages
    assert [each["role"] for each in messages[1:]] == [
        *("assistant", "user", "user", "assistant", "user"),
    ]
    assert [block["text"] for block in messages[3]["content"]] == ["[error of f]", "No tide."]


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
    listed = tools(old_answer(experimental_content=LISTED))
    (result,) = anthropics(*entries[:2], listed).messages[2]["content"]
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert result["content"] == [
        {"type": "text", "text": "Berth 4, at noon."},
        {"type": "image", "source": image},
    ]
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


EFFORT = {
    "role": "system",
    "content": "",
    "providerOptions": {"openai": {"reasoningEffortUpdate": "low"}},
}
MARKED = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}


def sdks(*entries: Any, **options: Any) -> Any:
    return compile(PromptIR(history=History(entries, "ai_sdk")), "ai_sdk", **options)


def test_a_change_of_the_effort_stays_in_its_place() -> None:
    compiled = sdks(EFFORT, USER, SAID, EFFORT, USER)
    assert compiled.request["system"] == [EFFORT]
    assert [each["role"] for each in compiled.messages] == ["user", "assistant", "system", "user"]
    assert compiled.messages[2] is EFFORT
    assert refusal(list(compiled.messages)) is None


def test_the_options_of_a_leading_system_message_stay() -> None:
    own = {"role": "system", "content": "Be brief.", "providerOptions": MARKED}
    assert sdks(own, USER).request["system"] == [own]


def test_redacted_reasoning_of_version_4_is_thinking() -> None:
    hidden = assistant(
        {"type": "redacted-reasoning", "data": "eA=="}, {"type": "text", "text": "4"}
    )
    small = compact_context([USER, hidden, USER], target_ratio=1.0, thinking="strip")
    assert small.messages[1] == {**hidden, "content": hidden["content"][1:]}
    assert not small.stats.degraded
    sent = anthropics(USER, hidden).messages[1]["content"]
    assert sent in ("4", [{"type": "text", "text": "4"}])


def test_prefixes_are_marked_as_for_anthropic() -> None:
    long = {"role": "user", "content": "Which berth is free? " * 400}
    system = {"role": "system", "content": "You are the harbour's assistant. " * 400}
    tool = ToolDef.read({**SPEC, "description": "Sweeps a berth. " * 400})
    history = (system, long, assistant(call("a")), tools(answer("a")), SAID, long)
    ir = PromptIR(tools=(tool,), history=History(history, "ai_sdk"))
    compiled = compile(ir, "ai_sdk")
    marked = [part for part in compiled.segments if part.breakpoint]
    assert 2 <= len(marked) <= 4
    assert str(compiled.request).count("cacheControl") == len(marked)
    assert compiled.request["system"] == [{**system, "providerOptions": MARKED}]
    assert compiled.request["messages"][-1] == {**long, "providerOptions": MARKED}
    assert refusal(list(compiled.messages)) is None
    assert "providerOptions" not in str(history)
    # A mark moves on, and changes nothing that was sent.
    again = compile(ir.replace(history=History((*history, SAID, long), "ai_sdk")), "ai_sdk")
    before = [part.digest for part in compiled.segments]
    assert [part.digest for part in again.segments][: len(before)] == before


def test_marks_of_the_callers_own_count_among_the_four() -> None:
    long = {"role": "user", "content": "Which berth is free? " * 400}
    own = {**long, "providerOptions": MARKED}
    compiled = sdks(own, SAID, own, SAID, own, SAID, own, SAID, long)
    assert str(compiled.request).count("cacheControl") == 4
    assert compiled.messages[0] is own
