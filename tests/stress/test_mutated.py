"""Mutated conversations of every format through every door: typed errors, and nothing torn."""

from __future__ import annotations

import pytest

from rehydrate import PromptIR, compact_context, compile, formats, validate
from rehydrate.context import Context
from rehydrate.errors import InvalidMessageError, UnknownBlockError
from rehydrate.prompt import BEGINNING, History
from tests.sizes import sized
from tests.stress.programs import run_module

USER = {"role": "user", "content": "Go."}
CALL = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "out"}


def test_no_entry_point_ends_in_a_fault() -> None:
    ended = run_module("tests.stress.mutated", "--count", str(sized(200, 500)), "--seed", "7")
    assert ended.code == 0, ended.out[-4_000:] + ended.err[-2_000:]


@pytest.mark.parametrize("item", [CALL, RESULT, {**USER, "content": [RESULT]}])
@pytest.mark.parametrize("format", ["openai_responses", "codex"])
def test_anthropics_pairs_among_items_are_refused_by_name(format, item):
    message = {"type": "message", **USER}
    line = {
        "type": "response_item",
        "payload": {"type": "message", **item} if "role" in item else item,
    }
    entries = [message, item] if format == "openai_responses" else [line]
    for door in (validate, lambda *given: compact_context(given[0], format=given[1])):
        with pytest.raises(UnknownBlockError, match="Anthropic's"):
            door(entries, format)


@pytest.mark.parametrize("format", ["openai_chat", "plain"])
@pytest.mark.parametrize(
    "block", [CALL, RESULT, CALL | {"id": 1}, RESULT | {"tool_use_id": [CALL]}]
)
def test_anthropics_pairs_in_a_chat_are_violations(format, block):
    entries = [USER, {"role": "user", "content": [block]}]
    assert [(each.index, each.rule) for each in validate(entries, format)] == [
        (1, "misplaced_block")
    ]


@pytest.mark.parametrize("format", ["openai_chat", "plain", "anthropic"])
@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_what_only_the_conversion_breaks_is_reported_as_it_came_in(format, provider):
    entries = (USER, {"role": "assistant", "content": [CALL]}, {**USER, "content": [CALL]}, USER)
    prompt = compile(PromptIR(history=History(entries, format)), provider)
    if validate(prompt.messages, provider):
        assert any("as it came in" in each for each in prompt.ir.meta.degraded)


def test_a_text_between_a_servers_call_and_its_result_is_reported():
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    said = {"role": "assistant", "content": [call]}
    entries = (USER, said, {"role": "system", "content": "By the way."}, said | {"content": "So."})
    prompt = compile(PromptIR(history=History(entries, "anthropic")))
    assert any("as it came in" in each for each in prompt.ir.meta.degraded)


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
@pytest.mark.parametrize(
    ("call", "output"),
    [
        (
            {"type": "program", "code": "x", "call_id": "p"},
            {"type": "program_output", "call_id": "p", "result": "y"},
        ),
        (
            {"type": "new_call", "call_id": "p", "text": "look"},
            {"type": "shell_call_output", "call_id": "p", "output": [{"stdout": "seen"}]},
        ),
    ],
)
def test_an_output_goes_the_way_of_its_call(provider, call, output):
    prompt = compile(
        PromptIR(history=History((USER, call, output, USER), "openai_responses")), provider
    )
    assert validate(prompt.messages, provider) == []


@pytest.mark.parametrize("function", [10**40, [], None])
def test_a_chats_call_of_another_kind_keeps_its_result(function):
    call = {"id": "c", "type": "function", "function": function}
    answer = {"role": "tool", "tool_call_id": "c", "content": "out"}
    entries = (USER, {"role": "assistant", "content": None, "tool_calls": [call]}, answer, USER)
    prompt = compile(PromptIR(history=History(entries, "openai_chat")), "anthropic")
    assert validate(prompt.messages, "anthropic") == []
    assert [each["role"] for each in prompt.messages] == ["user", "assistant", "user", "user"]


def _line(uuid, role, *blocks, **more):
    message = {"role": role, "content": list(blocks), **more}
    return {"type": role, "uuid": uuid, "message": message}


def test_a_result_before_its_call_is_sent_after_it():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    text = {"type": "text", "text": "Go."}
    lines = [
        _line("1", "user", text),
        _line("2", "assistant", thought, id="m"),
        _line("3", "user", RESULT),
        _line("4", "assistant", CALL, id="m"),
        _line("5", "user", text),
    ]
    for given in (lines, [lines[0], *lines[2:]]):
        assert validate(given, "claude_code") == []
        prompt = compile(PromptIR(history=History(tuple(given), "claude_code")), "anthropic")
        assert [each["role"] for each in prompt.messages[:3]] == ["user", "assistant", "user"]
        assert prompt.messages[2]["content"] == [RESULT]
        kept = compact_context(given, format="claude_code", thinking="strip").messages
        assert validate(kept, "claude_code") == []


def test_a_line_that_comes_again_is_not_sent_again_once_it_was_left_out():
    words = " ".join(f"word{number}" for number in range(300))
    text = {"type": "text", "text": words}
    lines = [_line("1", "user", text)]
    for number in range(8):
        call, result = {**CALL, "id": f"t{number}"}, {**RESULT, "tool_use_id": f"t{number}"}
        lines += [
            _line(f"a{number}", "assistant", call, id=f"m{number}"),
            _line(f"b{number}", "user", {**result, "content": words}),
        ]
    context = Context(format="claude_code")
    context.add(*lines, _line("2", "user", text))
    context.prompt()
    context.compact(600)
    context.add(lines[2], _line("3", "user", {"type": "text", "text": "And now?"}))
    messages = context.prompt().messages
    assert validate(messages, "anthropic") == []
    assert messages[0]["content"] != BEGINNING
    assert str(messages).count("'tool_use_id': 't0'") == 0


def test_a_role_or_a_mark_of_any_type_is_a_typed_error_or_none():
    context = Context()
    with pytest.raises(InvalidMessageError):
        context.add({"role": ["user"], "content": "hi"})
    marked = {"type": "text", "text": "Hello.", "cache_control": ["ephemeral"]}
    context.add({"role": "user", "content": [marked]})
    assert context.prompt().messages[0]["content"] == [marked]


def test_arguments_that_are_no_json_are_sent_as_their_text():
    messages = pytest.importorskip("langchain_core.messages")
    call = {"id": "c", "name": "look", "args": {"path": b"a"}, "type": "tool_call"}
    said = messages.AIMessage.model_construct(content="", tool_calls=[call])
    (chat,) = formats.langchain_to_openai([said])
    assert "b'a'" in chat["tool_calls"][0]["function"]["arguments"]
