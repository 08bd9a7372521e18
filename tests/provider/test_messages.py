"""Replies of the Messages API, as the official SDK reads them: whole, streamed, sync and async."""

import asyncio
from http.client import HTTPConnection

import anthropic
import pytest

from tests.provider import Call, ScriptedReply, StrictProvider
from tests.provider.sdk_clients import anthropic_client, anthropic_served

TOOLS = [{"name": "get", "input_schema": {"type": "object"}}]
REQUEST = {
    "model": "claude-test",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": "What is in a.txt and b.txt?"}],
    "tools": TOOLS,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}
REPLY = ScriptedReply(
    "I will read both of them, one after the other. שלום 🙂",
    thinking="Two files.",
    calls=(Call("get", {"path": "a.txt"}, id="toolu_a"), Call("get", {"path": "ב"}, id="toolu_b")),
)
CONTENT = [
    {"type": "text", "text": REPLY.text},
    {"type": "tool_use", "id": "toolu_a", "name": "get", "input": {"path": "a.txt"}},
    {"type": "tool_use", "id": "toolu_b", "name": "get", "input": {"path": "ב"}},
]


def content_of(message):
    """The content as it would be sent again."""
    return [block.model_dump(exclude_none=True) for block in message.content]


def replies(provider):
    """One reply, read in each of the four ways."""
    with anthropic_client(provider) as client:
        yield client.messages.create(**REQUEST)
        with client.messages.stream(**REQUEST) as stream:
            yield stream.get_final_message()

    async def both():
        options = {"api_key": "key", "base_url": provider.url, "max_retries": 0}
        async with anthropic.AsyncAnthropic(**options) as client:
            whole = await client.messages.create(**REQUEST)
            async with client.messages.stream(**REQUEST) as stream:
                return whole, await stream.get_final_message()

    yield from asyncio.run(both())


def test_a_reply_is_the_same_in_each_way_of_reading_it():
    with StrictProvider(lambda request, wire: REPLY) as provider:
        for message in replies(provider):
            thought, *rest = content_of(message)
            assert rest == CONTENT
            assert thought["thinking"] == "Two files."
            assert thought["signature"]
            assert message.stop_reason == "tool_use"
            assert message.usage.output_tokens > 1
    assert [exchange.status for exchange in provider.requests] == [200] * 4
    assert provider.refusals == []


def test_what_is_given_is_taken_back_with_the_results():
    with (
        StrictProvider(lambda request, wire: REPLY) as provider,
        anthropic_client(provider) as client,
    ):
        message = client.messages.create(**REQUEST)
        results = [
            {"type": "tool_result", "tool_use_id": call, "content": "text"}
            for call in ("toolu_a", "toolu_b")
        ]
        assistant_message = {"role": "assistant", "content": content_of(message)}
        again = [*REQUEST["messages"], assistant_message, {"role": "user", "content": results}]
        assert client.messages.create(**{**REQUEST, "messages": again}).content


@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_a_reply_may_end_early(stop):
    respond = lambda request, wire: ScriptedReply("Half a", stop=stop)  # noqa: E731
    with StrictProvider(respond) as provider:
        for message in replies(provider):
            assert message.stop_reason == stop


def test_a_model_that_must_think_thinks_before_its_turn_but_not_within():
    with anthropic_served(lambda request, wire: Call("get")) as (_, client):
        first = client.messages.create(**REQUEST)
        assert [block.type for block in first.content] == ["thinking", "tool_use"]
        call = first.content[1].id
        result = {"type": "tool_result", "tool_use_id": call, "content": "text"}
        again = [
            *REQUEST["messages"],
            {"role": "assistant", "content": content_of(first)},
            {"role": "user", "content": [result]},
        ]
        second = client.messages.create(**{**REQUEST, "messages": again})
        assert [block.type for block in second.content] == ["tool_use"]


def test_thoughts_are_kept_back_where_thinking_is_off():
    with (
        StrictProvider(lambda request, wire: REPLY) as provider,
        anthropic_client(provider) as client,
    ):
        request = {key: value for key, value in REQUEST.items() if key != "thinking"}
        kinds = [block.type for block in client.messages.create(**request).content]
        assert kinds == ["text", "tool_use", "tool_use"]


def test_tokens_are_counted_as_they_are_billed():
    with anthropic_served(lambda request, wire: "Yes.") as (provider, client):
        request = {key: value for key, value in REQUEST.items() if key != "max_tokens"}
        counted = client.messages.count_tokens(**request).input_tokens
        assert counted == client.messages.create(**REQUEST).usage.input_tokens
        assert provider.requests[0].billed is None


def test_the_brain_sees_what_was_sent_and_its_failure_is_the_tests():
    def respond(request, wire):
        assert (request["model"], wire) == ("claude-test", "anthropic")
        raise ZeroDivisionError

    failing = pytest.raises(ZeroDivisionError)
    answered = pytest.raises(anthropic.InternalServerError)
    with failing, anthropic_served(respond) as (_, client), answered:
        client.messages.create(**REQUEST)


def test_without_a_key_nobody_is_served():
    with StrictProvider(lambda request, wire: "Yes.") as provider:
        for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses"):
            connection = HTTPConnection("127.0.0.1", provider.port)
            connection.request("POST", path, "{}")
            assert connection.getresponse().status == 401
            connection.close()


def test_there_is_nothing_elsewhere():
    refused = pytest.raises(anthropic.NotFoundError)
    with anthropic_served(lambda request, wire: "Yes.") as (_, client), refused:
        client.post("/v1/elsewhere", cast_to=object, body={})
