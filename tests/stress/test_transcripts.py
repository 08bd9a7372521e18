"""The shipped session, and a short conversation of each format, through every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.claude_hooks import SESSION, called, resulted, user, write_lines
from tests.stress import transcripts

pytest.importorskip("pyarrow")
pytest.importorskip("langchain_core")

CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "src/a.py"}}
THOUGHT = {"type": "thinking", "thinking": "Which file?", "signature": "c2ln"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x = 1\n" * 40}
ASKED = {"role": "user", "content": "What does src/a.py set? Never touch it."}
SAID = {"role": "assistant", "content": "It sets x to 1."}
AGAIN = {"role": "user", "content": "Thanks. And y?"}
FUNCTION = {"name": "read", "arguments": '{"path": "src/a.py"}'}


def _item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-02-17T09:30:00Z", "type": "response_item", "payload": payload}


def _said(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


RESPONSES: list[dict[str, Any]] = [
    _said("user", "input_text", "List the files."),
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3Bh"},
    {"type": "function_call", "call_id": "c1", "id": "fc_1", **FUNCTION},
    {"type": "function_call_output", "call_id": "c1", "output": "a.py\n" * 40},
    _said("assistant", "output_text", "One file, many times."),
    _said("user", "input_text", "Thanks. What else?"),
]
CONVERSATIONS: dict[str, list[Any]] = {
    "plain": [ASKED, SAID, AGAIN],
    "anthropic": [
        *({"role": "system", "content": "Be brief."}, ASKED),
        {"role": "assistant", "content": [THOUGHT, CALL]},
        {"role": "user", "content": [RESULT]},
        *(SAID, AGAIN),
    ],
    "openai_chat": [
        ASKED,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1\n" * 40},
        *(SAID, AGAIN),
    ],
    "openai_responses": RESPONSES,
    "codex": [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/work"}},
        *[_item(**each) for each in RESPONSES],
    ],
    "claude_code": [
        user("What is there?", 1),
        called(1, "ls"),
        resulted(1, "a.py\n" * 40),
        *(called(2, "cat a.py"), called(3, "cat b.py")),
        *(resulted(3, "y = 2"), resulted(2, "x = 1")),
        user("Thanks.", 2),
    ],
}


@pytest.mark.parametrize("name", [*CONVERSATIONS])
def test_every_entry_point_says_the_same(name: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / f"{name}.jsonl", CONVERSATIONS[name])
    (row,) = transcripts.run([path])
    assert (row.format, row.violations, row.faults) == (name, 0, {})
    assert row.tokens > 20


def test_every_entry_point_says_the_same_of_the_shipped_session() -> None:
    (row,) = transcripts.run([SESSION])
    assert (row.format, row.faults) == ("claude_code", {})


def test_every_entry_point_refuses_a_list_that_is_not_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps([{"name": "a"}, {"name": "b"}]))
    (row,) = transcripts.run([path])
    assert (row.format, row.faults) == ("none", {})


def test_a_door_that_says_something_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts.rehydrate, "count_tokens", lambda *_args, **_options: 7)
    (row,) = transcripts.run([SESSION], only=["compact"])
    assert row.faults["compact"].startswith("the tokens before")
