"""Replies of the Responses API, as the official SDK reads them: whole, streamed, sync and async."""

import asyncio

import openai

from tests.provider import Call, ScriptedReply, StrictProvider
from tests.provider.sdk_clients import openai_client, openai_served

REQUEST = {
    "model": "gpt-5.2",
    "input": "What is in a.txt and b.txt?",
    "tools": [{"type": "function", "name": "get", "parameters": {"type": "object"}}],
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto"},
    "store": False,
}
REPLY = ScriptedReply(
    "I will read both of them, one after the other. שלום 🙂",
    thinking="There are two files to read.",
    calls=(Call("get", {"path": "a.txt"}, id="call_a"), Call("get", '{"path": ', id="call_b")),
)


def replies(provider):
    """One reply, read in each of the four ways."""
    with openai_client(provider) as client:
        yield client.responses.create(**REQUEST)
        with client.responses.stream(**REQUEST) as stream:
            yield stream.get_final_response()

    async def both():
        options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
        async with openai.AsyncOpenAI(**options) as client:
            whole = await client.responses.create(**REQUEST)
            async with client.responses.stream(**REQUEST) as stream:
                return whole, await stream.get_final_response()

    yield from asyncio.run(both())


def test_a_reply_is_the_same_in_each_way_of_reading_it():
    with StrictProvider(lambda request, wire: REPLY) as provider:
        for response in replies(provider):
            reasoning, message, *calls = response.output
            assert reasoning.summary[0].text == REPLY.thinking
            assert reasoning.encrypted_content.startswith("gAAAA")
            assert message.content[0].text == response.output_text == REPLY.text
            assert [(call.call_id, call.arguments) for call in calls] == [
                ("call_a", '{"path": "a.txt"}'),
                ("call_b", '{"path": '),
            ]
            assert response.status == "completed"
            assert response.usage.output_tokens_details.reasoning_tokens == 8
    assert {exchange.wire for exchange in provider.requests} == {"openai_responses"}
    assert provider.refusals == []


def test_the_events_of_a_stream_are_numbered_and_their_pieces_make_the_whole():
    with openai_served(lambda request, wire: REPLY) as (_, client):
        events = list(client.responses.create(**REQUEST, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == REPLY.text


def test_what_is_given_is_taken_back_with_the_results():
    with openai_served(lambda request, wire: REPLY) as (_, client):
        output = client.responses.create(**REQUEST).output
        results = [
            {"type": "function_call_output", "call_id": call, "output": "text"}
            for call in ("call_a", "call_b")
        ]
        again = [{"role": "user", "content": REQUEST["input"]}, *output, *results]
        assert client.responses.create(**{**REQUEST, "input": again}).output


def test_a_refusal_is_a_part_of_its_own():
    respond = lambda request, wire: ScriptedReply("I will not.", stop="refusal")  # noqa: E731
    with StrictProvider(respond) as provider:
        for response in replies(provider):
            (part,) = response.output[0].content
            assert (part.type, part.refusal) == ("refusal", "I will not.")


def test_a_reply_that_is_cut_is_incomplete():
    respond = lambda request, wire: ScriptedReply("Half a", stop="max_tokens")  # noqa: E731
    with openai_served(respond) as (_, client):
        # The SDK's own helper for streams knows only completed ones, so its events are read.
        *_, last = client.responses.create(**REQUEST, stream=True)
        assert last.type == "response.incomplete"
        for response in (client.responses.create(**REQUEST), last.response):
            assert (response.status, response.output_text) == ("incomplete", "Half a")
            assert response.incomplete_details.reason == "max_output_tokens"


def test_a_stored_response_goes_on_by_its_id():
    with openai_served(lambda request, wire: REPLY) as (provider, client):
        request = {**REQUEST, "store": True}
        first = client.responses.create(**request)
        results = [
            {"type": "function_call_output", "call_id": call, "output": "text"}
            for call in ("call_a", "call_b")
        ]
        again = {**request, "input": results, "previous_response_id": first.id}
        second = client.responses.create(**again)
        assert second.usage.input_tokens > first.usage.input_tokens
        references = [{"type": "item_reference", "id": item.id} for item in first.output]
        client.responses.create(**{**request, "input": references + results})
    assert provider.refusals == []


def test_a_prompt_is_read_from_the_cache():
    with openai_served(lambda r, w: "Yes", counter=lambda text: len(text.split())) as (_, client):
        request = {"model": "gpt-5.2", "instructions": "a " * 1000}
        first = [{"role": "user", "content": "b " * 200}]
        second = [*first, {"role": "assistant", "content": "Yes"}, {"role": "user", "content": "c"}]
        read = [
            client.responses.create(**request, input=items).usage.input_tokens_details.cached_tokens
            for items in (first, second, second[1:])
        ]
        assert read == [0, 1152, 0]
