"""MCP resources in tool results: bytes are media, text is text."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from rehydrate.formats import parse

BLOB = base64.b64encode(random.Random(7).randbytes(600)).decode()


def resource(**body: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///report.pdf", **body}}


def anthropic(part: dict[str, Any]) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [part]}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def openai_chat(part: dict[str, Any]) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": "{}"}
    call = {"id": "a", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [part]},
    ]


BOTH = pytest.mark.parametrize("conversation", [anthropic, openai_chat])


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
