"""The events of a stream, joined to the body of an answer: odd and hostile ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from rehydrate._native import AnswerJoiner, Replies, as_unicode, error_event, read_answer
from rehydrate.agent import Tool
from rehydrate.agent.tool_calls import ToolRunner, run_tool
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall

DEEP = "[" * 100_000


def joined(provider: str, events: Iterable[dict[str, Any]]) -> Any:
    joiner = AnswerJoiner(provider)
    for event in events:
        joiner.add(event)
    return joiner.body()


def claude(block: dict[str, Any], deltas: Iterable[dict[str, Any]], index: Any = 0) -> Any:
    started = {"type": "content_block_start", "index": index, "content_block": block}
    more = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    begin = {"type": "message_start", "message": {"role": "assistant", "content": []}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    return joined("anthropic", [begin, started, *more, end])


@pytest.mark.parametrize("given", [None, [], [{"n": -1}]])
def test_citations_join_those_that_a_block_began_with_which_is_unchanged(given: Any) -> None:
    block = {"type": "text", "text": "", "citations": given}
    body = claude(block, [{"type": "citations_delta", "citation": {"n": 0}}])
    assert body["content"][0]["citations"] == [*(given or []), {"n": 0}]
    assert given in (None, [], [{"n": -1}]) and len(given or []) < 2
    assert claude(block, [])["content"][0]["citations"] == given


@pytest.mark.parametrize("index", [0, 1.0, True, 7.0, -2])
def test_the_index_of_a_block_may_be_written_as_a_fraction(index: Any) -> None:
    deltas = [{"type": "text_delta", "text": "Berth "}, {"type": "text_delta", "text": "4."}]
    assert claude({"type": "text", "text": ""}, deltas, index)["content"][0]["text"] == "Berth 4."
    block = {"contentBlockIndex": index, "delta": {"text": "Berth 4."}}
    events = [{"contentBlockDelta": block}, {"messageStop": {"stopReason": "end_turn"}}]
    assert joined("bedrock", events)["output"]["message"]["content"] == [{"text": "Berth 4."}]


@pytest.mark.parametrize("index", [0.5, float("nan"), float("inf"), 1e300, 10**30, "0", None, []])
def test_any_other_index_is_a_key_that_is_not_there(index: Any) -> None:
    with pytest.raises(KeyError):
        claude({"type": "text", "text": ""}, [], index)


def test_arguments_of_a_hundred_thousand_brackets_are_unreadable_ones() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body = claude(block, [{"type": "input_json_delta", "partial_json": DEEP}])
    assert body["content"][0]["input"] == {"INVALID_JSON": DEEP}
    function = {"name": "f", "arguments": DEEP}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
    for reason, count in (("stop", 1), ("length", 0)):
        choice = {"message": message, "finish_reason": reason}
        assert len(read_answer("openai_chat", {"choices": [choice]})[2]) == count
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": DEEP}
    assert read_answer("openai_responses", {"output": [item], "status": "incomplete"})[2] == []
    assert DEEP[:100].encode() in error_event(DEEP.encode(), "anthropic")
    assert Replies("openai_chat", []).feed(DEEP) == b""


@pytest.mark.parametrize("arguments", [DEEP, DEEP.encode(), '{"a":' * 100_000, "{"])
def test_a_call_with_such_arguments_is_an_error_for_the_model(arguments: Any) -> None:
    call = ToolCall("openai_chat", "c", "f", arguments)
    with pytest.raises(InvalidArgumentError, match="arguments of f aren't JSON"):
        call.arguments()
    tools = {"f": Tool("f", "", {}, lambda **_: "ran")}
    result = anyio.run(run_tool, tools, call, None, ToolRunner())
    assert result.is_error and "aren't JSON" in result.content and len(result.content) < 1_000


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    assert as_unicode("caf\udce9") == "caf\ufffd"
    assert as_unicode("\ud83d\ude00 é") == "😀 é"
