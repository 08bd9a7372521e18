"""Cache marks: on the last block that can have one, and never on a caller's own object."""

from copy import deepcopy
from typing import Any

import pytest

from rehydrate._native import marked

MARK = {"cache_control": {"type": "ephemeral"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
POINT = {"cachePoint": {"type": "default"}}
TEXT = {"type": "text", "text": "hi"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
LONG = {**TEXT, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
IMAGE = {"type": "image", "source": {}}
OPTION = {"providerOptions": {"anthropic": {"cacheControl": {"type": "ephemeral"}}}}
CALL = {"type": "tool-call", "toolCallId": "a", "toolName": "ls", "input": {}}
BLANK = {"type": "text", "text": " "}


def said(content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("provider", "value", "expected"),
    [
        ("anthropic", said("hi"), said([{**TEXT, **MARK}])),
        ("anthropic", said([IMAGE, "hi"]), said([IMAGE, {**TEXT, **MARK}])),
        (
            "anthropic",
            said([TEXT, THOUGHT, {"type": "text", "text": " "}]),
            said([{**TEXT, **MARK}, THOUGHT, {"type": "text", "text": " "}]),
        ),
        ("anthropic", said((TEXT, IMAGE)), said([TEXT, {**IMAGE, **MARK}])),
        ("anthropic", said([{**TEXT, "cache_control": None}]), said([{**TEXT, **MARK}])),
        ("anthropic", {"name": "ls"}, {"name": "ls", **MARK}),
        ("anthropic", said([THOUGHT]), None),
        ("anthropic", said(" \x1c"), None),
        ("anthropic", said([]), None),
        ("bedrock", {"text": "Be brief."}, [{"text": "Be brief."}, POINT]),
        ("bedrock", said("hi"), said([{"text": "hi"}, POINT])),
        (
            "bedrock",
            said([{"text": "a"}, {"document": {"format": "csv"}}]),
            said([{"text": "a"}, POINT, {"document": {"format": "csv"}}]),
        ),
        (
            "bedrock",
            said([{"document": {"format": "pdf"}}]),
            said([{"document": {"format": "pdf"}}, POINT]),
        ),
        ("bedrock", said([{"reasoningContent": {}}]), None),
        ("openai_chat", said("hi"), said([{**TEXT, **BREAKPOINT}])),
        (
            "openai_chat",
            said([TEXT, {"type": "image_url"}]),
            said([TEXT, {"type": "image_url", **BREAKPOINT}]),
        ),
        ("openai_chat", said("hi", "assistant"), None),
        ("openai_chat", said([{"type": "refusal"}]), None),
        ("openai_chat", said(None), None),
        (
            "openai_responses",
            said("hi"),
            said([{"type": "input_text", "text": "hi", **BREAKPOINT}]),
        ),
        ("openai_responses", said("hi", "assistant"), None),
        (
            "openai_responses",
            {"type": "function_call_output", "call_id": "c", "output": "4"},
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "4", **BREAKPOINT}],
            },
        ),
        ("gemini", {"role": "user", "parts": [{"text": "hi"}]}, None),
        ("ai_sdk", said("hi"), {**said("hi"), **OPTION}),
        (
            "ai_sdk",
            {"role": "system", "content": "a"},
            {"role": "system", "content": "a", **OPTION},
        ),
        ("ai_sdk", said([TEXT, CALL]), said([TEXT, {**CALL, **OPTION}])),
        (
            "ai_sdk",
            said([TEXT, {"type": "reasoning", "text": "hm"}, {"type": "text", "text": " "}]),
            said([{**TEXT, **OPTION}, {"type": "reasoning", "text": "hm"}, BLANK]),
        ),
        (
            "ai_sdk",
            {**said("hi"), "providerOptions": {"openai": {"a": 1}, "anthropic": {"b": 2}}},
            {
                **said("hi"),
                "providerOptions": {
                    "openai": {"a": 1},
                    "anthropic": {"b": 2, "cacheControl": {"type": "ephemeral"}},
                },
            },
        ),
        ("ai_sdk", {"name": "ls"}, {"name": "ls", **OPTION}),
        ("ai_sdk", said(" "), None),
        ("ai_sdk", said([]), None),
        ("ai_sdk", said([{"type": "reasoning", "text": "hm"}]), None),
    ],
)
def test_the_last_block_that_can_have_one_has_the_mark(provider: str, value: Any, expected: Any):
    before = deepcopy(value)
    assert marked(provider, value) == expected
    assert value == before


@pytest.mark.parametrize(
    ("provider", "value"),
    [
        ("anthropic", said([IMAGE, LONG])),
        ("anthropic", {"name": "ls", **MARK}),
        ("bedrock", said([{"text": "a"}, POINT])),
        ("bedrock", POINT),
        ("openai_chat", said([{**TEXT, **BREAKPOINT}])),
        ("ai_sdk", {**said("hi"), **OPTION}),
        ("ai_sdk", {**said([TEXT]), **OPTION}),
        ("ai_sdk", said([TEXT, {**CALL, **OPTION}])),
    ],
)
def test_a_mark_of_the_callers_own_stays(provider: str, value: Any):
    assert marked(provider, value) is value
