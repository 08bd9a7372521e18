"""Values that no API sends or no provider carries: a typed error, a reading, or words for it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rehydrate import _native
from rehydrate.errors import InvalidMessageError, RehydrateError
from rehydrate.formats import detect_format, langchain_to_openai, parse, validate
from rehydrate.messages import PROVIDERS
from rehydrate.prompt import History, PromptIR, compile

HUGE = 10**5000  # more digits than `str` takes


def codex_line(text: str, payload: type = dict) -> dict[str, Any]:
    payload_fields = {"type": "message", "role": "user", "content": text}
    return {"type": "response_item", "payload": payload(payload_fields)}


@pytest.mark.parametrize("read", [validate, parse])
def test_a_rollout_that_becomes_shorter_while_it_is_read(read: Any):
    lines: list[Any] = []

    class Shrinking(dict):  # type: ignore[type-arg]
        def get(self, *given: Any) -> Any:
            lines.clear()
            return dict.get(self, *given)

    lines += [codex_line("a"), codex_line("b", Shrinking)]
    read(lines, "codex")


def test_a_list_that_says_it_is_longer_than_it_is():
    class Longer(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 9

    assert detect_format(Longer([{"role": "user", "content": "hello"}])) == "plain"


@pytest.mark.parametrize("format", ["openai_chat", "openai_responses", "anthropic", "bedrock"])
def test_a_key_that_is_a_huge_number(format: str):
    entries = [{"role": "user", "content": [{HUGE: 1}]}]
    for read in (validate, parse):
        try:
            read(entries, format)  # type: ignore[operator]
        except RehydrateError as error:
            assert isinstance(error, InvalidMessageError)


def test_a_huge_number_in_what_was_sent():
    def talk(value: int) -> list[dict[str, Any]]:
        call = {"type": "tool_use", "id": "c", "name": "f", "input": {"n": value}}
        return [{"role": "user", "content": "q"}, {"role": "assistant", "content": [call]}]

    assert validate(talk(HUGE), "anthropic", sent=talk(HUGE)) == []
    assert validate(talk(HUGE), "anthropic", sent=talk(HUGE)[:1]) == []


@pytest.mark.parametrize("value", [{(1, 2): 3}, {"n": HUGE}])
def test_an_input_that_json_can_not_hold_is_named(value: Any):
    call = {"type": "tool_use", "id": "c", "name": "f", "input": value}
    said = [USER, {"role": "assistant", "content": [call]}]
    with pytest.raises(RehydrateError, match="can't be written as JSON"):
        _native.render_entries(said, "anthropic", "openai_chat", 0)


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
USER = {"role": "user", "content": "Which berth?"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def sent(provider: Any, format: str, *entries: Any) -> Any:
    compiled = compile(PromptIR(history=History(entries, format)), provider)
    assert validate(compiled.messages, provider) == []
    return compiled.request


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses"])
def test_an_image_of_the_assistants_is_left_out_in_words(provider: Any) -> None:
    drawn = {"role": "assistant", "content": [{"type": "text", "text": "Look."}, PNG]}
    assert "[image left out: image/png]" in str(sent(provider, "anthropic", USER, drawn, USER))


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "openai_chat"])
def test_an_image_of_the_systems_is_left_out_in_words(provider: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://harbour.example/a.png"}}
    system = {"role": "system", "content": [{"type": "text", "text": "Be."}, image]}
    request = sent(provider, "openai_chat", system, USER)
    assert "[image left out: https://harbour.example/a.png]" in str(request)


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "anthropic"])
def test_a_result_in_a_result_is_sent(provider: Any) -> None:
    inner = {"type": "tool_result", "tool_use_id": "b", "content": "berth 4 is free"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [inner]}
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    entries = (
        USER,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    )
    assert "berth 4 is free" in str(sent(provider, "anthropic", *entries))


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "openai_chat"])
def test_calls_of_the_users_are_sent_as_the_assistants(provider: Any) -> None:
    asked = {"role": "user", "content": "Ask.", "tool_calls": [CALL]}
    answer = {"role": "tool", "tool_call_id": "a", "content": "4"}
    request = sent(provider, "openai_chat", asked, answer, USER)
    assert "Ask." in str(request)


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each != "openai_chat"])
def test_a_huge_number_as_a_tools_name_is_converted_or_refused_by_type(provider: Any) -> None:
    call = {**CALL, "function": {"name": 10**5_000, "arguments": "{}"}}
    entries = (USER, {"role": "assistant", "content": None, "tool_calls": [call]})
    with suppress(RehydrateError):
        compile(PromptIR(history=History(entries, "openai_chat")), provider)


def test_arguments_that_are_no_json_are_refused_by_type() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    deep: list[Any] = []
    deep.append(deep)
    call = {"name": "f", "args": {"a": deep}, "id": "a", "type": "tool_call"}
    with pytest.raises(RehydrateError, match="can't be written as JSON"):
        langchain_to_openai([messages.AIMessage.model_construct(content="", tool_calls=[call])])
