"""Rules for the AI SDK's messages: what it refuses is found, and what is compacted is taken."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import compact_context
from rehydrate.formats import detect_format, validate
from rehydrate.messages import PROVIDERS
from rehydrate.prompt import History, PromptIR, compile
from tests.formats.ai_sdk_messages import (
    ASKED,
    PNG,
    SAID,
    SPEC,
    SPOKEN,
    USER,
    answer,
    assistant,
    broken,
    call,
    decided,
    old_answer,
    shown,
    tool,
    tools,
)
from tests.formats.drawn import drawn_ir
from tests.provider.ai_sdk import refusal, ui_refusal
from tests.sizes import sized
from tests.strategies import BY_FORMAT, ai_sdk_conversations, ai_sdk_ui_conversations, damaged

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
        [
            *(USER, assistant({"type": "hologram"})),
            *(assistant(call()), tools(answer(output="4"))),
            *(assistant(call("b")), tools(old_answer("b", experimental_content=[]))),
        ],
        [1, 3, 5],
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


@pytest.mark.parametrize("format", ["ai_sdk", "ai_sdk_ui"])
@settings(max_examples=8)
@given(data=st.data())
def test_they_become_every_providers_messages(format: str, data: st.DataObject) -> None:
    drawn = ai_sdk_conversations() if format == "ai_sdk" else ai_sdk_ui_conversations()
    entries = data.draw(drawn)
    if format == "ai_sdk":
        entries = closed(entries)
    elif any(part.get("state") == "input-available" for part in entries[-1]["parts"]):
        entries.pop()
    ir = PromptIR(history=History(tuple(entries), format))
    for provider in PROVIDERS:
        assert validate(compile(ir, provider).messages, provider) == []


@pytest.mark.parametrize("format", sorted(BY_FORMAT))
@settings(max_examples=sized(4, 8))
@given(data=st.data())
def test_every_format_becomes_a_request_that_the_sdk_takes(
    format: str, data: st.DataObject
) -> None:
    ir = drawn_ir(data, format, SPEC, ai_sdk=closed)
    request = compile(ir, "ai_sdk").request
    assert validate(request["messages"], "ai_sdk") == []
    assert request["tools"] == {"f": {"inputSchema": {"type": "object"}}}
    assert all(each["role"] == "system" for each in request.get("system", ()))
    said = str(request["messages"])
    if said.count("'tool-call'") == said.count("'tool-result'"):  # no provider takes others
        assert refusal(request["messages"]) is None
