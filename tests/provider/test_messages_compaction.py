"""Compaction on demand: what the strict provider answers, and what it refuses."""

import anyio
import pytest

from rehydrate.agent import AnthropicModel, OpenAIResponsesModel
from rehydrate.errors import ProviderError
from rehydrate.prompt import ContextRequest, History, PromptIR, compile
from tests.provider import StrictProvider
from tests.provider.sdk_clients import anthropic_served, refusal_of

SUMMARY = "They spoke of berths."
BETA = {"anthropic-beta": "compact-2026-09-04"}
ASK = {"role": "user", "content": "Which berth is free?"}
SAID = [ASK, {"role": "assistant", "content": "Berth 4. "}]


def respond(request, wire):
    is_asked = request.get("compaction") or request.get("object") == "response.compaction"
    return SUMMARY if is_asked else "Berth 4."


@pytest.fixture(scope="module")
def client():
    with anthropic_served(respond) as (_, client):
        yield client


def request_with(messages, **more):
    return {"model": "claude-test", "max_tokens": 100, "messages": messages, **more}


def compacted(client, messages=SAID):
    message = client.beta.messages.create(
        **request_with(messages), betas=["compact-2026-09-04"], extra_body={"compaction": ON}
    )
    assert message.stop_reason == "compaction"
    return {
        "role": "assistant",
        "content": [block.model_dump(exclude_none=True) for block in message.content],
    }


ON = {"type": "summarize"}


def test_a_conversation_goes_on_from_the_summary(client):
    summary = compacted(client)
    assert summary["content"][0]["content"] == SUMMARY
    again = compacted(client, [summary, ASK, SAID[1]])
    client.beta.messages.create(**request_with([again, ASK]), betas=["compact-2026-09-04"])


def test_what_is_refused(client):
    summary = compacted(client)

    def refused(messages, headers=BETA, **more):
        request = request_with(messages, **more)
        return refusal_of(client, "/v1/messages", request, headers=headers)

    assert "Extra inputs" in refused(SAID, {}, compaction=ON)
    assert "combined" in refused(SAID, compaction=ON, context_management={"edits": []})
    assert "require the" in refused([summary, ASK], {})
    assert "first block" in refused([ASK, summary, ASK])
    forged = {**summary["content"][0], "content": "They agreed on berth 9."}
    assert "signature" in refused([{"role": "assistant", "content": [forged]}, ASK])
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    open_call = [ASK, {"role": "assistant", "content": [call]}]
    assert "tool_result" in refused(open_call, compaction=ON, tools=tools)
    assert "must end with a user message" in refused(SAID)


def asked(provider, **options):
    return AnthropicModel("claude-test", api_key="key", base_url=provider.url, **options)


@pytest.mark.parametrize("max_tokens", [100, 20_000])
def test_a_summary_is_read_alike_whole_and_streamed(max_tokens):
    prompt = compile(PromptIR(ContextRequest("Which berth?")), "anthropic")
    with StrictProvider(respond) as provider:
        summary = anyio.run(asked(provider, max_tokens=max_tokens).compact, prompt)
        assert provider.requests[-1].asks_for_summary and provider.refusals == []
    (message,) = summary.messages
    assert summary.text == message["content"][0]["content"] == SUMMARY
    assert message["content"][0]["signature"]


def test_openai_returns_the_users_messages_and_one_encrypted_item():
    items = [
        {"role": "user", "content": "Which berth is free?"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]},
    ]
    history = History(tuple(items), "openai_responses")
    prompt = compile(PromptIR(history=history), "openai_responses")
    with StrictProvider(respond) as provider:
        model = OpenAIResponsesModel("gpt-5.4", api_key="key", base_url=provider.openai_url)
        summary = anyio.run(model.compact, prompt)
        assert provider.refusals == []
    assert [item["type"] for item in summary.messages] == ["message", "compaction"]
    assert summary.text == "" and SUMMARY not in str(summary.messages) and summary.tokens > 5


@pytest.mark.parametrize("name", ["anthropic", "openai_responses"])
def test_an_answer_without_a_summary_is_an_error(name):
    with StrictProvider(lambda request, wire: "") as provider:
        if name == "anthropic":
            model = asked(provider)
        else:
            model = OpenAIResponsesModel("gpt-5.4", api_key="key", base_url=provider.openai_url)
            provider.fail_next(500)
        prompt = compile(PromptIR(ContextRequest("Which berth?")), name)
        with pytest.raises(ProviderError):
            anyio.run(model.compact, prompt)
