"""Replies of the Messages API, as the official SDK reads them: whole, streamed, sync and async."""

import asyncio
from http.client import HTTPConnection

import anthropic
import pytest

from tests.provider import Call, Says, StrictProvider
from tests.provider.asking import anthropic_client, anthropic_served

TOOLS = [{"name": "get", "input_schema": {"type": "object"}}]
ASKED = {
    "model": "claude-test",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": "What is in a.txt and b.txt?"}],
    "tools": TOOLS,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}
SAID = Says(
    "I will read both of them, one after the other. שלום 🙂",
    thinking="Two files.",
    calls=(Call("get", {"path": "a.txt"}, id="toolu_a"), Call("get", {"path": "ב"}, id="toolu_b")),
)
CONTENT = [
    {"type": "text", "text": SAID.text},
    {"type": "tool_use", "id": "toolu_a", "name": "get", "input": {"path": "a.txt"}},
    {"type": "tool_use", "id": "toolu_b", "name": "get", "input": {"path": "ב"}},
]


def content_of(message):
    """The content as it would be sent again."""
    return [block.model_dump(exclude_none=True) for block in message.content]


def replies(provider):
    """One reply, read in each of the four ways."""
    with anthropic_client(provider) as client:
        yield client.messages.create(**ASKED)
        with client.messages.stream(**ASKED) as stream:
            yield stream.get_final_message()

    async def both():
        options = {"api_key": "key", "base_url": provider.url, "max_retries": 0}
        async with anthropic.AsyncAnthropic(**options) as client:
            whole = await client.messages.create(**ASKED)
            async with client.messages.stream(**ASKED) as stream:
                return whole, await stream.get_final_message()

    yield from asyncio.run(both())


def test_a_reply_is_the_same_in_each_way_of_reading_it():
    with StrictProvider(lambda request, wire: SAID) as provider:
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
        StrictProvider(lambda request, wire: SAID) as provider,
        anthropic_client(provider) as client,
    ):
        message = client.messages.create(**ASKED)
        results = [
            {"type": "tool_result", "tool_use_id": call, "content": "text"}
            for call in ("toolu_a", "toolu_b")
        ]
        spoken = {"role": "assistant", "content": content_of(message)}
        again = [*ASKED["messages"], spoken, {"role": "user", "content": results}]
        assert client.messages.create(**{**ASKED, "messages": again}).content


@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_a_reply_may_end_early(stop):
    brain = lambda request, wire: Says("Half a", stop=stop)  # noqa: E731
    with StrictProvider(brain) as provider:
        for message in replies(provider):
            assert message.stop_reason == stop


def test_a_model_that_must_think_thinks_before_its_turn_but_not_within():
    with anthropic_served(lambda request, wire: Call("get")) as (_, client):
        first = client.messages.create(**ASKED)
        assert [block.type for block in first.content] == ["thinking", "tool_use"]
        call = first.content[1].id
        result = {"type": "tool_result", "tool_use_id": call, "content": "text"}
        again = [
            *ASKED["messages"],
            {"role": "assistant", "content": content_of(first)},
            {"role": "user", "content": [result]},
        ]
        second = client.messages.create(**{**ASKED, "messages": again})
        assert [block.type for block in second.content] == ["tool_use"]


def test_thoughts_are_kept_back_where_thinking_is_off():
    with (
        StrictProvider(lambda request, wire: SAID) as provider,
        anthropic_client(provider) as client,
    ):
        asked = {key: value for key, value in ASKED.items() if key != "thinking"}
        kinds = [block.type for block in client.messages.create(**asked).content]
        assert kinds == ["text", "tool_use", "tool_use"]


def test_tokens_are_counted_as_they_are_billed():
    with anthropic_served(lambda request, wire: "Yes.") as (provider, client):
        asked = {key: value for key, value in ASKED.items() if key != "max_tokens"}
        counted = client.messages.count_tokens(**asked).input_tokens
        assert counted == client.messages.create(**ASKED).usage.input_tokens
        assert provider.requests[0].billed is None


def test_the_brain_sees_what_was_sent_and_its_failure_is_the_tests():
    def brain(request, wire):
        assert (request["model"], wire) == ("claude-test", "anthropic")
        raise ZeroDivisionError

    failing = pytest.raises(ZeroDivisionError)
    answered = pytest.raises(anthropic.InternalServerError)
    with failing, anthropic_served(brain) as (_, client), answered:
        client.messages.create(**ASKED)


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
