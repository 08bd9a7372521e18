"""Objects of the providers' SDKs in a history: read as the SDK sends them, and kept unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.responses import Response

import rehydrate
from rehydrate import Context, ContextRequest, PromptIR
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import detect_format
from rehydrate.prompt import History
from tests.linting.conftest import prose

ASK = {"role": "user", "content": "Which port?"}
LONG = prose(400, 1)


def answer() -> AnthropicMessage:
    """Return a result of `client.messages.create`: a thought, words and a call."""
    return AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 2},
            "content": [
                {"type": "thinking", "thinking": "Let me look.", "signature": "c2ln"},
                {"type": "text", "text": f"I look. {LONG}", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": None}},
            ],
        }
    )


def completion() -> ChatCompletionMessage:
    """Return the message of `client.chat.completions.create` in its first choice."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = {"role": "assistant", "content": LONG, "refusal": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": said}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-5"}
    return ChatCompletion.model_validate({**whole, "choices": [choice]}).choices[0].message


def output() -> list[Any]:
    """Return the output of `client.responses.create`."""
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "look",
            "arguments": "{}",
        },
    ]
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "tools": []}
    whole |= {"output": items, "parallel_tool_calls": True, "tool_choice": "auto"}
    return Response.model_validate(whole).output


def conversation(provider: str) -> list[Any]:
    """Return an answer with a call, its result, and text after it, as programs append them."""
    if provider == "anthropic":
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "8443"}
        said = {"role": "assistant", "content": answer().content}
        return [ASK, said, {"role": "user", "content": [result]}, *THE_END]
    if provider == "the message itself":
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "8443"}
        return [ASK, answer(), {"role": "user", "content": [result]}, *THE_END]
    if provider == "openai_chat":
        return [
            ASK,
            completion(),
            {"role": "tool", "tool_call_id": "c1", "content": "8443"},
            *THE_END,
        ]
    done = {"type": "function_call_output", "call_id": "c1", "output": "8443"}
    return [ASK, *output(), done, *THE_END]


THE_END = [
    {"role": "assistant", "content": "It is 8443."},
    {"role": "user", "content": "Thanks. And the host?"},
]
FORMATS = {
    "anthropic": "anthropic",
    "the message itself": "anthropic",
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
}


@pytest.mark.parametrize("provider", FORMATS)
def test_they_are_read_as_what_they_say(provider):
    messages = conversation(provider)
    assert detect_format(messages) == FORMATS[provider]
    assert rehydrate.validate(messages) == []
    assert rehydrate.validate(messages, format=FORMATS[provider]) == []
    plain = json.loads(json.dumps(rehydrate.compact_context(messages).to_dict()["messages"]))
    assert rehydrate.count_tokens(messages) == rehydrate.count_tokens(
        [json.loads(json.dumps(one)) for one in _dicts(messages)]
    )
    assert rehydrate.validate(plain) == []


def _dicts(messages: list[Any]) -> list[Any]:
    return rehydrate.compact_context(messages, target_ratio=1.0).to_dict()["messages"]


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("granularity", ["message", "excerpt"])
def test_what_is_kept_of_them_are_the_very_objects(provider, granularity):
    messages = conversation(provider)
    for ratio in (1.0, 0.9, 0.05):
        small = rehydrate.compact_context(messages, target_ratio=ratio, granularity=granularity)
        untouched = [
            one is messages[index] for one, index in zip(small.messages, small.indices, strict=True)
        ]
        changed = (small.stats.excerpted, small.stats.stripped)  # one message may be both
        assert max(changed) <= untouched.count(False) <= sum(changed)
        assert rehydrate.validate(small.messages) == []


def test_a_loop_that_is_open_with_an_object_at_its_end_is_kept_with_it():
    messages = [ASK, {"role": "assistant", "content": LONG}, ASK, answer()]
    small = rehydrate.compact_context(messages, target_ratio=0.05, thinking="keep")
    assert small.messages[-1] is messages[-1]


@pytest.mark.parametrize("provider", FORMATS)
def test_a_context_takes_them_and_sends_dicts(provider):
    messages = conversation(provider)
    context = Context(provider=FORMATS[provider])
    context.add(*messages)
    request = context.prompt().request
    assert json.loads(json.dumps(request)) == request
    sent = request.get("messages") or request["input"]
    assert rehydrate.validate(sent, FORMATS[provider]) == []
    assert all(one is added for one, added in zip(context.history, messages, strict=True))


@pytest.mark.parametrize("provider", FORMATS)
def test_they_are_hydrated_and_compiled(provider):
    messages = conversation(provider)
    for ir in (
        rehydrate.hydrate("And the host?", messages=messages, timeout=None),
        PromptIR(ContextRequest("x"), history=History(tuple(messages), FORMATS[provider])),
    ):
        for target in ("anthropic", "openai_chat", "openai_responses"):
            request = rehydrate.compile(ir, target).request
            assert "8443" in json.dumps(request)


def test_anthropics_message_is_sent_by_its_role_and_content_alone():
    (_, sent, *_) = _dicts(conversation("the message itself"))
    assert [*sent] == ["role", "content"]
    assert [block["type"] for block in sent["content"]] == ["thinking", "text", "tool_use"]
    assert sent["content"][2]["input"] == {"at": None}


def test_a_whole_response_is_refused_with_what_to_pass():
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None}
    choice["message"] = {"role": "assistant", "content": "Hi.", "refusal": None}
    whole = ChatCompletion.model_validate(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    with pytest.raises(InvalidMessageError, match=r"choices\[0\]\.message") as caught:
        rehydrate.compact_context([ASK, whole])
    assert caught.value.index == 1


def test_an_object_that_cannot_be_read_is_named():
    class Broken:
        def model_dump(self, **options: Any) -> Any:
            raise RuntimeError("no")

    with pytest.raises(InvalidMessageError, match="model_dump failed") as caught:
        rehydrate.count_tokens([ASK, {"role": "assistant", "content": [Broken()]}])
    assert caught.value.index == 1
