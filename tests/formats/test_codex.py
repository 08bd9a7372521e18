"""Rollouts of Codex: lines that count, what was taken back, and the same reading at every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rehydrate
from rehydrate import Context, compact_context, count_tokens, detect_format, validate
from rehydrate.cli import main
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.formats import parse

Line = dict[str, Any]


def line(kind: str, **payload: Any) -> Line:
    return {"timestamp": "2026-03-12T15:10:41.041Z", "type": kind, "payload": payload}


def item(kind: str, **rest: Any) -> Line:
    return line("response_item", type=kind, **rest)


def said(role: str, text: str) -> Line:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def back(turns: int) -> Line:
    return line("event_msg", type="thread_rolled_back", num_turns=turns)


META = line("session_meta", id="019c", cwd="/w", originator="codex_cli_rs")
NOTE = said("user", "<environment_context>cwd: /w</environment_context>")
ROLLOUT = [
    META,
    said("developer", "You are Codex."),
    NOTE,
    line("turn_context", model="gpt-5-codex"),
    said("user", "List the files."),
    line("event_msg", type="user_message", message="List the files."),
    item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "ls"}]),
    item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
    item("function_call_output", call_id="c1", output="a.py"),
    item("ghost_snapshot", ghost_commit={"id": "0"}),
    said("assistant", "One file: a.py."),
    line("event_msg", type="token_count"),
]
ITEMS = [each["payload"] for each in ROLLOUT if each["type"] == "response_item"]
ITEMS = [each for each in ITEMS if each["type"] != "ghost_snapshot"]


def names(lines: list[Line]) -> list[str]:
    return [message.text for message in parse(lines).messages]


def test_the_items_in_the_lines_are_read_and_all_others_ignored() -> None:
    assert detect_format(ROLLOUT) == "codex"
    conversation = parse(ROLLOUT)
    assert conversation.ignored == (0, 3, 5, 9, 11)
    assert [message.text for message in conversation.messages] == [
        message.text for message in parse(ITEMS).messages
    ]
    assert [unit.members for unit in conversation.units] == [(1,), (2,), (4,), (6, 7, 8), (10,)]
    turns = [message.text for message in conversation.messages if message.is_user_turn]
    assert turns == ["List the files."]
    assert validate(ROLLOUT) == []
    assert validate([*ROLLOUT[:8], *ROLLOUT[9:], said("user", "And?")])[0].index == 7


def test_the_oldest_rollouts_have_bare_items() -> None:
    head = {"id": "019c", "timestamp": "2025-05-01T00:00:00Z", "instructions": None}
    lines = [head, ITEMS[2], {"record_type": "state"}, *ITEMS[3:]]
    assert detect_format(lines) == "codex"
    assert names(lines) == [message.text for message in parse(ITEMS[2:]).messages]


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([said("user", "A"), said("user", "B"), back(1), said("user", "C")], "A C"),
        ([said("user", "A"), said("user", "B"), back(2), said("user", "C")], "C"),
        ([said("user", "A"), said("user", "B"), back(9), said("user", "C")], "C"),
        ([said("user", "A"), back(1), said("user", "B"), back(1), said("user", "C")], "C"),
        ([said("user", "A"), said("assistant", "B"), back(1)], ""),
        ([said("assistant", "A"), back(1), said("user", "B")], "A B"),
        ([said("user", "A"), back(0), said("user", "B")], "A B"),
        ([said("user", "A"), NOTE, said("user", "B"), NOTE, back(1), said("user", "C")], None),
    ],
)
def test_turns_that_were_taken_back_are_no_part_of_the_conversation(
    lines: list[Line], kept: str | None
) -> None:
    text = NOTE["payload"]["content"][0]["text"]
    wanted = ["A", text, "C"] if kept is None else kept.split()
    assert names(lines) == wanted
    context = Context(provider="openai_responses", format="codex")
    for each in lines:
        context.add(each)
    shown = str(context.prompt("And now?").request)
    assert [word for word in "ABC" if f"'{word}'" in shown] == [w for w in wanted if w in "ABC"]


def test_the_summary_of_a_compaction_is_a_message_of_codex_and_its_state_stays() -> None:
    state = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA" * 50}
    history = [{"type": "message", "role": "user", "content": []}, state]
    compacted = line("compacted", message="We listed files.", replacement_history=history)
    lines = [*ROLLOUT, compacted]
    for number in range(20):
        lines += [said("user", f"Question {number}? " * 20), said("assistant", "Answer. " * 30)]
    lines.append(said("user", "And now?"))
    conversation = parse(lines)
    index = lines.index(compacted)
    assert conversation.bound == (index,)
    (message,) = [each for each in conversation.messages if each.index == index]
    assert (message.role, message.text, message.is_user_turn) == ("user", "We listed files.", False)
    for ratio in (0.05, 0.3):
        kept = compact_context(lines, target_ratio=ratio)
        assert compacted in kept.messages
        assert validate(kept.messages) == []
    context = Context(provider="openai_responses", format="codex")
    context.add(*lines)
    assert state in context.prompt().request["input"]
    subject = rehydrate.linting.Subject.of(lines)
    assert 0 < subject.tokens_before < subject.tokens


def test_a_context_sends_the_items_of_a_rollout() -> None:
    context = Context(provider="openai_responses", format="codex")
    context.add(*ROLLOUT)
    assert context.prompt().request["input"] == ITEMS
    other = Context(provider="anthropic", format="codex")
    other.add(*ROLLOUT)
    assert validate(other.prompt("And now?").messages, "anthropic") == []


def test_a_context_does_not_answer_a_turn_that_was_taken_back() -> None:
    context = Context(provider="openai_responses", format="codex")
    context.add(said("user", "List the files."))
    context.prompt()
    context.add(back(1))
    assert context.turn is None
    with pytest.raises(InvalidArgumentError, match="no message"):
        context.prompt()
    context.add(said("user", "Show a.py."))
    assert context.prompt().request["input"] == [said("user", "Show a.py.")["payload"]]


def test_every_entry_point_reads_the_same_conversation(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in ROLLOUT), encoding="utf-8")
    tokens = count_tokens(ITEMS)
    assert count_tokens(ROLLOUT) == tokens
    assert compact_context(ROLLOUT).stats.before_tokens == tokens
    assert rehydrate.linting.Subject.of(ROLLOUT).whole_tokens == tokens
    assert rehydrate.lint(ROLLOUT) == []
    spoken = [each for each in ROLLOUT if each["payload"] in ITEMS[1:]]
    assert rehydrate.retention.read_session(ROLLOUT).messages == spoken
    (session,) = rehydrate.retention.read_sessions([path]).conversations
    assert (session.format, session.messages) == ("codex", spoken)
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": [1], "messages": [json.dumps(ROLLOUT)]})
    made = pyarrow.table(rehydrate.batch.compact_batch(table))
    assert made.column("before_tokens").to_pylist() == [tokens]
    for command in (["compact", str(path)], ["lint", str(path)]):
        assert main(command) == 0
    assert main(["eval", str(path), "--min-messages", "3", "--cuts", "1"]) in (0, 2)
    assert "role is None" not in capfd.readouterr().err


def test_the_kept_lines_are_the_very_lines_and_are_read_again_alike() -> None:
    lines = [META]
    for number in range(30):
        lines += [said("user", f"Question {number}? " * 20), said("assistant", "Answer. " * 30)]
        if number % 7 == 3:
            lines += [said("user", "Not this."), back(1)]
    for ratio in (0.1, 0.4, 0.8):
        kept = compact_context(lines, target_ratio=ratio).messages
        assert all(any(each is one for one in lines) for each in kept)
        assert len(parse(kept, "codex").messages) == len(kept)


@pytest.mark.parametrize(
    "entry", [{"type": "response_item"}, {"type": "compacted", "payload": 7}, 7]
)
def test_a_line_that_is_invalid_is_refused_with_its_index(entry: Any) -> None:
    with pytest.raises(InvalidMessageError, match="message 1"):
        parse([META, entry], "codex")
