"""UI messages of the AI SDK: written of any format, and by whatever a compaction adds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import compact_context
from rehydrate._native import summary_message
from rehydrate.context.summaries import compact_history
from rehydrate.formats import parse, to_ui_messages, validate
from rehydrate.prompt import History, PromptIR, compile
from tests.formats.ai_sdk_messages import PNG, SPEC, USER, answer, assistant, call, tools
from tests.formats.drawn import drawn_ir
from tests.formats.test_ai_sdk_rules import closed
from tests.provider.ai_sdk import refusal, ui_refusal
from tests.sizes import sized
from tests.strategies import BY_FORMAT, ai_sdk_ui_conversations

STEP = {"type": "step-start"}


def text(of: str) -> dict[str, Any]:
    return {"type": "text", "text": of}


def ran(id: str, output: Any) -> dict[str, Any]:
    made = {"type": "tool-f", "toolCallId": id, "state": "output-available", "input": {}}
    return {**made, "output": output}


def test_a_turn_is_one_message_with_its_results() -> None:
    failed = answer("b", output={"type": "error-text", "value": "No tide."})
    history = [
        {"role": "system", "content": "Be brief."},
        USER,
        assistant(text("Let me see."), call("a"), call("b")),
        tools(answer("a"), failed),
        assistant(text("Berth 4.")),
        {"role": "user", "content": [text("See."), PNG]},
    ]
    error = {**ran("b", None), "state": "output-error", "errorText": "No tide."}
    del error["output"]
    file = {
        "type": "file",
        "mediaType": "image/png",
        "url": f"data:image/png;base64,{PNG['image']}",
    }
    made = to_ui_messages(history)
    assert made == [
        {"id": "rehydrate-0", "role": "system", "parts": [text("Be brief.")]},
        {"id": "rehydrate-1", "role": "user", "parts": [text(USER["content"])]},
        {
            "id": "rehydrate-2",
            "role": "assistant",
            "parts": [text("Let me see."), ran("a", "4"), error, STEP, text("Berth 4.")],
        },
        {"id": "rehydrate-5", "role": "user", "parts": [text("See."), file]},
    ]
    assert ui_refusal(made) is None
    assert to_ui_messages(made) == made
    assert all(one is other for one, other in zip(to_ui_messages(made), made, strict=True))


def test_a_picture_in_a_result_is_one_again() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
    }
    pdf = {"type": "document", "source": {**image["source"], "media_type": "application/pdf"}}
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    seen = {"type": "tool_result", "tool_use_id": "a", "content": [text("Look."), image, pdf]}
    history = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [seen]}]
    made = to_ui_messages(history)
    output = made[1]["parts"][0]["output"]
    shown = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    assert output["content"] == [text("Look."), shown, text("[file left out: application/pdf]")]
    assert parse(made).messages[1].images == 1


@pytest.mark.parametrize("format", sorted(BY_FORMAT.keys() - {"ai_sdk_ui"}))
@settings(max_examples=sized(4, 8))
@given(data=st.data())
def test_every_format_becomes_ui_messages_that_the_sdk_takes(
    format: str, data: st.DataObject
) -> None:
    history = drawn_ir(data, format, SPEC, ai_sdk=closed).history
    made = to_ui_messages(history.entries, format)
    assert validate(made, "ai_sdk_ui") == []
    whole = all(part.get("state") != "input-available" for each in made for part in each["parts"])
    if whole and any(each["role"] == "user" for each in made):
        assert ui_refusal(made) is None
        sent = compile(PromptIR(history=History(tuple(made), "ai_sdk_ui")), "ai_sdk").messages
        assert refusal(list(sent)) is None
    assert len({each["id"] for each in made}) == len(made)
    # A list that goes on keeps what it had, but for the last message.
    half = to_ui_messages(history.entries[: len(history.entries) // 2], format)
    assert [each["id"] for each in half[:-1]] == [each["id"] for each in made][: len(half[:-1])]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_summary_is_a_ui_message(role: Any) -> None:
    made = summary_message("The berths are swept.", "ai_sdk_ui", role)
    assert made["role"] == role
    assert ui_refusal([made]) is None
    assert validate([made], "ai_sdk_ui") == []


@settings(max_examples=10)
@given(ai_sdk_ui_conversations(), st.sampled_from([0.1, 0.5]), st.booleans())
def test_a_compaction_of_ui_messages_is_ui_messages(
    entries: list[Any], ratio: float, with_outline: bool
) -> None:
    small = compact_context(entries, target_ratio=ratio, outline=with_outline, format="ai_sdk_ui")
    assert ui_refusal(small.messages) is None
    kept = [each for each in small.messages if not each["id"].startswith("rehydrate-")]
    assert all(any(each is entry for entry in entries) for each in kept)


def test_a_summary_in_place_of_the_beginning_keeps_ui_messages() -> None:
    said = [
        {"id": f"m{n}", "role": ("user", "assistant")[n % 2], "parts": [text(f"Berth {n}. " * 40)]}
        for n in range(20)
    ]
    done = compact_history(said, keep_last=4)
    assert done.summary
    assert ui_refusal(done.messages) is None
    assert done.messages[-1] is said[-1]
